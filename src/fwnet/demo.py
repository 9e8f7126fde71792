"""`fwnet demo`: the main ideas on built-in data, as one HTML page.

Only public names are used, so that every section is also an example.
"""

import base64
import html
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

import fwnet
from fwnet.progress import Progress

EXPONENTS = (1.0, 1.3, 2.0, 4.0, math.inf)
COLORS = [mpl.colormaps["viridis"](0.225 * i) for i in range(len(EXPONENTS))]


@dataclass(frozen=True)
class Section:
    """A figure with its title and explanation."""

    name: str
    title: str
    text: str
    figure: Figure


def write_demo(output: Path, progress: Callable[[str], None] = lambda _: None) -> list[Section]:
    """Compute all sections; write the figures and index.html to the folder `output`."""
    output.mkdir(parents=True, exist_ok=True)
    parts: list[tuple[str, Callable[[], Section]]] = [
        ("pool_p for several p", show_pool),
        ("the oracle of the ball", show_oracle),
        ("codes of one signal", show_codes),
        ("certificates", show_certificates),
        ("a network learns p", partial(show_learning, progress)),
        ("denoising an image", show_denoising),
        ("upscaling an image", show_upscaling),
    ]
    sections = []
    for message, make in parts:
        progress(message)
        sections.append(make())
        sections[-1].figure.savefig(output / f"{sections[-1].name}.png", dpi=160)
    (output / "index.html").write_text(_page(sections, output), encoding="utf-8")
    return sections


def show_pool() -> Section:
    """Draw a vector and its pool_p, from p = 1 to p = ∞."""
    u = torch.tensor([-1.0, 0.55, -0.9, 0.1, -0.3, 0.75, -0.05, 0.2])
    figure = Figure(figsize=(11, 2.6), layout="constrained")
    axes = figure.subplots(1, len(EXPONENTS) + 1, sharey=True)
    bars = [("−u", -u, "0.6")] + [
        (f"p = {_label(p)}", fwnet.pool_p(u, p), color)
        for p, color in zip(EXPONENTS, COLORS, strict=True)
    ]
    for axis, (title, values, color) in zip(axes, bars, strict=True):
        axis.bar(range(len(values)), values.numpy(), color=color)
        axis.axhline(0, color="0.3", linewidth=0.8)
        axis.set(title=title, xticks=[], ylim=(-1.15, 1.15))
        axis.spines[["top", "right", "bottom"]].set_visible(False)
    shares = [
        f"{fwnet.pool_p(u, p).abs().max() / fwnet.pool_p(u, p).abs().sum():.0%} at p = {_label(p)}"
        for p in (1.0, 2.0, math.inf)
    ]
    return Section(
        "pool_p",
        "pool_p: from max pooling (p = 1) to equal magnitudes (p = ∞)",
        "pool_p(u) is the point of the Lp ball that minimizes ⟨s, u⟩. Its largest entry holds "
        f"{', '.join(shares[:-1])} and {shares[-1]} of the total magnitude.",
        figure,
    )


def show_oracle() -> Section:
    """Draw the Lp balls of the plane and the answer of their oracle for one direction."""
    u = torch.tensor([-1.0, -0.6])
    angles = torch.linspace(0, 2 * math.pi, 721)
    circle = torch.stack([angles.cos(), angles.sin()], dim=-1)
    figure = Figure(figsize=(6, 4.6), layout="constrained")
    axis = figure.subplots()
    for p, color in zip(EXPONENTS, COLORS, strict=True):
        ball = fwnet.LpBall(p)
        border = circle / ball.gauge(circle).unsqueeze(-1)
        s = ball.lmo(u)
        axis.plot(*border.T.numpy(), color=color, label=f"p = {_label(p)}")
        axis.plot(*s.numpy(), "o", color=color, markersize=8)
    x, y = (-0.5 * u).tolist()
    axis.annotate("", xy=(x, y), xytext=(0, 0), arrowprops={"arrowstyle": "->", "color": "0.3"})
    axis.text(0.5 * x, 0.9 * y, "−u", ha="center", va="center")
    axis.set_aspect("equal")
    axis.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    axis.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    _remove_frame(axis)
    norms = [torch.linalg.vector_norm(u, ord=fwnet.dual_exponent(p)) for p in EXPONENTS]
    gaps = [
        abs(u @ fwnet.pool_p(u, p) + norm).item() for p, norm in zip(EXPONENTS, norms, strict=True)
    ]
    return Section(
        "oracle",
        "The oracle: the point of each ball that minimizes ⟨s, u⟩",
        "Each dot is LpBall(p).lmo(u), where Hölder's bound ⟨s, u⟩ ≥ −‖u‖_q is an equality: the "
        f"largest difference here is {max(gaps):.1g}.",
        figure,
    )


def show_codes() -> Section:
    """Draw the certified codes of one signal for several p."""
    x, dictionary = _synthetic(rows=1)
    figure = Figure(figsize=(11, 2.6), layout="constrained")
    gaps, used = [], {}
    for axis, p, color in zip(figure.subplots(1, len(EXPONENTS)), EXPONENTS, COLORS, strict=True):
        # As many times the length of the shortest exact code, so that every p has the same task.
        exact = fwnet.solve(x, dictionary, fwnet.LpBall(p, 1e6)).code
        ball = fwnet.LpBall(p, 0.5 * fwnet.LpBall(p, 1.0).gauge(exact).item())
        solution = fwnet.solve(x, dictionary, ball)
        code = solution.code[0]
        gaps.append(solution.gap.item())
        used[p] = int((code.abs() > 1e-3 * code.abs().max()).sum())
        axis.vlines(range(len(code)), 0, code.numpy(), color=color, linewidth=1)
        axis.axhline(0, color="0.3", linewidth=0.8)
        axis.set(title=f"p = {_label(p)}", xticks=[], yticks=[])
        axis.spines[["top", "right", "bottom", "left"]].set_visible(False)
    return Section(
        "codes",
        "Codes of one signal for several p",
        "Codes of a signal with 50 entries over 100 atoms; the radius is half the norm of an exact "
        f"code. {used[1.0]} entries exceed 0.1% of the largest at p = 1, {used[2.0]} at p = 2. At "
        "p = ∞ most have the same magnitude. All codes are proven optimal: the largest gap is "
        f"{max(gaps):.0e}.",
        figure,
    )


def show_certificates() -> Section:
    """Plot the gaps of several methods against the number of steps."""
    x, dictionary = _synthetic(rows=200)
    ball = fwnet.LpBall(p=1.3, radius=2.5)
    energy = 0.5 * x.square().sum(-1)
    methods = {
        "Frank-Wolfe, steps 2/(t+2)": (fwnet.solvers.FrankWolfe(), 1000),
        "Frank-Wolfe, line search": (
            fwnet.solvers.FrankWolfe(step_rule=fwnet.solvers.ShortStep()),
            200,
        ),
        "fwnet.solve": (fwnet.solvers.Auto(), 6),
    }
    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    axis = figure.subplots()
    worst = {}
    for (name, (method, most)), color in zip(methods.items(), COLORS[1:4], strict=True):
        steps = sorted({round(most ** (i / 12)) for i in range(13)})
        gaps = []
        for count in steps:
            solution = fwnet.solve(x, dictionary, ball, method=method, max_steps=count, tol=1e-14)
            gaps.append(max((solution.gap / energy).max().item(), 1e-16))
        worst[name] = gaps[-1]
        axis.loglog(steps, gaps, "o-", color=color, label=name)
    axis.set(xlabel="steps", ylabel="largest relative gap of 200 codes")
    axis.legend(frameon=False)
    _remove_frame(axis)
    paper, ours = worst["Frank-Wolfe, steps 2/(t+2)"], worst["fwnet.solve"]
    return Section(
        "certificates",
        "Every code has a certificate",
        "The largest gap of 200 codes (p = 1.3, radius 2.5), relative to the signal's energy, is "
        f"{paper:.0e} after 1,000 steps of the paper's Frank-Wolfe iteration, and {ours:.0e} after "
        "6 steps of fwnet.solve.",
        figure,
    )


def show_learning(progress: Callable[[str], None]) -> Section:
    """Train a network from p = 2 on codes made with p = 1.3; compare with the solver."""
    num_train, num_epochs = 15_000, 50
    data = fwnet.data.synthetic_codes(p=1.3, num_train=num_train, num_test=500).scaled()
    network = fwnet.FWNet.from_dictionary(
        data.dictionary, num_layers=4, radius=5.0, p=2.0, share_weights=True
    )
    before = fwnet.metrics.code_error(network(data.test_signals), data.test_codes).item()

    def report(now: Progress) -> None:
        loss, p = now.figures["loss"], now.figures["p"]
        progress(f"a network learns p: {now.stage}, loss {loss:.3f}, p {p:.3f}")

    with _one_thread():
        result = fwnet.training.train(
            network,
            fwnet.training.CodeRegression(
                data.signals, data.codes, data.test_signals, data.test_codes
            ),
            fwnet.training.TrainingConfig(
                num_epochs=num_epochs, learning_rate=0.03, batch_size=500
            ),
            fwnet.training.TrainingRun(progress=report),
        )
    exact = fwnet.solve(data.test_signals.double(), data.dictionary.double(), data.ball)
    gap = exact.gap.max().item()
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    epochs = range(num_epochs + 1)
    learned = [2.0, *(record["p"] for record in result.history)]
    left.plot(epochs, learned, color=COLORS[1], label="learned")
    left.axhline(1.3, color="0.5", linestyle=":", label="true p")
    left.set(xlabel="epoch", ylabel="p")
    errors = [before, *(record["validation"] for record in result.history)]
    right.plot(epochs, errors, color=COLORS[1], label="network, 4 layers")
    solved = fwnet.metrics.code_error(exact.code, data.test_codes.double()).item()
    right.axhline(solved, color=COLORS[3], linestyle="--", label="fwnet.solve, certified")
    right.set(xlabel="epoch", ylabel="error on new signals", ylim=(0, 1.1 * before))
    for axis in (left, right):
        axis.legend(frameon=False)
        _remove_frame(axis)
    return Section(
        "learning",
        "A network learns p along with its weights",
        f"Trained for {result.seconds:.0f} seconds on {num_train:,} pairs of signals and codes, a "
        f"Frank-Wolfe network of 4 layers changes p from 2 to {learned[-1]:.2f} (the true p is "
        f"1.3) and its error on new signals from {errors[0]:.2f} to {errors[-1]:.2f}. "
        f"The exact solver, which knows p and D, has the error {solved:.2f}; its gaps are at most "
        f"{gap:.0e}.",
        figure,
    )


def show_denoising() -> Section:
    """Add noise to an image and remove it with a network of the package."""
    import skimage.data

    level = 25
    clean = skimage.data.astronaut()
    noise = np.random.default_rng(0).normal(0, level, clean.shape)
    noisy = (clean + noise).round().clip(0, 255).astype(np.uint8)
    start = time.perf_counter()
    denoised = fwnet.denoise(noisy)  # σ is estimated
    seconds = time.perf_counter() - start
    pictures = {"clean": clean, "noisy": noisy, "fwnet.denoise": denoised}
    figure, ratios = _side_by_side(pictures, (slice(50, 200), slice(150, 300)))  # the face
    return Section(
        "denoising",
        "Denoising with a network that comes with the package",
        f"With noise of σ = {level} the PSNR is {ratios['noisy']:.1f} dB. fwnet.denoise "
        f"estimates σ and reaches {ratios['fwnet.denoise']:.1f} dB in {seconds:.1f} seconds with a "
        "convolutional Frank-Wolfe network. For a file: fwnet denoise IN OUT.",
        figure,
    )


def show_upscaling() -> Section:
    """Shrink an image and enlarge it again with a network of the package."""
    import skimage.data

    scale = 3
    large = skimage.data.astronaut()[:510, :510]  # a multiple of the scale
    small = _in_eight_bits(fwnet.resize.shrink(_in_unit_range(large), scale))
    bicubic = _in_eight_bits(fwnet.resize.enlarge(_in_unit_range(small), scale))
    start = time.perf_counter()
    enlarged = fwnet.upscale(small, scale)
    seconds = time.perf_counter() - start
    pictures = {"original": large, "bicubic": bicubic, "fwnet.upscale": enlarged}
    figure, ratios = _side_by_side(pictures, (slice(60, 160), slice(170, 270)))  # the face
    height, width, _ = small.shape
    return Section(
        "upscaling",
        "Upscaling with a network that comes with the package",
        f"Shrunk to {width} × {height} pixels and enlarged {scale} times. The PSNR is "
        f"{ratios['bicubic']:.2f} dB for bicubic interpolation and {ratios['fwnet.upscale']:.2f} "
        f"dB for fwnet.upscale, in {seconds:.1f} seconds. For a file: fwnet upscale IN OUT.",
        figure,
    )


def _side_by_side(
    pictures: dict[str, np.ndarray], part: tuple[slice, slice]
) -> tuple[Figure, dict[str, float]]:
    """Draw images and a detail of each; return the PSNR of all others against the first."""
    truth, *others = pictures
    clean = _in_unit_range(pictures[truth])[None]
    ratios = {
        name: fwnet.metrics.psnr(_in_unit_range(pictures[name])[None], clean).item()
        for name in others
    }
    figure = Figure(figsize=(11, 7.4), layout="constrained")
    for column, (name, picture) in enumerate(pictures.items()):
        upper, lower = figure.add_subplot(2, 3, column + 1), figure.add_subplot(2, 3, column + 4)
        upper.imshow(picture)
        lower.imshow(picture[part])
        upper.set_title(name if name == truth else f"{name}, {ratios[name]:.2f} dB")
        for axis in (upper, lower):
            axis.set_axis_off()
    return figure, ratios


def _in_unit_range(picture: np.ndarray) -> Tensor:
    return torch.from_numpy(picture).permute(2, 0, 1) / 255


def _in_eight_bits(image: Tensor) -> np.ndarray:
    pixels: np.ndarray = (255 * image).round().clamp(0, 255).byte().permute(1, 2, 0).numpy()
    return pixels


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread inside this context: more do not help with small matrices."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _synthetic(rows: int) -> tuple[Tensor, Tensor]:
    """Return the paper's synthetic signals, and a dictionary with atoms of norm 1."""
    data = fwnet.data.synthetic_codes(
        num_train=rows, num_test=0, unit_atoms=True, dictionary_scale=1.0, dtype=torch.float64
    )
    return data.signals, data.dictionary


def _remove_frame(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)


def _label(p: float) -> str:
    return "∞" if p == math.inf else f"{p:g}"


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff }
h1 { margin-bottom: 0 } h2 { margin-top: 2.5rem } img { max-width: 100%; max-height: 28rem }
.lead { color: #555 }
"""


def _page(sections: list[Section], folder: Path) -> str:
    """Return the page with all figures of the folder embedded; it loads no other files."""
    body = ""
    for section in sections:
        title, text = html.escape(section.title), html.escape(section.text)
        png = base64.b64encode((folder / f"{section.name}.png").read_bytes()).decode()
        body += f"<h2>{title}</h2>\n<p>{text}</p>\n"
        body += f'<img alt="{title}" src="data:image/png;base64,{png}">\n'
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>fwnet demo</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>fwnet</h1>\n"
        f'<p class="lead">Lp-norm constrained coding, version {fwnet.__version__}</p>\n'
        f"{body}</body></html>\n"
    )
