import torch

from fwnet.kernels import reference
from tests.kernels.conformance import PoolKernelConformance


class TestReference(PoolKernelConformance):
    kernel = reference


def test_log_ratio_keeps_its_digits_across_the_range():
    magnitude = torch.tensor([1.0, 1 + 2**-23, 3 + 2**-22, 1e-30, 1e30, 3e38, 1e-38])
    unit = torch.tensor([1.0, 1.0, 3.0, 1e30, 1e-30, 1e-38, 3e38])
    exact = magnitude.double().log() - unit.double().log()
    torch.testing.assert_close(
        reference.log_ratio(magnitude, unit).double(), exact, rtol=2e-7, atol=1e-14
    )


def test_the_gradient_at_the_largest_entry_keeps_its_digits():
    """Beside small entries the largest hardly moves: a billionth of the terms that cancel."""
    u, p = torch.tensor([[1.0, 1e-3]]), 1.5
    exact = u.double().requires_grad_()
    norm = exact.abs().pow(3).sum(-1, keepdim=True).pow(1 / p)
    (-exact.square() / norm)[0, 0].backward()
    grad = torch.tensor([[1.0, 0.0]])
    half, one = torch.tensor(p - 1), torch.tensor(1.0)
    by_u, *_ = reference.backward(grad, u, None, None, None, half, one, 0.0, 1)
    torch.testing.assert_close(by_u.double(), exact.grad, rtol=1e-5, atol=0)
