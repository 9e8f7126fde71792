"""A recurrent cell that reads a sequence, with a linear layer on its last state."""

import math
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from fwnet.models import SignalModel
from fwnet.nn import FWCell

Cell = Literal["FWCell", "gated FWCell", "LSTMCell", "GRUCell", "RNNCell"]


class SequenceReader(SignalModel):
    """h ← cell(x_t, h) for t = 1 … T, then W h + b.

    x_1 … x_T are joined to one vector of T·input_size numbers. The weights of torch's cells start
    uniform in ±1/√hidden_size, as torch does it, and the forget gate of the LSTM open, with a bias
    of 1. The ball of `FWCell` has the radius √hidden_size, so that entries are about as large as
    those of the other cells.

    Args:
        cell: The kind of cell.
        num_steps: T.
        input_size: Length of x_t.
        hidden_size: Length of h.
        num_outputs: Length of the output.
        generator: Generator of the initial weights.

    >>> import torch
    >>> from fwnet.experiments.sequence_reader import SequenceReader
    >>> SequenceReader("gated FWCell", 8, 8, 20, 10)(torch.randn(3, 64)).shape
    torch.Size([3, 10])
    """

    def __init__(
        self,
        cell: Cell,
        num_steps: int,
        input_size: int,
        hidden_size: int,
        num_outputs: int,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if cell not in get_args(Cell):
            raise ValueError(f"cell must be one of {', '.join(get_args(Cell))}, got {cell!r}")
        self.num_steps, self.input_size = num_steps, input_size
        self.num_features = num_steps * input_size
        self.cell = make_cell(cell, input_size, hidden_size)
        self.last = nn.Linear(hidden_size, num_outputs)
        bound = 1 / math.sqrt(hidden_size)
        with torch.no_grad():
            for name, weight in self.named_parameters():
                if isinstance(self.cell, FWCell) and name.startswith("cell."):
                    if name in ("cell.input_weight", "cell.hidden_weight"):
                        weight.normal_(0, bound, generator=generator)
                else:
                    weight.uniform_(-bound, bound, generator=generator)
            if isinstance(self.cell, nn.LSTMCell):
                self.cell.bias_hh[hidden_size : 2 * hidden_size] = 1.0

    def encode(self, x: Tensor) -> Tensor:
        """Return the last state, (batch, hidden_size)."""
        self._check_features(x)
        state: Any = None
        for x_t in x.unflatten(-1, (self.num_steps, self.input_size)).unbind(-2):
            state = self.cell(x_t, state)
        code: Tensor = state[0] if isinstance(state, tuple) else state
        return code

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs, (batch, num_outputs)."""
        outputs: Tensor = self.last(self.encode(x))
        return outputs

    def watched(self) -> dict[str, float | list[float]]:
        """Return p of an `FWCell`."""
        return {"p": self.cell.p.item()} if isinstance(self.cell, FWCell) else {}


def make_cell(cell: str, input_size: int, hidden_size: int) -> nn.Module:
    """Return a cell by its name."""
    if cell.endswith("FWCell"):
        radius, gated = math.sqrt(hidden_size), cell.startswith("gated")
        return FWCell(input_size, hidden_size, radius=radius, gated=gated)
    made: nn.Module = getattr(nn, cell)(input_size, hidden_size)
    return made


def hidden_size_for(cell: str, input_size: int, num_parameters: int) -> int:
    """Return the hidden size with which a cell is nearest to a number of parameters."""

    def distance(size: int) -> int:
        parameters = make_cell(cell, input_size, size).parameters()
        return abs(sum(weight.numel() for weight in parameters) - num_parameters)

    return min(range(1, math.isqrt(num_parameters) + 1), key=distance)
