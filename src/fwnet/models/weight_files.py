"""Tensors in safetensors files, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from fwnet.errors import FwnetError
from fwnet.files import write_whole

__all__ = ["ModelFileError", "parse_weights", "read_weights", "write_weights"]


class ModelFileError(FwnetError):
    """A file that holds no usable model."""


def write_weights(path: Path, weights: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write tensors and texts through a temporary file: a kill leaves the old file or the new."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    write_whole(path, safetensors.torch.save(tensors, metadata))


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a file and the texts beside them."""
    if not path.is_file():
        problem = "is not a file" if path.exists() else "does not exist"
        raise ModelFileError(f"{path} {problem}")
    return parse_weights(path, path.read_bytes())


def parse_weights(path: Path, data: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and texts in the bytes of a file; `path` is for error messages."""
    try:
        weights = safetensors.torch.load(data)
        length = int.from_bytes(data[:8], "little")  # of the header, which holds the texts
        metadata = json.loads(data[8 : 8 + length]).get("__metadata__", {})
    except (SafetensorError, ValueError) as error:
        raise ModelFileError(f"{path} is not a whole safetensors file: {error}") from error
    return weights, metadata
