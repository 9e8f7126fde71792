"""A training on disk: its settings, its history, and where it stands. Nothing is pickled."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fwnet.models import Model, ModelFileError, read_weights, write_weights
from fwnet.training.config import TrainingConfig

__all__ = ["Position", "RunFolder", "TrainingError"]

STATE, HISTORY, CONFIG, MODEL = (
    "checkpoint.safetensors",
    "history.jsonl",
    "config.toml",
    "model.safetensors",
)


class TrainingError(ValueError):
    """A training that cannot begin or go on, in one line."""


@dataclass
class Position:
    """Where a training stands between two steps.

    Attributes:
        step: How many steps have been taken.
        loss_sum: The sum of the losses of the epoch that is under way.
        best: The best validation figure so far, and the epoch it was seen after.
        best_epoch: That epoch.
        seconds: How long the training took, over all its parts.
    """

    step: int = 0
    loss_sum: float = 0.0
    best: float = float("inf")
    best_epoch: int = 0
    seconds: float = 0.0


class RunFolder:
    """The files of one training: model.safetensors when it is done, and what leads there."""

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path, self.identity = path, dict(identity)
        self.model_path = path / MODEL

    @classmethod
    def open(
        cls,
        path: Path,
        config: TrainingConfig,
        identity: Mapping[str, Any],
        *,
        resume: bool,
        force: bool,
    ) -> RunFolder:
        """Make the folder, or take it up again; what an earlier run left is not lost unasked."""
        folder = cls(path, {**identity, "config": config.as_dict()})
        used = [name for name in (STATE, MODEL) if (path / name).exists()]
        if used and not (resume or force):
            raise TrainingError(
                f"{path} already has a {used[0]}: go on with --resume, begin anew with --force"
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
            if not resume or not (path / STATE).exists():
                for name in (STATE, HISTORY, MODEL):
                    (path / name).unlink(missing_ok=True)
                config.write(path / CONFIG)
        except OSError as error:
            raise TrainingError(f"cannot write to {path}: {error.strerror}") from error
        return folder

    def save(
        self,
        model: Model,
        optimizer: torch.optim.Optimizer,
        best_weights: Mapping[str, Tensor],
        position: Position,
    ) -> None:
        """Put weights, optimizer and position into one file, replaced as a whole."""
        tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in best_weights.items()}
        for index, state in optimizer.state_dict()["state"].items():
            for name, value in state.items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer.{index}.{name}"] = value
        about = {"position": asdict(position), "identity": self.identity}
        write_weights(self.path / STATE, tensors, {"training": json.dumps(about)})

    def load(
        self, model: Model, optimizer: torch.optim.Optimizer
    ) -> tuple[Position, dict[str, Tensor]] | None:
        """Bring back what `save` kept, and the best weights; None where there is nothing yet."""
        if not (self.path / STATE).exists():
            return None
        try:
            tensors, metadata = read_weights(self.path / STATE)
            about = json.loads(metadata["training"])
        except (ModelFileError, KeyError, ValueError) as error:
            raise TrainingError(f"{self.path / STATE} cannot be read: {error}") from error
        self._check_identity(about["identity"])
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}, "optimizer": {}}
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
        return Position(**about["position"]), parts["best"]

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
                except ValueError:
                    break  # a kill cut the last line short
                if record["step"] <= until_step:
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
        for key, ours in self.identity.items():
            other = theirs.get(key)
            if isinstance(ours, dict) and isinstance(other, dict):
                names = [name for name in ours if ours[name] != other.get(name)]
                pairs = [(f"{name}", other.get(name), ours[name]) for name in names]
            else:
                pairs = [(key, other, ours)] if ours != other else []
            for name, before, now in pairs:
                raise TrainingError(
                    f"{self.path} was begun with {name} {before!r}, got {now!r}: "
                    "use the same settings to go on, or --force to begin anew"
                )
