"""`FWNet` on any convex set: untrained it is the solver, and it learns."""

import pytest
import torch

import fwnet
from fwnet import FWNet, solve
from tests.solvers.problems import gaussian, objective

SETS = (
    fwnet.NonnegativeLpBall(1.3, 2.0),
    fwnet.Simplex(2.0),
    fwnet.Box(-0.2, 0.3),
    fwnet.GroupLpBall([range(i, i + 3) for i in range(0, 15, 3)]),
    fwnet.KSupportBall(3),
    fwnet.SortedL1Ball([2 - 0.1 * i for i in range(15)]),
    fwnet.SchattenBall((3, 5)),
)


@pytest.fixture(params=SETS, ids=lambda convex_set: type(convex_set).__name__)
def convex_set(request):
    return request.param


def test_untrained_it_is_frank_wolfe(convex_set):
    x, dictionary = gaussian()
    net = FWNet.from_dictionary(
        dictionary, num_layers=6, convex_set=convex_set, learn_step_sizes=False
    )
    z = torch.zeros(len(x), 15, dtype=x.dtype)
    for t in range(6):
        z = z + 2 / (t + 2) * (convex_set.lmo((z @ dictionary.T - x) @ dictionary) - z)
    torch.testing.assert_close(net(x), z)
    assert net.p is None
    if convex_set.contains(torch.zeros(15)):
        steps = solve(x, dictionary, convex_set, method="frank-wolfe", max_steps=6, tol=1e-15)
        torch.testing.assert_close(net(x), steps.code)


def test_smoothed_it_learns_and_stays_in_the_set(convex_set):
    x, dictionary = gaussian(30)
    target = solve(x, dictionary, convex_set).code
    net = FWNet.from_dictionary(dictionary, num_layers=4, convex_set=convex_set, smoothing=0.3)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)

    def error():
        return (net(x) - target).square().sum(-1).mean()

    first = error().item()
    for _ in range(30):
        optimizer.zero_grad()
        loss = error()
        loss.backward()
        optimizer.step()
    assert error().item() < 0.9 * first
    assert convex_set.contains(net(x).detach(), tol=1e-9).all()


def test_small_smoothing_is_the_oracle():
    x, dictionary = gaussian()
    exact, smooth = (
        FWNet.from_dictionary(
            dictionary, num_layers=1, convex_set=fwnet.Simplex(), smoothing=smoothing
        )(x)
        for smoothing in (0.0, 1e-6)
    )
    torch.testing.assert_close(exact, smooth)
    assert objective(x, dictionary, exact).isfinite().all()


def test_a_file_holds_the_set(tmp_path):
    x, dictionary = gaussian()
    net = FWNet.from_dictionary(
        dictionary, num_layers=3, convex_set=fwnet.Simplex(2.0, cap=0.5), smoothing=0.1
    )
    net.save(tmp_path / "net.safetensors")
    again = fwnet.load_model(tmp_path / "net.safetensors")
    torch.testing.assert_close(again(x), net(x), rtol=0, atol=0)
    assert "Simplex(total=2.0, cap=0.5), smoothing=0.1" in repr(again)


def test_wrong_settings_are_named():
    with pytest.raises(ValueError, match="smoothing must be >= 0 and finite, got -1"):
        FWNet(8, 15, 2, convex_set=fwnet.Simplex(), smoothing=-1.0)
    with pytest.raises(TypeError, match="convex_set must have lmo and project, got 3"):
        FWNet(8, 15, 2, convex_set=3)
    with pytest.raises(ValueError, match="convex_set needs dim = -1 and activation"):
        FWNet(8, 15, 2, convex_set=fwnet.Simplex(), activation="relu")
