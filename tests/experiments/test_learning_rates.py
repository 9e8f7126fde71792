import math
from dataclasses import dataclass
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwnet.experiments import Lab, Result
from fwnet.experiments.learning_rates import climb, learning_rates
from fwnet.experiments.runs import Job


@dataclass(frozen=True)
class Trial(Job):
    rate: float
    kind: str = ""

    def execute(self, device):
        raise NotImplementedError


class FakeRunner:
    """Answers with a PSNR by learning rate; None stands for a training that diverged."""

    finished_only = False

    def __init__(self, figure, num_workers=1):
        self.figure, self.num_workers, self.asked = figure, num_workers, []

    def run(self, jobs):
        self.asked += [job.rate for job in jobs]
        return [{"validation": self.figure(job)} for job in jobs]


def peak(best):
    return lambda job: 30 - abs(math.log2(job.rate / best))


@pytest.mark.parametrize(
    ("best", "asked"),
    [
        (2e-3, [2e-3, 4e-3, 1e-3]),
        (8e-3, [2e-3, 4e-3, 8e-3, 1.6e-2]),
        (5e-4, [2e-3, 4e-3, 1e-3, 5e-4, 2.5e-4]),
    ],
)
def test_a_learning_rate_is_doubled_or_halved_as_long_as_that_helps(best, asked):
    runner = FakeRunner(peak(best))
    tried = climb(Lab(runner), Trial)
    assert runner.asked == pytest.approx(asked)
    assert max(tried, key=tried.__getitem__) == pytest.approx(best)


@pytest.mark.parametrize("gain", [0.004, 0.024])
def test_a_gain_by_chance_does_not_keep_smaller_rates_from_being_tried(gain):
    figures = {2e-3: 30.0, 4e-3: 30.0 + gain, 8e-3: 29.7, 1e-3: 30.3, 5e-4: 30.1}
    runner = FakeRunner(lambda job: figures[job.rate])
    assert climb(Lab(runner), Trial) == figures
    assert runner.asked == [2e-3, 4e-3, 8e-3, 1e-3, 5e-4]


@given(st.integers(-8, 8), st.floats(-0.49, 0.49))
def test_of_a_figure_with_one_peak_the_best_is_found(place, beside):
    runner = FakeRunner(peak(2e-3 * 2 ** (place + beside)))
    tried = climb(Lab(runner), Trial)
    assert max(tried, key=tried.__getitem__) == pytest.approx(2e-3 * 2**place)
    assert len(runner.asked) == len(set(runner.asked)) == len(tried)


def test_what_diverges_is_worse_than_all_that_does_not():
    tried = climb(Lab(FakeRunner(lambda job: None if job.rate > 1.5e-3 else 20.0)), Trial)
    assert tried == {2e-3: -math.inf, 4e-3: -math.inf, 1e-3: 20.0, 5e-4: 20.0}
    assert max(tried, key=tried.__getitem__) == 1e-3


def test_a_quick_version_tries_one():
    assert set(climb(Lab(FakeRunner(peak(1.0)), quick=True), Trial)) == {2e-3}


def test_every_kind_has_its_own_and_all_that_was_tried_is_noted():
    bests = {"a": 4e-3, "b": 1e-3}
    runner = FakeRunner(lambda job: peak(bests[job.kind])(job))
    result = Result("x", "", "", "")
    trials = {kind: lambda rate, kind=kind: Trial(rate, kind) for kind in bests}
    assert learning_rates(Lab(runner), result, trials) == bests
    first, second = result.choices
    assert first == {
        "method": "a",
        "learning_rate": 4e-3,
        "validation_psnr": 30,
        "all_validation_psnr": {"0.002": 29, "0.004": 30, "0.008": 29},
    }
    assert second["learning_rate"] == 1e-3
    assert set(second["all_validation_psnr"]) == {"0.0005", "0.001", "0.002", "0.004"}


def test_where_several_can_work_all_kinds_are_tried_at_a_time():
    """The first trainings of three kinds meet, or nobody would wait for the others."""
    barrier = Barrier(3)

    def figure(job):
        if job.rate == 2e-3:
            barrier.wait(timeout=30)
        return peak(2e-3)(job)

    trials = {kind: lambda rate, kind=kind: Trial(rate, kind) for kind in "abc"}
    rates = learning_rates(Lab(FakeRunner(figure, num_workers=2)), Result("", "", "", ""), trials)
    assert rates == dict.fromkeys("abc", 2e-3)
