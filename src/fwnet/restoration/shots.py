"""Synthetic shots: photos as cameras and programs make them, of clean images."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, conv2d, interpolate, pad

from fwnet.restoration.jpeg import jpeg_color

CELL = 4  # side of the squares whose means tell the effective level of noise
WIDEST = 5  # pixels: reach of a blur
OCTAVES = 5  # smooth noise has parts of 1, 2, 4, 8 and 16 pixels
GRAY = (0.299, 0.587, 0.114)
# Shares of shots without noise, with white noise, with smooth noise, and of a Bayer sensor.
SHARES = (0.15, 0.25, 0.3, 0.3)
NONE, WHITE, SMOOTH, BAYER = range(4)
# A sensor measures one color per pixel, green at every other one; the rest is interpolated.
GREEN_FILTER = ((0, 0.25, 0), (0.25, 1, 0.25), (0, 0.25, 0))
RED_FILTER = ((0.25, 0.5, 0.25), (0.5, 1, 0.5), (0.25, 0.5, 0.25))


@dataclass(frozen=True)
class Shots:
    """Photos of a batch of clean images.

    Attributes:
        seen: The photos, (batch, channel, h, w), rounded to 8 bits.
        wanted: The same without noise.
        sigma: The effective level of the noise of each, on the scale of [0, 1].
        camera: Whether the noise is that of a camera, not white and not none.
    """

    seen: Tensor
    wanted: Tensor
    sigma: Tensor
    camera: Tensor


def effective_sigma(noise: Tensor) -> Tensor:
    """σ = 4·rms(n̄), where n̄ are the means of the noise over 4 × 4 pixels: (batch,).

    For white noise this is its standard deviation. The noise of a camera is smooth, so that more of
    it is left in the means; and a network that was trained for white noise removes smooth noise
    best when it is told this larger level (docs/real_photos.md).
    """
    return CELL * avg_pool2d(noise, CELL).square().flatten(1).mean(1).sqrt()


def take_shots(clean: Tensor, generator: torch.Generator) -> Shots:
    """Return photos of clean images: some noisy, some compressed, some both.

    The noise is white; or smooth, in brightness and colors apart; or that of a sensor, which
    measures one color per pixel, interpolated, with a tone curve and smoothed by the camera. Shots
    without noise are wanted as they are, compressed or not.

    Args:
        clean: (batch, 1 or 3, h, w) in [0, 1].
        generator: Of the device of the images.
    """
    wanted = _as_photographed(clean.expand(-1, 3, -1, -1), _Draws(len(clean), generator))
    shares = torch.tensor(SHARES, device=clean.device)
    kinds = torch.multinomial(shares, len(clean), True, generator=generator)
    seen, white_sigma = wanted.clone(), torch.zeros(len(clean), device=clean.device)
    for kind, rows, draw in _by_value(kinds, generator):
        color = wanted[rows]
        if kind == WHITE:
            sigma = draw.between(1.5, 75, log=True) / 255
            seen[rows] = color + sigma * draw.normal(color.shape)
            white_sigma[rows] = sigma.flatten()
        elif kind == SMOOTH:
            seen[rows], wanted[rows] = _cleaned(_with_smooth_noise(color, draw), color, draw)
        elif kind == BAYER:
            seen[rows], wanted[rows] = _cleaned(*_developed(color, draw), draw)
    noisy = seen
    seen = _compressed(_to_8_bits(seen), kinds, generator)
    if clean.shape[1] == 1:
        seen, wanted, noisy = (_gray(image) for image in (seen, wanted, noisy))
        seen, white_sigma = _to_8_bits(seen), white_sigma * math.hypot(*GRAY)
    sigma = torch.where(kinds == WHITE, white_sigma, effective_sigma(noisy - wanted))
    without = (kinds == NONE)[:, None, None, None]
    return Shots(seen, torch.where(without, seen, wanted), sigma, kinds >= SMOOTH)


def _by_value(kinds: Tensor, generator: torch.Generator) -> Iterator[tuple[int, Tensor, "_Draws"]]:
    """Yield each value, the rows that have it, and random numbers for them."""
    for kind in kinds.unique().tolist():
        rows = (kinds == kind).nonzero()[:, 0]
        yield kind, rows, _Draws(len(rows), generator)


class _Draws:
    """Random numbers, one per image and shaped to multiply images."""

    def __init__(self, count: int, generator: torch.Generator) -> None:
        self.count, self.generator = count, generator

    def between(self, low: float, high: float, *, log: bool = False) -> Tensor:
        """Uniform, or uniform in the logarithm."""
        device = self.generator.device
        share = torch.rand(self.count, 1, 1, 1, generator=self.generator, device=device)
        return low * (high / low) ** share if log else low + (high - low) * share

    def chance(self, share: float | Tensor) -> Tensor:
        """Return True with this probability."""
        return self.between(0, 1) < share

    def normal(self, shape: tuple[int, ...]) -> Tensor:
        """N(0, 1), one number per pixel."""
        return torch.randn(shape, generator=self.generator, device=self.generator.device)


def _as_photographed(color: Tensor, draw: _Draws) -> Tensor:
    """Return images that are as sharp and as bright as photos, or flat as drawings."""
    soft = _blurred(color, draw.between(0.3, 1.3))  # photos are softer than shrunk images
    color = torch.where(draw.chance(0.5), soft, color)
    color = torch.where(draw.chance(0.3), color * draw.between(0.25, 1), color)
    steps = draw.between(2, 8).floor()
    return _to_8_bits(torch.where(draw.chance(0.08), (color * steps).round() / steps, color))


def _with_smooth_noise(color: Tensor, draw: _Draws) -> Tensor:
    """Add smooth noise to brightness and, smoother still, to colors.

    The rms of brightness is between 1 and 14 gray levels. That of colors is smaller for fine parts
    of the noise and about as large for coarse ones, as measured in photos of cameras. There is more
    noise where it is bright.
    """
    bright = _sum_of_octaves(1, color.shape, draw.between(0.2, 1), draw)
    tint = _sum_of_octaves(3, color.shape, draw.between(-0.8, 0.5), draw)
    tint = tint - _gray(tint)
    amount = draw.between(0, 2) * _gray(color) ** draw.between(0.3, 1) + draw.between(0.05, 0.6)
    amount = amount.sqrt() / amount.mean((1, 2, 3), keepdim=True).sqrt()
    noise = _of_unit_power(bright) + draw.between(0.15, 1.2, log=True) * _of_unit_power(tint)
    return color + draw.between(1, 14, log=True) / 255 * amount * noise


def _sum_of_octaves(channels: int, shape: torch.Size, fall: Tensor, draw: _Draws) -> Tensor:
    """Σ_j 2^(−fall·j)·n_j, where n_j is white noise enlarged 2^j times."""
    batch, _, height, width = shape
    total = torch.zeros(batch, channels, height, width, device=fall.device)
    for octave in range(OCTAVES):
        sides = (side // 2**octave + 2 for side in (height, width))
        part = draw.normal((batch, channels, *sides))
        if octave:
            part = interpolate(part, scale_factor=2.0**octave, mode="bilinear")
        total += 2 ** (-fall * octave) * _of_unit_power(part[..., :height, :width])
    return total


def _developed(color: Tensor, draw: _Draws) -> tuple[Tensor, Tensor]:
    """Return images as a camera develops them from its sensor, with noise and without.

    The noise of the sensor has the variance a·light + b. White balance multiplies red and blue,
    and a tone curve brightens. Cameras then smooth noise: brightness a little, colors more.
    """
    curve = draw.between(1.8, 2.6)
    gains = [draw.between(1.2, 2.4), torch.ones_like(curve), draw.between(1.2, 2.2)]
    balance = torch.cat(gains, 1)
    light = color**curve / balance
    power = draw.between(0.012, 0.4, log=True) ** 2
    variance = power * (draw.between(0.2, 1.5) * light + draw.between(0.002, 0.06))
    raw = light + variance.sqrt() * draw.normal(light.shape)

    def develop(sensor: Tensor) -> Tensor:
        return (_interpolated(sensor) * balance).clamp(1e-6, 1) ** (1 / curve)

    developed = develop(light)
    noise = develop(raw) - developed
    bright = _gray(noise)
    tint = _blurred(noise - bright, draw.between(0.3, 2.5)) * draw.between(0.05, 1)
    return developed + _blurred(bright, draw.between(0.05, 1.1)) + tint, developed


def _cleaned(noisy: Tensor, clean: Tensor, draw: _Draws) -> tuple[Tensor, Tensor]:
    """a·x + (1 − a)·x̄ with a = v/(v + ε): what a camera leaves of noise and of detail.

    x̄ and v are the mean and the variance of brightness around a pixel (a guided filter, He et al.,
    2013), and ε is a multiple of the noise. So noise stays near edges and goes where it is flat.
    Both images get the a of the noisy one: the mean of many shots shows what is wanted.
    """
    width = int(draw.between(2, 7)[0])
    bright = _gray(noisy)
    variance = (_box(bright.square(), width) - _box(bright, width).square()).clamp(min=0)
    strength = torch.where(draw.chance(0.75), draw.between(0.1, 4, log=True), 0.0)
    noise = _gray(noisy - clean).square().mean((1, 2, 3), keepdim=True)
    kept = variance / (variance + strength * noise).clamp(min=1e-9)

    def clean_up(x: Tensor) -> Tensor:
        smooth = _box(kept, width) * x + _box((1 - kept) * _box(x, width), width)
        return torch.where(strength > 0, smooth, x)

    return clean_up(noisy), clean_up(clean)


def _box(x: Tensor, width: int) -> Tensor:
    """Mean over (2·width + 1)² pixels."""
    return avg_pool2d(pad(x, (width,) * 4, mode="reflect"), 2 * width + 1, 1)


def _interpolated(light: Tensor) -> Tensor:
    """Return what a sensor with red, green and blue pixels in turn knows of the light."""
    measured = torch.zeros_like(light[:1])
    measured[:, 0, ::2, ::2] = measured[:, 2, 1::2, 1::2] = 1
    measured[:, 1] = 1 - measured[:, 0] - measured[:, 2]
    filters = torch.tensor((RED_FILTER, GREEN_FILTER, RED_FILTER)).to(light)[:, None]
    return conv2d(pad(light * measured, (1, 1, 1, 1), mode="reflect"), filters, groups=3)


def _compressed(seen: Tensor, kinds: Tensor, generator: torch.Generator) -> Tensor:
    """Return copies, some of which went through a JPEG file of quality 60 to 100."""
    draw = _Draws(len(seen), generator)
    chosen = draw.chance(torch.where(kinds >= SMOOTH, 0.85, 0.5)[:, None, None, None])
    halved = draw.chance(0.5)  # the usual files, or those with all colors
    how = (chosen * (1 + halved.int()))[:, 0, 0, 0]
    corner = torch.randint(8, (2,), generator=generator, device=seen.device).tolist()
    for kind, rows, some in _by_value(how, generator):
        if kind:
            high = some.between(88, 101).clamp(max=100)
            quality = torch.where(some.chance(0.5), some.between(60, 100), high).floor()
            places = (2 * corner[0], 2 * corner[1])
            seen[rows] = jpeg_color(seen[rows], quality[:, 0, 0, 0], places, halve=kind == 2)
    return seen


def _blurred(x: Tensor, width: Tensor) -> Tensor:
    """Gaussian blur; its standard deviation in pixels is one number per image."""
    batch, channels, height, wide = x.shape
    place = torch.arange(-WIDEST, WIDEST + 1, device=x.device)
    weights = torch.exp(-0.5 * (place / width.reshape(-1, 1).clamp(min=0.05)) ** 2)
    weights = (weights / weights.sum(1, keepdim=True)).repeat_interleave(channels, 0)
    edge = (WIDEST,) * 4
    planes = pad(x.reshape(1, batch * channels, height, wide), edge, mode="reflect")
    for kernel in (weights[:, None, None], weights[:, None, :, None]):
        planes = conv2d(planes, kernel, groups=batch * channels)
    return planes.reshape(x.shape)


def _gray(x: Tensor) -> Tensor:
    weights = torch.tensor(GRAY, dtype=x.dtype, device=x.device)[:, None, None]
    return (x * weights).sum(1, keepdim=True)


def _of_unit_power(noise: Tensor) -> Tensor:
    return noise / noise.std((1, 2, 3), keepdim=True).clamp(min=1e-6)


def _to_8_bits(x: Tensor) -> Tensor:
    return (255 * x).round().clamp(0, 255) / 255
