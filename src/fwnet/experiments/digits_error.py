"""The paper's table of errors on handwritten digits: MLPs, LCoD, F-W Net."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from fwnet.experiments.digits import (
    Choice,
    DigitTraining,
    Network,
    choose,
    data_of,
    seeds_of,
    with_pretraining,
)
from fwnet.experiments.experiment import Experiment, Lab, Result, Row, row_of
from fwnet.experiments.pictures import color, marker, new_figure, tidy
from fwnet.experiments.runs import Record
from fwnet.experiments.words import comma_list, is_below, verdict

__all__ = ["BEST", "EXPERIMENT", "F_W_NETS", "NETWORKS"]

PLAIN, NEIGHBORS, LOGISTIC = "images alone", "with neighbors", "logistic regression on codes"
LONG = "longer"
BEST = "F-W Net, trained longer"
QUANTITY, OF_ONE_SEED = "test error, %", "error of one seed, %"
RADII = ({"radius": 50.0}, {"radius": 100.0})
F_W_NETS = {
    T: Network(f"{T}-layer F-W Net", "FWNet", {"num_layers": T, "p": 1.5}, RADII) for T in (2, 3, 4)
}
# What the paper prints: its numbers of parameters, and errors.
PAPER = {
    "MLP 300+100": (266_200, 3.05),
    "MLP 500+150": (468_500, 2.95),
    "MLP 500+300": (545_000, 1.53),
    "1-iter LCoD": (65_536, 1.60),
    "5-iter LCoD": (65_536, 1.47),
    "50-iter LCoD": (65_536, 1.39),
    "2-layer F-W Net": (43_350, 2.20),
    "3-layer F-W Net": (65_850, 1.34),
    "4-layer F-W Net": (88_200, 1.25),
}
MLP_DECAYS, LCOD_DECAYS = (1e-4, 5e-4), (1e-4, 1e-3)
LCOD_TRAINING = {"learning_rate": 0.3, "num_epochs": 50}
NETWORKS = (
    *(
        Network(
            f"MLP {wide}+{narrow}",
            "FeedForward",
            {"hidden": [wide, narrow]},
            decays=MLP_DECAYS,
            training={"num_epochs": 60},
        )
        for wide, narrow in ((300, 100), (500, 150), (500, 300))
    ),
    *(
        Network(
            f"{count}-iter LCoD",
            "LCoD",
            {"num_layers": count + 1, "threshold": 0.2},
            decays=LCOD_DECAYS,
            training=LCOD_TRAINING,
            pretraining={"num_epochs": 100},
        )
        for count in (1, 5)
    ),
    # A step takes as long as ten of the others, whatever the size of a batch: fewer, larger ones.
    Network(
        "50-iter LCoD",
        "LCoD",
        {"num_layers": 51, "threshold": 0.2},
        decays=LCOD_DECAYS,
        training={**LCOD_TRAINING, "num_epochs": 30, "batch_size": 500},
        pretraining={"num_epochs": 40, "batch_size": 500},
    ),
    *F_W_NETS.values(),
)
LONGER = {"num_epochs": 200}


def measure(lab: Lab, result: Result) -> None:
    """Choose, then train every network with three seeds; the last one once more, and longer."""
    networks = (NETWORKS[0], NETWORKS[3], NETWORKS[6], NETWORKS[8]) if lab.quick else NETWORKS
    choices = [choose(lab, result, network) for network in networks]
    jobs = [final_jobs(lab, choice) for choice in choices]
    longer = longer_job(lab, choices[-1])
    lab.runner.run([*itertools.chain(*jobs), longer])  # all of them at once
    for choice, mine in zip(choices, jobs, strict=True):
        _add_rows(result, choice, lab.runner.run(mine))
    _add_longer(result, choices[-1], *lab.runner.run([longer]))
    result.findings = _findings(result, data_of(lab))


def final_jobs(lab: Lab, choice: Choice) -> list[DigitTraining]:
    """One training a seed on all training images: with images alone, and with neighbors."""
    neighbors = sorted({0.0, choice.neighbors})
    logistic = choice.network.model == "FWNet"
    return [choice.job(lab, neighbors, seed, logistic=logistic) for seed in seeds_of(lab)]


def longer_job(lab: Lab, choice: Choice) -> DigitTraining:
    """A network with the settings chosen for it, trained longer, with one seed."""
    training = {**choice.network.training, **LONGER}
    longer = replace(choice, network=replace(choice.network, training=training))
    return longer.job(lab, [choice.neighbors], seeds_of(lab)[0], portrait=True)


def _setting(choice: Choice, neighbors: float, how: str) -> dict[str, Any]:
    radius = {"c": choice.options["radius"]} if "radius" in choice.options else {}
    decay = {} if how == LOGISTIC else {"weight decay": choice.weight_decay}
    return {"training": how, **radius, **decay, "neighbors": neighbors}


def _add_rows(result: Result, choice: Choice, records: list[Record]) -> None:
    name = choice.network.name
    paper = PAPER[name][1]
    for index, neighbors in enumerate(sorted({0.0, choice.neighbors})):
        outcomes = [with_pretraining(record, record["outcomes"][index]) for record in records]
        setting = _setting(choice, neighbors, NEIGHBORS if neighbors else PLAIN)
        row = row_of(name, setting, QUANTITY, _errors(outcomes), outcomes, paper)
        result.rows.append(row)
    if "logistic_error" in records[0]:
        errors = [record["logistic_error"] for record in records]
        setting = _setting(choice, 0.0, LOGISTIC)
        result.rows.append(row_of(name, setting, QUANTITY, errors))
        values = [record["outcomes"][-1]["p"] for record in records]
        result.rows.append(row_of(name, setting | {"training": "all"}, "learned p", values))
    result.curves[name] = {
        key: records[0]["outcomes"][-1][key] for key in ("num_weights", "num_parameters")
    }


def _add_longer(result: Result, choice: Choice, record: Record) -> None:
    outcome = with_pretraining(record, record["outcomes"][0])
    setting = _setting(choice, choice.neighbors, LONG)
    setting["epochs"] = len(outcome["p_by_epoch"])
    result.rows.append(row_of(BEST, setting, OF_ONE_SEED, [outcome["error"]], [outcome]))


def _errors(outcomes: list[Record]) -> list[float]:
    return [outcome["error"] for outcome in outcomes]


def _findings(result: Result, data: str) -> list[str]:
    joint = {
        (row.method, row.setting["training"]): row
        for row in result.rows
        if row.quantity in (QUANTITY, OF_ONE_SEED)
    }

    def best_of(name: str) -> Row:
        """With neighbors, where those were better on validation images."""
        return joint.get((name, NEIGHBORS), joint[name, PLAIN])

    names = [name for name in PAPER if (name, PLAIN) in joint]
    ours = [name for name in names if name in F_W_NAMES]
    others = [name for name in names if name not in F_W_NAMES]
    deepest, longer = ours[-1], joint[BEST, LONG]
    sentences = [
        f"Images are those of {'MNIST' if data == 'mnist' else 'scikit-learn'}; no image is "
        "shifted, turned or bent. 'With neighbors' means that a classifier also learns, for "
        "every image, the point at the given distance in the direction in which its loss rises "
        "most: a regularizer made of training images and the network alone.",
        "Radius, weight decay and distance of neighbors were chosen together on validation images, "
        "and rows of images alone have the radius and decay of that choice; learning rates, "
        "epochs and LCoD's threshold were set by hand after trials on validation images. "
        "Logistic regression has scikit-learn's C = 1 on standardized codes and up to 200 "
        "iterations.",
        _parameters(result),
    ]
    for name in ours:
        plain, best = joint[name, PLAIN], best_of(name)
        with_neighbors = f", with neighbors {best.ours:.2f}%" if best is not plain else ""
        sentences.append(
            f"{name}: logistic regression on the learned codes has "
            f"{joint[name, LOGISTIC].ours:.2f}%, joint training {plain.ours:.2f}%{with_neighbors} "
            f"(the paper: {plain.paper}%)."
        )
    sentences.append(
        f"Trained longer ({longer.setting['epochs']} epochs) with one of the seeds, {deepest} has "
        f"{longer.ours:.2f}%, after {best_of(deepest).values[0]:.2f}% with that seed."
    )
    below = {
        (a, b): is_below(joint[a, PLAIN].values, joint[b, PLAIN].values)
        for a in names
        for b in names
    }
    beaten = [name for name in others if below[deepest, name]]
    ahead = [name for name in others if is_below(best_of(name).values, best_of(deepest).values)]
    sentences.append(
        f"With images alone {deepest} is better than {comma_list(beaten or ['none'])} of the "
        f"others; with the neighbors chosen for each, {comma_list(ahead or ['none'])} of them "
        f"{'are' if len(ahead) > 1 else 'is'} better than it."
    )
    claims = {
        "joint training is better than logistic regression on the codes": all(
            is_below(joint[name, PLAIN].values, joint[name, LOGISTIC].values) for name in ours
        ),
        f"{deepest} is better than every MLP and LCoD (images alone)": beaten == others,
        "the error falls with every layer (images alone)": all(
            below[b, a] for a, b in itertools.pairwise(ours)
        ),
    }
    for name in ours:
        for row, how in ((joint[name, PLAIN], PLAIN), (best_of(name), NEIGHBORS)):
            if how == PLAIN or row is not joint[name, PLAIN]:
                claim = f"{name} is at or below the paper's {row.paper}% ({how})"
                claims[claim] = row.ours <= (row.paper or 0)
    sentences.append(verdict(claims))
    return sentences


F_W_NAMES = {network.name for network in F_W_NETS.values()}


def _parameters(result: Result) -> str:
    parts = [
        f"{name} has {result.curves[name]['num_weights']:,} weights "
        f"({result.curves[name]['num_parameters']:,} numbers in all; the paper: {printed:,})"
        for name, (printed, _) in PAPER.items()
        if name in result.curves
    ]
    return (
        "; ".join(parts)
        + ". The paper's 43,350 and 65,850 for F-W Net are 150 more than its matrices have, "
        "the softmax layer's 1,500 included; its 65,536 for LCoD is 256 · 256, the matrix of "
        "another length of code."
    )


def draw(result: Result) -> Figure:
    """Errors of all networks, by the number of weights."""
    figure, axis = new_figure(width=8.5)
    names = [name for name in [*PAPER, BEST] if any(row.method == name for row in result.rows)]
    for index, name in enumerate(names):
        known = name if name in result.curves else [n for n in names if n in F_W_NAMES][-1]
        weights = result.curves[known]["num_weights"]
        for row in result.rows:
            how = row.setting.get("training")
            if row.method != name or row.quantity == "learned p" or how == LOGISTIC:
                continue
            axis.errorbar(
                [weights],
                [row.ours],
                [row.spread or 0],
                marker=marker(index),
                markerfacecolor="white" if how == PLAIN else None,
                color=color(index, len(names)),
                capsize=3,
                linestyle="none",
                label=name if name == BEST else f"{name}, {how}",
            )
            if row.paper is not None and how == PLAIN:
                axis.plot([weights], [row.paper], "x", color=color(index, len(names)))
    tidy(
        axis,
        legend_beside=True,
        xscale="log",
        xlabel="weights",
        ylabel=QUANTITY,
        title="handwritten digits (crosses: the paper)",
    )
    return figure


EXPERIMENT = Experiment(
    "digits-error",
    "Handwritten digits: MLPs, LCoD and F-W Net",
    "F-W Net has a lower error than MLPs and LCoD with as many parameters, and it falls with every "
    "layer; joint training is marginally but consistently better than logistic regression.",
    measure,
    draw,
)
