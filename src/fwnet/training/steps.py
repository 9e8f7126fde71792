"""One training step: forward, backward, clip, update. On a GPU, a recorded graph."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fwnet.training.config import TrainingConfig
from fwnet.training.task import Task

WARMUP_STEPS = 3  # before a graph is recorded
NUM_BATCHES = 32  # to estimate the statistics of batch normalization


def make_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Make Adam, or SGD with momentum; decay is for matrices and kernels only."""
    parameters = [weight for weight in model.parameters() if weight.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [w for w in parameters if w.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [w for w in parameters if w.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    on_gpu = any(weight.is_cuda for weight in parameters)
    rate: Any = config.learning_rate
    if on_gpu:  # a recorded graph reads the rate from memory
        rate = torch.tensor(rate, device=parameters[0].device)
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=config.momentum, fused=on_gpu or None)
    return torch.optim.Adam(groups, lr=rate, capturable=on_gpu, fused=on_gpu or None)


@dataclass(eq=False, repr=False)
class TrainingStep:
    """θ ← θ − update(∇loss). Batches have one shape, so that a GPU can replay one graph."""

    model: nn.Module
    task: Task
    config: TrainingConfig
    optimizer: torch.optim.Optimizer
    record: bool

    def __post_init__(self) -> None:
        self.parameters = [w for group in self.optimizer.param_groups for w in group["params"]]
        self._taken = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: tuple[Tensor, ...] = ()
        self._loss = torch.empty(0)

    def __call__(self, batch: tuple[Tensor, ...], learning_rate: float) -> Tensor:
        """Take a step and return its loss, detached."""
        self._set_learning_rate(learning_rate)
        if not self.record:
            return self._take(batch)
        # Always in the same memory: with other strides a compiled model would be compiled again,
        # which is not possible while a graph is recorded.
        if not self._batch:
            self._batch = tuple(part.clone() for part in batch)
        for kept, fresh in zip(self._batch, batch, strict=True):
            kept.copy_(fresh)
        self._taken += 1
        if self._taken <= WARMUP_STEPS:
            return self._take(self._batch)
        if self._graph is None:
            self._graph = self._recorded()
        self._graph.replay()
        return self._loss

    def _take(self, batch: tuple[Tensor, ...]) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        device = batch[0].device.type
        bf16 = self.config.precision == "bf16"
        with torch.autocast(device, torch.bfloat16) if bf16 else nullcontext():
            loss = self.task.loss(self.model, *batch)
        loss.backward()
        if self.config.clip_norm:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.config.clip_norm)
        self.optimizer.step()
        return loss.detach()

    def _recorded(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._batch[0].device):  # not necessarily the current one
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                self._loss = self._take(self._batch)
        return graph

    def _set_learning_rate(self, value: float) -> None:
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(value)
            else:
                group["lr"] = value


def estimate_norms(
    model: nn.Module, task: Task, config: TrainingConfig, step: int, rows: slice
) -> None:
    """Estimate the statistics of batch normalization from the latest batches.

    Those collected during training belong to other weights than their running mean.
    """
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    was_training, momenta = model.training, [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean of all batches
    model.train()
    with torch.no_grad():
        for earlier in range(max(0, step - NUM_BATCHES), step):
            task.loss(model, *task.batch(earlier, rows, config))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(was_training)


@contextmanager
def matrix_precision(config: TrainingConfig) -> Iterator[None]:
    """Allow faster products and convolutions on a GPU, if the settings say so; then undo that.

    That is TF32, and the fastest convolution algorithms, which may round differently between runs.
    """
    fast = config.precision != "float32"
    convolutions = torch.backends.cudnn
    before = torch.get_float32_matmul_precision(), convolutions.allow_tf32, convolutions.benchmark
    torch.set_float32_matmul_precision("high" if fast else "highest")
    convolutions.allow_tf32 = convolutions.benchmark = fast
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        convolutions.allow_tf32, convolutions.benchmark = before[1:]
