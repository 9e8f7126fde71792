"""The Frank-Wolfe step as a recurrent cell: the paper's view of the network as an LSTM."""

import math

import torch
from torch import Tensor, nn

from fwnet.checks import check_number, check_size, check_tensor
from fwnet.functional import check_radius, frank_wolfe_step, pool_excess
from fwnet.nn.exponent import Exponent, check_plain


class FWCell(nn.Module):
    """z' = (1 − γ)·z + γ·pool_p(W x + U z): γ is the input gate, 1 − γ the forget gate.

    One call is one step of a sequence, as with `torch.nn.LSTMCell`:

        z = None
        for x in sequence:
            z = cell(x, z)

    z stays in the Lp ball of the given radius. With a constant x and γ = 2/(t + 2) passed at each
    step, this is `fwnet.FWNet` with shared weights.

    Args:
        input_size: The length of x.
        hidden_size: The length of z.
        p: The exponent, or its initial value (default 2).
        learn_p: Whether p is learned (default True).
        radius: The radius of the ball (default 1).
        step_size: The initial γ, in (0, 1) (default 0.5).
        gated: Whether γ depends on x and z, like the gates of an LSTM: one number per sample,
            γ = sigmoid(a·x + b·z + logit). Otherwise γ is one learned number.
        generator: The random generator of the initial weights.

    >>> import fwnet, torch
    >>> cell, z = fwnet.nn.FWCell(10, 20, radius=2.0), None
    >>> for x in torch.randn(5, 32, 10):
    ...     z = cell(x, z)
    >>> z.shape, bool((z.norm(2, dim=-1) <= 2 + 1e-5).all())
    (torch.Size([32, 20]), True)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        p: float = 2.0,
        learn_p: bool = True,
        radius: float = 1.0,
        step_size: float = 0.5,
        gated: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_size("input_size", input_size)
        check_size("hidden_size", hidden_size)
        check_radius(radius)
        check_plain("radius", radius)
        check_number("step_size", step_size)
        if not 0 < step_size < 1:
            raise ValueError(f"step_size must be in (0, 1), got {step_size!r}")
        self.input_size, self.hidden_size, self.radius = input_size, hidden_size, float(radius)
        self.gated = gated
        self.exponent = Exponent(p, learn_p=learn_p)
        scale = 1 / math.sqrt(hidden_size)
        self.input_weight = nn.Parameter(
            scale * torch.randn(hidden_size, input_size, generator=generator)
        )
        self.hidden_weight = nn.Parameter(
            scale * torch.randn(hidden_size, hidden_size, generator=generator)
        )
        self.step_logit = nn.Parameter(torch.tensor(step_size).logit())
        if gated:  # zero weights: the gate starts as a constant
            self.gate_weight = nn.Parameter(torch.zeros(1, input_size + hidden_size))

    def forward(
        self, x: Tensor, z: Tensor | None = None, step_size: float | Tensor | None = None
    ) -> Tensor:
        """Return the next z for x of shape (batch, input_size); z = None means zeros.

        step_size: The γ of this step, instead of the one of the cell.
        """
        check_tensor("x", x)
        if x.ndim == 0 or x.shape[-1] != self.input_size:
            raise ValueError(f"x must have length {self.input_size}, got shape {tuple(x.shape)}")
        a = x @ self.input_weight.mT
        b = None if z is None else z @ self.hidden_weight.mT
        if step_size is None and self.gated:
            seen = torch.cat([x, torch.zeros_like(a) if z is None else z], -1)
            gamma = (seen @ self.gate_weight.mT + self.step_logit).sigmoid()
            s = pool_excess(a if b is None else a + b, self.exponent.excess, self.radius)
            return gamma * s if z is None else z + gamma * (s - z)
        if step_size is None:
            step_size = self.step_logit.sigmoid()
        return frank_wolfe_step(z, a, b, step_size, self.exponent.excess, self.radius)

    @property
    def p(self) -> Tensor:
        """The exponent as a 0-dim tensor."""
        return self.exponent.p

    def extra_repr(self) -> str:
        """Return sizes, radius and step size."""
        gate = "gated" if self.gated else f"step_size={self.step_logit.sigmoid().item():.3g}"
        return f"{self.input_size}, {self.hidden_size}, radius={self.radius:g}, {gate}"
