import pytest
import torch

from fwnet.data import keyed_generator


def draw(*arguments):
    return torch.rand(4, generator=keyed_generator(*arguments)).tolist()


def test_randomness_depends_on_seed_and_keys_alone():
    first = draw(3, "epoch", 7)
    torch.manual_seed(1)
    torch.rand(5)
    draw(3, "epoch", 6)
    assert draw(3, "epoch", 7) == first


def test_every_key_has_randomness_of_its_own():
    keys = [(0,), (1,), (0, "a"), (0, "b"), (0, "a", 1), (0, "a", 2), (0, 1), (0, 1, 1), (0, "1")]
    assert len({tuple(draw(*key)) for key in keys}) == len(keys)


@pytest.mark.parametrize(
    ("key", "expected"), [((0, "weights"), 0.000814), ((1, "noise", 5), 0.674162)]
)
def test_the_same_everywhere(key, expected):
    """A change here would change every trained network."""
    assert torch.rand((), generator=keyed_generator(*key)).item() == pytest.approx(
        expected, abs=1e-6
    )
