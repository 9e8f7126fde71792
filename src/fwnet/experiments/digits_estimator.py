"""`FWNetClassifier` as it is, on scikit-learn's digits, beside what scikit-learn has itself."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure

from fwnet.coding import FWNetClassifier
from fwnet.experiments.experiment import Experiment, Lab, Result, row_of
from fwnet.experiments.pictures import color, new_figure, tidy
from fwnet.experiments.runs import Job, Record
from fwnet.experiments.words import verdict
from fwnet.hardware import hardware_name

__all__ = ["EXPERIMENT", "EstimatorScore"]

OURS, LOGISTIC = "FWNetClassifier", "LogisticRegression"
NAMES = (OURS, LOGISTIC, "MLPClassifier", "SVC")
SPLITS = (0, 1, 2, 3, 4)
TEST_PART = 0.25
MOST_SECONDS = 30


@dataclass(frozen=True)
class EstimatorScore(Job):
    """Fit a pipeline of PCA and an estimator on one split of scikit-learn's digits; score it.

    Attributes:
        name: The estimator, with its defaults but for iterations enough to converge.
        split: The seed of the split, and of the estimator.
        max_iter: Passes over the samples for FWNetClassifier; None for its default.
    """

    name: str
    split: int
    max_iter: int | None = None

    def execute(self, device: torch.device) -> Record:
        """Return the error on the test part, in percent, and how long fitting took."""
        from sklearn.datasets import load_digits
        from sklearn.decomposition import PCA
        from sklearn.model_selection import train_test_split
        from sklearn.pipeline import make_pipeline

        pixels, labels = load_digits(return_X_y=True)
        x, test_x, y, test_y = train_test_split(
            pixels, labels, test_size=TEST_PART, stratify=labels, random_state=self.split
        )
        pipeline = make_pipeline(PCA(), self._estimator(device))
        start = time.perf_counter()
        pipeline.fit(x, y)
        seconds = time.perf_counter() - start
        record = {
            "error": 100 * (1 - float(pipeline.score(test_x, test_y))),
            "seconds": seconds,
            "hardware": f"{hardware_name(device)}, torch {torch.__version__}",
        }
        if self.name == OURS:
            record["p"] = pipeline[-1].p_
            record["num_parameters"] = pipeline[-1].network_.num_parameters
        return record

    def _estimator(self, device: torch.device) -> Any:
        from sklearn.linear_model import LogisticRegression
        from sklearn.neural_network import MLPClassifier
        from sklearn.svm import SVC

        if self.name == OURS:
            classifier = FWNetClassifier(random_state=self.split, device=str(device))
            return classifier.set_params(max_iter=self.max_iter or classifier.max_iter)
        kinds = {
            LOGISTIC: LogisticRegression(max_iter=5_000),
            "MLPClassifier": MLPClassifier(max_iter=1_000, random_state=self.split),
            "SVC": SVC(),
        }
        return kinds[self.name]


def measure(lab: Lab, result: Result) -> None:
    """Score every estimator on the same splits."""
    splits = SPLITS[:2] if lab.quick else SPLITS
    jobs = [
        EstimatorScore(name, split, 8 if lab.quick and name == OURS else None)
        for name in NAMES
        for split in splits
    ]
    records = iter(lab.runner.run(jobs))
    for name in NAMES:
        mine = [next(records) for _ in splits]
        errors = [record["error"] for record in mine]
        result.rows.append(row_of(name, {}, "test error, %", errors, mine))
        seconds = [record["seconds"] for record in mine]
        result.rows.append(row_of(name, {}, "seconds to fit", seconds))
        if name == OURS:
            values = [record["p"] for record in mine]
            result.rows.append(row_of(name, {}, "learned p", values))
    result.findings = _findings(result)


def _values(result: Result, name: str, quantity: str) -> list[float]:
    (row,) = [row for row in result.rows if row.method == name and row.quantity == quantity]
    return row.values


def _findings(result: Result) -> list[str]:
    errors = {name: _values(result, name, "test error, %") for name in NAMES}
    seconds = {name: _values(result, name, "seconds to fit") for name in NAMES}
    listed = "; ".join(
        f"{name} {statistics.fmean(errors[name]):.2f}% in {statistics.fmean(seconds[name]):.2g} s"
        for name in NAMES
    )
    ours = errors[OURS]
    ahead = [
        name
        for name in NAMES
        if all(theirs < mine for theirs, mine in zip(errors[name], ours, strict=True))
    ]
    return [
        f"PCA and an estimator with its defaults (but iterations enough to converge), "
        f"{len(ours)} splits of 1,797 digits: {listed}.",
        f"FWNetClassifier took {max(seconds[OURS]):.1f} s at most. Ahead of it on every split: "
        f"{', '.join(ahead) or 'none'}.",
        verdict(
            {
                f"it trains in under {MOST_SECONDS} s": max(seconds[OURS]) < MOST_SECONDS,
                "it beats logistic regression on every split": all(
                    a < b for a, b in zip(ours, errors[LOGISTIC], strict=True)
                ),
            }
        ),
    ]


def draw(result: Result) -> Figure:
    """Errors of every split."""
    figure, axis = new_figure(width=6.5)
    for index, name in enumerate(NAMES):
        values = _values(result, name, "test error, %")
        axis.plot([index] * len(values), values, "o", color=color(index, len(NAMES)))
        mean = statistics.fmean(values)
        axis.hlines(mean, index - 0.25, index + 0.25, color=color(index, len(NAMES)))
    tidy(
        axis,
        legend=False,
        xticks=range(len(NAMES)),
        xticklabels=NAMES,
        ylabel="test error, %",
        title="PCA and an estimator, scikit-learn's digits",
    )
    return figure


EXPERIMENT = Experiment(
    "digits-estimator",
    "FWNetClassifier with its defaults, on scikit-learn's digits",
    "(Not in the paper.)",
    measure,
    draw,
)
