"""The Frank-Wolfe Network, and the same network with ReLU: the paper's MLP."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fwnet.models.coding_network import CodingNetwork, FrankWolfeLayers
from fwnet.nn import Activation, LineSearch, Unrolled
from fwnet.nn.line_search import Search
from fwnet.sets import ConvexSet, set_from_config


class FWNet(FrankWolfeLayers, CodingNetwork):
    """z^{t+1} = (1 − γ_t)·z^t + γ_t·pool_p(W_t z^t + W_0 x),   z⁰ = 0,   t = 0 … T − 1.

    With W_0 = −Dᵀ, W_t = DᵀD and γ_t = 2/(t + 2) this is T iterations of the Frank-Wolfe algorithm
    for min ½‖x − Dz‖² s.t. ‖z‖_p ≤ radius (`from_dictionary`); training changes W, p and γ. The
    constructor starts from a random D with atoms of norm 1.

    Args:
        num_features: n, the length of x.
        num_atoms: m, the length of a code.
        num_layers: T.
        radius: The radius c of the ball (default 1).
        p: The exponent, or its initial value (default 2).
        learn_p: Whether p is learned (default True).
        p_per_layer: Whether every layer has its own p (default False). Not in the paper.
        learn_radius: Whether every layer learns its own radius, starting from c (default False).
            Not in the paper.
        step_sizes: The T values of γ_t, or their initial values (default 2/(t + 2)).
        learn_step_sizes: Whether γ_t are learned (default True).
        share_weights: Whether W_1 … W_{T−1} are one matrix (default False).
        reconstruct: Whether a last layer W_R turns the code into a signal (default False).
        input_scale: A factor for the input, so that learning rates do not depend on its unit.
            Rebuilt signals are divided by it (default 1).
        skip: Whether every layer adds W_0 x (default True), or only the first.
        activation: "pool_p", or "relu" for max(−u, 0) instead, or "shrink" for sparse codes.
        linear_output: Whether the last layer uses −u instead (default False).
        bounds: The interval of a learned p.
        eps: See `fwnet.pool_p` (default 0).
        convex_set: A set of `fwnet.sets` such as `Simplex()`, whose oracle takes the place of
            pool_p; p and radius are then not used, and γ_0 is 1. Not in the paper.
        line_search: "exact" or "conjugate", for a γ that every sample finds on the learned
            quadratic ½‖x − Dz‖², with u_t = W_0(x − Dz^t) and one D for all layers: see
            `fwnet.nn.LineSearch`. Default None: γ_t. Not in the paper.
        free_entries: For the activation "shrink", which needs a line search; see there.
        smoothing: ε ≥ 0. With ε > 0 a layer uses the projection of −u/ε on the set, which has
            gradients also where the oracle is piecewise constant (default 0).
        generator: The random generator of the initial weights.

    Untrained, it is the algorithm; see also `fwnet.training.train`.

    >>> import fwnet, torch
    >>> D = torch.nn.functional.normalize(torch.randn(50, 100), dim=0)
    >>> net = fwnet.FWNet.from_dictionary(
    ...     D, num_layers=8, radius=2.5, p=1.3, learn_p=False, learn_step_sizes=False
    ... )
    >>> x = torch.randn(16, 50)
    >>> steps = fwnet.solve(x, D, fwnet.LpBall(1.3, 2.5), method="frank-wolfe", max_steps=8)
    >>> torch.allclose(net(x), steps.code, atol=1e-4)
    True
    """

    def __init__(
        self,
        num_features: int,
        num_atoms: int,
        num_layers: int,
        *,
        radius: float = 1.0,
        p: float = 2.0,
        learn_p: bool = True,
        p_per_layer: bool = False,
        learn_radius: bool = False,
        step_sizes: Sequence[float] | None = None,
        learn_step_sizes: bool = True,
        share_weights: bool = False,
        reconstruct: bool = False,
        input_scale: float = 1.0,
        skip: bool = True,
        activation: Activation = "pool_p",
        linear_output: bool = False,
        bounds: Sequence[float] = (1.001, 100.0),
        eps: float = 0.0,
        convex_set: ConvexSet | Mapping[str, Any] | None = None,
        smoothing: float = 0.0,
        line_search: Search | None = None,
        free_entries: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(
            num_features,
            num_atoms,
            num_layers,
            share_weights=share_weights,
            reconstruct=reconstruct,
            input_scale=input_scale,
            coupled=line_search is not None,
        )
        if isinstance(convex_set, Mapping):  # as a model file holds it
            convex_set = set_from_config(convex_set)
        common: dict[str, Any] = {
            "p": p,
            "learn_p": learn_p,
            "p_per_layer": p_per_layer,
            "bounds": bounds,
            "radius": radius,
            "learn_radius": learn_radius,
            "learn_step_sizes": learn_step_sizes,
            "activation": activation,
            "eps": eps,
        }
        self.steps: Unrolled
        if line_search is None:
            if free_entries:
                raise ValueError(f"free_entries needs a line search, got {free_entries}")
            self.steps = Unrolled(
                num_layers,
                step_sizes=step_sizes,
                skip=skip,
                linear_output=linear_output,
                convex_set=convex_set,
                smoothing=smoothing,
                **common,
            )
        else:
            given = step_sizes is not None or convex_set is not None
            if given or smoothing or linear_output or not skip:
                raise ValueError(
                    "a line search needs the defaults of step_sizes, convex_set, smoothing, "
                    f"linear_output and skip, got {step_sizes}, {convex_set}, {smoothing}, "
                    f"{linear_output} and {skip}"
                )
            self.steps = LineSearch(
                num_layers, line_search=line_search, free_entries=free_entries, **common
            )
        self._set_random_weights(generator)

    def encode(self, x: Tensor) -> Tensor:
        """Return the codes, (batch, m), of signals x, (batch, n)."""
        signal = self._scaled(x)
        code: Tensor
        if self.coupled:
            code = self.steps(signal, [self.first, self.others[0]])
        else:
            code = self.steps(self.first(signal), self._matrices())
        return code

    @property
    def _coupled_products(self) -> int:
        return 2 * self.num_layers - 1  # the line search needs Dd in the last layer, too

    def _matrices_for(self, dictionary: Tensor) -> tuple[Tensor, Tensor]:
        if not self.coupled:
            return -dictionary.T, dictionary.T @ dictionary
        if self.steps.activation == "pool_p":
            return -dictionary.T, dictionary
        return -dictionary.T / torch.linalg.matrix_norm(dictionary, ord=2).square(), dictionary


class MLP(FWNet):
    """z^{t+1} = (1 − γ_t)·z^t + γ_t·max(−u_t, 0),   u_t = W_t z^t + W_0 x: ReLU for pool_p.

    The paper's MLP: the layers, matrices and step sizes of `FWNet` without p. Its outputs are ≥ 0
    although codes have both signs; with `linear_output` the last layer is −u_t, which has both.
    The initial weights are the usual ones for ReLU: normal, of variance 2/fan-in.

    The arguments are those of `FWNet`.

    >>> import fwnet, torch
    >>> net = fwnet.MLP(num_features=10, num_atoms=20, num_layers=4)
    >>> bool((net(torch.randn(16, 10)) >= 0).all())
    True
    """

    def __init__(
        self,
        num_features: int,
        num_atoms: int,
        num_layers: int,
        *,
        linear_output: bool = False,
        step_sizes: Sequence[float] | None = None,
        learn_step_sizes: bool = True,
        share_weights: bool = False,
        reconstruct: bool = False,
        input_scale: float = 1.0,
        skip: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(
            num_features,
            num_atoms,
            num_layers,
            activation="relu",
            linear_output=linear_output,
            step_sizes=step_sizes,
            learn_step_sizes=learn_step_sizes,
            share_weights=share_weights,
            reconstruct=reconstruct,
            input_scale=input_scale,
            skip=skip,
            generator=generator,
        )

    def _set_random_weights(self, generator: torch.Generator | None) -> None:
        with torch.no_grad():
            for weight in (w for w in self.parameters() if w.ndim == 2):
                weight.normal_(0, math.sqrt(2 / weight.shape[1]), generator=generator)
