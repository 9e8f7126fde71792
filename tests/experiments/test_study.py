import math
from dataclasses import dataclass
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwnet.experiments import Lab, Result, UnfinishedError
from fwnet.experiments.runs import Job
from fwnet.experiments.study import Case, best_of, choose, climb, measure_cases, try_all
from fwnet.training import DivergedError
from tests.experiments.fake_runner import FakeRunner


@dataclass(frozen=True)
class Trial(Job):
    rate: float
    kind: str = ""
    seed: int = 0

    def execute(self, device):
        raise NotImplementedError


def climbed(figure, **options):
    """Return the learning rates in their order, and PSNR by learning rate."""
    runner = FakeRunner(lambda job: {"validation": figure(job.rate)})
    tried = climb(Lab(runner, **options), lambda settings: Trial(settings["learning_rate"]))
    return [job.rate for job in runner.asked], {s["learning_rate"]: -loss for s, loss in tried}


def peak(best):
    return lambda rate: 30 - abs(math.log2(rate / best))


@pytest.mark.parametrize(
    ("best", "asked"),
    [
        (2e-3, [2e-3, 4e-3, 1e-3]),
        (8e-3, [2e-3, 4e-3, 8e-3, 1.6e-2]),
        (5e-4, [2e-3, 4e-3, 1e-3, 5e-4, 2.5e-4]),
    ],
)
def test_a_learning_rate_is_doubled_or_halved_while_that_helps(best, asked):
    rates, tried = climbed(peak(best))
    assert rates == pytest.approx(asked)
    assert max(tried, key=tried.__getitem__) == pytest.approx(best)


@pytest.mark.parametrize("gain", [0.004, 0.024])
def test_smaller_rates_are_tried_after_a_gain_by_chance(gain):
    figures = {2e-3: 30.0, 4e-3: 30.0 + gain, 8e-3: 29.7, 1e-3: 30.3, 5e-4: 30.1}
    rates, tried = climbed(figures.__getitem__)
    assert tried == figures
    assert rates == [2e-3, 4e-3, 8e-3, 1e-3, 5e-4]


@given(st.integers(-8, 8), st.floats(-0.49, 0.49))
def test_the_peak_of_a_figure_with_one_peak_is_found(place, beside):
    rates, tried = climbed(peak(2e-3 * 2 ** (place + beside)))
    assert max(tried, key=tried.__getitem__) == pytest.approx(2e-3 * 2**place)
    assert len(rates) == len(set(rates)) == len(tried)


def test_divergence_is_worse_than_everything_else():
    _, tried = climbed(lambda rate: None if rate > 1.5e-3 else 20.0)
    assert tried == {2e-3: -math.inf, 4e-3: -math.inf, 1e-3: 20.0, 5e-4: 20.0}


def test_a_quick_version_tries_one_learning_rate():
    assert climbed(peak(1.0), quick=True)[0] == [2e-3]


ERRORS = {1.0: 3.0, 2.0: None, 3.0: 1.0, 4.0: math.nan}


def try_rates(lab, rates=tuple(ERRORS), **options):
    candidates = [{"rate": rate} for rate in rates]
    return try_all(lab, candidates, lambda settings: Trial(settings["rate"]), **options)


def test_a_grid_is_tried_and_noted():
    result = Result("x", "", "", "")
    lab = Lab(FakeRunner(lambda job: {"error": ERRORS[job.rate]}))
    assert best_of(result, {"method": "a", "T": 2}, try_rates(lab)) == {"rate": 3.0}
    (note,) = result.choices
    assert note["tried"] == [
        {"rate": 1.0, "loss": 3.0},
        {"rate": 2.0, "loss": None},
        {"rate": 3.0, "loss": 1.0},
        {"rate": 4.0, "loss": None},
    ]
    assert (note["method"], note["T"], note["rate"], note["validation_loss"]) == ("a", 2, 3.0, 1.0)
    with pytest.raises(DivergedError, match="b diverged with all 1 settings"):
        best_of(result, {"method": "b"}, try_rates(lab, [2.0]))


def test_one_record_may_try_several_settings():
    runner = FakeRunner(lambda job: {"errors": [job.rate, 0.5 * job.rate]})
    tried = try_rates(
        Lab(runner),
        [1.0, 2.0],
        losses=lambda settings, record: [
            ({**settings, "radius": r}, e) for r, e in enumerate(record["errors"])
        ],
    )
    best = best_of(Result("", "", "", ""), {"method": ""}, tried)
    assert best == {"rate": 1.0, "radius": 1}


def test_with_several_workers_all_searches_run_at_the_same_time():
    """The first trainings of three searches wait for each other."""
    barrier = Barrier(3)

    def record(job):
        if job.rate == 2e-3:
            barrier.wait(timeout=30)
        return {"validation": peak(2e-3)(job.rate)}

    class ClimbingCase(SmallCase):
        def search(self, lab):
            return climb(lab, lambda settings: Trial(settings["learning_rate"], self.name))

    cases = [ClimbingCase(kind, kind) for kind in "abc"]
    lab = Lab(FakeRunner(record, num_workers=2))
    assert choose(lab, Result("", "", "", ""), cases) == [{"learning_rate": 2e-3}] * 3


@dataclass(frozen=True)
class SmallCase(Case):
    name: str
    family: str = ""

    @property
    def search_key(self):
        return {"method": self.family}

    def search(self, lab):
        return try_rates(lab, [1.0, 3.0]) if self.family else []

    def job(self, lab, settings, seed):
        return Trial(settings.get("rate", 0.0), self.name, seed)

    def seeds(self, lab):
        return (1, 2)


CASES = [SmallCase("a", "A"), SmallCase("b", "A"), SmallCase("c")]


def records(job):
    return {"error": ERRORS.get(job.rate), "rate": job.rate, "seed": job.seed, "p": [1.0, job.seed]}


def test_cases_are_trained_with_the_settings_of_their_family():
    result, runner = Result("x", "", "", ""), FakeRunner(records)
    measured = measure_cases(Lab(runner), result, CASES)
    assert [one.case for one in measured] == CASES
    assert [one.values("rate") for one in measured] == [[3.0, 3.0], [3.0, 3.0], [0.0, 0.0]]
    assert measured[0].values("seed") == [1, 2]
    assert measured[0].values("p", 1) == [1, 2]
    assert measured[0].curve("p") == [1.0, 1.5]
    assert len(result.choices) == 1  # one search for both cases
    given = measure_cases(Lab(runner), result, CASES[:1], {"rate": 1.0})
    assert given[0].values("rate") == [1.0, 1.0]
    assert len(result.choices) == 1


def test_cases_that_are_not_finished_are_left_out():
    def lab(*known):
        return Lab(FakeRunner(records, lambda job: job.kind in known, finished_only=True))

    result = Result("x", "", "", "")
    (measured,) = measure_cases(lab("", "b"), result, CASES)
    assert measured.case.name == "b"
    with pytest.raises(UnfinishedError, match="x: no training is finished"):
        measure_cases(lab(""), result, CASES)
    with pytest.raises(UnfinishedError):  # the search is not finished
        measure_cases(lab("a", "b"), result, CASES)
