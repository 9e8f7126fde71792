import math

import pytest
import torch

import fwnet
from fwnet.nn import PoolP


@pytest.mark.parametrize("p", [1.0, 1.3, 2.0, math.inf])
def test_fixed_layer_is_the_function(p):
    u = torch.randn(2, 5, 3)
    layer = PoolP(p, learn_p=False, radius=2.0, dim=1)
    torch.testing.assert_close(layer(u), fwnet.pool_p(u, p, 2.0, 1))
    assert list(layer.parameters()) == []
    assert layer.p.item() == pytest.approx(p)


def test_learned_p_follows_its_gradient_to_the_target():
    u = torch.randn(200, 20)
    target = fwnet.pool_p(u, 1.3)
    layer = PoolP(2.0)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        (layer(u) - target).square().sum(-1).mean().backward()
        optimizer.step()
    assert layer.p.item() == pytest.approx(1.3, abs=1e-3)


def test_p_close_to_1_keeps_its_digits():
    layer = PoolP(1.000123, bounds=(1.00001, 10.0))
    assert layer.log_excess.exp().item() == pytest.approx(0.000123, rel=1e-5)


def test_bounds_hold_and_let_p_return():
    layer = PoolP(1.5, bounds=(1.2, 1.6))
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    for _ in range(5):  # pull upward, over the bound
        optimizer.zero_grad()
        (-10 * layer.p).backward()
        optimizer.step()
    assert layer.p.item() == pytest.approx(1.6)
    optimizer.zero_grad()
    layer.p.backward()
    assert layer.log_excess.grad > 0  # inward: acts
    optimizer.zero_grad()
    (-layer.p).backward()
    assert layer.log_excess.grad == 0  # outward: dropped


def test_state_dict_round_trip_without_extra_state():
    learned, fixed = PoolP(1.7), PoolP(math.inf, learn_p=False)
    assert list(learned.state_dict()) == ["log_excess"]
    assert list(fixed.state_dict()) == ["fixed_excess"]
    other = PoolP(3.0)
    other.load_state_dict(learned.state_dict())
    assert other.p.item() == pytest.approx(1.7)
    other = PoolP(1.0, learn_p=False)
    other.load_state_dict(fixed.state_dict())
    assert other.p.item() == math.inf


def test_repr_is_one_line():
    assert repr(PoolP(1.5, dim=1, eps=1e-3)) == (
        "PoolP(p=1.5 learned in [1.001, 100], radius=1, dim=1, eps=0.001)"
    )
    assert repr(PoolP(math.inf, learn_p=False)) == "PoolP(p=inf fixed, radius=1, dim=-1, eps=0)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"p": 0.5}, r"p must be in \[1, inf\], got 0.5"),
        (
            {"p": 1.0},
            r"p must start within bounds \(1.001, 100.0\) if it is learned, got 1.0; or l",
        ),
        ({"p": math.inf}, "p must start within bounds"),
        ({"p": 2.0, "bounds": (1.0, 3.0)}, "bounds must satisfy 1 < low < high < inf"),
        ({"p": 1.0, "learn_p": False, "eps": 0.1}, "eps must be 0 at p = 1"),
        ({"p": 2.0, "radius": 0}, "radius must be > 0 and finite, got 0"),
        ({"p": 2.0, "eps": -1.0}, "eps must be 0, or finite and >= 1e-30, got -1.0"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        PoolP(**arguments)


def test_numbers_only():
    for arguments in ({"p": torch.tensor(2.0)}, {"radius": torch.tensor(2.0)}):
        with pytest.raises(TypeError, match="must be a number, got a tensor"):
            PoolP(**arguments)


@pytest.mark.parametrize("learn_p", [True, False])
def test_float64_input_to_a_float32_layer(learn_p):
    u = torch.randn(3, 5, dtype=torch.float64)
    s = PoolP(1.5, learn_p=learn_p)(u)
    assert s.dtype == torch.float64
    torch.testing.assert_close(s, fwnet.pool_p(u, 1.5), rtol=1e-5, atol=1e-7)


@pytest.mark.filterwarnings("ignore")  # the exporter's own deprecations
def test_onnx_export_runs_with_any_batch(tmp_path):
    """A fixed p, which is float64; a learned one is exported in the tests of the image models."""
    import onnxruntime

    layer = PoolP(1.4, learn_p=False, dim=1, eps=1e-3).eval()
    batch = {0: torch.export.Dim("batch")}
    program = torch.onnx.export(
        layer, (torch.randn(2, 8, 4, 4),), dynamo=True, dynamic_shapes=(batch,), verbose=False
    )
    path = tmp_path / "pool.onnx"
    program.save(path)
    session = onnxruntime.InferenceSession(path)
    u = torch.randn(5, 8, 4, 4)
    u[0, :, 0, 0] = 0
    (s,) = session.run(None, {session.get_inputs()[0].name: u.numpy()})
    torch.testing.assert_close(torch.from_numpy(s), layer(u).detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore")  # the exporter's own deprecations
def test_the_old_exporter_is_refused_but_not_tracing(tmp_path):
    layer, u = PoolP(1.4), torch.randn(2, 8)
    with pytest.raises(RuntimeError, match="the old exporter"):
        torch.onnx.export(layer, (u,), tmp_path / "pool.onnx", dynamo=False, verbose=False)
    torch.testing.assert_close(torch.jit.trace(layer, u)(2 + u), layer(2 + u))
