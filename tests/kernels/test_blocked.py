import pytest
import torch

from fwnet.kernels import blocked, reference
from tests.kernels.conformance import LayoutConformance, PoolKernelConformance


class TestBlocked(PoolKernelConformance):
    kernel = blocked


class TestSmallBlocks(LayoutConformance):
    """Blocks so small that every case takes several."""

    kernel = blocked

    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch):
        monkeypatch.setattr(blocked, "BLOCK_ENTRIES", 16)


def test_blocks_cover_an_image_exactly_once(monkeypatch):
    monkeypatch.setattr(blocked, "BLOCK_ENTRIES", 64)
    u = torch.randn(2, 8, 5, 7)
    scalars = [torch.tensor(0.3), torch.tensor(1.0)]
    expected = reference.forward(u, None, None, None, *scalars, 0.0, 1)
    for layout in (u, u.contiguous(memory_format=torch.channels_last)):
        s = blocked.forward(layout, None, None, None, *scalars, 0.0, 1)
        torch.testing.assert_close(s, expected)
        assert s.stride() == layout.stride()
