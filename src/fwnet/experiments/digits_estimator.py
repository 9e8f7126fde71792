"""`FWNetClassifier` with its defaults, beside estimators of scikit-learn, on its digits."""

import time
from dataclasses import dataclass

import torch

from fwnet.coding import FWNetClassifier
from fwnet.experiments.claims import Claim, number
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.pictures import Bars, panels
from fwnet.experiments.runs import Job, Record

OURS, LOGISTIC = "FWNetClassifier", "LogisticRegression"
NAMES = (OURS, LOGISTIC, "MLPClassifier", "SVC")
ERROR, SECONDS = "test error, %", "seconds to fit"
SPLITS = (0, 1, 2, 3, 4)
MOST_SECONDS = 30


@dataclass(frozen=True)
class EstimatorScore(Job):
    """Fit a pipeline of PCA and an estimator on one split of scikit-learn's digits; score it.

    Attributes:
        name: The estimator, with its defaults except for enough iterations to converge.
        split: Seed of the split and of the estimator.
        max_iter: Passes over the samples for FWNetClassifier; None for its default.
    """

    name: str
    split: int
    max_iter: int | None = None

    def execute(self, device: torch.device) -> Record:
        """Return the error on the test part, in percent, and the seconds of fitting."""
        from sklearn.datasets import load_digits
        from sklearn.decomposition import PCA
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import train_test_split
        from sklearn.neural_network import MLPClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.svm import SVC

        ours = FWNetClassifier(random_state=self.split, device=str(device))
        estimators = {
            OURS: ours.set_params(max_iter=self.max_iter or ours.max_iter),
            LOGISTIC: LogisticRegression(max_iter=5_000),
            "MLPClassifier": MLPClassifier(max_iter=1_000, random_state=self.split),
            "SVC": SVC(),
        }
        pixels, labels = load_digits(return_X_y=True)
        x, test_x, y, test_y = train_test_split(
            pixels, labels, test_size=0.25, stratify=labels, random_state=self.split
        )
        pipeline = make_pipeline(PCA(), estimators[self.name])
        start = time.perf_counter()
        pipeline.fit(x, y)
        seconds = time.perf_counter() - start
        record = {
            "error": 100 * (1 - float(pipeline.score(test_x, test_y))),
            "seconds": seconds,
        }
        if self.name == OURS:
            record["p"] = ours.p_
            record["num_parameters"] = ours.network_.num_parameters
        return record


def measure(lab: Lab, result: Result) -> None:
    """Score every estimator on the same splits."""
    for name in NAMES:
        passes = 2 if lab.quick and name == OURS else None
        jobs = [EstimatorScore(name, split, passes) for split in SPLITS[: 2 if lab.quick else None]]
        records = lab.runner.run(jobs)
        result.add(name, {}, ERROR, [record["error"] for record in records], records)
        result.add(name, {}, SECONDS, [record["seconds"] for record in records])
        if name == OURS:
            result.add(name, {}, "learned p", [record["p"] for record in records])


def trains_quickly(result: Result) -> tuple[bool, str]:
    """Return whether every fit takes less than `MOST_SECONDS`."""
    longest = max(result.find(OURS, SECONDS).values)
    return longest < MOST_SECONDS, f"{longest:.1f} s at most"


def beats(other: str) -> Claim:
    """Return the claim that it has a smaller error than another estimator on every split."""

    def check(result: Result) -> tuple[bool, str]:
        ours, theirs = (result.find(name, ERROR) for name in (OURS, other))
        held = all(a < b for a, b in zip(ours.values, theirs.values, strict=True))
        return held, f"{number(ours.mean)} against {number(theirs.mean)} on average"

    return Claim(f"FWNetClassifier is better than {other} on every split", check)


EXPERIMENT = Experiment(
    "digits-estimator",
    "FWNetClassifier with its defaults, on scikit-learn's digits",
    "(Not in the paper.)",
    measure,
    panels(Bars(quantity=ERROR, title="PCA and an estimator, scikit-learn's digits"), width=6.5),
    claims=(
        Claim(f"FWNetClassifier trains in less than {MOST_SECONDS} s", trains_quickly),
        *map(beats, NAMES[1:]),
    ),
    note="PCA and an estimator with its defaults, except for enough iterations to converge, on "
    "five splits of 1,797 digits.",
)
