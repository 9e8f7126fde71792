"""Tensors in safetensors files, written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from fwnet.errors import FwnetError

__all__ = ["ModelFileError", "read_weights", "write_weights"]


class ModelFileError(FwnetError):
    """A file that holds no model, in one line."""


def write_weights(path: Path, weights: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write tensors through a temporary file, so that a kill leaves the old file or the new one."""
    data = safetensors.torch.save(
        {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}, metadata
    )
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a file and the words beside them."""
    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise ModelFileError(f"{path} {what}")
    try:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelFileError(f"{path} is not a whole safetensors file: {error}") from error
