"""Recipes: which networks learn a restoration, and with which settings."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fwnet.data import keyed_generator
from fwnet.models import MODELS, ImageModel, Model, create_model

SHORT_TRAINING = 5  # the mean of the weights covers at most 1/5 of a training


@dataclass(frozen=True)
class Settings:
    """One row of a recipe: which networks it is for, and what they learn with.

    Attributes:
        model: The class of the network; None for any.
        learning_rate: Its initial learning rate.
        residual: Only networks with this value; None for both.
        batch_norm: Only networks with this value; None for both.
        reduction: Only networks with this value; None for all.
        max_layers: Only networks of at most this many layers.
        clip_norm: Largest norm of a gradient; None for that of the recipe.
        arguments: Of the network's constructor, where they differ from its defaults.

    >>> from fwnet.restoration import Settings
    >>> Settings("DnCNN", learning_rate=0.001, batch_norm=False).learning_rate
    0.001
    """

    model: str | None
    learning_rate: float
    residual: bool | None = None
    batch_norm: bool | None = None
    reduction: int | None = None
    max_layers: float = math.inf
    clip_norm: float | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def fits(self, model: str, config: Mapping[str, Any]) -> bool:
        """Return whether the row is for a network with these arguments."""
        return (
            self.model in (None, model)
            and self.residual in (None, config.get("residual", True))
            and self.batch_norm in (None, config.get("batch_norm", True))
            and self.reduction in (None, config.get("reduction", 1))
            and config.get("num_layers", 1) <= self.max_layers
        )

    @property
    def words(self) -> str:
        """Which networks of its class the row is for, as --help says it; "" for all."""
        parts = [
            "--plain" if self.residual is False else "",
            {None: "", True: "--batch-norm", False: "--no-batch-norm"}[self.batch_norm],
            f"--reduction {self.reduction}" if self.reduction else "",
            f"up to {self.max_layers} layers" if self.max_layers < math.inf else "",
        ]
        return " and ".join(part for part in parts if part)


ANY_NETWORK = Settings(None, learning_rate=1e-3)


@dataclass(frozen=True)
class Recipe:
    """How networks learn one restoration.

    Attributes:
        networks: The classes that `fwnet train` offers, the default first, with the arguments that
            differ from those of the constructor.
        rows: Settings by network; the first row that fits counts.
        num_epochs: Default number of epochs.
        batch_size: Default number of crops per step.
        clip_norm: Default largest norm of a gradient.
        average: Factor per step of the running mean of the weights.

    >>> from fwnet.restoration import Denoising
    >>> recipe = Denoising(25 / 255).recipe
    >>> list(recipe.networks), recipe.num_epochs, recipe.batch_size
    (['ConvFWNet', 'ConvLISTA', 'DnCNN'], 10, 128)
    """

    networks: Mapping[str, Mapping[str, Any]]
    rows: Sequence[Settings]
    num_epochs: int
    batch_size: int
    clip_norm: float
    average: float = 0.999

    def row(self, model: str, config: Mapping[str, Any]) -> Settings:
        """Return the row for a network with these arguments."""
        return next(row for row in (*self.rows, ANY_NETWORK) if row.fits(model, config))

    def fixed_settings(self, model: str, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that depend neither on the machine nor on the number of steps."""
        return {
            "num_epochs": self.num_epochs,
            "batch_size": self.batch_size,
            "clip_norm": self.row(model, config).clip_norm or self.clip_norm,
            "weight_decay": 0.0,
        }

    def settings(
        self,
        network: ImageModel,
        device: torch.device,
        num_steps: int = 10_000,
        *,
        has_start: bool = False,
    ) -> dict[str, Any]:
        """Return all settings, by the names of `TrainingConfig`.

        Args:
            network: The network to train.
            device: Where it is trained.
            num_steps: The length of the training. In a short one, the running mean of the weights
                covers fewer steps.
            has_start: Whether training starts from a trained network: half the learning rate.
        """
        name = type(network).__name__
        rate = self.row(name, network.config).learning_rate
        return {
            **self.fixed_settings(name, network.config),
            "learning_rate": rate / 2 if has_start else rate,
            "average": max(0.0, min(self.average, round(1 - SHORT_TRAINING / num_steps, 4))),
            "precision": "bf16" if device.type == "cuda" else "float32",
        }

    @property
    def shown(self) -> dict[str, Any]:
        """Defaults as --help shows them: values, and words where they depend on something."""
        few = SHORT_TRAINING / (1 - self.average)
        layers, norms = self._defaults("num_layers"), self._defaults("batch_norm")
        return {
            "num_epochs": self.num_epochs,
            "batch_size": self.batch_size,
            "clip_norm": self._by_row(lambda row: row.clip_norm or self.clip_norm),
            "weight_decay": 0.0,
            "learning_rate": self._by_row(lambda row: row.learning_rate) + "; half with --start",
            "average": f"{self.average:g}; with fewer than {few:.0f} steps in all, "
            f"1 − {SHORT_TRAINING}/steps",
            "precision": "bf16 on a GPU, else float32",
            "model": next(iter(self.networks)),
            "num_layers": _by_class(layers),
            "batch_norm": _by_class({k: "on" if v else "off" for k, v in norms.items()}) or None,
        }

    def _defaults(self, argument: str) -> dict[str, Any]:
        """Return the default of an argument for each class that accepts it."""
        kinds = self.networks_with(argument)
        return {name: _default(name, self.networks[name], argument) for name in kinds}

    def _by_row(self, value: Callable[[Settings], float]) -> str:
        """Return a setting in words: "A: 2, but 1 with --plain; B: 3"."""
        words = {}
        for name in self.networks:
            rows = [row for row in (*self.rows, ANY_NETWORK) if row.model in (name, None)]
            cases = [(f"{value(row):g}", row.words) for row in rows]
            cases = cases[: [which for _, which in cases].index("") + 1]
            usual, _ = cases.pop()
            exceptions = [f"{one} with {which}" for one, which in reversed(cases) if one != usual]
            words[name] = ", but ".join(filter(None, [usual, ", ".join(exceptions)]))
        return _by_class(words)

    def model_name(self, model: str | None, start: Model | None) -> str:
        """Return the class to train: the one asked for, that of `start`, or the default."""
        name = model or (next(iter(self.networks)) if start is None else type(start).__name__)
        if name not in self.networks:
            raise ValueError(f"model must be one of {', '.join(self.networks)}, got {name!r}")
        return name

    def make_network(
        self,
        model: str | None = None,
        changes: Mapping[str, Any] | None = None,
        *,
        start: Model | None = None,
        seed: int = 0,
        plain: bool | None = None,
        **asked: Any,
    ) -> ImageModel:
        """Make a network with initial weights.

        Args:
            model: A key of `networks`; by default the class of `start`, or the first one.
            changes: Arguments that may differ from those of `start`.
            start: A trained network that the new one can take its weights from.
            seed: Seed of the initial weights.
            plain: Whether the output is W_R ∗ z, as in the authors' networks, not x + W_R ∗ z.
            asked: Other arguments of the constructor; None for those of `start`, or the default.
        """
        name = self.model_name(model, start)
        given = {key: value for key, value in asked.items() if value is not None}
        if plain is not None:
            given["residual"] = not plain
        for key in given:
            kinds = self.networks_with(key)
            if name not in kinds:
                shown = "plain" if key == "residual" else key
                raise ValueError(f"{shown} applies to {' and '.join(kinds)} only, not to {name}")
        if plain and name == "ConvFWNet":
            given["eps"] = 0.0
        if start is None:
            defaults = dict(self.networks[name])
        else:
            _check_same(start, {"model": name, **given})
            defaults = start.config
        config = {**defaults, **given, **(changes or {})}
        if start is None:
            config = {**self.row(name, _with_defaults(name, config)).arguments, **config}
        if not config.get("learn_p", True) and config.get("p", 1.5) in (1, math.inf):
            raise ValueError(
                "p must be > 1 and finite where it is not learned, such as 1.01, got "
                f"{config['p']:g}: no weight would get a gradient"
            )
        network = create_model(name, **config, generator=keyed_generator(seed, "weights"))
        assert isinstance(network, ImageModel)
        return network

    def check_start(self, start: Model) -> ImageModel:
        """Return a network to start from; raise unless it is of one of the classes."""
        if type(start).__name__ not in self.networks or not isinstance(start, ImageModel):
            raise ValueError(
                f"the network to start from must be a {', '.join(self.networks)}, "
                f"got a {type(start).__name__}"
            )
        return start

    def networks_with(self, argument: str) -> list[str]:
        """Return the classes that accept this argument as a single value."""
        return [
            name
            for name in self.networks
            if argument in _parameters(name)
            and not isinstance(_parameters(name)[argument].default, tuple)
        ]


def _by_class(values: Mapping[str, Any]) -> str:
    """Return "A: 1; B: 2", or "1" if all are the same."""
    same = len(set(values.values())) == 1
    parts = [f"{name}: {value}" for name, value in values.items()]
    return str(next(iter(values.values()))) if same else "; ".join(parts)


def _parameters(name: str) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(MODELS[name]).parameters


def _default(name: str, config: Mapping[str, Any], argument: str) -> Any:
    return config.get(argument, _parameters(name)[argument].default)


def _with_defaults(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _default(name, config, key) for key in _parameters(name)}


def _check_same(start: Model, asked: Mapping[str, Any]) -> None:
    """Raise if an argument differs from that of the start network."""
    for name, has in {"model": type(start).__name__, **start.config}.items():
        if name in asked and asked[name] != has:
            raise ValueError(
                f"{name} must be {has!r}, that of the network to start from, got {asked[name]!r}"
            )
