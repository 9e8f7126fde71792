"""Networks that learn something about images, and the settings that they learn with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from fwnet.data import keyed_generator
from fwnet.models import ImageModel, Model, create_model

__all__ = ["ImageRecipe", "form_of"]

LEARNING_RATE = 1e-3  # of networks that no recipe knows
SMALL_OUTPUT = 0.1  # the gain of last kernels that begin small
LOOKS_BACK = 5  # the part of a training, 1/5, that the mean of the weights looks back at most


@dataclass(frozen=True)
class ImageRecipe:
    """How networks of some kinds learn one thing.

    Attributes:
        networks: The kinds, the usual one first, and what each has unless something else is asked
            for.
        taken_by: Arguments that only some kinds have.
        settings: By the names of `TrainingConfig`: those that neither depend on the network nor on
            the machine.
        learning_rates: By form (`form_of`), up to so many layers.
        rates_in_words: The same for people.
        small_outputs: Forms whose last kernel begins small: what they add to their input is little
            at first.
        average: The factor of the running mean of the weights.
        own_settings: By form: those of `settings` that are others for it.
    """

    networks: Mapping[str, Mapping[str, Any]]
    taken_by: Mapping[str, tuple[str, ...]]
    settings: Mapping[str, Any]
    learning_rates: Mapping[str, Mapping[float, float]]
    rates_in_words: str
    small_outputs: frozenset[str]
    average: float = 0.999
    own_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def shown(self) -> dict[str, Any]:
        """What --help says of the settings: numbers, and words for what depends on something."""
        return {
            **{name: self._in_words(name) for name in self.settings},
            "learning_rate": f"{self.rates_in_words}; half of it with --start",
            "average": f"{self.average:g}; less in a training of under "
            f"{LOOKS_BACK / (1 - self.average):.0f} steps",
            "precision": "bf16 on a GPU, else float32",
        }

    def _in_words(self, name: str) -> Any:
        """A setting of all, and what it is for the forms that have their own."""
        usual = self.settings[name]
        own = [
            f"{form.replace(', no ', ' without ')} {settings[name]:g}"
            for form, settings in self.own_settings.items()
            if name in settings
        ]
        return f"{usual:g}; {', '.join(own)}" if own else usual

    def settings_for(
        self, network: ImageModel, device: torch.device, num_steps: int, *, goes_on: bool
    ) -> dict[str, Any]:
        """All settings for a network on a device.

        num_steps: How long the training is. The mean of the weights looks back a fifth of it at
            most: before that they are much worse.
        goes_on: Whether it starts from a trained network: half the learning rate then.
        """
        form = form_of(type(network).__name__, network.config)
        rates = self.learning_rates.get(form, {math.inf: LEARNING_RATE})
        count = network.config.get("num_layers", 1)
        rate = next(rate for most, rate in rates.items() if count <= most)
        return {
            **self.settings_of(form),
            "learning_rate": rate / 2 if goes_on else rate,
            "average": max(0.0, min(self.average, round(1 - LOOKS_BACK / num_steps, 4))),
            "precision": "bf16" if device.type == "cuda" else "float32",
        }

    def settings_of(self, form: str) -> dict[str, Any]:
        """The settings of a form that depend neither on depth nor on the machine."""
        return {**self.settings, **self.own_settings.get(form, {})}

    def kind(self, model: str | None, start: Model | None) -> str:
        """The name of a network that is asked for: that of `start`, or the usual one."""
        usual = next(iter(self.networks)) if start is None else type(start).__name__
        kind = model or usual
        if kind not in self.networks:
            raise ValueError(f"model must be one of {', '.join(self.networks)}, got {kind!r}")
        return kind

    def make(
        self,
        kind: str,
        asked: Mapping[str, Any],
        changes: Mapping[str, Any],
        *,
        start: Model | None,
        seed: int,
    ) -> ImageModel:
        """Make a network with initial weights.

        Args:
            kind: Its name.
            asked: Arguments, None where they are as `start` or usage has them. With "plain" the
                output is W_R ∗ z, as in the authors' own networks.
            changes: Arguments in which it may differ from `start`.
            start: A trained network that the new one could `adopt`.
            seed: Of the initial weights.
        """
        given = {name: value for name, value in asked.items() if value is not None}
        for name in given:
            kinds = self.taken_by.get(name, (kind,))
            if kind not in kinds:
                raise ValueError(f"{name} is for {' and '.join(kinds)}, got it for a {kind}")
        plain = given.pop("plain", None)
        if plain is not None:
            given["residual"] = not plain
            if plain and kind == "ConvFWNet":
                given["eps"] = 0.0
        usual = self.networks[kind] if start is None else _as_in(start, {"model": kind, **given})
        options = {**usual, **given, **changes}
        if start is None and form_of(kind, options) in self.small_outputs:
            options["output_gain"] = SMALL_OUTPUT
        if not options.get("learn_p", True) and options.get("p", 1.5) in (1, math.inf):
            raise ValueError(
                f"with p fixed at {options['p']:g} no weight gets a gradient: expected p > 1 and "
                "finite, 1.01 for one, or a p that is learned"
            )
        network = create_model(kind, **options, generator=keyed_generator(seed, "weights"))
        assert isinstance(network, ImageModel)
        return network

    def check_start(self, start: Model) -> None:
        """Raise unless a network is of one of the kinds."""
        if type(start).__name__ not in self.networks:
            raise ValueError(
                f"the network to start from must be a {', '.join(self.networks)}, "
                f"got a {type(start).__name__}"
            )


def form_of(kind: str, options: Mapping[str, Any]) -> str:
    """The name of a network with what matters for how it learns: "ConvFWNet, plain"."""
    forms = {
        "plain": not options.get("residual", True),
        "no batch norm": not options.get("batch_norm", True),
        "sub-pixel": options.get("scale", 1) > 1,
    }
    return ", ".join([kind, *(name for name, has in forms.items() if has)])


def _as_in(start: Model, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a trained network, none of which is asked to be another."""
    for name, has in {"model": type(start).__name__, **start.config}.items():
        if name in asked and asked[name] != has:
            raise ValueError(
                f"{name} must be {has!r}, as the network to start from has it, got {asked[name]!r}"
            )
    return start.config
