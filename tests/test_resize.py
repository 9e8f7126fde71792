from fractions import Fraction

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.utils._python_dispatch import TorchDispatchMode

from fwnet.hardware import widest_dtype
from fwnet.resize import REACH, enlarge, shrink

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
scales = st.integers(1, 5)
sides = st.integers(1, 7)
seeds = st.integers(0, 2**30)


def images(*shape, seed=0):
    """Values on the scale of 8 bits, in [0, 1]."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, shape, generator=generator).double() / 255


def mirrored(x, border):
    """x with so many pixels more at every side, each as far within as it is beyond."""
    padded = np.pad(x.numpy(), [(0, 0)] * (x.ndim - 2) + [(border, border)] * 2, "symmetric")
    return torch.from_numpy(padded)


def by_torch(x, scale, *, shrinking):
    """The recipe with torch's antialiased interpolation, which knows no mirrored border."""
    border = 24
    factor = 1 / scale if shrinking else scale
    y = F.interpolate(
        mirrored(x, border),
        scale_factor=factor,
        mode="bicubic",
        antialias=True,
        recompute_scale_factor=False,
    )
    cut = border // scale if shrinking else border * scale
    return y[..., cut:-cut, cut:-cut]


def cubic(x):
    """κ by the conditions that make it: 1 at 0, 0 at ±1 and ±2, slopes 0, −½, 0 at 0, 1, 2."""
    x = abs(x)
    if x >= 2:
        return Fraction(0)
    # Hermite's interpolation from one whole number to the next.
    values, slopes = ((1, 0), (0, Fraction(-1, 2))) if x < 1 else ((0, 0), (Fraction(-1, 2), 0))
    t = x - int(x)
    return (
        values[0] * (1 + 2 * t) * (1 - t) ** 2
        + values[1] * t**2 * (3 - 2 * t)
        + slopes[0] * t * (1 - t) ** 2
        + slopes[1] * t**2 * (t - 1)
    )


def resize_line(line, factor):
    """One line in exact arithmetic, as MATLAB's imresize explains it; factor: s or 1/s."""
    narrow = min(factor, Fraction(1))
    resized = []
    for place in range(int(len(line) * factor)):
        middle = (place + Fraction(1, 2)) / factor - Fraction(1, 2)
        reach = int(2 / narrow) + 2
        nearby = range(int(middle) - reach, int(middle) + reach + 1)
        weights = [cubic(narrow * (middle - k)) for k in nearby]
        period = line + line[::-1]
        total = sum(w * period[k % len(period)] for w, k in zip(weights, nearby, strict=True))
        resized.append(total / sum(weights))
    return resized


def resize_exactly(levels, factor):
    """An image of whole numbers, its columns and then its rows."""
    columns = [resize_line(column, factor) for column in zip(*levels, strict=True)]
    rows = [resize_line(row, factor) for row in zip(*columns, strict=True)]
    return torch.tensor([list(map(float, row)) for row in rows], dtype=torch.float64)


class TestExactly:
    """In the arithmetic of fractions, by the definition."""

    @pytest.mark.parametrize("scale", [1, 2, 3, 4, 5])
    @pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 2), (2, 3), (5, 4)])
    def test_enlarged(self, scale, height, width):
        x = (images(height, width) * 255).round()
        exact = resize_exactly(x.long().tolist(), Fraction(scale))
        y = enlarge(x, scale)
        assert y.shape == (scale * height, scale * width)
        torch.testing.assert_close(y, exact, atol=1e-12, rtol=0)

    @pytest.mark.parametrize("scale", [1, 2, 3, 4, 5])
    @pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 2), (2, 3), (4, 3)])
    def test_shrunk(self, scale, height, width):
        x = (images(scale * height, scale * width) * 255).round()
        exact = resize_exactly(x.long().tolist(), Fraction(1, scale))
        y = shrink(x, scale)
        assert y.shape == (height, width)
        torch.testing.assert_close(y, exact, atol=1e-12, rtol=0)


@given(st.sampled_from([2, 3, 4]), st.integers(1, 30), st.integers(1, 30), seeds)
def test_it_is_what_torch_does_with_a_mirrored_border(scale, height, width, seed):
    pairs = []
    small = images(1, 2, height, width, seed=seed)
    pairs.append((enlarge(small, scale), by_torch(small, scale, shrinking=False)))
    large = images(1, 2, scale * height, scale * width, seed=seed)
    pairs.append((shrink(large, scale), by_torch(large, scale, shrinking=True)))
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)
        # With 8 bits they are the same, but where the last digits decide which way a half goes.
        differ = (255 * ours).round() != (255 * theirs).round()
        halves = ((255 * theirs).frac().abs() - 0.5).abs() < 1e-4
        assert not (differ & ~halves).any()


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_it_is_what_pillow_does_away_from_the_border(scale):
    large = images(scale * 12, scale * 15)
    for x, ours, border in (
        (large, shrink(large, scale), 2),
        (large, enlarge(large, scale), 2 * scale),
    ):
        size = ours.shape[1], ours.shape[0]
        picture = Image.fromarray(x.float().numpy()).resize(size, Image.Resampling.BICUBIC)
        inner = slice(border, -border), slice(border, -border)
        theirs = torch.from_numpy(np.array(picture)).double()
        torch.testing.assert_close(ours[inner], theirs[inner], atol=2e-6, rtol=0)


@given(scales, sides, sides, st.floats(0, 1))
def test_constants_stay(scale, height, width, level):
    x = torch.full((height, width), level, dtype=torch.float64)
    torch.testing.assert_close(
        enlarge(x, scale), x.new_full((scale * height, scale * width), level)
    )
    large = x.new_full((scale * height, scale * width), level)
    torch.testing.assert_close(shrink(large, scale), x)


@pytest.mark.parametrize("scale", [2, 3, 4, 5])
def test_ramps_stay_and_parabolas_when_enlarged(scale):
    """Keys' kernel is of third order; mirrored, a polynomial is none."""

    def surface(rows, columns):
        return rows[:, None] * 0.3 - columns * 0.2 + 1

    def parabola(rows, columns):
        return rows[:, None] ** 2 - 3 * rows[:, None] * columns + 0.5 * columns**2

    coarse = torch.arange(9).double(), torch.arange(11).double()
    fine = [(torch.arange(scale * len(axis)).double() + 0.5) / scale - 0.5 for axis in coarse]
    inner = slice(2 * scale, -2 * scale), slice(2 * scale, -2 * scale)
    for function in (surface, parabola):
        torch.testing.assert_close(
            enlarge(function(*coarse), scale)[inner], function(*fine)[inner], atol=1e-11, rtol=0
        )
    inner = slice(2, -2), slice(2, -2)
    torch.testing.assert_close(
        shrink(surface(*fine), scale)[inner], surface(*coarse)[inner], atol=1e-11, rtol=0
    )


@pytest.mark.parametrize("scale", [2, 3, 4, 5])
def test_what_is_smooth_comes_back(scale):
    """The longer its waves, the better: within a few thousandths of their height at 20 pixels."""
    errors = []
    for length in (20, 40):
        rows, columns = torch.arange(60).double()[:, None], torch.arange(80).double()
        x = (2 * torch.pi / length * (rows + 0.5 * columns)).sin()
        away = slice(4, -4), slice(4, -4)
        errors.append((shrink(enlarge(x, scale), scale) - x)[away].abs().max().item())
    assert errors[0] < 6e-3
    assert errors[1] < errors[0] / 6


def resizings(scale):
    return (lambda x: enlarge(x, scale)), (lambda x: shrink(x, scale))


@given(scales, sides, sides, seeds)
def test_it_commutes_with_the_symmetries_of_a_square(scale, height, width, seed):
    x = images(2, scale * height, scale * width, seed=seed)
    for resize in resizings(scale):
        for turn in (lambda x: x.flip(-1), lambda x: x.flip(-2), lambda x: x.mT):
            torch.testing.assert_close(resize(turn(x)), turn(resize(x)), atol=1e-13, rtol=0)


@given(scales, sides, sides, st.floats(-3, 3), seeds)
def test_it_is_linear_and_the_same_for_every_image(scale, height, width, factor, seed):
    shape = 3, 2, scale * height, scale * width
    x, y = images(*shape, seed=seed), images(*shape, seed=seed + 1)
    for resize in resizings(scale):
        expected = factor * resize(x) + resize(y)
        torch.testing.assert_close(resize(factor * x + y), expected, atol=1e-12, rtol=0)
        for i, j in ((0, 0), (2, 1)):
            torch.testing.assert_close(resize(x)[i, j], resize(x[i, j]), atol=1e-14, rtol=0)


@given(sides, sides, seeds)
def test_by_1_nothing_changes(height, width, seed):
    x = images(height, width, seed=seed)
    for resize in resizings(1):
        assert torch.equal(resize(x), x)


@given(st.integers(2, 5), sides, sides, seeds)
def test_beyond_its_border_an_image_goes_on_mirrored(scale, height, width, seed):
    small, large = (
        images(height, width, seed=seed),
        images(scale * height, scale * width, seed=seed),
    )
    wider = enlarge(mirrored(small, 3), scale)
    cut = slice(3 * scale, -3 * scale), slice(3 * scale, -3 * scale)
    torch.testing.assert_close(wider[cut], enlarge(small, scale), atol=1e-13, rtol=0)
    wider = shrink(mirrored(large, 3 * scale), scale)
    torch.testing.assert_close(wider[3:-3, 3:-3], shrink(large, scale), atol=1e-13, rtol=0)


@pytest.mark.parametrize("scale", [2, 3, 4, 5])
def test_how_far_a_pixel_reaches(scale):
    x = torch.zeros(11, 11, dtype=torch.float64)
    x[5, 5] = 1
    touched = enlarge(x, scale).nonzero() // scale
    assert (touched - 5).abs().amax(0).tolist() == [REACH, REACH]
    x = torch.zeros(11 * scale, 11 * scale, dtype=torch.float64)
    x[5 * scale : 6 * scale, 5 * scale : 6 * scale] = torch.rand(scale, scale)
    touched = shrink(x, scale).nonzero()
    assert (touched - 5).abs().amax(0).tolist() == [REACH, REACH]


@pytest.mark.parametrize("scale", [2, 3])
def test_gradients(scale):
    x = images(scale, 2 * scale).requires_grad_()
    for resize in resizings(scale):
        assert torch.autograd.gradcheck(resize, x)
        assert torch.autograd.gradgradcheck(resize, x)


class SeenTypes(TorchDispatchMode):
    """Notes the types of all tensors that are made."""

    def __init__(self):
        super().__init__()
        self.dtypes = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        self.dtypes.add(made.dtype)
        return made


class TestTypes:
    @pytest.mark.parametrize("device", DEVICES)
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
    def test_they_are_kept(self, device, dtype):
        x = images(1, 1, 12, 18).to(device, dtype)
        for resize in resizings(3):
            y = resize(x)
            assert (y.dtype, y.device) == (x.dtype, x.device)
            exact = resize(x.double())
            atol = 8 * torch.finfo(dtype).eps
            torch.testing.assert_close(y.double(), exact, atol=atol, rtol=0)

    def test_all_is_done_where_x_is(self):
        x = torch.empty(2, 6, 9, device="meta")
        assert (enlarge(x, 3).device, enlarge(x, 3).shape) == (x.device, (2, 18, 27))
        assert (shrink(x, 3).device, shrink(x, 3).shape) == (x.device, (2, 2, 3))

    def test_float64_is_not_needed(self, monkeypatch):
        """Apple's GPUs have none."""
        assert widest_dtype(torch.device("mps")) is torch.float32
        x = images(1, 1, 12, 18)
        exact = [resize(x) for resize in resizings(3)]
        x = x.float()
        monkeypatch.setattr("fwnet.resize.widest_dtype", lambda _: torch.float32)
        with SeenTypes() as seen:
            found = [resize(x) for resize in resizings(3)]
        assert torch.float32 in seen.dtypes
        assert torch.float64 not in seen.dtypes
        for y, wanted in zip(found, exact, strict=True):
            torch.testing.assert_close(y.double(), wanted, atol=1e-6, rtol=0)

    def test_autocast_takes_no_digits(self):
        x = images(1, 1, 12, 18).float()
        for resize in resizings(3):
            with torch.autocast("cpu", torch.bfloat16):
                y = resize(x)
            torch.testing.assert_close(y, resize(x), atol=1e-6, rtol=0)

    def test_steps_in_memory_do_not_matter(self):
        x = images(9, 6, 4).permute(2, 0, 1)[:, :, ::2]
        for resize in resizings(3):
            torch.testing.assert_close(resize(x), resize(x.contiguous()), atol=1e-14, rtol=0)

    def test_no_images(self):
        assert enlarge(torch.zeros(0, 3, 6, 9), 3).shape == (0, 3, 18, 27)
        assert shrink(torch.zeros(0, 3, 6, 9), 3).shape == (0, 3, 2, 3)


class TestErrors:
    @pytest.mark.parametrize("resize", [enlarge, shrink])
    @pytest.mark.parametrize("scale", [0, -2, 1.5, 2.0, "2", None])
    def test_scales_that_are_none(self, resize, scale):
        with pytest.raises(ValueError, match=f"scale must be an integer >= 1, got {scale!r}"):
            resize(images(6, 6), scale)

    @pytest.mark.parametrize("resize", [enlarge, shrink])
    @pytest.mark.parametrize(
        ("x", "got"),
        [
            (torch.zeros(6), r"torch.float32 of shape \(6,\)"),
            (torch.zeros(6, 6, dtype=torch.uint8), r"torch.uint8 of shape \(6, 6\)"),
        ],
    )
    def test_what_is_no_image(self, resize, x, got):
        with pytest.raises(ValueError, match=f"x must be floating-point of shape .*, got {got}"):
            resize(x, 2)

    @pytest.mark.parametrize(("height", "width"), [(6, 7), (5, 9), (1, 1)])
    def test_lengths_that_do_not_divide(self, height, width):
        message = f"height and width must be multiples of 3, got {height} and {width}"
        with pytest.raises(ValueError, match=message):
            shrink(images(height, width), 3)
