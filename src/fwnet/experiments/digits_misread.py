"""Where the rest of the error is: atoms, codes, p during training, and misread digits."""

from collections import Counter
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fwnet.experiments.digits import NUM_CLASSES, Data, digit_features
from fwnet.experiments.digits_error import F_W_NETS, MLPS
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.pictures import color
from fwnet.experiments.study import measure_cases

MOST_SHOWN = 60
ATOMS_PER_DIGIT = 4
OURS, QUANTITY, IMAGES = "F-W Net", "test error, %", "images"


def measure(lab: Lab, result: Result) -> None:
    """Look at the deepest network with all seeds, its longer training, and one MLP."""
    mlp = MLPS[0 if lab.quick else 1]
    ours, other = measure_cases(lab, result, (F_W_NETS[-1], mlp))
    (longest,) = lab.runner.run([ours.case.longer_job(lab, ours.settings)])
    data: Data = "small" if lab.quick else "mnist"
    labels = digit_features(data).digits.test_labels.numpy()
    predicted, by_other = (
        np.array(
            [[int(digit) for digit in text] for text in one.values("outcomes", -1, "predicted")]
        )
        for one in (ours, other)
    )
    wrong = predicted != labels
    for digit in range(NUM_CLASSES):
        rates = [100 * float(row[labels == digit].mean()) for row in wrong]
        result.add(OURS, {"digit": digit}, QUANTITY, rates)
    always, others_wrong = wrong.all(0), (by_other != labels).any(0)
    counts = {
        "misread with some seed": wrong.any(0),
        "misread with every seed": always,
        f"misread with every seed, and by {mlp.name} with some seed": always & others_wrong,
    }
    for name, images in counts.items():
        result.add(name, {}, IMAGES, [float(images.sum())])
    votes = np.stack([(predicted == digit).sum(0) for digit in range(NUM_CLASSES)]).argmax(0)
    result.add("vote of the seeds", {}, "error, %", [100 * float((votes != labels).mean())])
    pairs = Counter(
        (int(labels[i]), int(p)) for row in predicted for i, p in enumerate(row) if p != labels[i]
    )
    for (label, read), count in pairs.most_common(5):
        result.add(f"{label} read as {read}", {}, "images per seed", [count / len(predicted)])
    before, after = (
        ours.values("pretraining", "p_by_epoch"),
        ours.values("outcomes", -1, "p_by_epoch"),
    )
    result.details = {
        "data": data,
        "portrait": longest["outcomes"][0]["portrait"],
        "p": [[*a, *b] for a, b in zip(before, after, strict=True)],
        "pretraining epochs": len(before[0]),
        "always misread": [
            [int(i), int(labels[i]), *(int(p) for p in predicted[:, i])]
            for i in np.flatnonzero(always)
        ],
    }


def draw(result: Result) -> Figure:
    """Draw atoms, mean codes, p by epoch, and the images that every seed misreads."""
    digits = digit_features(result.details["data"]).digits
    figure = Figure(figsize=(13, 11), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=[1.15, 1])
    top, bottom = halves
    left, right = top.subfigures(1, 2, width_ratios=[1, 1.3])
    _draw_atoms(left, result.details["portrait"], digits.shape)
    codes, exponents = right.subplots(2, 1, height_ratios=[1.2, 1])
    codes.imshow(np.array(result.details["portrait"]["mean_codes"]), aspect="auto", cmap="magma")
    codes.set(
        xlabel="entry of the code (at first: places of 0, of 1, …)",
        ylabel="digit shown",
        yticks=range(NUM_CLASSES),
        title="mean magnitude of codes of test images",
    )
    for index, curve in enumerate(result.details["p"]):
        exponents.plot(
            curve, color=color(index, len(result.details["p"])), label=f"seed {index + 1}"
        )
    before = result.details["pretraining epochs"]
    exponents.axvline(before, color="0.6", linestyle=":", linewidth=1)
    exponents.set(xlabel="epoch (dotted: from codes to digits)", ylabel="p", title="learned p")
    exponents.legend(frameon=False)
    _draw_misread(bottom, result.details["always misread"], digits)
    return figure


def _draw_atoms(figure: Any, portrait: dict[str, Any], shape: tuple[int, int]) -> None:
    figure.suptitle("rows of −W₀ as images, four from the place of every digit")
    images = np.array(portrait["images"], dtype=float).reshape(-1, *shape)
    axes = figure.subplots(NUM_CLASSES, ATOMS_PER_DIGIT)
    for index, (axis, image) in enumerate(zip(axes.flat, images, strict=True)):
        axis.imshow(image, cmap="RdBu_r", vmin=-99, vmax=99)
        axis.set(xticks=[], yticks=[])
        if index % ATOMS_PER_DIGIT == 0:
            axis.set_ylabel(index // ATOMS_PER_DIGIT, rotation=0, va="center", labelpad=8)


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
    columns="digit",
    needs=("MNIST",),
    note="The 4-layer F-W Net of `digits-error` with adversarial training, on the 10,000 test "
    "images.",
)
