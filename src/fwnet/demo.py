"""`fwnet demo`: the main ideas on built-in data, as one HTML page.

Only public names are used, so that every section is also an example.
"""

import html
import math
import re
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

import fwnet
from fwnet.drawing import (
    draw_ball,
    draw_direction,
    draw_entries,
    draw_training,
    label_of,
    page,
    remove_frame,
    svg,
    webp,
)
from fwnet.files import write_whole
from fwnet.hardware import hardware_name, one_thread
from fwnet.progress import Progress

EXPONENTS = (1.0, 1.3, 2.0, 4.0, math.inf)
COLORS = [mpl.colormaps["viridis"](0.3 + 0.15 * i) for i in range(len(EXPONENTS))]


@dataclass(frozen=True)
class Section:
    """A part of the page: its title, its text with code in backticks, and HTML below it."""

    title: str
    text: str
    body: str


def write_demo(output: Path, progress: Callable[[str], None] = lambda _: None) -> list[Section]:
    """Compute all sections; write index.html to the folder `output`."""
    output.mkdir(parents=True, exist_ok=True)
    parts: list[tuple[str, Callable[[], Section]]] = [
        ("denoising an image", show_denoising),
        ("upscaling an image", show_upscaling),
        ("pool_p for several p", show_pool),
        ("the oracle of the ball", show_oracle),
        ("codes of one signal", show_codes),
        ("certificates", show_certificates),
        ("a network learns p", partial(show_learning, progress)),
        ("the speed of this machine", show_speed),
    ]
    sections = []
    for message, make in parts:
        progress(message)
        sections.append(make())
    write_whole(output / "index.html", _page(sections))
    return sections


def show_pool() -> Section:
    """Draw a vector and its pool_p, from p = 1 to p = ∞."""
    u = torch.tensor([-1.0, 0.55, -0.9, 0.1, -0.3, 0.75, -0.05, 0.2])
    figure = Figure(figsize=(11, 2.6), layout="constrained")
    axes = figure.subplots(1, len(EXPONENTS) + 1, sharey=True)
    draw_entries(axes[0], -u, "0.6", "−u")
    for axis, p, color in zip(axes[1:], EXPONENTS, COLORS, strict=True):
        draw_entries(axis, fwnet.pool_p(u, p), color, f"p = {label_of(p)}")
    shares = [
        f"{fwnet.pool_p(u, p).abs().max() / fwnet.pool_p(u, p).abs().sum():.0%} "
        f"at p = {label_of(p)}"
        for p in (1.0, 2.0, math.inf)
    ]
    title = "pool_p: from max pooling (p = 1) to equal magnitudes (p = ∞)"
    return Section(
        title,
        "`pool_p(u)` is the point s of the Lp ball that minimizes ⟨s, u⟩. The largest entry makes "
        f"up {', '.join(shares[:-1])} and {shares[-1]} of the sum of all magnitudes.",
        svg(figure, title),
    )


def show_oracle() -> Section:
    """Draw the Lp balls of the plane and the answer of their oracle for one direction."""
    u = torch.tensor([-1.0, -0.6])
    figure = Figure(figsize=(6, 4.6), layout="constrained")
    axis = figure.subplots()
    for p, color in zip(EXPONENTS, COLORS, strict=True):
        draw_ball(axis, p, u, color, f"p = {label_of(p)}")
    draw_direction(axis, u)
    axis.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    norms = [torch.linalg.vector_norm(u, ord=fwnet.dual_exponent(p)) for p in EXPONENTS]
    gaps = [
        abs(u @ fwnet.pool_p(u, p) + norm).item() for p, norm in zip(EXPONENTS, norms, strict=True)
    ]
    title = "The Lp balls, and the point of each that minimizes ⟨s, u⟩"
    return Section(
        title,
        "Each dot is the point `LpBall(p).lmo(u)`, the farthest one along −u. There Hölder's "
        "inequality ⟨s, u⟩ ≥ −‖u‖_q is an equality: the largest difference here is "
        f"{max(gaps):.1g}.",
        svg(figure, title),
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
        draw_entries(axis, code, color, f"p = {label_of(p)}")
        axis.set(yticks=[])
    title = "Codes of one signal for several p"
    return Section(
        title,
        "A signal with 50 entries is coded with 100 atoms; the radius is half the norm of an exact "
        f"code. At p = 1, {used[1.0]} entries exceed 0.1% of the largest; at p = 2, {used[2.0]}. "
        "At p = ∞ most entries have the same magnitude. All codes are proven optimal: the largest "
        f"gap is {max(gaps):.0e}.",
        svg(figure, title),
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
    remove_frame(axis)
    paper, ours = worst["Frank-Wolfe, steps 2/(t+2)"], worst["fwnet.solve"]
    title = "Every code has a certificate"
    return Section(
        title,
        "The largest gap of 200 codes (p = 1.3, radius 2.5), relative to the signal's energy, is "
        f"{paper:.0e} after 1,000 steps of the paper's Frank-Wolfe iteration, and {ours:.0e} after "
        "6 steps of `fwnet.solve`.",
        svg(figure, title),
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

    with one_thread():  # more do not help with small matrices
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
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    learned = [2.0, *(record["p"] for record in result.history)]
    errors = [before, *(record["validation"] for record in result.history)]
    left, right = draw_training(figure, learned, 1.3, errors, COLORS[1])
    solved = fwnet.metrics.code_error(exact.code, data.test_codes.double()).item()
    right.axhline(solved, color=COLORS[3], linestyle="--", label="fwnet.solve, certified")
    left.legend(frameon=False)
    right.legend(frameon=False)
    title = "A network learns p along with its weights"
    return Section(
        title,
        f"A Frank-Wolfe network of 4 layers was trained for {result.seconds:.0f} seconds on "
        f"{num_train:,} pairs of signals and codes. Its p moved from 2 to {learned[-1]:.2f} (the "
        f"codes were made with 1.3), and its squared error per code, on new signals, fell from "
        f"{errors[0]:.2f} to {errors[-1]:.2f}. The certified codes of `fwnet.solve`, which is told "
        f"p and D, have the error {solved:.2f}: 50 noisy entries of a signal do not determine all "
        "100 entries of its code. A longer training brings p closer (`fwnet reproduce "
        "synthetic-exponent`).",
        svg(figure, title),
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
    before, after = _psnr(noisy, clean), _psnr(denoised, clean)
    return Section(
        "Clean a photo",
        f"Noise of σ = {level} was added to this photo: its PSNR is {before:.1f} dB. "
        "`fwnet.denoise` finds σ by itself and reaches "
        f"{after:.1f} dB in {seconds:.1f} seconds, with a convolutional Frank-Wolfe network that "
        "comes with the package. For a file: `fwnet denoise photo.jpg clean.png`.",
        _before_and_after({"noisy": noisy, "fwnet.denoise": denoised}),
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
    height, width, _ = small.shape
    before, after = _psnr(bicubic, large), _psnr(enlarged, large)
    return Section(
        "Enlarge a photo",
        f"The photo was shrunk to {width} × {height} pixels and enlarged {scale} times. The PSNR "
        f"is {before:.2f} dB with bicubic interpolation and {after:.2f} dB with `fwnet.upscale`, "
        f"which took {seconds:.1f} seconds. For a file: `fwnet upscale small.png large.png`.",
        _before_and_after({"bicubic": bicubic, "fwnet.upscale": enlarged}),
    )


def show_speed() -> Section:
    """Measure what this machine does in a second."""
    u = torch.randn(200_000, 64)
    x, dictionary = _synthetic(rows=2000)
    network = fwnet.FWNet.from_dictionary(dictionary.float(), num_layers=4, radius=2.5, p=1.3)
    signals = x.float()
    photo = torch.rand(1, 3, 256, 256)
    ball = fwnet.LpBall(p=1.3, radius=2.5)
    with torch.no_grad():
        rows = {
            "pool_p of vectors with 64 entries": len(u) / _seconds(lambda: fwnet.pool_p(u, 1.3)),
            "certified codes (n = 50, m = 100, p = 1.3)": len(x)
            / _seconds(lambda: fwnet.solve(x, dictionary, ball)),
            "codes by a network of 4 layers": len(x) / _seconds(lambda: network(signals)),
            "pixels denoised, color": photo[0, 0].numel()
            / _seconds(lambda: fwnet.denoise(photo, sigma=0.1)),
            "pixels denoised, color, fast": photo[0, 0].numel()
            / _seconds(lambda: fwnet.denoise(photo, sigma=0.1, fast=True)),
        }
    lines = "".join(f"<tr><td>{name}<td>{_rounded(value)}" for name, value in rows.items())
    return Section(
        "The speed of this machine",
        f"Measured just now on {hardware_name(torch.device('cpu'))}: "
        f"{_rounded(list(rows.values())[1])} certified codes per second.",
        f"<table><tr><th><th>per second{lines}</table>",
    )


def _seconds(work: Callable[[], object]) -> float:
    """Return the shortest time of three rounds."""
    return min(timeit.repeat(work, number=1, repeat=3))


def _rounded(value: float) -> str:
    """Return two digits of a large number, with separators."""
    digits = max(0, int(math.log10(value)) - 1)
    return f"{round(value, -digits):,.0f}"


def _before_and_after(pictures: dict[str, np.ndarray]) -> str:
    """Return two pictures, one over the other, with a slider between them."""
    (left, before), (right, after) = pictures.items()
    return (
        f'<div class="compare"><img alt="{right}" src="{webp(after)}">'
        f'<img alt="{left}" class="over" src="{webp(before)}">'
        '<input type="range" aria-label="before and after" '
        "oninput=\"this.parentNode.style.setProperty('--at', this.value + '%')\"></div>"
        f'<p class="names"><span>{left}</span><span>{right}</span></p>'
    )


def _psnr(picture: np.ndarray, truth: np.ndarray) -> float:
    return fwnet.metrics.psnr(_in_unit_range(picture)[None], _in_unit_range(truth)[None]).item()


def _in_unit_range(picture: np.ndarray) -> Tensor:
    return torch.from_numpy(picture).permute(2, 0, 1) / 255


def _in_eight_bits(image: Tensor) -> np.ndarray:
    pixels: np.ndarray = (255 * image).round().clamp(0, 255).byte().permute(1, 2, 0).numpy()
    return pixels


def _synthetic(rows: int) -> tuple[Tensor, Tensor]:
    """Return the paper's synthetic signals, and a dictionary with atoms of norm 1."""
    data = fwnet.data.synthetic_codes(
        num_train=rows, num_test=0, unit_atoms=True, dictionary_scale=1.0, dtype=torch.float64
    )
    return data.signals, data.dictionary


def _with_code(text: str) -> str:
    return re.sub(r"`(.+?)`", r"<code>\1</code>", html.escape(text))


def _page(sections: list[Section]) -> str:
    """Return the page with everything in it; it loads no other files."""
    body = "".join(
        f"<h2>{html.escape(one.title)}</h2>\n<p>{_with_code(one.text)}</p>\n{one.body}\n"
        for one in sections
    )
    lead = f"What fwnet {fwnet.__version__} does, computed on this machine just now."
    return page("fwnet demo", "fwnet", lead, body)
