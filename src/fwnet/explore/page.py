"""What a page says about an exploration: a recommendation, two maps, a table, the next steps."""

import html
import shlex
from pathlib import Path

import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from fwnet.coding.ball_search import LARGEST_SAMPLE
from fwnet.drawing import label_of, page, svg
from fwnet.explore.exploration import MAP_ROWS, Exploration
from fwnet.files import write_whole
from fwnet.version import __version__


def recommendation(found: Exploration) -> list[str]:
    """Return what the map says, in sentences."""
    ball = found.learned
    (low_p, high_p), (low, high) = ball.p_interval, ball.radius_interval
    explained = 1 - ball.error / ball.variance if ball.variance else 0.0
    kind = (
        "few atoms per signal: codes are sparse"
        if ball.p < 1.05
        else "some large entries and many small ones"
        if ball.p < 1.9
        else "entries spread over many atoms"
    )
    lines = []
    if found.names and not found.columns:
        names = ", ".join(found.names[:3]) + (", …" if len(found.names) > 3 else "")
        lines.append(f"The signals are made of all columns ({names}); choose some with --columns.")
    if ball.error >= ball.variance:
        lines.append(
            "No ball predicts held-out entries better than their mean does: with this dictionary "
            "the data look like noise. Do not choose p and radius by this page."
        )
        if found.given is None:
            lines.append("A dictionary from more rows (--rows), or of fewer atoms, may help.")
    else:
        lines.append(
            f"Take p = {ball.p:.4g} and radius = {ball.radius:.3g}. These codes predict held-out "
            f"entries best and explain {explained:.0%} of their variance; they have {kind}."
        )
        lines.append(
            f"For this dictionary the data allow p from {low_p:.2f} to {high_p:.2f} and a radius "
            f"from {low:.3g} to {high:.3g}: any ball in this range predicts about as well."
        )
    if found.given is not None:
        lines.append(
            f"If {found.given} was learned from these rows, the interval is too narrow and p is "
            "biased: explore rows that it was not learned from."
        )
    if found.num_left_out:
        lines.append(
            f"Rows left out because they hold NaN or infinity: {found.num_left_out:,} of "
            f"{found.num_rows:,}."
        )
    if found.normalized:
        lines.append(
            f"The norms of the signals differ: from {found.norms[0]:.3g} to {found.norms[1]:.3g} "
            "(10th and 90th percentile). So every signal was divided by its norm. Do the same "
            "before you code them; the page says how, under Next."
        )
    lines += [f"Doubt: {doubt}." for doubt in ball.doubts]
    if ball.doubts and ball.error < ball.variance:
        lines.append(
            "In spite of a doubt, this p and radius predict held-out entries best. Use them to "
            "predict or denoise; do not report them as properties of the data."
        )
    sparse, best = (
        min(cells, key=lambda cell: cell.error)
        for cells in ([cell for cell in found.cells if cell.p == 1], found.cells)
    )
    predicts = ball.error < ball.variance
    if predicts and ball.p >= 1.05 and sparse.error <= 1.1 * best.error and sparse.nonzeros < 0.5:
        lines.append(
            f"p = 1 with radius {sparse.radius:.3g} is within 10 % of the best error and uses only "
            f"{sparse.nonzeros:.0%} of the atoms per signal: take it if you want sparse codes."
        )
    worst = min(cell.certified for cell in found.cells)
    if worst < 1:
        lines.append(f"In one ball only {worst:.0%} of the codes are certified.")
    return lines


def write_page(found: Exploration, output: Path, saved: Path | None = None) -> None:
    """Write the page, whole or not at all. `saved`: where a learned dictionary is saved."""
    n, m = found.dictionary.shape
    source = "given" if found.given else "learned from the other half of the sample"
    lead = (
        f"{found.data.name}: {found.num_used:,} of {found.num_rows:,} rows of {n} columns; "
        f"dictionary of {m} atoms, {source}. fwnet {__version__}"
    )
    items = "".join(f"<li>{html.escape(line)}</li>" for line in recommendation(found))
    error = "Held-out error ÷ variance: 0 is perfect, 1 is no better than the mean"
    used = "Share of the entries of a code above 1/1000 of its largest"
    parts = [
        f"<h2>Recommendation</h2><ul>{items}</ul>",
        f"<h2>Held-out error</h2><p>{_about_error()}</p>{_heat_map(found, 'error', error)}",
        f"<h2>Sparsity</h2>{_heat_map(found, 'nonzeros', used)}",
        f"<h2>The best radius for each p</h2>{_table(found)}",
        f"<h2>Next</h2>{_next(found, saved)}",
    ]
    write_whole(output, page("fwnet explore", "Which p, which radius?", lead, "\n".join(parts)))


def _about_error() -> str:
    return (
        "The columns are divided at random into four parts. Each part is hidden once: the other "
        "entries are coded, and the hidden ones are predicted from the code. Balls on the left "
        "are too small to follow the signals, those on the right follow the noise. The ring marks "
        f"the p and the radius named above. They were chosen with at most {LARGEST_SAMPLE} rows; "
        f"the map shows at most {MAP_ROWS} of them, so another cell may have a lower error."
    )


def _heat_map(found: Exploration, name: str, title: str) -> str:
    """Draw one number of every cell, by p and relative radius."""
    values = np.array([getattr(cell, name) for cell in found.cells])
    table = values.reshape(len({cell.p for cell in found.cells}), -1)
    num_radii = table.shape[1]
    logs = name == "error"
    low = max(values.min(), 1e-6)
    norm = LogNorm(low, max(min(values.max(), 3.0), 2 * low)) if logs else Normalize(0, 1)
    figure = Figure(figsize=(8.5, 3.8), layout="constrained")
    axis = figure.subplots()
    axis.imshow(table, norm=norm, cmap="viridis_r", aspect="auto")
    for (row, column), value in np.ndenumerate(table):
        color = "#111111" if norm(value) < 0.55 else "#ffffff"
        text = f"{value:.2f}" if logs else f"{value:.0%}"
        axis.text(column, row, text, ha="center", va="center", color=color, fontsize=9)
    row, column = divmod(found.cells.index(found.recommended), num_radii)
    axis.plot(column, row, "o", markersize=30, markerfacecolor="none", markeredgecolor="#d62728")
    axis.set(
        xlabel="radius ÷ norm of an exact code (absolute radii are in the table)",
        ylabel="p",
        xticks=range(num_radii),
        xticklabels=[f"{cell.relative:.2g}" for cell in found.cells[:num_radii]],
        yticks=range(len(table)),
        yticklabels=[label_of(round(cell.p, 2)) for cell in found.cells[::num_radii]],
        title=title,
    )
    axis.spines[:].set_visible(False)
    return svg(figure, title)


def _table(found: Exploration) -> str:
    heads = ("p", "radius", "held-out error", "nonzeros", "ball too small", "certified")
    lines = ["<tr>" + "".join(f"<th>{head}" for head in heads)]
    for p in sorted({cell.p for cell in found.cells}):
        best = min((cell for cell in found.cells if cell.p == p), key=lambda cell: cell.error)
        here = p == found.learned.p
        best = found.recommended if here else best
        lines.append(
            f"<tr{' style=font-weight:bold' * here}><td>{label_of(round(p, 3))}"
            f"<td>{best.radius:.3g}<td>{best.error:.3f}"
            f"<td>{best.nonzeros:.0%}<td>{best.binds:.0%}<td>{best.certified:.0%}"
        )
    about = (
        "Bold: the p and the radius named above. Held-out error: the mean squared error of "
        "entries that were held out, divided by their variance. Ball too small: the signals that "
        "no code in the ball rebuilds exactly. That is meant to be so: the rest counts as noise."
    )
    return f"<table>{''.join(lines)}</table><p>{about}</p>"


def _next(found: Exploration, saved: Path | None) -> str:
    ball, rows, parts = found.learned, found.data, []
    columns = ["--columns", ",".join(found.columns)] if found.columns else []
    if ball.error >= ball.variance:
        count, atoms = min(2 * found.num_used, found.num_rows), found.dictionary.shape[1] // 2
        command = ["fwnet", "explore", rows, *columns, "--rows", count]
        command += ["--components", max(1, atoms), "-o", "again.html"]
        given = f"without {html.escape(str(found.given))}, " if found.given else ""
        more = "more rows or " if found.num_used < found.num_rows else ""
        about = f"Try again {given}with {more}another number of atoms:"
        return f"<p>{about}</p>{_code(shlex.join(map(str, command)))}"
    dictionary = found.given or saved or Path("D.npy")
    if found.normalized or found.num_left_out:
        rows, columns = Path("prepared.npy"), []
        parts.append(f"<p>Prepare the rows in Python:</p>{_code(_preparation(found, rows))}")
    options = ["--dictionary", dictionary, "--p", f"{ball.p:.4g}", "--radius", f"{ball.radius:.4g}"]
    command = ["fwnet", "encode", rows, *columns, *options, "-o", "codes.npy"]
    parts.append(f"<p>Code all rows, with certificates:</p>{_code(shlex.join(map(str, command)))}")
    if found.normalized:
        restored = "codes = norms * np.load('codes.npy')"
        parts.append(f"<p>Then in Python, codes in the unit of the data:</p>{_code(restored)}")
    return "".join(parts)


def _preparation(found: Exploration, output: Path) -> str:
    """Return Python code that writes the rows as they were explored."""
    lines = ["import numpy as np"]
    if found.data.suffix == ".parquet":
        names = f", columns={[*found.names]}" if found.columns else ""
        table = f"table = pq.read_table({str(found.data)!r}{names})"
        lines += ["import pyarrow.parquet as pq", table]
        lines += ["x = np.column_stack([column.to_numpy() for column in table.columns])"]
    else:
        lines += [f"x = np.load({str(found.data)!r})"]
    if found.num_left_out:
        lines += ["x = x[np.isfinite(x).all(axis=1)]"]
    if found.normalized:
        lines += ["norms = np.linalg.norm(x, axis=1, keepdims=True)"]
        lines += ["x = x / np.where(norms > 0, norms, 1)"]
    return "\n".join([*lines, f"np.save({str(output)!r}, x)"])


def _code(text: str) -> str:
    return f'<pre style="white-space: pre-wrap"><code>{html.escape(text)}</code></pre>'
