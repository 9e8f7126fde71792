"""The base class of restorations: how images are degraded, and how a network undoes it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from fwnet.data import ImageSet, read_pixels
from fwnet.errors import FwnetError
from fwnet.models import ImageModel
from fwnet.restoration.option import NoOptions
from fwnet.restoration.recipe import Recipe
from fwnet.zoo import TrainedModel

TrainingData = str | Path | tuple[str | Path, str | Path] | None


@dataclass(frozen=True)
class ImageSource:
    """Files to learn from.

    Attributes:
        files: The image files.
        description: What they are, in words that follow "images".
        held_files: Other files to validate with; None to hold out some of `files`.

    >>> from pathlib import Path
    >>> from fwnet.restoration import ImageSource
    >>> ImageSource([Path("sea.png")], "of the sea").description
    'of the sea'
    """

    files: list[Path]
    description: str
    held_files: list[Path] | None = None


@dataclass(frozen=True)
class Example:
    """A degraded image beside the one it was made from.

    Attributes:
        degraded: The input of the restoration, (1, channel, h, w).
        wanted: The clean image.
        sigma: The noise level of `degraded`; None where there is no noise.

    >>> import torch
    >>> from fwnet.restoration import Example
    >>> clean = torch.rand(1, 1, 8, 8)
    >>> Example(clean + 0.1 * torch.randn_like(clean), clean, sigma=0.1).degraded.shape
    torch.Size([1, 1, 8, 8])
    """

    degraded: Tensor
    wanted: Tensor
    sigma: float | None = None


class Restoration(ABC):
    """How clean images are degraded, and how a network is trained and applied to undo it.

    A subclass describes one kind of restoration, an object one case of it: noise of σ = 25, or a
    scale of 3. `fwnet.training` trains networks for any of them, `fwnet.imaging` applies them to
    images and files, and the command line makes the commands NAME and train NAME of each.

    Attributes:
        name: The name of the command, and of the task on cards and in model files.
        does: What a network does, in words that follow "a network that".
        help: The help text of the command.
        notes: The text below its options.
        model_shown: Its default network, as --help says it; None if none is shipped.
        train_help: The help text of the training command.
        data_shown: Its default images, as --help says it; None if there are none.
        start_help: What the help text of its option --start adds.
        train_notes: The text below its options.
        baseline_name: What `baseline` returns, as --help says it.
        baseline_words: Start of the sentence about PSNR without a network: "the noisy images have".
        recipe: Networks and settings.
        apply_options: A dataclass of `option` fields: the command's own options.
        train_options: The same for the training command.
        choices: Those of `apply_options` that choose among the shipped networks.
        scale: The result is `scale` times the height and width of the image.
        luma: Whether the network sees only Y of YCbCr; chroma comes from `baseline`.
        sigma: The known noise level of images to restore; None to estimate it where it is needed.
        pairs: Whether training images are pairs: channels of the clean image, then of the other.

    >>> import fwnet
    >>> kind = fwnet.restoration.RESTORATIONS["denoise"]
    >>> kind.__name__, issubclass(kind, fwnet.restoration.Restoration)
    ('Denoising', True)
    """

    name: ClassVar[str]
    does: ClassVar[str]
    help: ClassVar[str]
    notes: ClassVar[str] = ""
    model_shown: ClassVar[str | None] = None
    train_help: ClassVar[str] = "Train a network on a folder of clean images."
    data_shown: ClassVar[str | None] = None
    start_help: ClassVar[str] = ""
    train_notes: ClassVar[str] = ""
    baseline_name: ClassVar[str] = "the input"
    baseline_words: ClassVar[str] = "the degraded images have"
    recipe: ClassVar[Recipe]
    apply_options: ClassVar[type] = NoOptions
    train_options: ClassVar[type] = NoOptions
    choices: ClassVar[tuple[str, ...]] = ()
    luma: ClassVar[bool] = False
    scale: int = 1
    sigma: float | None = None
    pairs: bool = False

    # --- What a network was trained for

    @classmethod
    @abstractmethod
    def for_network(cls, trained: TrainedModel, **asked: Any) -> Self:
        """Return the restoration that a network was trained for; raise if it is of another kind.

        asked: What the caller asks for, by the names of `apply_options`.
        """

    @classmethod
    @abstractmethod
    def from_options(
        cls, start: TrainedModel | None, model: str | None = None, **options: Any
    ) -> Self:
        """Return what to train for, from the options of the training command.

        Args:
            start: The network to start from.
            model: The class of the network.
            options: By the names of `train_options`.
        """

    @classmethod
    @abstractmethod
    def default_models(cls, *, lossy: bool = False, **asked: Any) -> dict[int, str]:
        """Return names of shipped networks by the number of channels they see.

        Args:
            lossy: Whether the images were compressed as JPEG.
            asked: By the names of `apply_options`.
        """

    @classmethod
    def from_command_line(cls, **options: Any) -> dict[str, Any]:
        """Return arguments of `for_network` from options of the command line."""
        return options

    @classmethod
    def data_from_options(cls, data: Path | None, **options: Any) -> TrainingData:
        """Return what to learn from: --data, or what the options of the training command say."""
        return data

    @classmethod
    def hints(cls, **options: Any) -> list[str]:
        """Return hints about options that are probably not what the user means."""
        return []

    @property
    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What model files and cards say about the restoration: "sigma", "scale", …"""

    @property
    def network_arguments(self) -> dict[str, Any]:
        """Arguments that a network for this restoration must have."""
        return {}

    @property
    def data_fingerprint(self) -> tuple[Any, ...]:
        """Everything that the training data depends on besides the images."""
        return tuple(self.facts.values())

    def make_network(
        self,
        model: str | None = None,
        *,
        start: ImageModel | None = None,
        seed: int = 0,
        **asked: Any,
    ) -> ImageModel:
        """Make a network that can learn this; arguments are those of `Recipe.make_network`."""
        changes = self.network_arguments
        return self.recipe.make_network(model, changes, start=start, seed=seed, **asked)

    def check_network(self, network: ImageModel) -> None:
        """Raise unless a network can learn this."""
        expected = {"in_channels": 1, "noise_level_input": False, "scale": 1}
        for name, value in (expected | self.network_arguments).items():
            if getattr(network, name) != value:
                raise FwnetError(
                    f"{name} of the network must be {value}, got {getattr(network, name)}"
                )

    # --- Where training images come from

    @property
    def crop_size(self) -> int:
        """Default side of the crops to learn from."""
        return 48

    @property
    def margin(self) -> int:
        """Pixels around a crop that `degrade_crops` needs, and removes."""
        return 0

    def check_crop_size(self, crop_size: int) -> None:  # noqa: B027
        """Raise for a side of crops that cannot be used; by default all can."""

    def source(
        self, found: list[Path] | None, where: str, num_held: int, warn: Callable[[str], object]
    ) -> ImageSource:
        """Choose the files to learn from.

        Args:
            found: The images of the user's folder; None for the default images.
            where: Where they are, in words that follow "images".
            num_held: How many default images to validate with.
            warn: Called with a line for files that are left out.
        """
        if found is None:
            raise FwnetError(f"--data must be a folder of images: {self.name} has no default")
        return ImageSource(found, where)

    def read(self, path: Path) -> np.ndarray:
        """Read a file as uint8 of shape (height, width, channel)."""
        return read_pixels(path, color=self.network_arguments.get("in_channels", 1) == 3)

    # --- Training

    @property
    def crop_scale(self) -> int:
        """Ratio of the clean crop's side to the side of the network's input."""
        return 1

    def usable(self, image: Tensor) -> Tensor:
        """Return the part of a clean image that can be degraded."""
        return image

    @abstractmethod
    def degrade(self, image: Tensor) -> Tensor:
        """Return a degraded copy of a clean image, (1, channel, h, w)."""

    def seen(self, image: Tensor) -> Tensor:
        """Return what the network sees of a degraded image."""
        return image

    def measured(self, images: ImageSet) -> Self:
        """Return this restoration with what only the images to learn from can tell."""
        return self

    def learning_images(self, images: ImageSet, crop_size: int) -> tuple[ImageSet, ImageSet | None]:
        """Return clean images, and what a network sees of them.

        The second is None where all is done to crops, anew at every step (`degrade_crops`).
        """
        wanted, degraded = [], []
        for index in range(len(images)):  # one at a time, to save memory
            image = self.usable(images[index])
            wanted.append((255 * image).round().byte())
            degraded.append(255 * self.seen(self.degrade(image)).to(image.dtype))
        return _image_set(wanted, images.names), _image_set(degraded, images.names)

    def degrade_crops(
        self, seen: Tensor, clean: Tensor, generator: torch.Generator, seed: int, step: int
    ) -> tuple[Tensor, ...]:
        """Return a batch for `loss`: degraded crops, the clean ones, and what else it needs.

        Args:
            seen: Crops of the images that a network sees, (batch, channel, side, side); the clean
                ones where there are no such images.
            clean: The same crops of the clean images, with the margin.
            generator: Has drawn the crops.
            seed: Seed of the training.
            step: Number of the step.
        """
        return seen, clean

    def loss(self, model: nn.Module, *batch: Tensor) -> Tensor:
        """mean ‖f(x) − clean‖² over a batch of crops."""
        x, clean = batch
        error: Tensor = (model(x).float() - clean).square().mean()
        return error

    def examples(self, image: Tensor, index: int) -> Iterator[Example]:
        """Yield degraded copies of a clean image to validate or test with.

        index: Number of the image, which decides all that is random.
        """
        wanted = self.usable(image)
        yield Example(self.degrade(wanted), wanted)

    def compared(self, restored: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
        """Return the parts of a result and of the clean image that are compared."""
        return restored, wanted

    # --- Applying a network

    def baseline(self, image: Tensor) -> Tensor:
        """Return what a degraded image becomes without a network."""
        return image

    def restore(
        self, network: Callable[..., Tensor], image: Tensor, sigma: float | None = None
    ) -> Tensor:
        """Apply a network to a degraded image.

        Args:
            network: Takes an image as the network sees it and, where it needs one, σ.
            image: (1, channel, h, w).
            sigma: The noise level of the image; None for a network that needs none.
        """
        return network(self.seen(image))

    def within_range(self, restored: Tensor, image: Tensor) -> Tensor:
        """Return the result for an image whose values end at black and white, not beyond."""
        return restored

    def halo(self, network: ImageModel) -> int:
        """Return how far away a pixel of the image can be and still change the result."""
        return network.receptive_radius

    def describe(self, width: int, height: int, sigma: float | None) -> str:
        """Describe a result in words: its width and height, and the noise level if used."""
        return f"{width} × {height}"


def check_task(kind: type[Restoration], name: str, facts: Mapping[str, Any]) -> None:
    """Raise if a network was trained for another task than this kind of restoration."""
    task = facts.get("task", kind.name)
    if task != kind.name:
        raise FwnetError(f"expected a network that {kind.does}, got {name}, trained to {task}")


def _image_set(images: list[Tensor], names: tuple[str, ...]) -> ImageSet:
    arrays: list[np.ndarray] = [image[0].permute(1, 2, 0).numpy() for image in images]
    return ImageSet.of(arrays, names)
