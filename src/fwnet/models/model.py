"""The base class of all models: modules that can be saved to a file and loaded from it."""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from fwnet.errors import FwnetError
from fwnet.files import write_whole
from fwnet.hardware import choose_device
from fwnet.version import __version__

MODELS: dict[str, type[Model]] = {}
METADATA_KEY = "fwnet"


class ModelFileError(FwnetError):
    """A file that holds no usable model."""


class Model(nn.Module, ABC):
    """A network with a published name. Every subclass is in the registry `MODELS`.

    `config` holds the arguments of the constructor as plain numbers, texts and lists, so that a
    file can hold them. A `generator`, which only draws the initial weights, is left out.
    """

    config: dict[str, Any]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if not inspect.isabstract(cls):
            MODELS[cls.__name__] = cls

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Keep the arguments in `config` before the constructor sees them."""
        model = super().__new__(cls)
        # Partial, because copy.deepcopy makes an empty object and fills it in afterwards.
        bound = inspect.signature(cls).bind_partial(*args, **kwargs)
        bound.apply_defaults()
        bound.arguments.pop("generator", None)
        config = {name: _plain(value) for name, value in bound.arguments.items()}
        object.__setattr__(model, "config", config)
        return model

    def watched(self) -> dict[str, float | list[float]]:
        """Return the few learned numbers that are worth watching during training, by name."""
        return {}

    @property
    def num_parameters(self) -> int:
        """The number of learned numbers."""
        return sum(parameter.numel() for parameter in self.parameters())

    def save(self, path: str | Path, notes: Mapping[str, Any] | None = None) -> None:
        """Write weights and configuration to one safetensors file, whole or not at all.

        notes: What else the file should say, as JSON values: data, command, figures.
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
    """Return a value as a file gives it back: Python numbers, and lists instead of tuples."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return value


def create_model(name: str, **config: Any) -> Model:
    """Make a model from its name in the registry and the arguments of its constructor."""
    if name not in MODELS:
        raise ValueError(f"model must be one of {', '.join(sorted(MODELS))}, got {name!r}")
    return MODELS[name](**config)


def load_model(
    path: str | Path, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
) -> Model:
    """Load the model that `Model.save` wrote, in evaluation mode. Nothing is unpickled.

    dtype: By default that of the weights in the file.
    """
    chosen = choose_device(device)
    about, weights = read_model(path)
    return model_from(path, about, weights, dtype).to(chosen)


def read_model(
    path: str | Path, data: bytes | None = None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return what a file says about its model (model, config, version, notes), and the weights.

    data: The bytes of the file, where they are known already.
    """
    weights, metadata = read_weights(Path(path), data)
    try:
        about: dict[str, Any] = json.loads(metadata[METADATA_KEY])
        _ = about["model"], about["config"]
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path} holds tensors but no fwnet model: expected a file that Model.save wrote"
        ) from error
    return about, weights


def write_model(path: str | Path, about: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Write such a file, whole or not at all."""
    write_weights(Path(path), weights, {METADATA_KEY: json.dumps(about)})


def model_from(
    path: str | Path,
    about: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    dtype: torch.dtype | None = None,
) -> Model:
    """Make the model that a file describes; `path` is for error messages."""
    try:
        return restore_model(about["model"], about["config"], weights, dtype)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"{path} holds a model that cannot be made here: {error}") from error
    except RuntimeError as error:
        lines = str(error).strip().splitlines()
        raise ModelFileError(f"{path} does not fit its configuration: {lines[-1]}") from error


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
    # A model that has this dtype already is left alone: fixed p and γ have more digits.
    if dtype is not None and any(weight.dtype != dtype for weight in model.parameters()):
        model.to(dtype)
    model.load_state_dict(weights)
    return model.eval()


def write_weights(path: Path, weights: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write tensors and texts through a temporary file: a kill leaves the old file or the new."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    write_whole(path, safetensors.torch.save(tensors, metadata))


def read_weights(path: Path, data: bytes | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a file and the texts beside them; `data` as in `read_model`."""
    try:
        data = path.read_bytes() if data is None else data
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelFileError(f"{path} does not exist") from error
    except IsADirectoryError as error:
        raise ModelFileError(f"{path} is not a file") from error
    except OSError as error:  # a name too long, no permission
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from error
    try:
        weights = safetensors.torch.load(data)
        length = int.from_bytes(data[:8], "little")  # of the header, which holds the texts
        metadata = json.loads(data[8 : 8 + length]).get("__metadata__", {})
    except (SafetensorError, ValueError) as error:
        raise ModelFileError(f"{path} is not a whole safetensors file: {error}") from error
    return weights, metadata
