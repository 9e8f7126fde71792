"""Learned coordinate descent (Gregor and LeCun, 2010)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from fwnet.functional import soft_threshold
from fwnet.models.coding_network import CodingNetwork, raw_thresholds


class LCoD(CodingNetwork):
    """b ← W_e x, z ← 0;  T − 1 times, one entry k:  b ← b + S e_k δ,  z_k ← z_k + δ;  z = h_θ(b).

    k is the entry that h_θ(b) would change most, and δ = h_θ(b)_k − z_k is that change. With
    W_e = Dᵀ, S = I − DᵀD, both with row j divided by ‖d_j‖² (`from_dictionary`), these are
    coordinate steps for ½‖x − Dz‖² + λ‖z‖₁. T layers make T − 1 updates.

    Args:
        threshold: The initial thresholds θ, one per entry, > 0 (default 0.1).
        share_weights: Whether all updates share one S, as in the original (default True).

    The other arguments are those of `FWNet`.

    >>> import fwnet, torch
    >>> net = fwnet.LCoD.from_dictionary(torch.randn(10, 20), num_layers=4, threshold=0.1)
    >>> net(torch.randn(16, 10)).shape
    torch.Size([16, 20])
    """

    def __init__(
        self,
        num_features: int,
        num_atoms: int,
        num_layers: int,
        *,
        threshold: float = 0.1,
        share_weights: bool = True,
        reconstruct: bool = False,
        input_scale: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(
            num_features,
            num_atoms,
            num_layers,
            share_weights=share_weights,
            reconstruct=reconstruct,
            input_scale=input_scale,
        )
        self.raw_threshold = nn.Parameter(raw_thresholds(threshold, num_atoms))
        self._set_random_weights(generator)

    def encode(self, x: Tensor) -> Tensor:
        """Return the codes, (batch, m), of signals x, (batch, n)."""
        b: Tensor = self.first(self._scaled(x))
        threshold = softplus(self.raw_threshold)
        z = torch.zeros_like(soft_threshold(b, threshold))  # autocast makes b narrower
        for matrix in self._matrices():
            change = soft_threshold(b, threshold) - z
            k = change.abs().argmax(-1, keepdim=True)
            delta = change.gather(-1, k)
            z = z.scatter_add(-1, k, delta)
            b = b + delta * matrix.weight.T[k.squeeze(-1)]
        return soft_threshold(b, threshold)

    @property
    def multiply_adds(self) -> int:
        """The number of multiplications with weights per signal; an update uses one column."""
        whole = (self.num_layers - 1) * self.num_atoms**2
        return super().multiply_adds - whole + (self.num_layers - 1) * self.num_atoms

    def watched(self) -> dict[str, float | list[float]]:
        """Return the mean threshold."""
        return {"threshold": softplus(self.raw_threshold).mean().item()}

    def _matrices_for(self, dictionary: Tensor) -> tuple[Tensor, Tensor]:
        squares = dictionary.square().sum(0).unsqueeze(-1)
        squares = torch.where(squares > 0, squares, 1.0)
        gram = dictionary.T @ dictionary / squares
        return dictionary.T / squares, torch.eye(self.num_atoms, device=gram.device) - gram
