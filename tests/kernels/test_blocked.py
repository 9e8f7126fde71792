import pytest
import torch

from fwnet.functional import frank_wolfe_step
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


@pytest.mark.parametrize("step", [0.3, 1.0])
def test_a_step_takes_the_place_of_z_only_where_nothing_needs_a_gradient(step):
    a, b, z = (
        torch.randn(2, 8, 5, 7).contiguous(memory_format=torch.channels_last) for _ in range(3)
    )
    before = z.clone()
    expected = frank_wolfe_step(z, a, b, step, 0.4, dim=1)
    with_gradients = frank_wolfe_step(z, a, b, step, 0.4, dim=1, overwrite_z=True)
    assert torch.equal(with_gradients, expected)
    assert torch.equal(z, before)
    with torch.inference_mode():
        in_place = frank_wolfe_step(z, a, b, step, 0.4, dim=1, overwrite_z=True)
    assert torch.equal(in_place, expected)
    assert in_place.data_ptr() == z.data_ptr()
    with torch.no_grad():  # in another layout there is no such place
        other = frank_wolfe_step(before.contiguous(), a, b, step, 0.4, dim=1, overwrite_z=True)
    torch.testing.assert_close(other, expected)
