"""Tests that every kernel must pass, edge cases included."""

import math

import mpmath as mp
import pytest
import torch
from torch import Tensor

import fwnet
from fwnet.kernels import reference
from tests import high_precision

ROWS = high_precision.rows()


class LayoutConformance:
    """Shapes, layouts and the step. Set `kernel` to a module with `forward` and `backward`."""

    kernel = None
    device = "cpu"
    elementwise = 1e-5  # relative error of every entry
    half_tolerance = 0.0  # relative; 0 where results are rounded to nearest

    def forward(self, u, excess, radius=1.0, eps=0.0, dim=-1) -> Tensor:
        scalars = self._scalars(excess, radius)
        return self.kernel.forward(u.to(self.device), None, None, None, *scalars, eps, dim)

    def backward(self, grad, u, excess, radius=1.0, eps=0.0, dim=-1):
        grad, u = grad.to(self.device), u.to(self.device)
        scalars = self._scalars(excess, radius)
        grads = self.kernel.backward(grad, u, None, None, None, *scalars, eps, dim)
        return grads[0], grads[2], grads[3]

    def _scalars(self, *values):
        return [torch.tensor(v, dtype=torch.float64, device=self.device) for v in values]

    @pytest.mark.parametrize("excess", [0.4, 1 / 3])
    @pytest.mark.parametrize("eps", [0.0, 0.1])
    def test_any_axis_and_layout(self, eps, excess):
        u, grad = torch.randn(3, 5, 2, 3), torch.randn(3, 5, 2, 3)
        flat, flat_grad = (t.movedim(1, -1).contiguous() for t in (u, grad))
        expected = self.forward(flat, excess, eps=eps).movedim(-1, 1)
        expected_grads = self.backward(flat_grad, flat, excess, eps=eps)
        layouts = {
            "contiguous": u,
            "channels last": u.contiguous(memory_format=torch.channels_last),
            "transposed": u.mT.contiguous().mT,
            "strided": torch.stack([u, u], dim=-1)[..., 0],
            "expanded": u[:1].expand(3, -1, -1, -1),
        }
        for name, layout in layouts.items():
            s = self.forward(layout, excess, eps=eps, dim=1)
            grads = self.backward(grad, layout, excess, eps=eps, dim=1)
            if name == "expanded":
                torch.testing.assert_close(s, expected[:1].expand_as(s))
                continue
            torch.testing.assert_close(s, expected)
            torch.testing.assert_close(grads[0], expected_grads[0].movedim(-1, 1))
            torch.testing.assert_close(grads[1:], expected_grads[1:], rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize(
        ("rows", "length", "excess"),
        [
            (5, 1, 0.3),
            (5, 3, 0.02),
            (5, 3, 0.3),
            (4, 64, 0.3),
            (4, 64, 1 / 3),
            (5, 100, 3.0),
            (5, 100, 1.0),
        ],
    )
    def test_rows_of_any_length_agree_with_the_reference(self, rows, length, excess):
        u, grad = torch.randn(rows, length), torch.randn(rows, length)
        arguments = (None, None, None, *self._cpu_scalars(excess, 1.5), 1e-3, -1)
        s = reference.forward(u.double(), *arguments)
        self.assert_rows_close(self.forward(u, excess, 1.5, 1e-3), s, 2e-6)
        exact = reference.backward(grad.double(), u.double(), *arguments)
        grads = self.backward(grad, u, excess, 1.5, 1e-3)
        scale = (grad * s / u).abs().amax(-1, keepdim=True) / excess
        assert ((grads[0].cpu() - exact[0]).abs() <= 1e-4 * scale).all()
        torch.testing.assert_close(grads[1].cpu(), exact[2], rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(grads[2].cpu(), exact[3], rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("dim", [-1, 1])
    @pytest.mark.parametrize("absent", [(), ("b",), ("z",), ("b", "z")])
    def test_frank_wolfe_step(self, dim, absent):
        """(1 − γ)·z + γ·pool_p(a + b), each of b and z optional, against the definition."""
        shape = (2, 5, 3, 2)
        inputs = {name: torch.randn(shape) for name in ("a", "b", "z")}
        grad = torch.randn(shape)
        step, excess, radius = self._cpu_scalars(0.3, 0.4, 2.0)
        wide = {
            name: None if name in absent else t.double().requires_grad_()
            for name, t in inputs.items()
        }
        step_, excess_, radius_ = (t.clone().requires_grad_() for t in (step, excess, radius))
        u = wide["a"] if wide["b"] is None else wide["a"] + wide["b"]
        s = fwnet.functional.pool_excess(u, excess_, radius_, dim, 1e-3)
        z = torch.zeros_like(s) if wide["z"] is None else wide["z"]
        expected = (1 - step_) * z + step_ * s
        expected.backward(grad.double())

        present = [None if name in absent else t.to(self.device) for name, t in inputs.items()]
        scalars = [t.to(self.device) for t in (step, excess, radius)]
        out = self.kernel.forward(*present, *scalars, 1e-3, dim)
        by_u, by_z, by_p, by_radius, by_step = self.kernel.backward(
            grad.to(self.device), *present, *scalars, 1e-3, dim
        )
        close = {"rtol": 1e-4, "atol": 1e-4, "check_dtype": False}
        torch.testing.assert_close(out.cpu(), expected.detach(), **close)
        torch.testing.assert_close(by_u.cpu(), wide["a"].grad, **close)
        if wide["z"] is not None:
            torch.testing.assert_close(by_z.cpu(), wide["z"].grad, **close)
        torch.testing.assert_close(by_p.cpu(), excess_.grad, **close)
        torch.testing.assert_close(by_radius.cpu(), radius_.grad, **close)
        torch.testing.assert_close(by_step.cpu(), step_.grad, **close)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_half_precision_rounds_only_the_result(self, dtype):
        u, grad = torch.randn(3, 33).to(dtype), torch.randn(3, 33).to(dtype)
        s, wide = self.forward(u, 0.4), self.forward(u.float(), 0.4)
        by_u, by_wide = (
            self.backward(g, v, 0.4)[0] for g, v in ((grad, u), (grad.float(), u.float()))
        )
        assert s.dtype == by_u.dtype == dtype
        close = {"rtol": self.half_tolerance, "atol": 0}
        torch.testing.assert_close(s, wide.to(dtype), **close)
        torch.testing.assert_close(by_u, by_wide.to(dtype), **close)

    def _cpu_scalars(self, *values):
        return [torch.tensor(v, dtype=torch.float64) for v in values]

    def assert_rows_close(self, s, exact, tolerance):
        error = (s.cpu().double() - exact.double()).abs()
        assert (error <= tolerance * exact.abs().amax(-1, keepdim=True)).all()


class PoolKernelConformance(LayoutConformance):
    """The values and gradients of every row, edge cases included."""

    @pytest.mark.parametrize("eps", [0.0, 1e-3])
    @pytest.mark.parametrize("excess", high_precision.EXCESSES)
    @pytest.mark.parametrize("name", ROWS)
    def test_forward_agrees_with_80_digits(self, name, excess, eps):
        s = self.forward(ROWS[name], excess, radius=2.0, eps=eps).cpu()
        exact, _, _ = high_precision.of_row(name, excess, 2.0, eps)
        assert s.isfinite().all()
        # Below the smallest normal number there are no digits left to compare.
        floor = torch.finfo(torch.float32).tiny
        largest = max(abs(v) for v in exact)
        # With eps the whole row carries ρ^k, whose own rounding grows with its exponent.
        damping = -float(mp.log(largest / 2)) if eps and largest > floor else 0.0
        for value, truth in zip(s.tolist(), exact, strict=True):
            error = abs(mp.mpf(value) - truth)
            assert error <= (1e-6 + 6e-7 * damping) * largest + floor
            assert error <= self.elementwise * abs(truth) + floor

    @pytest.mark.parametrize("eps", [0.0, 1e-3])
    @pytest.mark.parametrize("excess", high_precision.EXCESSES)
    @pytest.mark.parametrize("name", ROWS)
    def test_gradients_agree_with_80_digits(self, name, excess, eps):
        u = ROWS[name]
        s, grad, exact_gradients = high_precision.of_row(name, excess, 2.0, eps)
        exact_u, exact_p, exact_radius = exact_gradients
        grad_u, grad_p, grad_radius = self.backward(grad, u, excess, radius=2.0, eps=eps)
        terms = [g * v for g, v in zip(grad.tolist(), s, strict=True)]
        assert grad_u.isfinite().all()
        assert grad_p.isfinite()
        # A GPU flushes what is below the normal numbers, before it is multiplied by 1/(p − 1).
        floor = torch.finfo(torch.float32).tiny
        floor_u = floor * (1 + 1 / excess)
        scale = max(abs(t / v) for t, v in zip(terms, u.tolist(), strict=True) if v) / excess
        for value, truth in zip(grad_u.tolist(), exact_u, strict=True):
            assert truth is None or abs(mp.mpf(value) - truth) <= 1e-4 * scale + floor_u
        # p and radius: measured against the terms that are summed.
        size = sum(abs(t) for t in terms)
        peak = max(abs(v) for v in u.tolist())
        pairs = zip(u.tolist(), terms, strict=True)
        spread = max(abs(mp.log(abs(v) / peak)) * abs(t) for v, t in pairs if v)
        p_scale = spread / excess**2 + size * (2 + (mp.log(1 + eps / peak) / excess**2))
        p_floor = floor * (1 + 1 / excess**2)
        assert abs(mp.mpf(grad_p.item()) - exact_p) <= 1e-4 * p_scale + p_floor
        assert abs(mp.mpf(grad_radius.item()) - exact_radius) <= 1e-5 * size + floor

    @pytest.mark.parametrize("excess", [0.0, math.inf])
    def test_the_unit_is_piecewise_constant_at_both_ends_of_p(self, excess):
        u = torch.tensor([[3e-36, -1e-37, 2e-36, 0.0], [3.0, -1.0, 2.0, 0.0]])
        by_u = self.backward(torch.full_like(u, 100.0), u, excess, radius=1e3)[0]
        assert (by_u == 0).all()

    def test_slopes_at_very_large_p_keep_their_digits(self):
        u = ROWS["wide"]
        _, grad, (exact, _, _) = high_precision.of_row("wide", 1e28, 1.0, 0.0)
        by_u = self.backward(grad, u, 1e28)[0]
        expected = torch.tensor([float(v) for v in exact])
        torch.testing.assert_close(by_u.cpu(), expected, rtol=1e-4, atol=1e-37)

    @pytest.mark.parametrize("excess", [0.0, 0.3, 1 / 3, 1.0, 2.0, math.inf])
    @pytest.mark.parametrize("eps", [0.0, 1e-3])
    def test_zero_rows_give_zeros(self, excess, eps):
        u = torch.tensor([[0.0, 0.0, -0.0], [1.0, -2.0, 0.0]])
        s = self.forward(u, excess, eps=eps)
        grad_u, grad_p, _ = self.backward(torch.ones_like(u), u, excess, eps=eps)
        assert (s[0] == 0).all()
        assert s.isfinite().all()
        assert grad_u.isfinite().all()
        assert grad_p.isfinite()

    @pytest.mark.parametrize("excess", [0.0, 0.1, 1 / 3, 0.4, 1.0, 2.0, math.inf])
    @pytest.mark.parametrize("eps", [0.0, 1e-3])
    def test_subnormal_rows_stay_finite(self, excess, eps):
        u = torch.tensor([[1e-40, 0.0, 5e-41], [2e-39, -1e-39, 0.0], [1.0, 1e-40, -2.0]])
        s = self.forward(u, excess, eps=eps)
        grad_u, grad_p, _ = self.backward(torch.ones_like(u), u, excess, eps=eps)
        assert (s.abs() <= 1.000001).all()
        assert grad_u.isfinite().all()
        assert grad_p.isfinite()

    @pytest.mark.parametrize("excess", [1e-30, 0.01, 0.1, 1 / 3, 1.0, 3.0])
    def test_slopes_beyond_the_largest_number_are_cut_off(self, excess):
        # At peaks of 2^-126 slopes overflow, above and below 0; infinite terms would cancel to NaN.
        peaks = 2.0 ** torch.tensor([-126, -120, 0, 120, 126])[:, None]
        generator = torch.Generator().manual_seed(0)
        near = 1 + 2.0**-22 * torch.randint(-2, 3, (5, 16), generator=generator)
        u = (peaks * near * torch.tensor([1.0, -1.0]).repeat(8)).clamp(-(2.0**126), 2.0**126)
        grad = torch.randn(5, 16, generator=generator)
        assert self.backward(grad, u, excess, radius=1e3)[0].isfinite().all()

    def test_slope_at_zero_is_exact_for_p_2_and_dropped_above(self):
        u, grad = torch.tensor([[3.0, 0.0, 4.0], [0.0, 0.0, 0.0]]), torch.ones(2, 3)
        at_2, _, _ = self.backward(grad, u, 1.0, eps=0.5)
        at_3, _, _ = self.backward(grad, u, 2.0, eps=0.5)
        assert at_2[0, 1].item() == pytest.approx(-1 / 5.5)
        assert at_2[1].tolist() == pytest.approx([-2, -2, -2])
        assert at_3[0, 1].item() == 0
        assert (at_3[1] == 0).all()

    @pytest.mark.parametrize("excess", [0.0, 1 / 3, 0.4, 2.0, math.inf])
    def test_nan_poisons_its_row_only(self, excess):
        u = torch.tensor([[1.0, math.nan, 0.0], [1.0, 2.0, 3.0], [math.inf, math.nan, 1.0]])
        s = self.forward(u, excess)
        grad_u, _, _ = self.backward(torch.ones_like(u), u, excess)
        assert s[[0, 2]].isnan().all()
        assert grad_u[[0, 2]].isnan().all()
        assert s[1].isfinite().all()
        assert grad_u[1].isfinite().all()

    @pytest.mark.parametrize("excess", [0.0, 1 / 3, 0.4, 2.0, math.inf])
    @pytest.mark.parametrize("eps", [0.0, 1e-3])
    def test_infinite_entries_count_as_ones_beside_zeros(self, excess, eps):
        u = torch.tensor([math.inf, 5.0, -math.inf, 0.0])
        s = self.forward(u, excess, eps=eps)
        expected = self.forward(torch.tensor([1.0, 0.0, -1.0, 0.0]), excess)
        if eps == 0 or excess > 0:
            torch.testing.assert_close(s, expected)
        grad_u, grad_p, _ = self.backward(torch.ones_like(u), u, excess, eps=eps)
        assert (grad_u == 0).all()
        assert grad_p.isfinite()

    def test_invalid_tensors_give_nan(self):
        u = torch.randn(2, 3)
        assert self.forward(u, -0.1).isnan().all()
        assert self.forward(u, math.nan).isnan().all()
        assert self.forward(u, 0.5, radius=-1.0).isnan().all()

    def test_gradient_at_p_1_is_zero_in_u_and_one_sided_in_p(self):
        u, grad = torch.tensor([3.0, -3.0, 1.0]), torch.tensor([1.0, 2.0, 3.0])
        grad_u, grad_p, _ = self.backward(grad, u, 0.0)
        _, near, _ = self.backward(grad.double(), u.double(), 1e-9)
        assert (grad_u == 0).all()
        assert grad_p.item() == pytest.approx(near.item(), rel=1e-5)
