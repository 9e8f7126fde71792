import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from fwnet.experiments import Lab, Result, UnfinishedError
from fwnet.experiments.experiment import row_of
from fwnet.experiments.image_figures import (
    PSNR,
    SSIM,
    add_rows,
    check_any,
    compare,
    finished,
    is_above,
    psnr_row,
)
from fwnet.training import DivergedError

FIGURES = st.floats(20, 40).map(lambda value: round(value, 3))


def empty():
    return Result("x", "", "", "")


def row(*values, quantity=PSNR):
    return row_of("some", {}, quantity, list(values))


def record(psnrs, p=None, **changes):
    tests = [{"psnr": value, "ssim": value / 100} for value in psnrs]
    watched = {} if p is None else {"p": p}
    counts = {"num_parameters": 7, "multiply_adds": 5}
    done = {"validation": 31.0, "seconds": 2.0, "hardware": "here"}
    return {"tests": tests, "watched": watched, **counts, **done, **changes}


def test_rows_are_means_over_seeds_of_one_of_the_tests():
    result = empty()
    records = [record([30.0, 28.0], p=1.2), record([31.0, 28.5], p=1.4)]
    for test, name in enumerate(("Set5", "Set14")):
        add_rows(result, "ours", {"images": name}, records, test=test, paper=30 + test)
    quantities = [(one.setting["images"], one.quantity) for one in result.rows]
    of_set5 = [("Set5", PSNR), ("Set5", SSIM), ("Set5", "learned p")]
    assert quantities == [*of_set5, ("Set14", PSNR), ("Set14", SSIM)]  # p is the same for both
    first, similarity, exponent, other, _ = result.rows
    assert (first.ours, first.values) == (30.5, [30.0, 31.0])
    assert first.spread == pytest.approx(math.sqrt(0.5))
    assert similarity.ours == pytest.approx(0.305)
    assert exponent.ours == pytest.approx(1.3)
    assert other.ours == 28.25
    assert [one.paper for one in result.rows] == [30, None, None, 31, None]
    assert (first.num_parameters, first.seconds, first.hardware) == (7, 2.0, "here")
    assert result.curves == {"ours": {"num_parameters": 7, "multiply_adds": 5}}


@pytest.mark.parametrize(("p", "learns_p"), [(1.5, False), (None, True)])
def test_p_that_is_not_learned_has_no_row(p, learns_p):
    result = empty()
    add_rows(result, "ours", {}, [record([30.0], p=p)], learns_p=learns_p)
    assert {one.quantity for one in result.rows} == {PSNR, SSIM}


def test_a_training_that_diverged_is_not_averaged_away():
    records = [record([30.0]), {"validation": None, "diverged": "inf at step 3"}]
    with pytest.raises(DivergedError, match="ours diverged: inf at step 3"):
        add_rows(empty(), "ours", {}, records)


def test_what_is_not_finished_has_no_rows():
    result = empty()
    add_rows(result, "ours", {}, [])
    assert not result.rows
    assert not result.curves
    with pytest.raises(UnfinishedError, match="x: no training is finished"):
        check_any(result)
    result.rows.append(row(1.5, quantity="learned p"))
    with pytest.raises(UnfinishedError):
        check_any(result)
    result.rows.append(row(30.0))
    check_any(result)


def test_a_row_is_found_by_its_method_and_all_of_the_setting():
    result = empty()
    for name in ("ours", "theirs"):
        for images in ("Set5", "Set14"):
            for quantity in (SSIM, PSNR):
                setting = {"images": images, "scale": 3}
                result.rows.append(row_of(name, setting, quantity, [1.0]))
    assert psnr_row(result, "theirs", images="Set14") is result.rows[7]
    assert psnr_row(result, "ours", images="Set5", scale=3) is result.rows[1]
    assert psnr_row(result, "ours", images="Set5", scale=2) is None
    assert psnr_row(result, "others", images="Set5") is None


@given(st.lists(st.tuples(FIGURES, FIGURES), min_size=2, max_size=5))
def test_with_several_seeds_students_test_decides(pairs):
    ours, theirs = (list(values) for values in zip(*pairs, strict=True))
    told = is_above(row(*ours), row(*theirs))
    differences = [a - b for a, b in pairs]
    mean = statistics.fmean(differences)
    if statistics.pstdev(differences) < 1e-9:
        assert told is (mean > 0)
        return
    chance = ttest_rel(ours, theirs).pvalue
    if abs(chance - 0.05) > 1e-6:
        assert told is ((mean > 0) if chance < 0.05 else None)


@given(FIGURES, FIGURES)
def test_with_one_seed_differences_below_a_tenth_are_not_told(ours, theirs):
    difference = ours - theirs
    wanted = None if abs(difference) < 0.1 else difference > 0
    assert is_above(row(ours), row(theirs)) is wanted
    assert is_above(row(ours), row(theirs - 0.01, theirs + 0.01)) in (wanted, None)
    words = compare(row(ours), row(theirs))
    assert words.startswith(f"{difference:+.2f} dB")
    assert words.endswith("(not told apart)") is (wanted is None)


def test_nothing_is_better_than_what_was_not_measured():
    assert is_above(row(30.0), None) is None
    assert is_above(None, row(30.0)) is None


class FakeRunner:
    def __init__(self, known, finished_only):
        self.known, self.finished_only = known, finished_only

    def knows(self, job):
        return job in self.known

    def run(self, jobs):
        return [{"job": job} for job in jobs]


@pytest.mark.parametrize(("finished_only", "wanted"), [(True, "ac"), (False, "abc")])
def test_where_nothing_is_to_be_trained_finished_jobs_alone_are_asked_for(finished_only, wanted):
    records = finished(Lab(FakeRunner("ac", finished_only)), list("abc"))
    assert [one["job"] for one in records] == list(wanted)
