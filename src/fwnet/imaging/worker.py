"""What puts a network to work on images of any kind and size: device, tiles, loading."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fwnet.imaging.errors import ImageError
from fwnet.models import ImageModel, Model
from fwnet.zoo import load_model, read_notes

__all__ = ["ImageWorker", "LoadedNetwork", "exact_inference", "gray_of"]

# Sides of tiles. With T = 16 and 64 maps one of 384 × 384 takes about 200 MB; larger ones are no
# faster on a CPU, and on a GPU small ones do not fill it.
TILE_CPU = 384
TILE_GPU = 1024


@dataclass(frozen=True)
class LoadedNetwork:
    """A network that is ready.

    Attributes:
        model: The network.
        name: What to call it in a sentence.
        notes: What its file says of it, if it comes from one.
    """

    model: ImageModel
    name: str
    notes: Mapping[str, Any]


class ImageWorker:
    """A device, the side of the tiles that suit it, and networks that are ready to work there.

    Args:
        model: What will be loaded first, whose device counts if it is an `ImageModel`.
        device: Where to compute; None stands for a CUDA device where there is one, and for that
            of an `ImageModel`.
        tile: The side of the tiles that large images are cut into; None for what suits the device.
    """

    def __init__(
        self,
        model: str | Path | ImageModel | None,
        device: str | torch.device | None,
        tile: int | None,
    ) -> None:
        if tile is not None and (not isinstance(tile, int) or tile < 1):
            raise ImageError(f"tile must be an integer >= 1, got {tile!r}")
        if device is None and isinstance(model, ImageModel):
            device = next((weight.device for weight in model.parameters()), None)
        self.device = _device(device)
        self.tile = tile or (TILE_CPU if self.device.type == "cpu" else TILE_GPU)

    def _load(self, model: str | Path | ImageModel) -> LoadedNetwork:
        """A copy of our own, which nobody minds to find elsewhere in memory and in another mode."""
        if isinstance(model, Model) and not isinstance(model, ImageModel):
            raise ImageError(f"expected a network for images, got a {type(model).__name__}")
        if not isinstance(model, str | Path | ImageModel):
            raise TypeError(
                f"model must be a name, a path or a network for images, got {type(model).__name__}"
            )
        loaded: Any = copy.deepcopy(model) if isinstance(model, ImageModel) else load_model(model)
        if not isinstance(loaded, ImageModel):
            raise ImageError(
                f"expected a network for images, got {model}, which holds a {type(loaded).__name__}"
            )
        if any(weight.dtype in (torch.float16, torch.bfloat16) for weight in loaded.parameters()):
            loaded.float()  # weights of a small file; images need more digits
        # Channels last are faster on a CPU.
        loaded.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        loaded.eval()
        if isinstance(model, ImageModel):
            return LoadedNetwork(loaded, f"a {type(model).__name__}", {})
        return LoadedNetwork(loaded, str(model), read_notes(model))

    def _call(self, model: ImageModel, x: Tensor, sigma: float | None = None) -> Tensor:
        """What a network makes of x, in float32."""
        dtype = next((weight.dtype for weight in model.parameters()), x.dtype)
        x = x.to(self.device, dtype).contiguous(memory_format=torch.channels_last)
        y: Tensor = model(x, sigma)
        return y.float()


def gray_of(colors: np.ndarray) -> np.ndarray | None:
    """The one channel, (h, w, 1), of an image that has it three times; None for other images."""
    if colors.shape[2] != 3:
        return None
    for row in colors:  # one by one, as most images differ in the first
        if not (np.array_equal(row[:, 0], row[:, 1]) and np.array_equal(row[:, 0], row[:, 2])):
            return None
    return colors[..., :1]


@contextlib.contextmanager
def exact_inference() -> Iterator[None]:
    """Keep no graph, and on a GPU all digits of float32: with fewer, tiles would be seen."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        with torch.inference_mode():
            yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def _device(device: str | torch.device | None) -> torch.device:
    if device in (None, "auto"):
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        raise ImageError(
            f"device must be auto, cpu or another that torch has here, got {str(device)!r}"
        ) from error
    return chosen
