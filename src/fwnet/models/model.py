"""The base classes of models, of signals and of images; model files."""

from __future__ import annotations

import inspect
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn.functional import pixel_shuffle

from fwnet.checks import MOST_LAYERS, check_size, check_tensor
from fwnet.errors import FwnetError
from fwnet.files import why_not_readable, write_whole
from fwnet.hardware import choose_device, is_exporting, widest_dtype
from fwnet.resize import REACH, enlarge
from fwnet.sets import ConvexSet, set_to_config
from fwnet.version import __version__

MODELS: dict[str, type[Model]] = {}
METADATA_KEY = "fwnet"
MOST_PER_WEIGHT = 64  # beyond this and MOST_LAYERS, a file is looked at closely


class ModelFileError(FwnetError):
    """A file that holds no usable model.

    >>> import fwnet
    >>> try:
    ...     fwnet.load_model("nosuchfile.safetensors")
    ... except fwnet.models.ModelFileError as error:
    ...     print(error)
    nosuchfile.safetensors does not exist
    """


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


class ImageModel(Model):
    """y = x + f(x) or, without `residual`, y = f(x), for images x of shape (batch, channel, h, w).

    Values are in [0, 1]. With a noise-level input f gets one more channel, which holds σ at every
    pixel, so that one network serves all σ. With a `scale` s > 1, y has s·h × s·w pixels, and f(x)
    is added to x enlarged bicubically. With a `reduction` r > 1, f works on 1/r of the height and
    width: it sees the r² pixels of every r × r square of x as r² planes.

    Attributes:
        in_channels: The channels of x and y: 1 for gray, 3 for color.
        residual: Whether f(x) is added to x.
        noise_level_input: Whether `forward` needs σ.
        scale: Scale factor: y is `scale` times the height and width of x.
        reduction: The side of the squares of x that f takes as one place.
        receptive_radius: The largest distance, in pixels of x, at which a pixel of x affects a
            pixel of y.
        multiply_adds: The number of multiplications with weights per pixel of y.

    >>> import fwnet
    >>> net = fwnet.load_model("conv_fwnet_t16.denoise_gray")
    >>> isinstance(net, fwnet.models.ImageModel), net.noise_level_input, net.reduction
    (True, True, 2)
    """

    in_channels: int
    residual: bool
    noise_level_input: bool
    scale: int
    reduction: int

    def __init__(
        self,
        in_channels: int,
        *,
        residual: bool,
        noise_level_input: bool,
        scale: int = 1,
        reduction: int = 1,
    ) -> None:
        super().__init__()
        for name, value in (("residual", residual), ("noise_level_input", noise_level_input)):
            if value not in (True, False):
                raise ValueError(f"{name} must be True or False, got {value!r}")
        check_size("in_channels", in_channels)
        check_size("scale", scale)
        check_size("reduction", reduction)
        self.in_channels, self.residual = in_channels, residual
        self.noise_level_input, self.scale, self.reduction = noise_level_input, scale, reduction

    @property
    def in_planes(self) -> int:
        """The channels that f sees, that of the noise level included."""
        return self.in_channels * self.reduction**2 + self.noise_level_input

    @property
    def out_planes(self) -> int:
        """The channels of f(x)."""
        return self.in_channels * (self.scale * self.reduction) ** 2

    @property
    @abstractmethod
    def receptive_radius(self) -> int:
        """The largest distance at which pixels matter."""

    @property
    @abstractmethod
    def multiply_adds(self) -> int:
        """Multiplications with weights per pixel."""

    @abstractmethod
    def _transform(self, x: Tensor) -> Tensor:
        """Return f(x) as planes, (batch, out_planes, h/r, w/r), of those that f sees."""

    def forward(self, x: Tensor, sigma: float | Tensor | None = None) -> Tensor:
        """Return y, (batch, channel, scale·h, scale·w).

        sigma: The standard deviation of the noise, on the scale of x: one number, or one per image.
            Required with a noise-level input, and an error without.
        """
        y = self._transform(self._seen(x, sigma))
        if self.scale * self.reduction > 1:
            y = pixel_shuffle(y, self.scale * self.reduction)
        if self.reduction > 1:
            y = of_size(y, *(self.scale * length for length in x.shape[-2:]))
        if not self.residual:
            return y
        return y + (x if self.scale == 1 else enlarge(x, self.scale))

    def _seen(self, x: Tensor, sigma: float | Tensor | None) -> Tensor:
        """Return what f sees of images and their noise level, (batch, in_planes, h/r, w/r)."""
        check_tensor("x", x)
        if x.ndim != 4 or x.shape[1] != self.in_channels:
            raise ValueError(
                f"x must have shape (batch, {self.in_channels}, height, width), "
                f"got {tuple(x.shape)}"
            )
        return self._with_noise_level(self._planes(x), sigma)

    def _planes(self, x: Tensor) -> Tensor:
        """Return (batch, channel·r², h/r, w/r); the last row and column fill up the squares."""
        r = self.reduction
        if r == 1:
            return x
        x = of_size(x, *((length + r - 1) // r * r for length in x.shape[-2:]))
        # Not by torch's pixel_unshuffle, which leaves an empty batch as it is.
        squares: Tensor = x.unflatten(3, (-1, r)).unflatten(2, (-1, r))
        return squares.permute(0, 1, 3, 5, 2, 4).flatten(1, 3)

    def _with_noise_level(self, x: Tensor, sigma: float | Tensor | None) -> Tensor:
        if (sigma is not None) != self.noise_level_input:
            expected = "a number" if self.noise_level_input else "None for this network"
            raise ValueError(f"sigma must be {expected}, got {sigma!r}")
        if sigma is None:
            return x
        level = torch.as_tensor(sigma, dtype=x.dtype, device=x.device).reshape(-1, 1, 1, 1)
        batch, _, height, width = x.shape  # len(x) would fix the batch of an exported graph
        if level.shape[0] not in (1, batch):
            raise ValueError(
                f"sigma must be one number, or one for each of {batch} images, got {len(level)}"
            )
        return torch.cat([x, level.expand(batch, 1, height, width)], 1)


class ConvolutionalModel(ImageModel):
    """An `ImageModel` that is a chain of convolutions, each of which keeps the image size."""

    @abstractmethod
    def _chain(self) -> Sequence[nn.Conv2d]:
        """Return the convolutions between x and y, in order; a shared one once per use."""

    @property
    def receptive_radius(self) -> int:
        """r·(sum of the radii of the kernels) + r − 1; at least that of the enlargement, if any."""
        radius = sum(one.kernel_size[0] // 2 for one in self._chain())
        radius = self.reduction * (radius + 1) - 1  # from one end of a square to the other
        return max(radius, REACH) if self.residual and self.scale > 1 else radius

    @property
    def multiply_adds(self) -> int:
        """The number of weights per place, divided by the number of pixels of y it becomes."""
        pixels = (self.scale * self.reduction) ** 2
        return round(sum(one.weight.numel() for one in self._chain()) / pixels)


def of_size(x: Tensor, height: int, width: int) -> Tensor:
    """Cut images to a size, or fill them up by copies of their last row and column."""
    # An exported graph serves all sizes, which slices and torch's pad would not.
    if is_exporting() or x.shape[-2:] != (height, width):
        for axis, length in ((2, height), (3, width)):
            places = torch.arange(length, device=x.device).clamp(max=x.shape[axis] - 1)
            x = x.index_select(axis, places)
    return x


def convolution(in_channels: int, out_channels: int, kernel_size: int, bias: bool) -> nn.Conv2d:
    """Return a convolution that keeps the size, with zeros around the image as in the paper."""
    return nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2, bias=bias)


def set_normal(layers: Sequence[nn.Conv2d], gain: float, generator: torch.Generator | None) -> None:
    """Draw the kernels from N(0, gain²/fan-in); set the biases to 0."""
    if not 0 <= gain < math.inf:
        raise ValueError(f"output_gain must be a number >= 0, got {gain!r}")
    with torch.no_grad():
        for layer in layers:
            fan_in = max(1, layer.weight[0].numel())
            layer.weight.normal_(0, gain / fan_in**0.5, generator=generator)
            if layer.bias is not None:
                layer.bias.zero_()


def check_kernel_size(kernel_size: int) -> None:
    """Raise unless kernel_size is an odd integer >= 1."""
    if not isinstance(kernel_size, int) or kernel_size % 2 == 0:
        raise ValueError(f"kernel_size must be an odd integer >= 1, got {kernel_size!r}")
    check_size("kernel_size", kernel_size)


def as_convolutions(layers: nn.ModuleList) -> list[nn.Conv2d]:
    """Return the convolutions of a list, typed."""
    return [cast("nn.Conv2d", layer) for layer in layers]


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


def read_model(
    path: str | Path, data: bytes | None = None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return what a file says about its model (model, config, version, notes), and the weights.

    data: The bytes of the file, where they are known already.

    >>> import fwnet
    >>> fwnet.FWNet(10, 20, num_layers=3).save("mine.safetensors")
    >>> about, weights = fwnet.models.read_model("mine.safetensors")
    >>> about["model"], about["config"]["num_layers"], list(weights)[:2]
    ('FWNet', 3, [...])
    """
    weights, metadata = read_weights(Path(path), data)
    try:
        about: dict[str, Any] = json.loads(metadata[METADATA_KEY])
        if not (isinstance(about["model"], str) and isinstance(about["config"], dict)):
            raise TypeError
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(
            f"{path} holds tensors but no fwnet model: expected a file that Model.save wrote"
        ) from error
    return about, weights


def write_model(path: str | Path, about: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Write such a file, whole or not at all.

    >>> import fwnet
    >>> net = fwnet.FWNet(10, 20, num_layers=3)
    >>> about = {"model": "FWNet", "config": net.config}
    >>> fwnet.models.write_model("mine.safetensors", about, net.state_dict())
    >>> fwnet.load_model("mine.safetensors").num_layers
    3
    """
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
    if not sizes or math.prod(sizes[-3:]) <= MOST_PER_WEIGHT * count:
        return  # a model has about that many weights: layers × inputs × outputs
    most = max([MOST_LAYERS, *(side for tensor in weights.values() for side in tensor.shape)])
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


def write_weights(path: Path, weights: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write tensors and texts through a temporary file: a kill leaves the old file or the new.

    >>> import fwnet, torch
    >>> from pathlib import Path
    >>> fwnet.models.write_weights(Path("w.safetensors"), {"W": torch.eye(2)}, {})
    >>> Path("w.safetensors").exists()
    True
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    write_whole(path, safetensors.torch.save(tensors, metadata))


def read_weights(path: Path, data: bytes | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a file and the texts beside them; `data` as in `read_model`.

    >>> import fwnet, torch
    >>> from pathlib import Path
    >>> fwnet.models.write_weights(Path("w.safetensors"), {"W": torch.eye(2)}, {"made by": "me"})
    >>> fwnet.models.read_weights(Path("w.safetensors"))
    ({'W': tensor([[1., 0.],
            [0., 1.]])}, {'made by': 'me'})
    """
    if data is None and (problem := why_not_readable(path)):
        raise ModelFileError(f"{path} {problem}")
    try:
        data = path.read_bytes() if data is None else data
    except OSError as error:  # no permission
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from error
    try:
        weights = safetensors.torch.load(data)
        length = int.from_bytes(data[:8], "little")  # of the header, which holds the texts
        metadata = json.loads(data[8 : 8 + length]).get("__metadata__", {})
    except (SafetensorError, ValueError) as error:
        raise ModelFileError(f"{path} is not a whole safetensors file") from error
    return weights, metadata
