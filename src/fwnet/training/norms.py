"""Batch normalization with a running mean of the weights."""

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from fwnet.training.config import TrainingConfig
from fwnet.training.task import Task

NUM_BATCHES = 32


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
