"""A training on disk: its settings, its history, and where it stands. Nothing is pickled."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fwnet.errors import FwnetError
from fwnet.models import Model, ModelFileError, read_weights, write_weights
from fwnet.training.config import TrainingConfig

__all__ = ["KeptWeights", "Position", "TrainingError", "TrainingFolder", "holds_training"]

STATE, HISTORY, CONFIG, MODEL = (
    "checkpoint.safetensors",
    "history.jsonl",
    "config.toml",
    "model.safetensors",
)


class TrainingError(FwnetError):
    """A training that cannot begin or go on, in one line."""


@dataclass
class Position:
    """Where a training stands between two steps.

    Attributes:
        step: How many steps have been taken.
        loss_sum: The sum of the losses of the epoch that is under way.
        best: The best validation figure so far.
        best_epoch: The last epoch that it was seen after, where the weights of that are kept.
        improved_epoch: The first one.
        validation: The newest validation figure.
        seconds: How long the training took, over all its parts.
    """

    step: int = 0
    loss_sum: float = 0.0
    best: float = float("inf")
    best_epoch: int = 0
    improved_epoch: int = 0
    validation: float | None = None
    seconds: float = 0.0


@dataclass
class KeptWeights:
    """Weights beside those that are trained, by name.

    Attributes:
        best: Those of the best epoch so far.
        mean: The running mean of the parameters.
    """

    best: dict[str, Tensor] = field(default_factory=dict)
    mean: dict[str, Tensor] = field(default_factory=dict)


def as_laid_out(value: Tensor, weight: Tensor) -> Tensor:
    """A tensor on the device of a weight, with its numbers in the same order in memory.

    Fused optimizers ask for that; on a GPU the weights of convolutions have channels last.
    """
    if value.stride() == weight.stride():
        return value.to(weight.device)
    laid_out = torch.empty_like(weight, dtype=value.dtype, requires_grad=False)
    return laid_out.copy_(value)


def holds_training(folder: Path) -> bool:
    """Whether a folder has files of a training, done or not."""
    return any((folder / name).exists() for name in (STATE, HISTORY, CONFIG, MODEL))


class TrainingFolder:
    """The files of one training: model.safetensors when it is done, and what leads there."""

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path, self.identity = path, dict(identity)
        self.model_path = path / MODEL

    def check_unasked(self, *, resume: bool, force: bool) -> None:
        """Raise if an earlier run would be lost that nobody spoke of."""
        used = [name for name in (STATE, MODEL) if (self.path / name).exists()]
        if used and not force and not (resume and STATE in used):
            go_on = "go on with --resume, " if STATE in used else ""
            raise TrainingError(
                f"{self.path} already has a {used[0]}: {go_on}begin anew with --force"
            )

    def prepare(self, config: TrainingConfig, *, resume: bool) -> None:
        """Make the folder; without `resume`, empty it of an earlier run."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not (resume and self.has_checkpoint):
                for name in (STATE, HISTORY, MODEL):
                    (self.path / name).unlink(missing_ok=True)
                config.write(self.path / CONFIG)
        except OSError as error:
            raise TrainingError(f"cannot write to {self.path}: {error.strerror}") from error

    def save(
        self,
        model: Model,
        optimizer: torch.optim.Optimizer,
        kept: KeptWeights,
        position: Position,
    ) -> None:
        """Put weights, optimizer and position into one file, replaced as a whole."""
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
        """Bring back what `save` kept; None where there is nothing yet."""
        if not self.has_checkpoint:
            return None
        try:
            tensors, metadata = read_weights(self.path / STATE)
            about = json.loads(metadata["training"])
        except (ModelFileError, KeyError, ValueError) as error:
            raise TrainingError(f"{self.path / STATE} cannot be read: {error}") from error
        self._check_identity(about["identity"])
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
        for weight, values in optimizer.state.items():  # a file keeps numbers, not their layout
            for name, value in values.items():
                if value.shape == weight.shape:
                    values[name] = as_laid_out(value, weight)
        weights = dict(model.named_parameters())
        mean = {name: as_laid_out(value, weights[name]) for name, value in parts["mean"].items()}
        return Position(**about["position"]), KeptWeights(parts["best"], mean)

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is something to go on from."""
        return (self.path / STATE).exists()

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one line to the history."""
        with (self.path / HISTORY).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def history(self, until_step: int) -> list[dict[str, Any]]:
        """Return the lines up to a step, and forget those after it: they will be written again."""
        path = self.path / HISTORY
        records = []
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    record = json.loads(line)
                    known = record["step"] <= until_step
                except (ValueError, TypeError, KeyError):
                    break  # a kill cut the last line short
                if known:
                    records.append(record)
            temporary = path.with_suffix(".tmp")
            lines = "".join(json.dumps(record) + "\n" for record in records)
            with temporary.open("w", encoding="utf-8") as file:
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        return records

    def finish(self, model: Model, notes: Mapping[str, Any]) -> None:
        """Write the model that was trained."""
        model.save(self.model_path, notes)

    def _check_identity(self, theirs: Mapping[str, Any]) -> None:
        """Raise if the run was begun with something else."""
        for key, ours in self.identity.items():
            before = theirs.get(key)
            if key == "config" and isinstance(before, dict):
                before = {**TrainingConfig().as_dict(), **before}  # a setting that is newer
            if ours == before:
                continue
            if key == "data":
                difference = "was begun with other data"
            else:
                pairs = ({key: before}, {key: ours})
                if isinstance(ours, dict) and isinstance(before, dict):
                    names = [name for name in ours if ours[name] != before.get(name)]
                    pairs = ({n: before.get(n) for n in names}, {n: ours[n] for n in names})
                then, now = (", ".join(f"{n} {v!r}" for n, v in part.items()) for part in pairs)
                difference = f"was begun with {then}, got {now}"
            raise TrainingError(
                f"{self.path} {difference}: go on with the same, or begin anew with --force"
            )
