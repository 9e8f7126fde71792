"""Codes and atoms in turn; what users see of it is tested with `LpDictionaryLearning`."""

from itertools import islice, pairwise

import pytest
import torch

from fwnet import LpBall, solve
from fwnet.solvers.alternation import Alternation, alternate, loose_codes, online_step
from tests.solvers.problems import gaussian, objective


@pytest.mark.parametrize("p", [1.0, 1.5, 3.0, torch.inf])
def test_loose_codes_are_feasible_and_nearly_optimal(p):
    x, dictionary = gaussian(50)
    ball = LpBall(p, 0.8)
    code = loose_codes(x, dictionary.T, ball, 1e-2)
    best = objective(x, dictionary, solve(x, dictionary, ball).code)
    assert (ball.gauge(code) <= 1 + 1e-12).all()
    assert (objective(x, dictionary, code) - best <= 1e-2 * 0.5 * x.square().sum(-1)).all()


@pytest.mark.parametrize("p", [1.0, 1.5])
def test_rounds_never_raise_the_error(p):
    x, dictionary = gaussian(60)
    rounds = list(islice(alternate(x, dictionary.T, LpBall(p, 1.0), 1e-3), 8))
    assert [state.num_steps for state in rounds] == list(range(1, 9))
    assert all(b.error <= a.error for a, b in pairwise(rounds))
    assert rounds[-1].error < 0.97 * rounds[0].error


def test_batches_fade_and_replaced_atoms_are_forgotten():
    x, dictionary = gaussian(60)
    ball = LpBall(1.0, 1.0)
    atoms = torch.cat([dictionary.T[:5], -dictionary.T[:1]])  # the sixth does what the first does
    state = online_step(Alternation.begin(atoms), x, ball, 1e-3)
    assert state.error < 0.5 * x.square().sum(-1).mean()
    use = state.codes_gram.diagonal()
    assert state.codes_signals[use == 0].abs().sum() == 0
    later = state
    for _ in range(30):
        later = online_step(later, x, ball, 1e-3)
    assert later.error < state.error
    # What is remembered converges instead of growing with the number of batches.
    assert later.codes_gram.trace() < 31 / 2 * state.codes_gram.trace()
