import numpy as np
import pytest
import torch

import fwnet
from fwnet.checks import check_integer


@pytest.mark.parametrize("value", [1, 7, np.int64(3), np.uint8(1)])
def test_integers_of_every_kind_become_python_s(value):
    number = check_integer("count", value)
    assert type(number) is int
    assert number == value


@pytest.mark.parametrize("value", [0, -1, True, 2.0, np.float32(3), "4", None])
def test_everything_else_is_refused(value):
    with pytest.raises(ValueError, match="count must be an integer >= 1, got"):
        check_integer("count", value)


def test_the_least_one_may_differ():
    assert check_integer("count", 0, 0) == 0
    with pytest.raises(ValueError, match="count must be an integer >= 2, got 1"):
        check_integer("count", 1, least=2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: fwnet.FWNet(4, 10**30, num_layers=2),
        lambda: fwnet.FWNet(4, 6, num_layers=10**30),
        lambda: fwnet.DnCNN(num_layers=10**6),
        lambda: fwnet.ConvFWNet(2, channels=10**12),
        lambda: fwnet.ConvFWNet(2, kernel_size=10**30 + 1),
        lambda: fwnet.nn.FWCell(10**30, 4),
        lambda: fwnet.FWNetCoder(n_components=10**30).fit(np.eye(4)),
        lambda: fwnet.FWNetCoder(num_layers=10**30).fit(np.eye(4)),
        lambda: fwnet.LpDictionaryLearning(n_components=10**30).fit(np.eye(4)),
    ],
)
def test_sizes_beyond_any_memory_are_refused_before_any_is_taken(make):
    with pytest.raises(ValueError, match=r"must be an integer <= \d+, got 10{6}"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: fwnet.LpBall(1.5, 10**30),
        lambda: fwnet.LpBall(10**30, 1.0),
        lambda: fwnet.soft_threshold(torch.ones(2), 10**30),
        lambda: fwnet.data.noisy(torch.ones(1, 1, 2, 2), 10**30, 0),
    ],
)
def test_numbers_that_torch_cannot_hold_are_refused(make):
    with pytest.raises(ValueError, match=r"must be a float or have 64 bits, got 10{30}"):
        make()
