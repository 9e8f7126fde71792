"""The card of a trained model: what it does, what it learned from, how good it is."""

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fwnet.models import MODELS, ModelFileError

NAME = re.compile(r"[a-z0-9_]+_t[0-9]+\.[a-z0-9_]+")


@dataclass(frozen=True)
class Sample:
    """The output of a model for the image of `fwnet.zoo.sample`, at a few places.

    Attributes:
        places: Channel, row and column of each.
        values: The output there.
    """

    places: list[list[int]]
    values: list[float]


@dataclass(frozen=True)
class Card:
    """One trained model.

    Attributes:
        name: architecture_tT.task_variant, such as conv_fwnet_t4.denoise_gray_s25.
        task: The name of the restoration: "denoise" or "upscale".
        trained_for: Its facts: "sigma" (a number or an interval, 0 to 255), "color", "scale".
        summary: One line.
        model: The class in the registry.
        num_parameters: The number of learned numbers.
        multiply_adds: Multiplications with weights per pixel.
        data: What it learned from.
        data_license: The license of that data.
        command: The command that trained it.
        seconds: How long the training took.
        hardware: The machine that it was trained on.
        figures: Measured results, such as {"BSD68 σ=25 PSNR": 28.77}.
        dtype: The dtype of the kernels in the file; a loaded model has float32.
        num_bytes: The size of the file.
        sha256: The digest of the file.
        sample: Outputs that the model must give on every machine.
    """

    name: str
    task: str
    trained_for: dict[str, Any]
    summary: str
    model: str
    num_parameters: int
    multiply_adds: int
    data: str
    data_license: str
    command: str
    seconds: float
    hardware: str
    figures: dict[str, float]
    dtype: str
    num_bytes: int
    sha256: str
    sample: Sample

    def __post_init__(self) -> None:
        for name, (expected, is_right) in CHECKS.items():
            value = getattr(self, name)
            if not is_right(value):
                raise ModelFileError(f"{name} must be {expected}, got {value!r}")
        if not self.name.partition(".")[2].startswith(self.task):
            raise ModelFileError(f"name must contain the task {self.task}, got {self.name!r}")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a card that `write` wrote, and check every field."""
        try:
            values = _exactly(cls, json.loads(path.read_text(encoding="utf-8")))
            values["sample"] = Sample(**_exactly(Sample, values["sample"]))
            card = cls(**values)
        except (OSError, TypeError, ValueError) as error:
            raise ModelFileError(f"{path} is not a card: {error}") from error
        if card.name != path.stem:
            raise ModelFileError(f"{path} must be the card of {path.stem}, got {card.name}")
        return card

    def write(self, path: Path) -> None:
        """Write the card as JSON."""
        text = json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


def _exactly(kind: type[Card | Sample], values: Any) -> dict[str, Any]:
    """Return the fields of a card, or of its sample; raise if one is missing or unknown."""
    what = kind.__name__.lower()
    if not isinstance(values, dict):
        raise ModelFileError(f"{what} must be an object, got {values!r}")
    names = {field.name for field in dataclasses.fields(kind)}
    for wrong, how in ((names - set(values), "lacks"), (set(values) - names, "must not have")):
        if wrong:
            raise ModelFileError(f"{what} {how} {', '.join(sorted(wrong))}")
    return dict(values)


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\n" not in value


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_number(value: Any) -> bool:
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and math.isfinite(value)


def _are_figures(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        _is_line(name) and _is_number(figure) for name, figure in value.items()
    )


def _are_facts(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(_is_line(name) for name in value)


def _is_sample(value: Any) -> bool:
    return (
        isinstance(value, Sample)
        and len(value.places) == len(value.values) >= 1
        and all(len(place) == 3 and min(place) >= 0 for place in value.places)
        and all(_is_number(number) for number in value.values)
    )


Check = tuple[str, Callable[[Any], bool]]
LINE: Check = ("a line of text", _is_line)
COUNT: Check = ("an integer >= 1", _is_count)
CHECKS: dict[str, Check] = {
    "name": (
        "architecture_tT.task_variant",
        lambda value: isinstance(value, str) and bool(NAME.fullmatch(value)),
    ),
    "task": ("one word", lambda value: isinstance(value, str) and value.isidentifier()),
    "trained_for": ("facts by name", _are_facts),
    "summary": LINE,
    "model": ("a model of the registry", lambda value: value in MODELS),
    "num_parameters": COUNT,
    "multiply_adds": COUNT,
    "data": LINE,
    "data_license": LINE,
    "command": LINE,
    "seconds": ("a number >= 0", lambda value: _is_number(value) and value >= 0),
    "hardware": LINE,
    "figures": ("numbers by name", _are_figures),
    "dtype": ("float16 or float32", lambda value: value in ("float16", "float32")),
    "num_bytes": COUNT,
    "sha256": (
        "64 hexadecimal digits",
        lambda value: isinstance(value, str) and bool(re.fullmatch("[0-9a-f]{64}", value)),
    ),
    "sample": ("as many values as places of three numbers", _is_sample),
}
