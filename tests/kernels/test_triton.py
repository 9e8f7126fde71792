"""The Triton kernels: on a GPU if there is one, else in Triton's interpreter."""

import pytest
import torch

pytest.importorskip("triton")

from fwnet.kernels import triton_ops
from tests.kernels.conformance import PoolKernelConformance

# The interpreter computes with NumPy, which warns where floating point does as it should.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


class TestTriton(PoolKernelConformance):
    kernel = triton_ops
    device = "cuda" if torch.cuda.is_available() else "cpu"
    elementwise = 2e-4  # of entries that are 1e-30 of the largest: the GPU's fast logarithm
    half_tolerance = 0.0 if torch.cuda.is_available() else 2**-7  # the interpreter truncates
