import pytest
import torch

import fwnet
from fwnet.models import FWNet
from fwnet.nn import FWCell, StepSizes


def cell_of(network):
    """The cell with the weights and the p of a weight-shared network."""
    cell = FWCell(
        network.num_features, network.num_atoms, p=1.4, learn_p=False, radius=network.steps.radius
    ).double()
    with torch.no_grad():
        cell.input_weight.copy_(network.first.weight)
        cell.hidden_weight.copy_(network.others[0].weight)
    return cell


@pytest.mark.parametrize("layers", [2, 5, 9])
def test_a_constant_input_with_scheduled_steps_is_the_weight_shared_network(layers):
    generator = torch.Generator().manual_seed(0)
    dictionary = torch.randn(6, 10, dtype=torch.float64, generator=generator)
    x = torch.randn(4, 6, dtype=torch.float64, generator=generator)
    network = FWNet.from_dictionary(
        dictionary, layers, radius=2.0, p=1.4, learn_p=False, share_weights=True
    )
    cell, z = cell_of(network), None
    for step_size in network.step_sizes:
        z = cell(x, z, step_size)
    torch.testing.assert_close(z, network(x), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("gated", [False, True])
def test_states_stay_in_the_ball_along_a_sequence(gated):
    cell = FWCell(3, 7, p=1.5, radius=2.0, gated=gated)
    ball, z = fwnet.LpBall(1.5, 2.0), None
    for x in torch.randn(20, 4, 3):
        z = cell(x, z)
        assert ball.gauge(z).max() <= 1 + 1e-5
    assert z.shape == (4, 7)


def test_the_gate_starts_as_the_constant_one_and_learns():
    generator = torch.Generator().manual_seed(0)
    plain = FWCell(3, 7, step_size=0.3, generator=torch.Generator().manual_seed(1))
    gated = FWCell(3, 7, step_size=0.3, gated=True, generator=torch.Generator().manual_seed(1))
    x, z = torch.randn(4, 3, generator=generator), 0.1 * torch.randn(4, 7, generator=generator)
    torch.testing.assert_close(gated(x, z), plain(x, z))
    gated(x, z).square().sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in gated.parameters())


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match=r"step_size must be in \(0, 1\), got 1.0"):
        FWCell(3, 7, step_size=1.0)
    with pytest.raises(TypeError, match="radius must be a number, got a tensor"):
        FWCell(3, 7, radius=torch.tensor(1.0, requires_grad=True))
    with pytest.raises(ValueError, match=r"length 3, got shape \(4, 5\)"):
        FWCell(3, 7)(torch.zeros(4, 5))


def test_repr_says_what_it_is():
    assert "3, 7, radius=1, step_size=0.5" in repr(FWCell(3, 7))
    assert "gated" in repr(FWCell(3, 7, gated=True))
    assert "1, 0.667 fixed" in repr(StepSizes([1.0, 2 / 3], learn=False))


def test_step_sizes_are_fixed_as_given_or_learned_through_a_sigmoid():
    fixed, learned = StepSizes([1.0, 0.25], learn=False), StepSizes([1.0, 0.25])
    assert fixed().tolist() == [1.0, 0.25]
    assert learned().tolist() == pytest.approx([0.9975, 0.25], abs=1e-4)
    assert list(fixed.parameters()) == []
    assert list(fixed.state_dict()) == ["fixed"]
    assert list(learned.state_dict()) == ["logits"]
    optimizer = torch.optim.SGD(learned.parameters(), lr=1000.0)
    learned().sum().backward()
    optimizer.step()
    assert (learned() >= 0).all()
    for values in ([], [1.5], [-0.1]):
        with pytest.raises(ValueError, match=r"in \[0, 1\]"):
            StepSizes(values)
