"""A training on disk: settings, history and checkpoint. Nothing is pickled."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from fwnet.checks import check_number
from fwnet.errors import FwnetError
from fwnet.files import locked, remove_unfinished, write_whole
from fwnet.models import Model, ModelFileError, read_weights, write_weights
from fwnet.training.config import TrainingConfig

PICTURE = "history.png"  # drawn by the command line
STATE, HISTORY, CONFIG, MODEL = (
    "checkpoint.safetensors",
    "history.jsonl",
    "config.toml",
    "model.safetensors",
)
FILES = (STATE, HISTORY, CONFIG, MODEL)


class TrainingError(FwnetError):
    """A training that cannot start or continue.

    >>> import fwnet
    >>> issubclass(fwnet.training.TrainingError, ValueError)
    True
    """


@dataclass
class Position:
    """The state of a training between two steps.

    Attributes:
        step: Number of steps taken.
        loss_sum: Sum of the losses of the current epoch.
        best: The best validation figure so far.
        best_epoch: The last epoch with that figure, if its weights are kept.
        improved_epoch: The first epoch with that figure.
        validation: The latest validation figure.
        seconds: Duration of the training, over all its runs.
    """

    step: int = 0
    loss_sum: float = 0.0
    best: float = float("inf")
    best_epoch: int = 0
    improved_epoch: int = 0
    validation: float | None = None
    seconds: float = 0.0

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the position that a file holds; raise `TypeError` or `ValueError` for others."""
        position = cls(**values)
        for one in fields(cls):
            value = getattr(position, one.name)
            kinds = (int,) if one.type is int else (int, float)
            empty = one.default is None and value is None
            if not empty and (isinstance(value, bool) or not isinstance(value, kinds)):
                raise TypeError(f"{one.name} must be a number, got {value!r}")
            if not empty:
                check_number(one.name, value)
        if position.step < 0:
            raise ValueError(f"step must be >= 0, got {position.step}")
        return position


@dataclass
class KeptWeights:
    """Weights besides those that are trained, by name.

    Attributes:
        best: Weights of the best epoch so far.
        mean: Running mean of the parameters.
    """

    best: dict[str, Tensor] = field(default_factory=dict)
    mean: dict[str, Tensor] = field(default_factory=dict)


def as_laid_out(value: Tensor, weight: Tensor) -> Tensor:
    """Return a tensor on the device of a weight, with the same memory layout.

    Fused optimizers need that; on a GPU the weights of convolutions have channels last.
    """
    if value.stride() == weight.stride():
        return value.to(weight.device)
    laid_out = torch.empty_like(weight, dtype=value.dtype, requires_grad=False)
    return laid_out.copy_(value)


def holds_training(folder: Path) -> bool:
    """Return whether a folder has files of a training, finished or not."""
    return any((folder / name).exists() for name in FILES)


class TrainingFolder:
    """The files of one training: checkpoint, history and settings; the final model beside them."""

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path, self.identity = path, dict(identity)

    def check_unasked(self, *, resume: bool, force: bool) -> None:
        """Raise if an earlier run would be lost without `force`."""
        used = [name for name in (STATE, MODEL) if (self.path / name).exists()]
        if used and not force and not (resume and STATE in used):
            resumed = "continue with --resume, or " if STATE in used else ""
            raise TrainingError(
                f"{self.path} already has a {used[0]}: {resumed}start over with --force"
            )

    @contextlib.contextmanager
    def opened(self, config: TrainingConfig, *, resume: bool, force: bool) -> Iterator[None]:
        """Make the folder, keep other processes out of it, and delete what will not be continued.

        That is an earlier run without `resume`, and always what a killed one left half written.
        """
        with contextlib.ExitStack() as held:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                held.enter_context(locked(self.path))
                self.check_unasked(resume=resume, force=force)  # now that no other process can work
                remove_unfinished(self.path / name for name in (*FILES, PICTURE))
                if not (resume and self.has_checkpoint):
                    for name in (STATE, HISTORY, MODEL):
                        (self.path / name).unlink(missing_ok=True)
                    config.write(self.path / CONFIG)
            except OSError as error:
                raise TrainingError(f"cannot write to {self.path}: {error.strerror}") from error
            yield

    def save(
        self,
        model: Model,
        optimizer: torch.optim.Optimizer,
        kept: KeptWeights,
        position: Position,
    ) -> None:
        """Write weights, optimizer and position to one file, whole or not at all."""
        tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in kept.best.items()}
        tensors |= {f"mean.{name}": value for name, value in kept.mean.items()}
        for index, state in optimizer.state_dict()["state"].items():
            for name, value in state.items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer.{index}.{name}"] = value
        about = {"position": asdict(position), "identity": self.identity}
        write_weights(self.path / STATE, tensors, {"training": json.dumps(about)})

    def load(
        self, model: Model, optimizer: torch.optim.Optimizer
    ) -> tuple[Position, KeptWeights] | None:
        """Restore what `save` wrote; return None if there is no checkpoint."""
        if not self.has_checkpoint:
            return None
        try:
            tensors, metadata = read_weights(self.path / STATE)
            about = json.loads(metadata["training"])
            position = Position.of(about["position"])
            identity = {**about["identity"]}
        except (ModelFileError, KeyError, TypeError, ValueError) as error:
            line = " ".join(str(error).split())
            raise TrainingError(f"{self.path / STATE} cannot be read: {line}") from error
        self._check_identity(identity)
        try:
            return position, self._restore(tensors, model, optimizer)
        except (KeyError, IndexError, ValueError, RuntimeError) as error:
            raise TrainingError(
                f"{self.path / STATE} does not fit the network: start over with --force"
            ) from error

    def _restore(
        self, tensors: Mapping[str, Tensor], model: Model, optimizer: torch.optim.Optimizer
    ) -> KeptWeights:
        """Put the tensors of a checkpoint where they belong; return the kept weights."""
        parts: dict[str, dict[str, Tensor]] = {
            part: {} for part in ("model", "best", "mean", "optimizer")
        }
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = tensor
        model.load_state_dict(parts["model"])
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in parts["optimizer"].items():
            index, _, key = name.partition(".")
            state.setdefault(int(index), {})[key] = tensor
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
        for weight, values in optimizer.state.items():  # a file does not keep the memory layout
            for name, value in values.items():
                if value.shape == weight.shape:
                    values[name] = as_laid_out(value, weight)
        weights = dict(model.named_parameters())
        mean = {name: as_laid_out(value, weights[name]) for name, value in parts["mean"].items()}
        return KeptWeights(parts["best"], mean)

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is a checkpoint to continue from."""
        return (self.path / STATE).exists()

    def append(self, record: Mapping[str, Any]) -> None:
        """Append one line to the history."""
        with (self.path / HISTORY).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def history(self, until_step: int) -> list[dict[str, Any]]:
        """Return the lines up to a step, and delete later ones: they will be written again."""
        path = self.path / HISTORY
        records = []
        if path.exists():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    record = json.loads(line)
                    known = record["step"] <= until_step
                except (ValueError, TypeError, KeyError):
                    break  # the last line is incomplete after a kill
                if known:
                    records.append(record)
            write_whole(path, "".join(json.dumps(record) + "\n" for record in records))
        return records

    def _check_identity(self, theirs: Mapping[str, Any]) -> None:
        """Raise if the earlier run had other settings or data."""
        for key, ours in self.identity.items():
            before = theirs.get(key)
            if key == "config" and isinstance(before, dict):
                before = TrainingConfig().as_dict() | before  # some did not exist then
            if ours == before:
                continue
            if key == "data":
                difference = "was started with other data"
            else:
                pairs = ({key: before}, {key: ours})
                if isinstance(ours, dict) and isinstance(before, dict):
                    names = [name for name in ours if ours[name] != before.get(name)]
                    pairs = ({n: before.get(n) for n in names}, {n: ours[n] for n in names})
                then, now = (", ".join(f"{n} {v!r}" for n, v in part.items()) for part in pairs)
                difference = f"was started with {then}, got {now}"
            raise TrainingError(
                f"{self.path} {difference}: continue with the same, or start over with --force"
            )
