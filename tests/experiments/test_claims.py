import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from fwnet.experiments import EXPERIMENTS, Result
from fwnet.experiments.claims import Claim, Verdict, better, is_better, reaches

FIGURES = st.floats(20, 40).map(lambda value: round(value, 3))
PSNR, ERROR = "PSNR in dB", "test error"


def row(*values, quantity=PSNR, method="some", paper=None, **setting):
    result = table()
    result.add(method, setting, quantity, values, paper=paper)
    return result.rows[0]


def table(*rows):
    return Result("x", "", "", "", rows=list(rows))


@given(st.lists(st.tuples(FIGURES, FIGURES), min_size=2, max_size=5), st.booleans())
def test_with_several_seeds_students_test_decides(pairs, larger):
    quantity = PSNR if larger else ERROR
    ours, theirs = (row(*values, quantity=quantity) for values in zip(*pairs, strict=True))
    found = is_better(ours, theirs)
    differences = [a - b if larger else b - a for a, b in pairs]
    mean = statistics.fmean(differences)
    if statistics.pstdev(differences) < 1e-9:
        assert found is (mean > 0)
        return
    chance = ttest_rel(ours.values, theirs.values).pvalue
    if abs(chance - 0.05) > 1e-6:
        assert found is ((mean > 0) if chance < 0.05 else None)


def test_the_test_has_two_sides():
    """t = 3.9 with two degrees of freedom: significant at 5 % only if one side was asked for."""
    assert is_better(row(31.0, 31.0, 32.05), row(30.0, 30.0, 30.0)) is None
    assert is_better(row(31.0, 31.0, 31.5), row(30.0, 30.0, 30.0)) is True


@pytest.mark.parametrize(
    ("quantity", "ours", "theirs", "wanted"),
    [
        (PSNR, 30.0, 29.95, None),
        (PSNR, 30.0, 29.8, True),
        (PSNR, 30.0, 30.2, False),
        (ERROR, 1.0, 1.01, True),
        ("test accuracy, %", 98.0, 97.9, True),
    ],
)
def test_with_one_seed_a_tenth_of_a_decibel_decides(quantity, ours, theirs, wanted):
    assert is_better(row(ours, quantity=quantity), row(theirs, quantity=quantity)) is wanted


SEVERAL = table(
    row(1.0, 1.1, quantity=ERROR, method="A", T=2),
    row(2.0, 2.1, quantity=ERROR, method="B", T=2),
    row(1.0, 1.1, quantity=ERROR, method="A", T=4),
    row(1.1, 1.0, quantity=ERROR, method="B", T=4),
    row(3.0, 3.1, quantity=ERROR, method="A", T=6),
    row(1.0, 1.1, quantity=ERROR, method="B", T=6),
)


@pytest.mark.parametrize(
    ("at", "word", "figures"),
    [
        ((2,), "Held", "T = 2: 1.050 against 2.050"),
        ((4,), "Indistinguishable", "T = 4: 1.050 against 1.050 (indistinguishable)"),
        ((6,), "Did not hold", "T = 6: 3.050 against 1.050 (worse)"),
        ((2, 4), "Did not hold", "T = 2: 1.050 against 2.050; T = 4: 1.050 against 1.050"),
        ((2, 8), "Not measured", ""),
    ],
)
def test_better_compares_at_every_setting(at, word, figures):
    verdict = better("A is better", "A", "B", "T", at).verdict(SEVERAL)
    assert verdict.word == word
    assert verdict.figures.startswith(figures)
    assert str(verdict).startswith(f"{word}: A is better")


def test_better_compares_at_all_settings_of_ours_and_with_all_others():
    result = table(*SEVERAL.rows, row(0.5, 0.6, quantity=ERROR, method="C", T=2))
    verdict = better("", "C", ["A", "B"], "T").verdict(result)
    assert verdict.held is True
    assert verdict.figures == "T = 2: 0.5500 against A 1.050, B 2.050"
    assert not better("", "D", "A", "T").verdict(result).measured


@pytest.mark.parametrize(
    ("quantity", "ours", "limit", "held"),
    [
        (PSNR, 32.847, 32.85, True),
        (PSNR, 32.84, 32.85, False),
        (ERROR, 1.0, 1.0, True),
        (ERROR, 1.2, 1.0, False),
    ],
)
def test_a_limit_is_reached_with_its_digits(quantity, ours, limit, held):
    result = table(row(ours, quantity=quantity, method="A", paper=limit))
    assert reaches("", "A").verdict(result).held is held
    assert reaches("", "A", limit).verdict(result).held is held
    assert not reaches("", "B").verdict(result).measured
    assert not reaches("", "A").verdict(table(row(1.0, method="A"))).measured


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_no_claim_is_decided_without_rows(name):
    verdicts = EXPERIMENTS[name].verdicts(table())
    assert not any(verdict.measured for verdict in verdicts)


def test_only_rows_of_one_quantity_are_compared():
    others = row(28.0, method="B", quantity=ERROR), row(29.0, method="B")
    ours = row(30.0, method="A")
    assert better("", "A", "B").verdict(table(ours, *others)).figures == "30.00 against 29.00"
    assert not better("", "A", "B").verdict(table(ours, others[0])).measured
    with pytest.raises(ValueError, match="cannot compare PSNR in dB with test error"):
        is_better(ours, others[0])


def test_other_errors_of_a_check_are_not_hidden():
    def check(result):
        raise KeyError("a mistake")

    with pytest.raises(KeyError, match="a mistake"):
        Claim("", check).verdict(SEVERAL)
    assert str(Verdict("A wins", True)) == "Held: A wins."
