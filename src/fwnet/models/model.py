"""The base classes of models, and models made from what a file says."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from fwnet.checks import MOST_LAYERS, check_tensor
from fwnet.hardware import choose_device, widest_dtype
from fwnet.models.model_files import ModelFileError, read_model, write_model
from fwnet.sets import ConvexSet, set_to_config
from fwnet.version import __version__

MODELS: dict[str, type[Model]] = {}
ORDINARY_SIZE = 1000  # with defaults beside it, not much
MOST_PER_WEIGHT = 64  # beyond this and MOST_LAYERS, a file is looked at closely


class Model(nn.Module, ABC):
    """A network with a published name. Every subclass is in the registry `MODELS`.

    `config` holds the arguments of the constructor as plain numbers, texts and lists, so that a
    file can hold them. A `generator`, which only draws the initial weights, is left out.

    >>> import fwnet, torch
    >>> net = fwnet.FWNet(10, 20, num_layers=3, p=1.5)
    >>> net.config["num_layers"], net.config["p"]
    (3, 1.5)
    >>> net.save("mine.safetensors")
    >>> x = torch.randn(4, 10)
    >>> torch.equal(fwnet.load_model("mine.safetensors")(x), net(x))
    True
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

    def to(self, *arguments: Any, **options: Any) -> Self:
        """Move or convert as torch does. Fixed p and γ become float32 where there is no float64."""
        device = torch._C._nn._parse_to(*arguments, **options)[0]
        if device is not None and widest_dtype(device) != torch.float64:
            for module in self.modules():
                for name, value in module.named_buffers(recurse=False):
                    if value.dtype == torch.float64:
                        setattr(module, name, value.float())
        return super().to(*arguments, **options)

    def _check_dtype(self, x: Tensor) -> None:
        """Raise unless x has the dtype of the matrices; autocast converts it."""
        dtype = next((w.dtype for w in self.parameters() if w.ndim >= 2), x.dtype)
        kind = x.device.type
        if x.dtype == dtype or (
            torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
        ):
            return
        expected, given = (str(one).removeprefix("torch.") for one in (dtype, x.dtype))
        raise TypeError(
            f"x must be {expected}, as the network is, got {given}: convert it with "
            f"x.to(torch.{expected}), or the network with .to(torch.{given})"
        )

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

    def save_pretrained(
        self, folder: str | Path, notes: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        """Write a folder as the Hugging Face Hub keeps models (extra `hub`). Nothing is pickled.

        Args:
            folder: Where to write model.safetensors, config.json and a card, README.md, unless
                there is one.
            notes: See `save`.
            options: Those of `huggingface_hub.ModelHubMixin.save_pretrained`.
        """
        _hub_model()(self, notes).save_pretrained(folder, **options)

    def push_to_hub(
        self, repo_id: str, notes: Mapping[str, Any] | None = None, **options: Any
    ) -> str:
        """Upload such a folder to the Hugging Face Hub; return its address.

        Args:
            repo_id: "OWNER/NAME".
            notes: See `save`.
            options: Those of `huggingface_hub.ModelHubMixin.push_to_hub`.
        """
        address: str = _hub_model()(self, notes).push_to_hub(repo_id, **options)
        return address

    @classmethod
    def from_pretrained(cls, folder_or_repo_id: str | Path, **options: Any) -> Self:
        """Load what `save_pretrained` wrote or `push_to_hub` uploaded, in evaluation mode.

        Args:
            folder_or_repo_id: A folder, or "OWNER/NAME" on the Hugging Face Hub.
            options: Those of `huggingface_hub.ModelHubMixin.from_pretrained`, such as `revision`.
        """
        model = _hub_model().from_pretrained(folder_or_repo_id, **options).network
        if not isinstance(model, cls):
            raise ModelFileError(
                f"{folder_or_repo_id} must hold a {cls.__name__}, got a {type(model).__name__}: "
                f"{type(model).__name__}.from_pretrained loads it"
            )
        return model


class SignalModel(Model):
    """A model of signals x, (batch, n), that makes codes of them on its way.

    >>> import fwnet, torch
    >>> isinstance(fwnet.LISTA(10, 20, num_layers=2), fwnet.models.SignalModel)
    True
    """

    num_features: int

    @abstractmethod
    def encode(self, x: Tensor) -> Tensor:
        """Return the codes, (batch, m), of signals x, (batch, n)."""

    def _check_features(self, x: Tensor) -> None:
        check_tensor("x", x)
        if x.ndim == 0 or x.shape[-1] != self.num_features:
            raise ValueError(
                f"x must have shape (batch, n) with n = {self.num_features}, got {tuple(x.shape)}"
            )
        self._check_dtype(x)


def _hub_model() -> Any:
    try:
        from fwnet.models.hub import HubModel
    except ImportError as error:
        raise ImportError(
            "the hub's methods need huggingface_hub: pip install '.[hub]' in the clone"
        ) from error
    return HubModel


def _plain(value: Any) -> Any:
    """Return a value as a file gives it back: Python numbers, and lists instead of tuples."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, ConvexSet):
        return set_to_config(value)
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return value


def create_model(name: str, **config: Any) -> Model:
    """Make a model from its name in the registry and the arguments of its constructor.

    >>> import fwnet
    >>> net = fwnet.models.create_model("FWNet", num_features=10, num_atoms=20, num_layers=3)
    >>> type(net).__name__
    'FWNet'
    """
    if name not in MODELS:
        raise ValueError(f"model must be one of {', '.join(sorted(MODELS))}, got {name!r}")
    return MODELS[name](**config)


def load_model(
    path: str | Path, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
) -> Model:
    """Load the model that `Model.save` wrote, in evaluation mode. Nothing is unpickled.

    dtype: By default that of the weights in the file.

    >>> import fwnet
    >>> fwnet.FWNet(10, 20, num_layers=3).save("mine.safetensors")
    >>> fwnet.models.load_model("mine.safetensors").num_layers
    3
    """
    chosen = choose_device(device)
    about, weights = read_model(path)
    return model_from(path, about, weights, dtype).to(chosen)


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

    >>> import fwnet
    >>> net = fwnet.FWNet(10, 20, num_layers=3)
    >>> same = fwnet.models.restore_model("FWNet", net.config, net.state_dict())
    >>> same.training
    False
    """
    _check_size(name, config, weights)
    model = create_model(name, **config)
    dtypes = {tensor.dtype for tensor in weights.values() if tensor.is_floating_point()}
    if dtype is None and len(dtypes) == 1:
        dtype = dtypes.pop()
    # A model that has this dtype already is left alone: fixed p and γ have more digits.
    if dtype is not None and any(weight.dtype != dtype for weight in model.parameters()):
        model.to(dtype)
    model.load_state_dict(weights)
    return model.eval()


def _check_size(name: str, config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Raise before memory is taken for a model that is far larger than its weights."""
    count = sum(tensor.numel() for tensor in weights.values())
    sizes = sorted(value for value in _integers(config.values()) if value > 0)
    largest = max([len(weights), *(side for tensor in weights.values() for side in tensor.shape)])
    sizes = sizes or [0]
    if (
        sizes[-1] <= max(ORDINARY_SIZE, largest)
        and math.prod(sizes[-3:]) <= MOST_PER_WEIGHT * count
    ):
        return  # a model has about that many weights: layers × inputs × outputs
    most = max(MOST_LAYERS, largest)
    if sizes[-1] > most:
        raise ValueError(f"sizes must be at most {most} for {count} weights, got {sizes[-1]}")
    with torch.device("meta"):  # which takes a second at first, but no memory
        expected = create_model(name, **config).state_dict()
    number = sum(tensor.numel() for tensor in expected.values())
    if number != count:
        raise ValueError(f"expected {number} weights, got {count}")


def _integers(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        if isinstance(value, int):
            yield value
        elif isinstance(value, list | tuple):
            yield from _integers(value)
