"""What every model is: a module that knows how it was made, and so can be saved and made again."""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from fwnet.models.weight_files import ModelFileError, read_weights, write_weights
from fwnet.version import __version__

__all__ = [
    "MODELS",
    "Model",
    "SignalModel",
    "check_device",
    "create_model",
    "load_model",
    "read_model",
    "restore_model",
    "write_model",
]

MODELS: dict[str, type[Model]] = {}
METADATA_KEY = "fwnet"


class Model(nn.Module, ABC):
    """A network with a published name. Every subclass is in the registry `MODELS`.

    `config` holds the arguments of the constructor: plain numbers, words and lists, so that a file
    can hold them. A `generator`, which only makes the initial weights, is left out.
    """

    config: dict[str, Any]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if not inspect.isabstract(cls):
            MODELS[cls.__name__] = cls

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Note the arguments before the constructor sees them."""
        model = super().__new__(cls)
        # Partial, because copy.deepcopy makes an empty object and fills it in afterwards.
        bound = inspect.signature(cls).bind_partial(*args, **kwargs)
        bound.apply_defaults()
        bound.arguments.pop("generator", None)
        config = {name: _plain(value) for name, value in bound.arguments.items()}
        object.__setattr__(model, "config", config)
        return model

    def watched(self) -> dict[str, float | list[float]]:
        """The few learned numbers that are worth watching during training, by name."""
        return {}

    @property
    def num_parameters(self) -> int:
        """How many numbers are learned."""
        return sum(parameter.numel() for parameter in self.parameters())

    def save(self, path: str | Path, notes: Mapping[str, Any] | None = None) -> None:
        """Write weights and configuration to one safetensors file, whole or not at all.

        notes: What else the file should say, in JSON's kinds of values: data, command, figures.
        """
        about = {
            "model": type(self).__name__,
            "config": self.config,
            "version": __version__,
            "notes": dict(notes or {}),
        }
        write_model(path, about, self.state_dict())


class SignalModel(Model):
    """A model of signals x, (batch, n), that makes codes of them on its way."""

    num_features: int

    @abstractmethod
    def encode(self, x: Tensor) -> Tensor:
        """Return the codes, (batch, m), of signals x, (batch, n)."""

    def _check_features(self, x: Tensor) -> None:
        if x.ndim == 0 or x.shape[-1] != self.num_features:
            raise ValueError(
                f"x must have shape (batch, n) with n = {self.num_features}, got {tuple(x.shape)}"
            )


def _plain(value: Any) -> Any:
    """A value as a file gives it back: numbers of NumPy and torch as Python's, tuples as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return value


def create_model(name: str, **config: Any) -> Model:
    """Make a model of the registry from its name and the arguments of its constructor."""
    if name not in MODELS:
        raise ValueError(f"model must be one of {', '.join(sorted(MODELS))}, got {name!r}")
    return MODELS[name](**config)


def load_model(
    path: str | Path, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
) -> Model:
    """Make the model that `Model.save` wrote, in evaluation mode. Nothing is unpickled.

    dtype: By default that of the weights in the file.
    """
    check_device(device)
    about, weights = read_model(path)
    try:
        model = restore_model(about["model"], about["config"], weights, dtype)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"{path} holds a model that cannot be made here: {error}") from error
    except RuntimeError as error:
        lines = str(error).strip().splitlines()
        raise ModelFileError(f"{path} does not fit its configuration: {lines[-1]}") from error
    return model.to(device)


def check_device(device: str | torch.device) -> None:
    """Raise unless torch can compute there, on this machine."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # the latter where torch is built without CUDA
        raise ValueError(
            f"device must be cpu or another that torch has here, got {str(device)!r}"
        ) from error


def read_model(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return what a file says of its model (model, config, version, notes), and the weights."""
    try:
        weights, metadata = read_weights(Path(path))
    except OSError as error:  # a name too long, a folder without permission
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from error
    try:
        about = json.loads(metadata[METADATA_KEY])
        _ = about["model"], about["config"]
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path} holds tensors but no fwnet model: expected a file that Model.save wrote"
        ) from error
    return about, weights


def write_model(path: str | Path, about: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Write such a file, whole or not at all."""
    write_weights(Path(path), weights, {METADATA_KEY: json.dumps(about)})


def restore_model(
    name: str,
    config: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    dtype: torch.dtype | None = None,
) -> Model:
    """Make a model with given weights, in evaluation mode.

    dtype: By default that of the weights; where they have several, torch's default.
    """
    model = create_model(name, **config)
    dtypes = {tensor.dtype for tensor in weights.values() if tensor.is_floating_point()}
    if dtype is None and len(dtypes) == 1:
        dtype = dtypes.pop()
    # A model that has it already is left alone: what is fixed (p, γ) has more digits.
    if dtype is not None and any(weight.dtype != dtype for weight in model.parameters()):
        model.to(dtype)
    model.load_state_dict(weights)
    return model.eval()
