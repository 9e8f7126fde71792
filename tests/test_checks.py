import numpy as np
import pytest

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
