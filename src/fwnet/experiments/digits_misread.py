"""Where the rest of the error is: atoms, codes, p during training, and the digits misread."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fwnet.experiments.digits import NUM_CLASSES, choose, data_of, digit_features
from fwnet.experiments.digits_error import F_W_NETS, NETWORKS, final_jobs, longer_job
from fwnet.experiments.experiment import Experiment, Lab, Result, row_of
from fwnet.experiments.pictures import color, tidy
from fwnet.experiments.words import comma_list

__all__ = ["EXPERIMENT"]

MOST_SHOWN = 60
ATOMS_A_DIGIT = 4


def measure(lab: Lab, result: Result) -> None:
    """Look at the deepest network with all seeds, and its longest training, and at one MLP."""
    deepest, mlp = F_W_NETS[max(F_W_NETS)], NETWORKS[0 if lab.quick else 1]
    choice, other = (choose(lab, result, network) for network in (deepest, mlp))
    *records, longest = lab.runner.run([*final_jobs(lab, choice), longer_job(lab, choice)])
    outcomes = [record["outcomes"][-1] for record in records]
    others = [record["outcomes"][-1] for record in lab.runner.run(final_jobs(lab, other))]
    data = data_of(lab)
    labels = digit_features(data).test_labels.numpy()
    predicted, by_others = (
        np.array([[int(digit) for digit in outcome["predicted"]] for outcome in part])
        for part in (outcomes, others)
    )
    wrong = predicted != labels
    for digit in range(NUM_CLASSES):
        mine = labels == digit
        rates = [100 * float(row[mine].mean()) for row in wrong]
        result.rows.append(row_of("F-W Net", {"digit": digit}, "test error, %", rates))
    always = np.flatnonzero(wrong.all(0))
    result.curves = {
        "data": data,
        "portrait": longest["outcomes"][0]["portrait"],
        "p": [
            [*record["pretraining"]["p_by_epoch"], *outcome["p_by_epoch"]]
            for record, outcome in zip(records, outcomes, strict=True)
        ],
        "pretraining epochs": len(records[0]["pretraining"]["p_by_epoch"]),
        "always misread": [
            [int(i), int(labels[i]), *(int(p) for p in predicted[:, i])] for i in always
        ],
    }
    result.findings = _findings(result, wrong, labels, predicted, by_others, mlp.name)


def _findings(
    result: Result,
    wrong: np.ndarray,
    labels: np.ndarray,
    predicted: np.ndarray,
    by_others: np.ndarray,
    other_name: str,
) -> list[str]:
    always, ever = wrong.all(0), wrong.any(0)
    others_wrong = (by_others != labels).any(0)
    pairs = Counter(
        (int(labels[i]), int(p)) for row in predicted for i, p in enumerate(row) if p != labels[i]
    )
    worst = [
        f"{a} read as {b} ({count / len(predicted):.1f})" for (a, b), count in pairs.most_common(5)
    ]
    rows = sorted(result.rows, key=lambda row: row.ours)
    seeds = f"{len(wrong)} seeds"
    return [
        f"Of {wrong.shape[1]:,} test images {ever.sum()} are misread by some of {seeds}, "
        f"{always.sum()} by all of them: {always.sum() / max(1, wrong.sum(1).mean()):.0%} of the "
        "errors of one network do not depend on its seed.",
        f"Of those {always.sum()}, {int((always & others_wrong).sum())} are misread by "
        f"{other_name} as well, with some seed; it sees the pixels and has no codes.",
        f"Most often, in images a seed: {comma_list(worst)}.",
        f"The digits read best and worst are {rows[0].setting['digit']} ({rows[0].ours:.2f}%) and "
        f"{rows[-1].setting['digit']} ({rows[-1].ours:.2f}%).",
        "So the rest of the error is of two kinds: images that every network of this kind misreads "
        f"(see the picture), and images that depend on the seed. A vote of the {seeds} misreads "
        f"{100 * float((_vote(predicted) != labels).mean()):.2f}%, one network alone "
        f"{100 * float(wrong.mean()):.2f}%.",
    ]


def _vote(predicted: np.ndarray) -> np.ndarray:
    """What most say; of several such digits the smallest."""
    counts = np.stack([(predicted == digit).sum(0) for digit in range(NUM_CLASSES)])
    winners: np.ndarray = counts.argmax(0)
    return winners


def draw(result: Result) -> Figure:
    """Atoms, mean codes, p by epoch, and the images that every seed misreads."""
    digits = digit_features(result.curves["data"]).images
    height, width = digits.shape
    figure = Figure(figsize=(13, 11), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=[1.15, 1])
    top, bottom = halves
    left, right = top.subfigures(1, 2, width_ratios=[1, 1.3])
    _draw_atoms(left, result.curves["portrait"], (height, width))
    codes, exponents = right.subplots(2, 1, height_ratios=[1.2, 1])
    codes.imshow(np.array(result.curves["portrait"]["mean_codes"]), aspect="auto", cmap="magma")
    codes.set(
        xlabel="entry of the code (at first: places of 0, of 1, …)",
        ylabel="digit shown",
        yticks=range(NUM_CLASSES),
        title="mean magnitude of codes of test images",
    )
    for index, curve in enumerate(result.curves["p"]):
        exponents.plot(
            curve, color=color(index, len(result.curves["p"])), label=f"seed {index + 1}"
        )
    before = result.curves["pretraining epochs"]
    exponents.axvline(before, color="0.6", linestyle=":", linewidth=1)
    tidy(exponents, xlabel="epoch (dotted: from codes to digits)", ylabel="p", title="learned p")
    _draw_misread(bottom, result.curves["always misread"], digits)
    return figure


def _draw_atoms(figure: Any, portrait: dict[str, Any], shape: tuple[int, int]) -> None:
    figure.suptitle("rows of −W₀ as images, four from the place of every digit")
    images = np.array(portrait["images"], dtype=float).reshape(-1, *shape)
    axes = figure.subplots(NUM_CLASSES, ATOMS_A_DIGIT)
    for index, (axis, image) in enumerate(zip(axes.flat, images, strict=True)):
        axis.imshow(image, cmap="RdBu_r", vmin=-99, vmax=99)
        axis.set(xticks=[], yticks=[])
        if index % ATOMS_A_DIGIT == 0:
            axis.set_ylabel(index // ATOMS_A_DIGIT, rotation=0, va="center", labelpad=8)


def _draw_misread(figure: Any, misread: list[list[int]], digits: Any) -> None:
    shown = misread[:MOST_SHOWN]
    figure.suptitle(
        f"{len(shown)} of {len(misread)} test images that every seed misreads: label → read as"
    )
    columns = 15
    axes = figure.subplots(-(-MOST_SHOWN // columns), columns)
    for axis in axes.flat:
        axis.axis("off")
    for axis, (index, label, *predicted) in zip(axes.flat, shown, strict=False):
        axis.imshow(digits.test_images[index].reshape(digits.shape).numpy(), cmap="gray_r")
        read = "/".join(dict.fromkeys(str(digit) for digit in predicted))
        axis.set_title(f"{label} → {read}", fontsize=9)


EXPERIMENT = Experiment(
    "digits-misread",
    "Handwritten digits: where the rest of the error is",
    "(Not in the paper.)",
    measure,
    draw,
)
