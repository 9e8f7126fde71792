"""What the app shows about p: the ball, the unit, a certified code, and p while it is learned."""

import math
import queue
import threading
from collections.abc import Iterator
from functools import cache

import matplotlib as mpl
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
    svg,
)
from fwnet.progress import Progress

DIRECTION = torch.tensor([-1.0, -0.6])
VECTOR = torch.tensor([-1.0, 0.55, -0.9, 0.1, -0.3, 0.75, -0.05, 0.2])
NUM_SIGNALS, NUM_EPOCHS = 15_000, 40


def exponent_at(place: float) -> float:
    """p = 1/(1 − place): from 1 at place 0, over 2 at ½, to ∞ at 1."""
    return math.inf if place >= 1 else 1 / (1 - place)


def explore(place: float, share: float) -> tuple[str, str]:
    """Return figures of one p, and the certificate of a code in words.

    Args:
        place: Where p is between 1 and ∞; see `exponent_at`.
        share: The radius, as a part of the norm of an exact code.
    """
    p = exponent_at(place)
    color = mpl.colormaps["viridis"](0.3 + 0.6 * min(place, 1.0))
    x, dictionary = _signal()
    exact = fwnet.solve(x, dictionary, fwnet.LpBall(p, 1e6)).code
    radius = share * fwnet.LpBall(p).gauge(exact).item()
    solution = fwnet.solve(x, dictionary, fwnet.LpBall(p, radius))
    code = solution.code[0]
    figure = Figure(figsize=(11, 3.2), layout="constrained")
    ball, unit, entries = figure.subplots(1, 3, width_ratios=[1, 1, 1.6])
    draw_ball(ball, p, DIRECTION, color)
    draw_direction(ball, DIRECTION)
    ball.set_title(f"ball and oracle, p = {label_of(round(p, 2))}")
    draw_entries(unit, fwnet.pool_p(VECTOR, p), color, "pool_p(u)")
    unit.set_ylim(-1.1, 1.1)
    draw_entries(entries, code, color, "code of a signal, 100 entries")
    fit = 1 - (x - solution.code @ dictionary.T).square().sum() / x.square().sum()
    words = (
        f"p = {label_of(round(p, 4))}, radius {radius:.3g}: the code explains {fit.item():.1%} of "
        f"the signal and is {solution.status[0]}. ½‖x − Dz‖² is at most "
        f"{max(solution.gap.item(), 0):.1e} above its minimum (the duality gap)."
    )
    return svg(figure, f"Ball, unit and code for p = {label_of(p)}"), words


def learn(true_p: float, first_p: float) -> Iterator[tuple[str, str]]:
    """Train a network on codes made with `true_p`, from `first_p`; yield p after every epoch."""
    data = fwnet.data.synthetic_codes(p=true_p, num_train=NUM_SIGNALS, num_test=500).scaled()
    network = fwnet.FWNet.from_dictionary(
        data.dictionary, num_layers=4, radius=5.0, p=first_p, share_weights=True
    )
    before = fwnet.metrics.code_error(network(data.test_signals), data.test_codes).item()
    exponents, errors = [first_p], [before]
    reports: queue.Queue[tuple[float, float] | None] = queue.Queue()  # None at the end
    stopped = threading.Event()

    def report(now: Progress) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        if now.done * NUM_EPOCHS % now.total == 0:  # the end of an epoch
            with torch.no_grad():
                found = network(data.test_signals)
            error = fwnet.metrics.code_error(found, data.test_codes).item()
            reports.put((now.figures["p"], error))

    def train() -> None:
        task = fwnet.training.CodeRegression(data.signals, data.codes)
        config = fwnet.training.TrainingConfig(
            num_epochs=NUM_EPOCHS, learning_rate=0.03, batch_size=500
        )
        try:
            fwnet.training.train(network, task, config, fwnet.training.TrainingRun(progress=report))
        except KeyboardInterrupt:
            pass
        finally:
            reports.put(None)

    thread = threading.Thread(target=train, daemon=True)
    thread.start()
    try:
        while (made := reports.get()) is not None:
            exponents.append(made[0])
            errors.append(made[1])
            yield _training_shown(exponents, errors, true_p)
    finally:  # also if the visitor leaves
        stopped.set()
        thread.join()


def _training_shown(exponents: list[float], errors: list[float], true_p: float) -> tuple[str, str]:
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, _ = draw_training(figure, exponents, true_p, errors, mpl.colormaps["viridis"](0.5))
    left.set_xlim(0, NUM_EPOCHS)
    left.legend(frameon=False)
    words = (
        f"Epoch {len(exponents) - 1} of {NUM_EPOCHS}: p = {exponents[-1]:.3f} (true {true_p:g}), "
        f"squared error of a code of new signals {errors[-1]:.2f} (before {errors[0]:.2f})."
    )
    return svg(figure, "p and error over the epochs"), words


@cache
def _signal() -> tuple[Tensor, Tensor]:
    """Return one of the paper's synthetic signals, and a dictionary with atoms of norm 1."""
    data = fwnet.data.synthetic_codes(
        num_train=1, num_test=0, unit_atoms=True, dictionary_scale=1.0, dtype=torch.float64
    )
    return data.signals, data.dictionary
