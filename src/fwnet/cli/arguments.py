"""Arguments that several commands have, and what becomes of them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import torch
import typer

__all__ = ["Device", "chosen_device", "make_folder"]

Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]


def chosen_device(name: str) -> torch.device:
    """The device that --device names."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise typer.BadParameter(f"expected auto, cpu or cuda, got {name!r}", param_hint="--device")
    if name == "cuda" and not torch.cuda.is_available():
        raise typer.BadParameter("this machine has no CUDA device", param_hint="--device")
    return torch.device(name)


def make_folder(output: Path) -> None:
    """Find out before the work whether its result can be written."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        raise typer.BadParameter(
            f"cannot write to {output}: {error.strerror}", param_hint="--output"
        ) from error
