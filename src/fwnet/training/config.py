"""The settings of a training (an object, a TOML file, options of a command), and its run."""

import dataclasses
import json
import math
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, get_args, get_type_hints

import torch
from torch import Tensor

from fwnet.errors import FwnetError
from fwnet.files import why_not_readable, write_whole
from fwnet.progress import ProgressCallback, silent


class ConfigError(FwnetError):
    """A setting that is not valid; the message says what was expected.

    >>> from fwnet.training import ConfigError, TrainingConfig
    >>> try:
    ...     TrainingConfig(num_epochs=0)
    ... except ConfigError as error:
    ...     print(error)
    num_epochs ...
    """


def _setting(default: Any, explanation: str) -> Any:
    return field(default=default, metadata={"help": explanation})


@dataclass(frozen=True)
class TrainingConfig:
    """How to train; the same settings give the same weights.

    Every field is a key of the TOML file and an option of `fwnet train`.

    >>> from fwnet.training import TrainingConfig
    >>> TrainingConfig(num_epochs=10, learning_rate=0.01).schedule
    'cosine'
    """

    num_epochs: int = _setting(100, "Number of epochs.")
    batch_size: int = _setting(100, "Signals or crops per step, over all processes together.")
    optimizer: Literal["adam", "sgd"] = _setting("adam", "adam, or sgd with momentum.")
    learning_rate: float = _setting(1e-3, "Initial learning rate.")
    momentum: float = _setting(0.9, "Momentum of sgd.")
    schedule: Literal["constant", "step", "cosine"] = _setting(
        "cosine", "Learning rate over time: constant, step (see --decay-at), or cosine (down to 0)."
    )
    decay_at: tuple[float, ...] = _setting(
        (0.5, 0.75),
        "For --schedule step: fraction of the training after which the rate falls; may be "
        "repeated.",
    )
    decay_factor: float = _setting(0.1, "Factor applied to the learning rate at each --decay-at.")
    clip_norm: float | None = _setting(
        None, "Clip the total norm of the gradients to this value; 0 turns it off."
    )
    weight_decay: float = _setting(
        2e-4, "λ of the penalty λ/2·‖W‖² on matrices and convolution kernels W, not on biases or p."
    )
    average: float = _setting(
        0.0,
        "Decay per step of an exponential moving average of the weights, which is validated and "
        "saved; 0 turns it off.",
    )
    precision: Literal["float32", "tf32", "bf16"] = _setting(
        "float32", "float32, tf32 or bf16; the last two are less exact, and faster on a GPU."
    )
    compile: bool = _setting(
        False, "Use torch.compile: faster on a CPU once compiled; needs a C++ compiler."
    )
    seed: int = _setting(0, "Seed for initial weights, sample order and all other randomness.")

    def __post_init__(self) -> None:
        """Raise for a setting that is not valid."""
        hints = get_type_hints(type(self))
        for name, hint in hints.items():
            choices = get_args(hint)
            if choices and all(isinstance(choice, str) for choice in choices):
                _check(name, getattr(self, name), choices.__contains__, f"one of {choices}")
        numbers: list[tuple[str, Callable[[Any], bool], str]] = [
            ("num_epochs", lambda v: type(v) is int and v >= 1, "an integer >= 1"),
            ("batch_size", lambda v: type(v) is int and v >= 1, "an integer >= 1"),
            ("seed", lambda v: type(v) is int and v >= 0, "an integer >= 0"),
            ("learning_rate", lambda v: 0 < v < math.inf, "a number > 0"),
            ("decay_factor", lambda v: 0 < v < math.inf, "a number > 0"),
            ("clip_norm", lambda v: v is None or 0 <= v < math.inf, "a number >= 0"),
            ("momentum", lambda v: 0 <= v < 1, "in [0, 1)"),
            ("weight_decay", lambda v: 0 <= v < math.inf, "a number >= 0"),
            ("average", lambda v: 0 <= v < 1, "in [0, 1)"),
        ]
        for name, is_right, expected in numbers:
            _check(name, getattr(self, name), is_right, expected)
        if not isinstance(self.compile, bool):
            raise ConfigError(f"compile must be true or false, got {self.compile!r}")
        _check(
            "decay_at",
            self.decay_at,
            lambda v: not isinstance(v, str) and all(0 < part < 1 for part in v),
            "a list of fractions in (0, 1)",
        )
        object.__setattr__(self, "decay_at", tuple(self.decay_at))

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a file of settings; missing ones keep their defaults."""
        settings = cls.read_settings(path)
        try:
            return cls(**settings)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error

    @classmethod
    def read_settings(cls, path: str | Path) -> dict[str, Any]:
        """Read the settings in a file, by name."""
        if problem := why_not_readable(Path(path)):
            raise ConfigError(f"{path} {problem}")
        try:
            with Path(path).open("rb") as file:
                settings = tomllib.load(file)
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not a TOML file: {error}") from error
        known = [one.name for one in dataclasses.fields(cls)]
        for name in settings:
            if name not in known:
                raise ConfigError(f"{path}: expected keys among {', '.join(known)}, got {name!r}")
        return settings

    def write(self, path: str | Path) -> None:
        """Write a file for `read`."""
        lines = [
            f"{name} = {json.dumps(value)}"
            for name, value in self.as_dict().items()
            if value is not None
        ]
        write_whole(Path(path), "\n".join(lines) + "\n")

    def as_dict(self) -> dict[str, Any]:
        """Return all settings by name, as JSON values."""
        settings = dataclasses.asdict(self)
        return {**settings, "decay_at": list(self.decay_at)}

    def learning_rate_at(self, step: int, num_steps: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        done = step / num_steps
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1 + math.cos(math.pi * done))
        if self.schedule == "step":
            return self.learning_rate * self.decay_factor ** sum(done >= d for d in self.decay_at)
        return self.learning_rate


@dataclass(frozen=True)
class TrainingRun:
    """What a training needs besides its model, its data and its settings.

    Attributes:
        folder: Folder for checkpoints, history and the final model.safetensors; None for none.
        device: Where to train.
        resume: Continue an earlier run with the same settings, if there is one.
        force: Start over although the folder has an earlier run.
        checkpoint_seconds: Seconds between checkpoints: the most work that a kill loses.
        progress: Called a few times per second and after every epoch.
        warn: Called with a line for every problem that does not stop the training.

    >>> from fwnet.training import TrainingRun
    >>> run = TrainingRun(folder="mynet", device="cpu", progress=lambda now: print(now.stage))
    >>> run.resume
    False
    """

    folder: str | Path | None = None
    device: str | torch.device = "cpu"
    resume: bool = False
    force: bool = False
    checkpoint_seconds: float = 30.0
    progress: ProgressCallback = silent
    warn: Callable[[str], object] = lambda _: None


def _check(name: str, value: Any, is_right: Callable[[Any], bool], expected: str) -> None:
    try:
        right = not isinstance(value, bool | Tensor) and is_right(value)
    except TypeError:
        right = False
    if not right:
        raise ConfigError(f"{name} must be {expected}, got {value!r}")
