"""The active-set method for p = ∞: exact wherever it ends, and another method where it does not."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from fwnet import LpBall, solve
from fwnet.solvers import Auto
from fwnet.solvers.active_set import ActiveSet
from fwnet.solvers.exchange import exchanged
from fwnet.solvers.loop import Limits, iterate
from fwnet.solvers.problem import Constrained
from fwnet.solvers.vertices import Vertices
from fwnet.solvers.whitened import whiten
from tests.solvers.problems import gaussian


def random(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def atoms(n, m, seed=0):
    return normalize(random(n, m, seed=seed), dim=0)


@given(st.integers(1, 12), st.integers(1, 24), st.floats(0.01, 6), st.integers(0, 2**30))
@settings(max_examples=60)
def test_codes_are_those_of_the_interior_point_method(n, m, radius, seed):
    x, dictionary = random(5, n, seed=seed), atoms(n, m, seed + 1)
    ball = LpBall(math.inf, radius)
    ours = solve(x, dictionary, ball)
    other = solve(x, dictionary, ball, method=Auto(careful=True))
    assert ours.certified.all()
    reached, wanted = ((x - s.code @ dictionary.T).square().sum(-1) for s in (ours, other))
    torch.testing.assert_close(reached, wanted, rtol=1e-7, atol=1e-9)
    norms = [s.code.abs().amax(-1) for s in (ours, other)]
    torch.testing.assert_close(*norms, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("radius", [0.05, 0.3, 0.5, 3.0])
def test_exact_in_few_steps(radius):
    x, dictionary = random(200, 20), atoms(20, 50, 1)
    problem = Constrained(dictionary, LpBall(math.inf, radius))
    outcome = iterate(ActiveSet(problem.white, radius), x, Limits(300))
    certificate = problem.certify(x, outcome.code, outcome.dual)
    assert certificate.relative_gap.max() < 1e-12
    assert (certificate.norm_gap <= 1e-10 * certificate.norm).all()
    assert outcome.num_steps.double().mean() < 6
    # All entries but those of the face are exactly at the bound.
    size = outcome.code.abs()
    free = (size < (1 - 1e-14) * size.amax(-1, keepdim=True)).sum(-1)
    assert free.max() < 20


def test_ties_are_left_to_another_method():
    dictionary = torch.cat([torch.eye(4), torch.eye(4), -torch.eye(4)], 1).double()
    x = torch.tensor([[1.0, 1.0, 1.0, 1.0], [3.0, 0.0, 0.0, 0.0], [2.0, 1.0, 0.0, -2.0]]).double()
    for radius in (0.2, 1.0, 5.0):
        assert solve(x, dictionary, LpBall(math.inf, radius)).certified.all()


def test_an_exchange_changes_the_inverse_by_what_inverting_again_would():
    a = atoms(9, 12)
    gram = a.T @ a
    index = torch.tensor([[3, 7, 0, 1, 0], [2, 5, 8, 9, 0]])
    used = torch.tensor([[True, True, False, True, False], [True, True, True, True, False]])

    def inverse(index, used):
        result = torch.zeros(len(index), 5, 5, dtype=torch.float64)
        for row, places in enumerate(used):
            kept = places.nonzero().squeeze(-1)
            own = index[row, kept]
            result[row, kept[:, None], kept] = torch.linalg.inv(gram[own][:, own])
        return result

    place = torch.tensor([[1], [4]])
    entering = torch.tensor([[0], [11]])
    goes_out, comes_in = torch.tensor([[True], [False]]), torch.tensor([[False], [True]])
    ours, entered = exchanged(
        inverse(index, used), gram, index, used, place, entering, goes_out, comes_in
    )
    assert entered.tolist() == comes_in.tolist()
    after_index = torch.tensor([[3, 0, 0, 1, 0], [2, 5, 8, 9, 11]])
    after_used = torch.tensor([[True, False, False, True, False], [True] * 5])
    torch.testing.assert_close(ours, inverse(after_index, after_used), rtol=1e-10, atol=1e-10)


def test_rows_with_many_free_entries_are_left_to_another_method():
    # The norm of one group of atoms is the norm of the code; those of the other are free.
    x, first = gaussian(8, 6, 12, seed=4)
    y, second = gaussian(8, 6, 30, seed=5)
    dictionary, rows = torch.block_diag(first, second), torch.cat([x, 0.01 * y], -1)
    assert Vertices(whiten(dictionary), 1e3).init(rows).ended.all()
    assert not Vertices(whiten(first), 1e3).init(x).ended.any()
    assert solve(rows, dictionary, LpBall(math.inf, 1e3)).certified.all()
