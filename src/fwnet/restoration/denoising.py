"""Denoising: remove noise of one level, of all levels in an interval, or that of pairs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from fwnet.checks import check_number
from fwnet.data import DataError, ImageSet, berkeley_files, keyed_generator, noisy, without_bsd68
from fwnet.errors import FwnetError
from fwnet.models import ImageModel
from fwnet.models.noise_level_net import BLOCK
from fwnet.restoration.clipping import REACH, unclipped
from fwnet.restoration.denoising_options import NOTES, TRAIN_NOTES, ApplyOptions, TrainOptions
from fwnet.restoration.noise_levels import check_sigma, levels_of, levels_to_learn
from fwnet.restoration.recipe import Recipe, Settings
from fwnet.restoration.restoration import (
    Example,
    ImageSource,
    Restoration,
    TrainingData,
    check_task,
)
from fwnet.restoration.shots import take_shots
from fwnet.zoo import TrainedModel

MODELS = {1: "conv_fwnet_t16.denoise_gray", 3: "conv_fwnet_t20.denoise_color"}
FAST_MODELS = {1: "conv_fwnet_t8.denoise_gray_fast", 3: "conv_fwnet_t10.denoise_color_fast"}
LARGEST_SIGMA = 55 / 255  # assumed for model files that do not say what they were trained for
LEAST_SIGMA = 1 / 255  # lower bound of the divisor in the loss
LARGEST_STRENGTH = 10
LITTLE_NOISE = 2 / 255  # below this estimate a result is hardly changed
MORE = "if you see noise, try --sigma 5 or 10"
TOO_SMALL = f"a side under {BLOCK} pixels is too small to estimate noise (--sigma sets it)"
VALIDATED_AT = (15 / 255, 25 / 255, 50 / 255)  # those inside the interval are used
SMALL_OUTPUT = {"output_gain": 0.1}
HALF_RESOLUTION = {"radius": 2.0, "learn_radius": True, **SMALL_OUTPUT}

RECIPE = Recipe(
    networks={
        "ConvFWNet": {"num_layers": 4},
        "ConvLISTA": {"num_layers": 4, "threshold": 0.1},
        "DnCNN": {"num_layers": 17},
    },
    # Chosen on held-out Berkeley images after 2,000 to 3,000 steps, for ConvFWNet of 4 and 16
    # layers, its plain form and ConvLISTA of 4, DnCNN of 5 and 17, and of 5 without batch norm;
    # at half resolution after 5,000 steps, for ConvFWNet of 8 and 16 layers.
    # Other depths use the row of the most similar network. With batch norm, the output of DnCNN
    # would be far too large at first: hence the gain.
    rows=[
        Settings("ConvFWNet", 8e-3, reduction=2, arguments=HALF_RESOLUTION),
        Settings("ConvFWNet", 16e-3, residual=False, max_layers=4),
        Settings("ConvFWNet", 8e-3, max_layers=4),
        Settings("ConvFWNet", 4e-3),
        Settings("ConvLISTA", 8e-3),
        Settings("DnCNN", 1e-3, batch_norm=False),
        Settings("DnCNN", 4e-3, max_layers=5, arguments=SMALL_OUTPUT),
        Settings("DnCNN", 2e-3, arguments=SMALL_OUTPUT),
    ],
    num_epochs=10,
    batch_size=128,
    clip_norm=0.1,
)


@dataclass(frozen=True)
class Denoising(Restoration):
    """min_W mean ‖f_W(x + n) − x‖² / max(σ, 1/255),   n ~ N(0, σ²), over crops x of images.

    New noise is drawn at every step. Where σ is drawn from an interval, the best possible error
    grows about as σ does: dividing by σ gives all levels the same weight.

    Attributes:
        levels: σ on the scale of [0, 1], or the interval that it is drawn from. That of pairs is
            measured when they are read: it is 0 before.
        tell_sigma: Whether the network has a noise-level input.
        color: Whether images are RGB; else gray.
        sigma: The known noise level of images to restore; None to estimate it.
        strength: Factor of the noise level of images to restore; a network that is not told
            σ is mixed with the image instead.
        pairs: Whether to learn from pairs of noisy and clean images, whose noise need not be
            Gaussian. A network with a noise-level input is always told the σ of the pairs, in
            training and later.
        camera: Whether half of the crops get noise as cameras make it (`take_shots`); the network
            is told its effective level.
        unclip: Whether the network learned from noise that nothing cut off, so that results for
            images whose values end at black and white need `unclipped`.

    >>> from fwnet.restoration import Denoising
    >>> restoration = Denoising(25 / 255)
    >>> network = restoration.make_network()
    >>> type(network).__name__, restoration.name
    ('ConvFWNet', 'denoise')
    """

    levels: float | tuple[float, float] = 0.0
    tell_sigma: bool = False
    color: bool = False
    sigma: float | None = None
    strength: float = 1.0
    pairs: bool = False
    camera: bool = False
    unclip: bool = False

    name = "denoise"
    does = "removes noise"
    help = "Remove noise from images with a trained network."
    notes = NOTES
    model_shown = f"{MODELS[1]} for gray images, {MODELS[3]} for color images"
    train_help = "Train a denoising network on clean images, or on pairs of noisy and clean ones."
    data_shown = "the Berkeley images"
    start_help = (
        " A color network can start from a gray one, and a network for a range of noise levels "
        "from one for a single level."
    )
    train_notes = TRAIN_NOTES
    baseline_words = "the noisy images have"
    recipe = RECIPE
    apply_options = ApplyOptions
    train_options = TrainOptions
    choices = ("fast",)

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 1 or (self.high == 0 and not self.pairs):
            raise FwnetError(
                f"sigma must be in (0, 1], or an interval in it, got {self.levels!r} "
                "(a level of 25 is sigma=25/255)"
            )
        check_number("strength", self.strength)
        if not 0 <= self.strength <= LARGEST_STRENGTH:
            raise FwnetError(f"strength must be in [0, {LARGEST_STRENGTH}], got {self.strength:g}")

    @property
    def low(self) -> float:
        """The smallest σ to train for."""
        return self.levels[0] if isinstance(self.levels, tuple) else self.levels

    @property
    def high(self) -> float:
        """The largest σ to train for."""
        return self.levels[1] if isinstance(self.levels, tuple) else self.levels

    @classmethod
    def for_network(cls, trained: TrainedModel, **asked: Any) -> Self:
        """Return the `Denoising` that a network was trained for; up to σ = 55/255 if not known."""
        network: Any = trained.model
        check_sigma(asked.get("sigma"))
        if network.scale != 1:
            raise FwnetError(f"expected a network that {cls.does}, got {trained.name}: it enlarges")
        check_task(cls, trained.name, trained.facts)
        if network.in_channels not in MODELS:
            raise FwnetError(
                f"expected a network for 1 or 3 channels, got one for {network.in_channels}"
            )
        known = levels_of(trained.facts)
        levels = known or (0.0, LARGEST_SIGMA)
        pairs, camera = (trained.facts.get(name) is True for name in ("pairs", "camera"))
        sigma = asked.get("sigma")
        return cls(
            levels=levels,
            tell_sigma=network.noise_level_input,
            color=network.in_channels == 3,
            sigma=levels[1] if pairs and sigma is None else sigma,
            strength=asked.get("strength", 1.0),
            pairs=pairs,
            camera=camera,
            unclip=known is not None and not pairs and not camera,
        )

    @classmethod
    def from_options(
        cls, start: TrainedModel | None, model: str | None = None, **options: Any
    ) -> Self:
        """Return the `Denoising` to train for; by default that of the start, or σ = 25."""
        del model  # the class of the network does not matter here
        network = None if start is None else cls.recipe.check_start(start.model)
        if network is not None and network.scale != 1:
            raise FwnetError(
                "the network to start from must keep the size of images, got one with a scale of "
                f"{network.scale}"
            )
        pairs = options.get("noisy") is not None
        levels, tell_sigma = levels_to_learn(start, pairs, options["sigma"], options["max_sigma"])
        starts_in_color = network is not None and network.in_channels == 3
        color = starts_in_color if options["color"] is None else options["color"]
        if network is not None and network.noise_level_input and not tell_sigma:
            raise FwnetError(
                "the network to start from has a noise-level input, got one level: give an "
                "interval, --sigma to --max-sigma (they may be equal)"
            )
        if starts_in_color and not color:
            raise FwnetError("the network to start from is for color, got gray")
        camera = bool(options.get("camera"))
        if camera and (pairs or not tell_sigma):
            got = "--noisy" if pairs else "one level"
            raise FwnetError(f"--camera is for --data and a range of levels, got {got}")
        return cls(levels, tell_sigma, color, pairs=pairs, camera=camera)

    @classmethod
    def data_from_options(cls, data: Path | None, **options: Any) -> TrainingData:
        """Return --data, or the folders --noisy and --clean."""
        noisy_folder, clean_folder = options["noisy"], options["clean"]
        if noisy_folder is None and clean_folder is None:
            return data
        if noisy_folder is None or clean_folder is None:
            got = "--clean" if noisy_folder is None else "--noisy"
            raise FwnetError(f"--noisy and --clean must be given together, got only {got}")
        if data is not None:
            raise FwnetError("expected either --data or --noisy and --clean, got all of them")
        return noisy_folder, clean_folder

    @classmethod
    def default_models(cls, *, lossy: bool = False, **asked: Any) -> dict[int, str]:
        """Return the networks for gray and for color, which serve every σ."""
        check_sigma(asked.get("sigma"))
        return FAST_MODELS if asked.get("fast") else MODELS

    @classmethod
    def from_command_line(cls, **options: Any) -> dict[str, Any]:
        """Return σ on the scale of [0, 1]."""
        sigma = options["sigma"]
        if sigma is not None and not 0 <= sigma <= 255:
            raise FwnetError(f"--sigma must be in [0, 255], got {sigma:g}")
        return options | {"sigma": None if sigma is None else sigma / 255}

    @classmethod
    def hints(cls, **options: Any) -> list[str]:
        """Return a hint for a σ that was meant to be on the scale of [0, 1]."""
        largest = options.get("max_sigma") or options.get("sigma") or 0.0
        if not 0 < largest < 1:
            return []
        return [f"--sigma is on the scale 0 to 255, where {largest:g} is hardly any noise."]

    @property
    def facts(self) -> dict[str, Any]:
        """σ, or its interval, on the scale 0 to 255; whether images are in color, and pairs."""
        levels = [round(255 * level, 6) for level in (self.low, self.high)]
        facts = {"sigma": levels[0] if levels[0] == levels[1] else levels, "color": self.color}
        if self.high == 0:
            del facts["sigma"]  # not measured yet
        return facts | {name: True for name in ("pairs", "camera") if getattr(self, name)}

    @property
    def network_arguments(self) -> dict[str, Any]:
        """Channels and noise-level input."""
        return {"in_channels": 3 if self.color else 1, "noise_level_input": self.tell_sigma}

    @property
    def data_fingerprint(self) -> tuple[Any, ...]:
        """The noise."""
        return self.low, self.high, self.tell_sigma, *(["camera"] if self.camera else [])

    def source(
        self, found: list[Path] | None, where: str, num_held: int, warn: Callable[[str], object]
    ) -> ImageSource:
        """Choose the images of a folder, or those of Berkeley; BSD68 is left out."""
        if found is None:
            files, test_files = berkeley_files()
            num_test = len(test_files)
        else:
            files = without_bsd68(found)
            num_test = len(found) - len(files)
        if num_test:
            warn(
                f"{num_test} of {num_test + len(files)} images are left out: they belong to BSD68, "
                "the test images of denoising."
            )
            where += " outside BSD68"
        return ImageSource(files, where)

    def degrade(self, image: Tensor) -> Tensor:
        """x + n with σ = `high`, and noise that is always the same."""
        return noisy(image, self.high, 0)

    def measured(self, images: ImageSet) -> Self:
        """Return this with the σ of pairs: the root of the mean squared difference."""
        if not self.pairs:
            return self
        pairs = (images[index].tensor_split(2, 1) for index in range(len(images)))
        errors = [(one - other).square().mean().item() for one, other in pairs]
        sigma = (sum(errors) / len(errors)) ** 0.5
        if sigma == 0:
            raise DataError("noisy and clean images must differ, got the same pixels in all pairs")
        return replace(self, levels=sigma)

    def learning_images(self, images: ImageSet, crop_size: int) -> tuple[ImageSet, ImageSet | None]:
        """Return the images as they are: noise is added to crops, and pairs have it already."""
        return images, None

    def degrade_crops(
        self, seen: Tensor, clean: Tensor, generator: torch.Generator, seed: int, step: int
    ) -> tuple[Tensor, ...]:
        """Return noisy crops, clean ones, and the σ of each; of pairs, that of all pairs."""
        if self.pairs:
            clean, seen = clean.tensor_split(2, 1)
            return seen, clean, clean.new_full((len(clean),), self.high)
        levels = torch.rand(len(clean), generator=generator)
        sigma = (self.low + (self.high - self.low) * levels).to(clean.device, non_blocking=True)
        # Another key than that of `noisy`, or seed 0 would learn the noise of the tests.
        generator = keyed_generator(seed, "training noise", step, device=clean.device)
        noise = torch.randn(clean.shape, generator=generator, device=clean.device)
        batch = seen + sigma[:, None, None, None] * noise, clean, sigma
        if not self.camera:
            return batch
        shots = take_shots(clean[::2], generator)
        parts = (shots.seen, shots.wanted, shots.sigma.clamp(max=self.high))
        return tuple(torch.cat([one, other[1::2]]) for one, other in zip(parts, batch, strict=True))

    def loss(self, model: nn.Module, *batch: Tensor) -> Tensor:
        """mean ‖f(x) − clean‖² / max(σ, 1/255)."""
        x, clean, sigma = batch
        y = model(x, sigma) if self.tell_sigma else model(x)
        errors = (y.float() - clean).square().flatten(1).mean(1)
        relative: Tensor = errors / sigma.clamp(min=LEAST_SIGMA)
        return relative.mean()

    def examples(self, image: Tensor, index: int) -> Iterator[Example]:
        """Yield a noisy copy at σ, or at those of 15, 25 and 50 in the interval; or a pair."""
        if self.pairs:
            wanted, degraded = image.tensor_split(2, 1)
            yield Example(degraded, wanted, self.high)
            return
        levels = [self.low]
        if self.low < self.high:
            inside = [level for level in VALIDATED_AT if self.low <= level <= self.high]
            levels = inside or [(self.low + self.high) / 2]
        for sigma in levels:
            yield Example(noisy(image, sigma, index), image, sigma)

    def restore(
        self, network: Callable[..., Tensor], image: Tensor, sigma: float | None = None
    ) -> Tensor:
        """Apply a network with σ·strength; what is above its interval is scaled down first."""
        if not self.tell_sigma:
            return torch.lerp(image.float(), network(image), self.strength)
        assert sigma is not None
        sigma *= self.strength
        if sigma == 0:
            return image
        if sigma <= self.high:
            return network(image, sigma)
        scale = self.high / sigma  # towards gray, which scales the noise as well
        return 0.5 + (network(0.5 + scale * (image - 0.5), self.high) - 0.5) / scale

    def within_range(self, restored: Tensor, image: Tensor) -> Tensor:
        """Return `unclipped` results of networks that learned from noise that nothing cut off."""
        return unclipped(restored, image) if self.unclip else restored

    def halo(self, network: ImageModel) -> int:
        """Return how far the network sees, and how far around a pixel noise is measured."""
        return network.receptive_radius + REACH

    def describe(self, width: int, height: int, sigma: float | None) -> str:
        """Describe a result: its size, and σ with where it comes from."""
        strength = "" if self.strength == 1 else f", strength {self.strength:g}"
        if sigma is None:
            known = "of the training pairs" if self.pairs else "level of the network"
            return f"{width} × {height}, for the noise {known}{strength}"
        known = "estimated" if self.sigma is None else "given"
        if self.pairs and sigma == self.high:
            known = "that of the training pairs"
        level = f"{width} × {height}, sigma {255 * sigma:.1f} ({known}){strength}"
        if self.sigma is not None or sigma > LITTLE_NOISE:
            return level
        if sigma == 0 and min(width, height) < BLOCK:
            return f"{level}: {TOO_SMALL}: the image is unchanged"
        if sigma == 0:
            return f"{level}: no noise found, or only texture: the image is unchanged ({MORE})"
        return f"{level}: little noise, the image is nearly unchanged ({MORE})"
