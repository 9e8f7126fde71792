"""The one training loop."""

import contextlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from fwnet.hardware import widest_dtype
from fwnet.models import Model
from fwnet.progress import Progress, ProgressCallback
from fwnet.training.checkpoint import MODEL, KeptWeights, Position, TrainingError, TrainingFolder
from fwnet.training.config import TrainingConfig, TrainingRun
from fwnet.training.processes import Processes, deferred_interrupts
from fwnet.training.steps import TrainingStep, estimate_norms, make_optimizer, matrix_precision
from fwnet.training.task import Task

LOOK_SECONDS = 0.2  # how often the loss is read, reported and checked
STEPS_BETWEEN_CLOCKS = 20  # with several processes, which have to agree


class DivergedError(TrainingError):
    """The loss, a weight or a validation figure is no longer finite.

    >>> import fwnet, torch
    >>> from fwnet.training import CodeRegression, TrainingConfig, train
    >>> task = CodeRegression(torch.full((10, 4), float("nan")), torch.zeros(10, 8))
    >>> try:
    ...     train(fwnet.FWNet(4, 8, num_layers=2), task, TrainingConfig(num_epochs=1, batch_size=5))
    ... except fwnet.training.DivergedError:
    ...     print("the loss is no longer finite")
    the loss is no longer finite
    """


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training.

    Attributes:
        history: One record per epoch: step, epoch, loss, learning_rate, validation, p, gamma, …
        seconds: Duration of the training, over all its runs.
        best_epoch: The epoch whose weights the model has, if there was a validation.

    >>> import fwnet
    >>> from fwnet.training import CodeRegression, TrainingConfig, train
    >>> data = fwnet.data.synthetic_codes(num_train=200, num_test=0)
    >>> task = CodeRegression(data.signals, data.codes)
    >>> result = train(fwnet.FWNet(50, 100, num_layers=2), task, TrainingConfig(num_epochs=3))
    >>> [record["epoch"] for record in result.history]
    [1, 2, 3]
    """

    history: list[dict[str, Any]] = field(repr=False)
    seconds: float
    best_epoch: int | None

    @property
    def last(self) -> dict[str, Any]:
        """The record of the last epoch; empty if the history was removed."""
        return self.history[-1] if self.history else {}


def train(
    model: Model,
    task: Task,
    config: TrainingConfig,
    run: TrainingRun | None = None,
    *,
    keep_best: bool = False,
    patience: int | None = None,
    identity: Mapping[str, Any] | None = None,
    notes: Mapping[str, Any] | None = None,
) -> TrainingResult:
    """min_θ mean loss(f_θ) by stochastic gradients; the model is trained in place.

    The result depends only on the model, the data and the settings: a training that is killed and
    continued with `resume` ends with the same weights, bit for bit, on a CPU with the same number
    of threads.

    Args:
        model: The network, with its initial weights.
        task: Data and loss.
        config: The settings.
        run: Device, folder, checkpoints and progress; by default on the CPU, keeping nothing.
        keep_best: End with the weights of the epoch that had the best validation figure.
        patience: Stop when that figure has not improved for this many epochs.
        identity: What else must be the same for a run to continue; by name, for messages.
        notes: What the model file should say besides settings and figures.

    Raises `DivergedError` when the loss is no longer finite; the last good checkpoint is kept.

    >>> import fwnet
    >>> from fwnet.training import CodeRegression, TrainingConfig, train
    >>> data = fwnet.data.synthetic_codes(num_train=500, num_test=0).scaled()
    >>> net = fwnet.FWNet.from_dictionary(data.dictionary, num_layers=2, radius=5.0, p=2.0)
    >>> task = CodeRegression(data.signals, data.codes)
    >>> result = train(net, task, TrainingConfig(num_epochs=5, learning_rate=0.03))
    >>> result.history[-1]["loss"] < result.history[0]["loss"], bool(net.p < 2)
    (True, True)
    """
    for name, value, kind, words in (
        ("model", model, Model, "a network of fwnet.models; others need a loop of their own"),
        ("task", task, Task, "a task such as CodeRegression"),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be {words}, got {type(value).__name__}")
    run = run or TrainingRun()
    processes = Processes(torch.device(run.device))
    rows = processes.rows(config.batch_size)
    folder = None
    if run.folder is not None:
        folder = TrainingFolder(
            Path(run.folder),
            {  # in the order in which differences are reported: the user's own come first
                **(identity or {}),
                "config": config.as_dict(),
                "model": type(model).__name__,
                "data": task.fingerprint(),
                "model_config": model.config,
                "keep_best": keep_best,
                "patience": patience,
            },
        )
        folder.check_unasked(resume=run.resume, force=run.force)
        processes.wait()  # until all have checked, before the first one changes anything
    with contextlib.ExitStack() as held:
        if folder is not None:
            if processes.is_first:
                held.enter_context(folder.opened(config, resume=run.resume, force=run.force))
            processes.wait()
        model.to(processes.device).train()
        if processes.device.type == "cuda":  # where convolutions are faster with channels last
            model.to(memory_format=torch.channels_last)
        training = _Training(
            model, task.to(processes.device), config, processes, rows, folder, keep_best, patience
        )
        training.restore()
        with matrix_precision(config):
            result = training.go(run.checkpoint_seconds, run.progress)
        model.eval()
        if folder is not None and processes.is_first:
            about = {
                "settings": config.as_dict(),
                "seconds": round(result.seconds, 1),
                "num_processes": processes.count,
                "last_epoch": {k: v for k, v in result.last.items() if k != "seconds"},
                **(notes or {}),
            }
            model.save(folder.path / MODEL, about)
    return result


@dataclass(eq=False, repr=False)
class _Training:
    """A running training."""

    model: Model
    task: Task
    config: TrainingConfig
    processes: Processes
    rows: slice
    folder: TrainingFolder | None
    keep_best: bool
    patience: int | None

    def __post_init__(self) -> None:
        model, task, config, processes = self.model, self.task, self.config, self.processes
        self.optimizer = make_optimizer(model, config)
        # A recorded graph has no averages over processes.
        record = processes.device.type == "cuda" and processes.count == 1
        called = processes.prepare(model)
        if config.compile:
            called = cast("nn.Module", torch.compile(called))
        self.take_step = TrainingStep(called, task, config, self.optimizer, record)
        self.steps_per_epoch = task.steps_per_epoch(config)
        self.num_steps = config.num_epochs * self.steps_per_epoch
        self.position = Position()
        self.kept = KeptWeights()
        if config.average:
            self.kept.mean = {n: w.detach().clone() for n, w in model.named_parameters()}
        self.history: list[dict[str, Any]] = []
        dtype = widest_dtype(processes.device)
        self.loss_sum = torch.zeros((), dtype=dtype, device=processes.device)

    def restore(self) -> None:
        """Continue an earlier run, if the folder has one."""
        if self.folder is None:
            return
        kept = self.folder.load(self.model, self.optimizer)
        if kept is None:
            return
        self.position, self.kept = kept
        self.loss_sum.fill_(self.position.loss_sum)
        if self.processes.is_first:
            self.history = self.folder.history(self.position.step)

    def go(self, checkpoint_seconds: float, progress: ProgressCallback) -> TrainingResult:
        """Take the remaining steps."""
        config, position = self.config, self.position
        start = time.monotonic() - position.seconds
        last_look = last_save = time.monotonic()
        between = STEPS_BETWEEN_CLOCKS if self.processes.count > 1 else 1
        with deferred_interrupts() as interrupted:
            while position.step < self.num_steps and not self._has_levelled_off():
                batch = self.task.batch(position.step, self.rows, config)
                rate = config.learning_rate_at(position.step, self.num_steps)
                self.loss_sum += self.take_step(batch, rate)
                position.step += 1
                self._update_mean()
                epoch_ends = position.step % self.steps_per_epoch == 0
                if not epoch_ends and position.step % between:
                    continue
                now = time.monotonic()
                position.seconds = now - start
                if epoch_ends or now - last_look >= LOOK_SECONDS:
                    last_look = now
                    self._look(rate, epoch_ends, progress)
                stop = self.processes.agree(interrupted.is_set())
                if self.processes.agree(stop or now - last_save >= checkpoint_seconds):
                    last_save = now
                    self.save()
                if stop:
                    raise KeyboardInterrupt
        self.save()
        best_epoch = None
        if self.kept.best:
            self.model.load_state_dict(self.kept.best)
            best_epoch = position.best_epoch
        else:
            self._take_mean()
        return TrainingResult(self.history, position.seconds, best_epoch)

    def save(self) -> None:
        """Write a checkpoint, unless something in it is not a number any more."""
        self.position.loss_sum = float(self.processes.mean(self.loss_sum))
        if self.folder and self.processes.is_first and self._weights_are_finite():
            self.folder.save(self.model, self.optimizer, self.kept, self.position)

    def _update_mean(self) -> None:
        """mean ← a·mean + (1 − a)·weights, from the plain mean of the first 1/(1 − a) steps."""
        if self.kept.mean:
            share = max(1 - self.config.average, 1 / self.position.step)
            named = [(name, weight.detach()) for name, weight in self.model.named_parameters()]
            means, weights = [self.kept.mean[name] for name, _ in named], [w for _, w in named]
            torch._foreach_lerp_(means, weights, share)

    def _take_mean(self) -> None:
        """Put the mean of the weights into the model, with the norms that belong to it."""
        self._exchange_mean()
        if self.kept.mean:
            estimate_norms(self.model, self.task, self.config, self.position.step, self.rows)

    def _exchange_mean(self) -> None:
        """Put the mean into the model and the weights in its place; a second time undoes it."""
        for name, weight in self.model.named_parameters() if self.kept.mean else ():
            mean = self.kept.mean[name]
            weight.data, self.kept.mean[name] = mean, weight.data

    def _look(self, rate: float, epoch_ends: bool, progress: ProgressCallback) -> None:
        """Read the loss; at the end of an epoch validate and write the history."""
        position = self.position
        steps = (position.step - 1) % self.steps_per_epoch + 1
        loss = self.loss_sum.item() / steps
        if epoch_ends:
            loss = float(self.processes.mean(self.loss_sum)) / steps
        epoch = -(-position.step // self.steps_per_epoch)
        if not math.isfinite(loss):
            raise self._diverged(f"the loss became {loss}", epoch, rate)
        if epoch_ends and not self._weights_are_finite():
            raise self._diverged("weights became NaN or infinite", epoch, rate)
        watched = self.model.watched()
        if epoch_ends:
            self._end_epoch(epoch, loss, rate, watched)
        figures: dict[str, Any] = {"loss": loss}
        if position.validation is not None:
            figures["validation"] = self.task.shown.text(position.validation)
        stage = f"epoch {epoch} of {self.config.num_epochs}"
        progress(Progress(stage, position.step, self.num_steps, figures={**figures, **watched}))

    def _has_levelled_off(self) -> bool:
        """Return whether the validation figure has not improved for `patience` epochs."""
        epochs = self.position.step / self.steps_per_epoch
        return (
            self.patience is not None
            and self.position.validation is not None
            and epochs >= self.position.improved_epoch + self.patience
        )

    def _weights_are_finite(self) -> bool:
        return all(bool(weight.isfinite().all()) for weight in self.model.parameters())

    def _diverged(self, what: str, epoch: int, rate: float) -> DivergedError:
        kept = ""
        if self.folder and self.folder.has_checkpoint:
            kept = f"; the last good checkpoint is in {self.folder.path}"
        return DivergedError(
            f"{what} in epoch {epoch} (step {self.position.step}) at learning rate {rate:.3g}: "
            f"start over with a smaller learning_rate or a clip_norm{kept}"
        )

    def _end_epoch(
        self, epoch: int, loss: float, rate: float, watched: Mapping[str, float | list[float]]
    ) -> None:
        self.model.eval()
        self._take_mean()
        with torch.no_grad():
            figure = self.position.validation = self.task.validate(self.model)
        if figure is not None and not math.isfinite(figure):
            raise self._diverged(f"the validation figure became {figure}", epoch, rate)
        record: dict[str, Any] = {
            "step": self.position.step,
            "epoch": epoch,
            "loss": loss,
            "learning_rate": rate,
            "seconds": round(self.position.seconds, 3),
            **watched,
        }
        if figure is not None:
            record["validation"] = figure
            if figure < self.position.best:
                self.position.improved_epoch = epoch
            # Of equally good epochs the last: figures that are counts are often equal.
            if self.keep_best and figure <= self.position.best:
                self.position.best_epoch = epoch
                self.kept.best = {
                    name: value.clone() for name, value in self.model.state_dict().items()
                }
            self.position.best = min(self.position.best, figure)
        self._exchange_mean()
        self.model.train()
        self.history.append(record)
        if self.folder and self.processes.is_first:
            self.folder.append(record)
        self.loss_sum.zero_()
