"""Upscaling: enlarge images that were shrunk bicubically (super-resolution)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from fwnet.checks import check_integer
from fwnet.data import (
    ImageSet,
    berkeley_training_files,
    berkeley_validation_files,
    read_luma,
    t91_files,
)
from fwnet.errors import FwnetError
from fwnet.hardware import widest_dtype
from fwnet.metrics import as_displayed, shave
from fwnet.models import ImageModel
from fwnet.resize import REACH, enlarge, shrink
from fwnet.restoration.jpeg import SIDE, jpeg
from fwnet.restoration.recipe import Recipe, Settings
from fwnet.restoration.restoration import Example, ImageSource, Restoration, check_task
from fwnet.restoration.upscaling_options import NOTES, TRAIN_NOTES, ApplyOptions, TrainOptions
from fwnet.zoo import TrainedModel

DEFAULT_SCALE = 3
MODELS = {scale: f"conv_fwnet_t19.upscale_x{scale}" for scale in (2, 3, 4)}
JPEG_MODELS = {scale: f"conv_fwnet_t12.upscale_x{scale}_jpeg" for scale in MODELS}
SMALLER_COPIES = (0.9, 0.8, 0.7, 0.6)  # of the height and width
VALIDATED_AT = (50, 75, 100)  # qualities of JPEG; those in the interval are used
CHOICES = ("smaller_copies", "shifts")  # how to learn, on or off
LEAST_CROP = 3  # in multiples of the scale: something must remain without the border
SMALL_OUTPUT = {"output_gain": 0.1}

RECIPE = Recipe(
    networks={"ConvFWNet": {"num_layers": 19}, "VDSR": {"batch_norm": False}, "SRCNN": {}},
    # Learning rates were chosen on twelve Berkeley images after 2,000 steps on the 91 images, for
    # ConvFWNet of 4 layers in three forms (enlarged, sub-pixel, plain), VDSR of 5 with and without
    # batch norm, SRCNN; for ConvFWNet of 19 layers, sub-pixel, on 290 images. clip_norm was chosen
    # for ConvFWNet of 4 layers (enlarged), VDSR of 5, and SRCNN. Other depths use the row of the
    # most similar network. With a small gain, networks start near bicubic enlargement.
    rows=[
        Settings("ConvFWNet", 16e-3, residual=False, max_layers=4),
        Settings("ConvFWNet", 4e-3, residual=False),
        Settings("ConvFWNet", 2e-3, max_layers=4, arguments=SMALL_OUTPUT),
        Settings("ConvFWNet", 4e-3, arguments=SMALL_OUTPUT),
        Settings("VDSR", 1e-3, batch_norm=True, arguments=SMALL_OUTPUT),
        Settings("VDSR", 1e-3, clip_norm=0.003, arguments=SMALL_OUTPUT),
        Settings("SRCNN", 2e-3, clip_norm=0.1),
    ],
    num_epochs=20,
    batch_size=64,
    clip_norm=0.01,
)


@dataclass(frozen=True)
class Upscaling(Restoration):
    """min_W mean ‖f_W(x↓) − x‖²   or   mean ‖f_W(x↓↑) − x‖²   over crops x of images' luma.

    ↓ and ↑ shrink and enlarge bicubically: the whole image before crops are drawn, or with `shifts`
    crops that begin at any pixel. With a `jpeg_quality`, crops of x↓ are compressed by JPEG, at
    every step anew.

    Attributes:
        scale: The result is `scale` times the height and width of the image.
        low_resolution: Whether the network sees the small image; else the enlarged one.
        smaller_copies: Whether to learn also from smaller copies of the images.
        jpeg_quality: The lowest quality of compressed images; None for images as they are.
        shifts: Whether crops begin at any pixel, not only at multiples of the scale.

    >>> from fwnet.restoration import Upscaling
    >>> Upscaling(3).make_network().scale
    3
    """

    scale: int = DEFAULT_SCALE
    low_resolution: bool = True
    smaller_copies: bool = False
    jpeg_quality: int | None = None
    shifts: bool = False

    name = "upscale"
    does = "enlarges"
    help = "Enlarge images with a trained network."
    notes = NOTES
    model_shown = f"{MODELS[2]}, _x3 or _x4, by --scale; {JPEG_MODELS[2]} … for JPEG files"
    train_help = "Train a super-resolution network on a folder of sharp images."
    data_shown = "T91, which you must supply, and Berkeley images"
    start_help = " The network may be for another scale."
    train_notes = TRAIN_NOTES
    baseline_name = "the bicubically enlarged image"
    baseline_words = "bicubic enlargement has"
    recipe = RECIPE
    apply_options = ApplyOptions
    train_options = TrainOptions
    choices = ("jpeg",)
    luma = True

    def __post_init__(self) -> None:
        check_integer("scale", self.scale, 2)
        if self.jpeg_quality is not None:
            if check_integer("jpeg_quality", self.jpeg_quality) > 100:
                raise FwnetError(f"jpeg_quality must be from 1 to 100, got {self.jpeg_quality}")
            if not self.low_resolution:
                raise FwnetError("jpeg_quality is for networks that see the small image")

    @classmethod
    def for_network(cls, trained: TrainedModel, **asked: Any) -> Self:
        """Return the scale of a network, or that of its training."""
        network: Any = trained.model
        check_task(cls, trained.name, trained.facts)
        if network.noise_level_input:
            raise FwnetError(
                f"expected a network that {cls.does}, got {trained.name}: it removes noise"
            )
        if network.in_channels != 1:
            raise FwnetError(f"expected a network for 1 channel, got one for {network.in_channels}")
        scale: Any = asked.get("scale")
        if scale is not None:
            check_integer("scale", scale, 2)
        known = scale_of(trained)
        if known is None and scale is None:
            raise FwnetError(
                f"scale must be given: {trained.name} does not say what it was trained for"
            )
        if known is not None and scale not in (None, known):
            raise FwnetError(f"scale must be {known}, that of {trained.name}, got {scale}")
        quality = trained.facts.get("jpeg_quality")
        return cls(known or scale, network.scale > 1, jpeg_quality=quality)

    @classmethod
    def from_options(
        cls, start: TrainedModel | None, model: str | None = None, **options: Any
    ) -> Self:
        """Return the scale to train for; by default that of the start, or 3."""
        scale, enlarged = options["scale"], options["enlarged"]
        quality = options.get("jpeg_quality")
        more = {name: options.get(name, False) for name in CHOICES}
        name = cls.recipe.model_name(model, None if start is None else start.model)
        if start is None:
            low_resolution = name == "ConvFWNet" and not enlarged
            scale = DEFAULT_SCALE if scale is None else scale
            return cls(scale, low_resolution, jpeg_quality=quality, **more)
        network = cls.recipe.check_start(start.model)
        if network.in_channels != 1 or network.noise_level_input:
            kind = "color" if network.in_channels != 1 else "noise levels"
            raise FwnetError(f"the network to start from must see one channel, got one for {kind}")
        if enlarged and network.scale > 1:
            raise FwnetError("the network to start from must see enlarged images, got small ones")
        if scale is None:
            scale = scale_of(start)
        if scale is None:
            raise FwnetError(
                f"{start.name} does not say what scale it was trained for: give --scale"
            )
        if quality is None:
            quality = start.facts.get("jpeg_quality")
        return cls(scale, network.scale > 1, jpeg_quality=quality, **more)

    @classmethod
    def default_models(cls, *, lossy: bool = False, **asked: Any) -> dict[int, str]:
        """Return the shipped network for a scale, and for JPEG if that is asked for or `lossy`."""
        scale = asked.get("scale")
        scale = DEFAULT_SCALE if scale is None else check_integer("scale", scale, 2)
        if scale not in MODELS:
            raise FwnetError(f"scale must be 2, 3 or 4 without a model, got {scale}")
        jpeg = lossy if asked.get("jpeg") is None else asked["jpeg"]
        return {1: (JPEG_MODELS if jpeg else MODELS)[scale]}

    @property
    def facts(self) -> dict[str, Any]:
        """The scale, how it was learned, and the lowest quality of JPEG."""
        facts = {"scale": self.scale, **{name: getattr(self, name) for name in CHOICES}}
        return facts if self.jpeg_quality is None else facts | {"jpeg_quality": self.jpeg_quality}

    @property
    def network_arguments(self) -> dict[str, Any]:
        """The scale, for a network that sees the small image."""
        return {"scale": self.scale} if self.low_resolution else {}

    @property
    def data_fingerprint(self) -> tuple[Any, ...]:
        """Scale, and what the network sees."""
        return self.scale, self.low_resolution, self.jpeg_quality, self.shifts

    @property
    def crop_size(self) -> int:
        """48, or the next smaller multiple of the scale."""
        return max(48 // self.scale, LEAST_CROP) * self.scale

    @property
    def margin(self) -> int:
        """How far `shrink` and `seen` look beyond a crop, in pixels of the large image."""
        return self.shifts * self.scale * REACH * (1 if self.low_resolution else 2)

    def check_crop_size(self, crop_size: int) -> None:
        """Raise unless crops shrink to whole pixels, and to enough of them."""
        if crop_size % self.scale or crop_size < LEAST_CROP * self.scale:
            raise FwnetError(
                f"crop_size must be a multiple of the scale, {self.scale}, and at least "
                f"{LEAST_CROP * self.scale}, got {crop_size}"
            )

    def source(
        self, found: list[Path] | None, where: str, num_held: int, warn: Callable[[str], object]
    ) -> ImageSource:
        """Choose the images of a folder, or T91 and Berkeley images."""
        if found is not None:
            return ImageSource(found, where)
        files = [*t91_files(), *berkeley_training_files()]  # in this order: the second may download
        held = berkeley_validation_files(count=num_held) if num_held else []
        return ImageSource(files, f"of T91 and {where}", held)

    def read(self, path: Path) -> np.ndarray:
        """Read the luma of a file."""
        return read_luma(path)

    @property
    def crop_scale(self) -> int:
        """The scale, for a network that sees the small image."""
        return self.scale if self.low_resolution else 1

    def usable(self, image: Tensor) -> Tensor:
        """Return an image without rows and columns beyond multiples of the scale."""
        height, width = (length - length % self.scale for length in image.shape[-2:])
        return image[..., :height, :width]

    def degrade(self, image: Tensor) -> Tensor:
        """x↓ in float64 where the device has it, not rounded."""
        return shrink(image.to(widest_dtype(image.device)), self.scale)

    def seen(self, image: Tensor) -> Tensor:
        """Return the small image, or enlarge it for a network that expects that."""
        return image if self.low_resolution else enlarge(image, self.scale)

    def baseline(self, image: Tensor) -> Tensor:
        """Enlarge bicubically."""
        return enlarge(image, self.scale)

    def learning_images(self, images: ImageSet, crop_size: int) -> tuple[ImageSet, ImageSet | None]:
        """Return images and their shrunk copies, perhaps with smaller copies of both."""
        least = crop_size + 2 * self.margin
        if self.smaller_copies:
            images = images.with_smaller_copies(SMALLER_COPIES, least)
        if self.shifts:
            return images, None
        return super().learning_images(images, crop_size)

    def degrade_crops(
        self, seen: Tensor, clean: Tensor, generator: torch.Generator, seed: int, step: int
    ) -> tuple[Tensor, ...]:
        """Shrink crops if that was not done to images; compress them, blocks begin anywhere."""
        if self.shifts:
            inner = slice(self.margin, -self.margin)
            seen, clean = self.seen(shrink(clean, self.scale)), clean[..., inner, inner]
            inner = slice(self.margin // self.crop_scale, -self.margin // self.crop_scale)
            seen = seen[..., inner, inner]
        if self.jpeg_quality is None:
            return super().degrade_crops(seen, clean, generator, seed, step)
        qualities = torch.randint(self.jpeg_quality, 101, (len(seen),), generator=generator)
        top, left = torch.randint(SIDE, (2,), generator=generator).tolist()
        return compressed(seen, qualities.to(seen.device, non_blocking=True), (top, left)), clean

    def examples(self, image: Tensor, index: int) -> Iterator[Example]:
        """Yield the shrunk image, or compressed copies of it."""
        (plain,) = super().examples(image, index)
        if self.jpeg_quality is None:
            yield plain
            return
        for quality in VALIDATED_AT:
            if quality >= self.jpeg_quality:
                at = torch.tensor([quality], device=image.device)
                yield Example(compressed(plain.degraded, at), plain.wanted)

    def compared(self, restored: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
        """Return both without a border of `scale` pixels; the result as a file of 8 bits has it."""
        pair = as_displayed(restored.float()), wanted
        displayed, inner = (shave(image, self.scale) for image in pair)
        return displayed, inner

    def halo(self, network: ImageModel) -> int:
        """Return how far the network sees in pixels of the small image; colors need `REACH`."""
        radius = network.receptive_radius
        if self.low_resolution:
            return max(radius, REACH)
        return -(-radius // self.scale) + REACH

    def describe(self, width: int, height: int, sigma: float | None) -> str:
        """Describe a result by its size before and after."""
        kind = "" if self.jpeg_quality is None else ", JPEG artifacts removed"
        return f"{width // self.scale} × {height // self.scale} to {width} × {height}{kind}"


def compressed(luma: Tensor, quality: Tensor, corner: tuple[int, int] = (0, 0)) -> Tensor:
    """Return Y of gray images after `jpeg`. Y of an image in [0, 1] is in [16, 235]/255."""
    black, white = 16 / 255, 235 / 255
    gray = (luma - black) / (white - black)
    return black + (white - black) * jpeg(gray, quality, corner)


def scale_of(trained: TrainedModel) -> int | None:
    """Return the scale that a network has, or that its card or file states."""
    network: Any = trained.model
    scale = network.scale if network.scale > 1 else trained.facts.get("scale")
    return scale if isinstance(scale, int) and scale > 1 else None
