"""T unrolled Frank-Wolfe steps without the matrices, and their learned numbers: p and γ."""

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from fwnet.checks import check_list, check_num_layers, check_number
from fwnet.functional import check_eps, check_exponent, check_radius, frank_wolfe_step

Activation = Literal["pool_p", "relu", "shrink"]

LARGEST_LOGIT = 6.0  # γ = 1 has no finite logit; learning starts at sigmoid(6) = 0.9975


@runtime_checkable
class Oracle(Protocol):
    """What a layer needs of a convex set."""

    def lmo(self, u: Tensor) -> Tensor:
        """argmin ⟨s, u⟩ over the set."""

    def project(self, y: Tensor) -> Tensor:
        """Return the nearest point of the set."""


class Exponent(nn.Module):
    """p = 1 + exp(θ), where θ = log(p − 1) is learned: p > 1 always, and is precise near 1.

    The state dict holds `log_excess` (θ) if p is learned and `fixed_excess` (p − 1) if not.

    Args:
        p: The exponent, or its initial value if it is learned (then 1 < p < ∞).
        learn_p: Whether p is a parameter (default True).
        bounds: The interval of a learned p, 1 < low < high < ∞. At a bound only gradients that
            would leave the interval are dropped.

    >>> import fwnet
    >>> exponent = fwnet.nn.Exponent(1.5)
    >>> round(exponent.p.item(), 4), exponent.log_excess.requires_grad
    (1.5, True)
    """

    def __init__(
        self, p: float, *, learn_p: bool = True, bounds: Sequence[float] = (1.001, 100.0)
    ) -> None:
        super().__init__()
        check_exponent(p)
        check_plain("p", p)
        low, high = bounds
        if learn_p and not 1 < low < high < math.inf:
            raise ValueError(f"bounds must satisfy 1 < low < high < inf, got {bounds}")
        if learn_p and not low <= p <= high:
            raise ValueError(f"p must start within bounds {bounds} if it is learned, got {p}")
        self.learn_p, self.bounds = learn_p, (float(low), float(high))
        if learn_p:
            self.log_excess = nn.Parameter(torch.tensor(math.log(p - 1)))
        else:
            self.fixed_excess: Tensor
            self.register_buffer("fixed_excess", torch.tensor(p - 1, dtype=torch.float64))

    @property
    def excess(self) -> Tensor:
        """p − 1 as a 0-dim tensor, differentiable if p is learned."""
        if not self.learn_p:
            return self.fixed_excess
        low, high = (math.log(bound - 1) for bound in self.bounds)
        theta: Tensor = _KeepWithin.apply(self.log_excess, low, high)
        return theta.exp()

    @property
    def p(self) -> Tensor:
        """The exponent as a 0-dim tensor, differentiable if it is learned."""
        return 1 + self.excess

    def extra_repr(self) -> str:
        """Return p and whether it is learned."""
        low, high = self.bounds
        how = f"learned in [{low:g}, {high:g}]" if self.learn_p else "fixed"
        return f"p={self.p.item():.4g} {how}"


def check_plain(name: str, number: object) -> None:
    """Raise for a tensor: a layer takes plain numbers."""
    if isinstance(number, Tensor):
        raise TypeError(f"{name} must be a number, got a tensor")


class _KeepWithin(torch.autograd.Function):
    """clamp(θ, low, high) that drops a gradient only if descent would leave the bounds.

    The gradient of `torch.clamp` is 0 outside the bounds: a θ that crossed one could never return.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(theta: Tensor, low: float, high: float) -> Tensor:
        return theta.clamp(low, high)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        theta, ctx.low, ctx.high = inputs
        ctx.save_for_backward(theta)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (theta,) = ctx.saved_tensors
        outward = ((theta <= ctx.low) & (grad > 0)) | ((theta >= ctx.high) & (grad < 0))
        return torch.where(outward, 0.0, grad), None, None


def harmonic_step_sizes(num_layers: int) -> list[float]:
    """γ_t = 2/(t + 2) for t = 0 … T − 1, the rule of the Frank-Wolfe algorithm.

    >>> import fwnet
    >>> fwnet.nn.harmonic_step_sizes(3)
    [1.0, 0.6666666666666666, 0.5]
    """
    return [2 / (t + 2) for t in range(num_layers)]


class StepSizes(nn.Module):
    """γ_t, one per layer: fixed, or sigmoid(θ_t) with learned θ.

    The state dict holds `logits` (θ) if they are learned and `fixed` if not.

    Args:
        values: The step sizes, or their initial values, each in [0, 1].
        learn: Whether they are parameters (default True).

    >>> import fwnet
    >>> fwnet.nn.StepSizes([0.5, 0.25], learn=False)()
    tensor([0.5000, 0.2500], dtype=torch.float64)
    """

    def __init__(self, values: Sequence[float], *, learn: bool = True) -> None:
        super().__init__()
        check_list("step_sizes", values)
        for value in values:
            check_number("a step size", value, or_tensor=True)
        if not len(values) or not all(0 <= value <= 1 for value in values):
            raise ValueError(f"step_sizes must be numbers in [0, 1], got {list(values)}")
        self.learn = learn
        start = torch.tensor([float(value) for value in values], dtype=torch.float64)
        if learn:
            logits = start.logit().clamp(-LARGEST_LOGIT, LARGEST_LOGIT)
            self.logits = nn.Parameter(logits.to(torch.get_default_dtype()))
        else:
            self.fixed: Tensor
            self.register_buffer("fixed", start)

    def forward(self) -> Tensor:
        """Return the step sizes, of shape (T,)."""
        return self.logits.sigmoid() if self.learn else self.fixed

    def extra_repr(self) -> str:
        """Return the step sizes and whether they are learned."""
        values = ", ".join(f"{value:.3g}" for value in self().tolist())
        return f"{values} {'learned' if self.learn else 'fixed'}"


class Unrolled(nn.Module):
    """z^{t+1} = (1 − γ_t)·z^t + γ_t·pool_p(W_t z^t + W_0 x),   z⁰ = 0,   t = 0 … T − 1.

    Holds p, γ_t and the radius, but not the matrices, which may be dense or convolutions.

    Args:
        dim: The axis of a code (default: the last).

    The other arguments are those of `fwnet.FWNet`.

    Three steps with one matrix for all of them:

    >>> import fwnet, torch
    >>> steps = fwnet.nn.Unrolled(3, p=1.5, radius=2.0)
    >>> W_0, W = torch.nn.Linear(10, 20, bias=False), torch.nn.Linear(20, 20, bias=False)
    >>> steps(W_0(torch.randn(4, 10)), [W]).shape
    torch.Size([4, 20])
    """

    activations: ClassVar[tuple[Activation, ...]] = ("pool_p", "relu")

    def __init__(
        self,
        num_layers: int,
        *,
        p: float = 2.0,
        learn_p: bool = True,
        p_per_layer: bool = False,
        bounds: Sequence[float] = (1.001, 100.0),
        radius: float = 1.0,
        learn_radius: bool = False,
        step_sizes: Sequence[float] | None = None,
        learn_step_sizes: bool = True,
        skip: bool = True,
        activation: Activation = "pool_p",
        linear_output: bool = False,
        dim: int = -1,
        eps: float = 0.0,
        convex_set: Oracle | None = None,
        smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        check_num_layers(num_layers)
        if activation not in self.activations:
            listed = " or ".join(self.activations)
            raise ValueError(f"activation must be {listed}, got {activation!r}")
        if step_sizes is None:
            step_sizes = harmonic_step_sizes(num_layers)
        check_list("step_sizes", step_sizes)
        if len(step_sizes) != num_layers:
            raise ValueError(
                f"step_sizes must have one value per layer, {num_layers}, got {len(step_sizes)}"
            )
        check_radius(radius)
        check_plain("radius", radius)
        check_eps(eps)
        if not 0 <= smoothing < math.inf:
            raise ValueError(f"smoothing must be >= 0 and finite, got {smoothing!r}")
        if convex_set is not None and not isinstance(convex_set, Oracle):
            raise TypeError(f"convex_set must have lmo and project, got {convex_set!r}")
        if convex_set is not None and (dim != -1 or activation != "pool_p"):
            raise ValueError("convex_set needs dim = -1 and activation = 'pool_p'")
        self.convex_set, self.smoothing = convex_set, float(smoothing)
        self.num_layers, self.skip, self.activation = num_layers, skip, activation
        self.linear_output, self.dim, self.eps = linear_output, dim, float(eps)
        self.step_sizes: nn.Module = StepSizes(step_sizes, learn=learn_step_sizes)
        self.radius = float(radius)
        self.log_radii: nn.Parameter | None = None
        self.exponents = nn.ModuleList()
        if activation == "pool_p" and convex_set is None:
            count = num_layers if p_per_layer else 1
            self.exponents.extend(Exponent(p, learn_p=learn_p, bounds=bounds) for _ in range(count))
        if learn_radius and activation != "relu" and convex_set is None:
            self.log_radii = nn.Parameter(torch.full((num_layers,), math.log(radius)))

    def forward(self, w0_x: Tensor, matrices: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
        """Return z^T, given W_0 x and W_1 … W_{T−1}, or one W for all."""
        step_sizes = self.step_sizes()
        # At t = 0 the code is 0: skip its terms.
        z = self._step(0, None, w0_x, None, step_sizes[0])
        for t in range(1, self.num_layers):
            matrix = matrices[0] if len(matrices) == 1 else matrices[t - 1]
            z = self._step(t, z, matrix(z), w0_x if self.skip else None, step_sizes[t])
        return z

    @property
    def p(self) -> Tensor | None:
        """The exponent, 0-dim, or one per layer; None for ReLU."""
        if not len(self.exponents):
            return None
        values = [self._exponent(t).p for t in range(len(self.exponents))]
        return values[0] if len(values) == 1 else torch.stack(values)

    @property
    def radii(self) -> Tensor:
        """The radius of every layer."""
        if self.log_radii is None:
            return torch.full((self.num_layers,), self.radius)
        return self.log_radii.exp()

    def watched(self) -> dict[str, float | list[float]]:
        """Return p and γ, and the radii if they are learned."""
        numbers = {"p": self.p, "gamma": self.step_sizes()}
        if self.log_radii is not None:
            numbers["radius"] = self.radii
        return {name: value.tolist() for name, value in numbers.items() if value is not None}

    def extra_repr(self) -> str:
        """Return the settings that no submodule shows."""
        learned = "learned radius" if self.log_radii is not None else "radius"
        options = [f"T={self.num_layers}", self.activation, f"{learned}={self.radius:g}"]
        if self.convex_set is not None:
            options[1:] = [repr(self.convex_set), f"smoothing={self.smoothing:g}"]
        options += ["no skip"] * (not self.skip) + ["linear output"] * self.linear_output
        return ", ".join(options)

    def _exponent(self, t: int) -> Exponent:
        return cast("Exponent", self.exponents[0 if len(self.exponents) == 1 else t])

    def _radius(self, t: int) -> float | Tensor:
        return self.radius if self.log_radii is None else self.log_radii[t].exp()

    def _oracle(self, convex_set: Oracle, u: Tensor) -> Tensor:
        """argmin ⟨s, u⟩ + ½ε‖s‖² over the set: the oracle, or with ε > 0 the projection of −u/ε."""
        return convex_set.project(-u / self.smoothing) if self.smoothing else convex_set.lmo(u)

    def _step(
        self, t: int, z: Tensor | None, a: Tensor, b: Tensor | None, step_size: Tensor
    ) -> Tensor:
        last = t == self.num_layers - 1
        if self.convex_set is not None and not (last and self.linear_output):
            s = self._oracle(self.convex_set, a if b is None else a + b)
            # A set need not contain z⁰ = 0. With γ_0 = 1, the first of 2/(t + 2), z¹ is in it.
            return s if z is None else torch.lerp(z, s, step_size.to(s))
        if self.activation == "pool_p" and not (last and self.linear_output):
            excess, radius = self._exponent(t).excess, self._radius(t)
            return frank_wolfe_step(
                z, a, b, step_size, excess, radius, self.dim, self.eps, overwrite_z=True
            )
        minus_u = -a if b is None else -(a + b)
        s = minus_u if last and self.linear_output else relu(minus_u)
        step_size = step_size.to(s.dtype)
        return step_size * s if z is None else torch.lerp(z, s, step_size)
