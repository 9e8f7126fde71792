"""Steps with a size for every sample: untrained they are known algorithms."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fwnet
from fwnet import FWNet
from fwnet.functional import shrink
from fwnet.solvers import FrankWolfe, ShortStep


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


@settings(deadline=None, max_examples=30)
@given(
    p=st.one_of(st.just(1.0), st.floats(1.05, 8.0)),
    radius=st.floats(0.1, 10.0),
    layers=st.integers(1, 8),
    seed=st.integers(0, 1000),
)
def test_exact_steps_are_frank_wolfe_with_a_line_search(p, radius, layers, seed):
    dictionary, x = normal(7, 11, seed=seed), normal(4, 7, seed=seed + 1)
    network = FWNet.from_dictionary(
        dictionary, layers, radius=radius, p=p, learn_p=False, line_search="exact"
    )
    method = FrankWolfe(ShortStep())
    ball = fwnet.LpBall(p, radius)
    wanted = fwnet.solve(x, dictionary, ball, method=method, max_steps=layers, tol=1e-15).code
    torch.testing.assert_close(network(x), wanted, rtol=1e-6, atol=1e-8 * radius)
    assert ball.contains(network(x)).all()


def test_in_a_large_ball_conjugate_steps_are_conjugate_gradients():
    """As many steps as there are equations solve them; fewer are best in the space they span."""
    dictionary, x = normal(7, 11), normal(4, 7, seed=1)

    def residual(layers):
        options = {"activation": "shrink", "line_search": "conjugate", "radius": 1e6}
        network = FWNet.from_dictionary(dictionary, layers, **options)
        return x - network(x) @ dictionary.T

    for layers in (1, 2, 3):
        # The space of the first gradients: DDᵀ to the powers 1 … T times x.
        powers = [x]
        for _ in range(layers):
            powers.append(powers[-1] @ dictionary @ dictionary.T)
        space = torch.stack(powers[1:], -1)
        best = torch.linalg.lstsq(space, x.unsqueeze(-1)).solution
        wanted = x - (space @ best).squeeze(-1)
        torch.testing.assert_close(residual(layers), wanted, rtol=1e-3, atol=1e-4)
    assert residual(7).norm() < 1e-3 * x.norm()


@pytest.mark.parametrize("activation", ["pool_p", "shrink"])
def test_no_conjugate_step_undoes_another(activation):
    """The residual is orthogonal to the image of every direction."""
    dictionary, x = normal(7, 11), normal(4, 7, seed=1)
    options = {"activation": activation, "line_search": "conjugate", "radius": 3.0, "p": 1.5}
    codes = [torch.zeros(4, 11).double()]
    codes += [FWNet.from_dictionary(dictionary, T, **options)(x) for T in (1, 2, 3)]
    residual = x - codes[-1] @ dictionary.T
    for before, after in itertools.pairwise(codes):
        image = (after - before) @ dictionary.T
        cosine = (image * residual).sum(-1) / (image.norm(dim=-1) * residual.norm(dim=-1))
        assert cosine.abs().max() < 0.01


def test_shrink_is_the_projection_and_leaves_free_entries():
    v, ball = normal(20, 9), fwnet.LpBall(1.0, 2.0)
    torch.testing.assert_close(shrink(v, 2.0), ball.project(v))
    torch.testing.assert_close(shrink(0.01 * v, 2.0), 0.01 * v)
    kept = shrink(v, 2.0, free_entries=3)
    largest = v.abs() >= v.abs().topk(3, -1).values[:, -1:]
    assert torch.equal(kept[largest], v[largest])
    assert torch.equal(kept[~largest], shrink(v, 2.0)[~largest])
    assert torch.equal(shrink(v, 2.0, free_entries=50), v)


def test_layers_free_more_and_more_entries():
    network = FWNet(5, 8, 1, activation="shrink", line_search="exact", radius=1e-6, free_entries=2)
    code = network(normal(6, 5).float())
    assert ((code.abs() > 1e-5).sum(-1) == 2).all()


def test_a_signal_of_zeros_has_the_code_of_zeros():
    for search in ("exact", "conjugate"):
        for activation in ("pool_p", "shrink"):
            network = FWNet(5, 8, 3, line_search=search, activation=activation)
            code = network(torch.zeros(2, 5))
            assert torch.equal(code, torch.zeros(2, 8))
            code.sum().backward()
            assert all(w.grad is None or w.grad.isfinite().all() for w in network.parameters())


def test_wrong_settings_are_named():
    with pytest.raises(ValueError, match="line_search must be exact or conjugate, got 'wrong'"):
        FWNet(5, 8, 2, line_search="wrong")
    with pytest.raises(ValueError, match="activation must be pool_p or shrink, got 'relu'"):
        FWNet(5, 8, 2, line_search="exact", activation="relu")
    with pytest.raises(ValueError, match="activation must be pool_p or relu, got 'shrink'"):
        FWNet(5, 8, 2, activation="shrink")
    with pytest.raises(ValueError, match="free_entries must be 0 for pool_p, got 2"):
        FWNet(5, 8, 2, line_search="exact", free_entries=2)
    with pytest.raises(ValueError, match=r"defaults of step_sizes.*got \[0\.5, 0\.5\], None"):
        FWNet(5, 8, 2, line_search="exact", step_sizes=[0.5, 0.5])
    with pytest.raises(ValueError, match=r"defaults of .*smoothing.*got None, None, 0\.5, False"):
        FWNet(5, 8, 2, line_search="exact", smoothing=0.5)
    with pytest.raises(ValueError, match="free_entries needs a line search, got 2"):
        FWNet(5, 8, 2, free_entries=2)


def test_repr_tells_the_search():
    network = FWNet(5, 8, 2, line_search="conjugate", activation="shrink", free_entries=2)
    assert "T=2, shrink, radius=1, conjugate, free_entries=2" in repr(network)


@pytest.mark.parametrize(
    ("radius", "free_entries", "message"),
    [(-1.0, 0, "radius must be > 0"), (1.0, -2, "free_entries must be an integer >= 0, got -2")],
)
def test_shrink_refuses_bad_arguments(radius, free_entries, message):
    with pytest.raises(ValueError, match=message):
        shrink(torch.ones(3), radius, free_entries)
