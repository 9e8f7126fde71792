import os
import subprocess
import sys

import torch

import fwnet
from fwnet import kernels


def test_cpu_tensors_take_the_blocked_kernel_in_eager_mode():
    assert kernels.select(torch.randn(2, 3), 1) == "blocked"
    assert kernels.select(torch.tensor(1.0), -1) == "reference"


def test_use_reference_forces_the_plain_operators_and_restores():
    u = torch.randn(2, 3)
    with kernels.use_reference():
        assert kernels.select(u, 1) == "reference"
        with kernels.use_reference():
            pass
        assert kernels.select(u, 1) == "reference"
    assert kernels.select(u, 1) == "blocked"


def test_environment_variable_forces_the_plain_operators():
    code = "import torch; from fwnet import kernels; print(kernels.select(torch.ones(2, 3), 1))"
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "FWNET_KERNELS": "reference"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == "reference"


def test_the_kernels_give_the_same_gradients():
    u = torch.randn(3, 7, 5, 5, requires_grad=True)
    p = torch.tensor(1.3, requires_grad=True)
    grad = torch.randn_like(u)
    fast = torch.autograd.grad(fwnet.pool_p(u, p, dim=1), (u, p), grad)
    with kernels.use_reference():
        plain = torch.autograd.grad(fwnet.pool_p(u, p, dim=1), (u, p), grad)
    torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-5)
