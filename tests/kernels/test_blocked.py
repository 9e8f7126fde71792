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


@pytest.mark.parametrize("eps", [1e-12, 1e-3])
def test_rows_below_the_normal_numbers_keep_their_digits_with_eps(eps):
    u = torch.tensor([[7e-40, -2e-40], [3.0, -1.0]])
    scalars = [torch.tensor(1.0), torch.tensor(1.0)]
    s = blocked.forward(u, None, None, None, *scalars, eps, -1)
    exact = reference.forward(u.double(), None, None, None, *scalars, eps, -1)
    torch.testing.assert_close(s.double(), exact, rtol=1e-4, atol=1e-38)


def test_gradients_of_the_largest_rows_cancel():
    u, grad = torch.full((1, 4), torch.finfo(torch.float32).max), torch.ones(1, 4)
    arguments = (None, None, None, torch.tensor(0.1), torch.tensor(1e3), 0.0, -1)
    by_u = blocked.backward(grad, u, *arguments)[0]
    assert by_u.abs().max() <= 1e-37


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
