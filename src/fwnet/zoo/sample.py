"""An image made by a formula, and the output of a model for it: the same on every machine."""

import torch
from torch import Tensor

from fwnet.models import ImageModel
from fwnet.zoo.card import Sample

SIZE = 24
SIGMA = 25 / 255  # for networks with a noise-level input
PLACES = ((0, 0), (0, 23), (23, 0), (23, 23), (5, 17), (11, 12), (12, 0), (18, 6))


def sample_image(channels: int) -> Tensor:
    """Return a ramp with squares and texture, (1, channels, 24, 24), in multiples of 1/128."""
    c, y, x = torch.meshgrid(
        torch.arange(channels), torch.arange(SIZE), torch.arange(SIZE), indexing="ij"
    )
    ramp, squares = 2 * (x + y), 16 * ((x // 6 + y // 6 + c) % 2)
    noise = (7 * x * x + 5 * x * y + 13 * y * y + 17 * c) % 16
    return ((ramp + squares + noise) / 128).unsqueeze(0)


def sample_output(model: ImageModel) -> Tensor:
    """Return the output of a model for it, (channels, 24, 24)."""
    x = sample_image(model.in_channels)
    with torch.no_grad():
        y: Tensor = model(x, SIGMA if model.noise_level_input else None)
    return y[0]


def sample_of(model: ImageModel) -> Sample:
    """Return the part of the output that a card keeps."""
    output = sample_output(model)
    places = [[channel, *place] for channel in range(len(output)) for place in PLACES]
    return Sample(places, [round(output[c, y, x].item(), 6) for c, y, x in places])
