import torch

from fwnet.kernels import reference
from tests.kernels.conformance import PoolKernelConformance


class TestReference(PoolKernelConformance):
    kernel = reference


def test_log_ratio_keeps_its_digits_across_the_range():
    magnitude = torch.tensor([1.0, 1 + 2**-23, 1e-30, 1e30, 3e38, 1e-38])
    unit = torch.tensor([1.0, 1.0, 1e30, 1e-30, 1e-38, 3e38])
    exact = magnitude.double().log() - unit.double().log()
    torch.testing.assert_close(
        reference.log_ratio(magnitude, unit).double(), exact, rtol=2e-7, atol=1e-14
    )
