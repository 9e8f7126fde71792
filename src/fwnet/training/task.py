"""What is learned: batches, loss and validation."""

import dataclasses
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from fwnet.checks import check_tensor
from fwnet.data import keyed_generator
from fwnet.metrics import code_error, error_rate
from fwnet.training.config import TrainingConfig


@dataclass(frozen=True)
class ShownFigure:
    """How the figure of `Task.validate` is shown.

    Attributes:
        name: The label of the axis in a picture.
        unit: The unit after a number.
        scale: Converts the figure to the number that is shown.
        loss_factor: Factor from the loss to the figure, if they are proportional.

    >>> from fwnet.training import ShownFigure
    >>> ShownFigure("test error", "%", scale=lambda rate: 100 * rate).text(0.034)
    '3.4 %'
    """

    name: str
    unit: str = ""
    scale: Callable[[float], float] = float
    loss_factor: float | None = None

    def text(self, figure: float) -> str:
        """Return the number with its unit."""
        return f"{self.scale(figure):.4g} {self.unit}".rstrip()


class Task(ABC):
    """Data and loss. A batch depends only on the settings and the number of the step.

    So a stopped training continues exactly where it was.

    >>> import fwnet
    >>> issubclass(fwnet.training.CodeRegression, fwnet.training.Task)
    True
    """

    shown: ClassVar[ShownFigure] = ShownFigure("figure")

    @abstractmethod
    def to(self, device: torch.device) -> Self:
        """Return the task with its data on a device."""

    @abstractmethod
    def steps_per_epoch(self, config: TrainingConfig) -> int:
        """Return the number of batches per epoch; all have the same size."""

    @abstractmethod
    def batch(self, step: int, rows: slice, config: TrainingConfig) -> tuple[Tensor, ...]:
        """Return some rows of the batch of a step: all, or the share of one process."""

    @abstractmethod
    def loss(self, model: nn.Module, *batch: Tensor) -> Tensor:
        """Return the mean over the rows of a batch, 0-dim."""

    @abstractmethod
    def validate(self, model: nn.Module) -> float | None:
        """Return a figure on validation data, the smaller the better; None without such data."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a digest of the data: a training is not continued with other data."""


@dataclass(eq=False, repr=False)
class Pairs(Task):
    """Inputs with their targets, held in memory; subclasses define the loss.

    Args:
        inputs: Inputs of the model, one per row.
        targets: The wanted outputs, one per row.
        validation_inputs: Inputs to validate with, if any.
        validation_targets: Targets of those.
    """

    inputs: Tensor
    targets: Tensor
    validation_inputs: Tensor | None = None
    validation_targets: Tensor | None = None

    def __post_init__(self) -> None:
        for name in ("inputs", "targets", "validation_inputs", "validation_targets"):
            if (part := getattr(self, name)) is not None:
                check_tensor(name, part, floating_point=False)
        if len(self.inputs) != len(self.targets) or not len(self.inputs):
            raise ValueError(
                f"expected a target for every input, got {len(self.inputs)} inputs, "
                f"{len(self.targets)} targets"
            )
        pair = (self.validation_inputs, self.validation_targets)
        if (pair[0] is None) != (pair[1] is None) or any(
            part is not None and not len(part) for part in pair
        ):
            raise ValueError(
                "expected validation inputs and targets, or neither, got one of them or empty ones"
            )
        self._order: tuple[tuple[int, int], Tensor] | None = None

    def to(self, device: torch.device) -> Self:
        """Return the task with its data on a device."""
        parts = {name: part.to(device) for name, part in self._parts().items()}
        return dataclasses.replace(self, **parts)

    def steps_per_epoch(self, config: TrainingConfig) -> int:
        """Return the number of whole batches; the samples left over differ between epochs."""
        return max(1, len(self.inputs) // config.batch_size)

    def batch(self, step: int, rows: slice, config: TrainingConfig) -> tuple[Tensor, ...]:
        """Return rows in an order that is drawn for every epoch."""
        epoch, index = divmod(step, self.steps_per_epoch(config))
        key = (config.seed, epoch)
        if self._order is None or self._order[0] != key:
            generator = keyed_generator(config.seed, "order", epoch)
            order = torch.randperm(len(self.inputs), generator=generator)
            self._order = (key, order.to(self.inputs.device))
        start = index * config.batch_size
        chosen = self._order[1][start : start + config.batch_size][rows]
        return self.inputs[chosen], self.targets[chosen]

    def validate(self, model: nn.Module) -> float | None:
        """Return the figure of the validation pairs."""
        if self.validation_inputs is None or self.validation_targets is None:
            return None
        return self.figure(model(self.validation_inputs), self.validation_targets).item()

    @abstractmethod
    def figure(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the figure of outputs, the smaller the better."""

    def fingerprint(self) -> str:
        """Return the SHA-256 of all numbers."""
        digest = hashlib.sha256()
        for part in self._parts().values():
            digest.update(f"{tuple(part.shape)} {part.dtype}".encode())
            digest.update(part.cpu().contiguous().numpy().data.cast("B"))
        return digest.hexdigest()

    def _parts(self) -> dict[str, Tensor]:
        return {name: part for name, part in vars(self).items() if isinstance(part, Tensor)}


class CodeRegression(Pairs):
    """min_W mean ½‖f_W(x) − z‖²: a network learns codes z, (count, m), of signals x, (count, n).

    The loss is half the sum over the entries of a code (Caffe's Euclidean loss); `validate` returns
    `fwnet.metrics.code_error`, the sum.

    >>> import fwnet, torch
    >>> task = fwnet.training.CodeRegression(torch.randn(50, 10), torch.randn(50, 20))
    >>> task.loss(fwnet.FWNet(10, 20, num_layers=2), torch.randn(5, 10), torch.randn(5, 20)).shape
    torch.Size([])
    """

    shown = ShownFigure("error per sample", loss_factor=2.0)

    def loss(self, model: nn.Module, *batch: Tensor) -> Tensor:
        """½·code_error."""
        signals, codes = batch
        return 0.5 * code_error(model(signals).to(codes.dtype), codes)

    def figure(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the error of codes."""
        return code_error(outputs, targets)


@dataclass(eq=False, repr=False)
class Classification(Pairs):
    """min_W mean −log softmax(f_W(x))_y: a network learns the classes y of inputs x.

    With an `adversarial_radius` ρ > 0 the loss is the mean of that at x and at x + ρ·g/‖g‖, where g
    is its gradient in x: the worst neighbor to first order (Goodfellow, Shlens and Szegedy, 2015,
    with the Euclidean norm). `validate` returns the error rate.

    Args:
        adversarial_radius: ρ.

    The other arguments are those of `Pairs`: x of shape (count, n), y of shape (count,), integers
    from 0.

    >>> import fwnet
    >>> from fwnet.models import CodeClassifier
    >>> from fwnet.training import Classification, TrainingConfig, train
    >>> digits = fwnet.data.small_digits()
    >>> net = CodeClassifier.on(fwnet.FWNet(64, 100, num_layers=2, radius=5.0), num_classes=10)
    >>> task = Classification(digits.images, digits.labels)
    >>> result = train(net, task, TrainingConfig(num_epochs=3, learning_rate=0.01))
    >>> fwnet.metrics.error_rate(net(digits.test_images), digits.test_labels).item() < 0.2
    True
    """

    shown = ShownFigure("error rate")

    adversarial_radius: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.adversarial_radius >= 0:
            raise ValueError(f"adversarial_radius must be >= 0, got {self.adversarial_radius!r}")

    def loss(self, model: nn.Module, *batch: Tensor) -> Tensor:
        """Return the cross-entropy, with adversarial neighbors if asked for."""
        x, y = batch
        if not self.adversarial_radius:
            return cross_entropy(model(x).float(), y)
        x = x.detach().requires_grad_()
        plain = cross_entropy(model(x).float(), y)
        (gradient,) = torch.autograd.grad(plain, x, retain_graph=True)
        neighbor = x.detach() + self.adversarial_radius * normalize(gradient, dim=-1, eps=1e-30)
        return 0.5 * (plain + cross_entropy(model(neighbor).float(), y))

    def figure(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the error rate."""
        return error_rate(outputs, targets)

    def fingerprint(self) -> str:
        """Return the SHA-256 of all numbers."""
        return f"{super().fingerprint()} {self.adversarial_radius!r}"
