"""Learned ISTA (Gregor and LeCun, 2010), with the depth, widths and sharing of `FWNet`."""

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from fwnet.checks import check_integer
from fwnet.functional import soft_threshold
from fwnet.models.coding_network import CodingNetwork, ThresholdLayers, raw_thresholds


class LISTA(ThresholdLayers, CodingNetwork):
    """z^{t+1} = h_θt(W_e x + S_t z^t),   z⁰ = 0,   h_θ(u) = sign(u)·max(|u| − θ, 0).

    With W_e = Dᵀ/L, S_t = I − DᵀD/L and L = ‖D‖² these are T iterations of ISTA for
    ½‖x − Dz‖² + λ‖z‖₁, θ = λ/L (`from_dictionary`). T layers have T − 1 matrices S_t, as `FWNet`
    has T − 1 matrices W_t, and T vectors of thresholds, kept positive as softplus(ρ).

    Args:
        threshold: The initial thresholds, > 0 (default 0.1).
        share_weights: Whether the S_t are one matrix (default False). Every layer keeps its own
            thresholds.
        coupled: Whether S_t = I − W_e D with one learned D for all layers (default False). This is
            LISTA-CP (Chen et al., 2018) with one W_e.
        free_entries: Layer t does not shrink the (t + 1)·free_entries largest entries of a code:
            their support selection (default 0).

    The other arguments are those of `FWNet`.

    >>> import fwnet, torch
    >>> net = fwnet.LISTA.from_dictionary(torch.randn(10, 20), num_layers=4, threshold=0.1)
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
        share_weights: bool = False,
        reconstruct: bool = False,
        input_scale: float = 1.0,
        coupled: bool = False,
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
            coupled=coupled,
        )
        check_integer("free_entries", free_entries, 0)
        self.free_entries = free_entries
        self.raw_thresholds = nn.ParameterList(
            raw_thresholds(threshold, num_atoms) for _ in range(num_layers)
        )
        self._set_random_weights(generator)

    def encode(self, x: Tensor) -> Tensor:
        """Return the codes, (batch, m), of signals x, (batch, n)."""
        signal = self._scaled(x)
        b = self.first(signal)
        z = self._shrink(0, b)
        for t, matrix in enumerate(self._matrices(), 1):
            v = z + self.first(signal - matrix(z)) if self.coupled else b + matrix(z)
            z = self._shrink(t, v)
        return z

    def _shrink(self, t: int, v: Tensor) -> Tensor:
        small = soft_threshold(v, softplus(self.raw_thresholds[t]))
        if not self.free_entries:
            return small
        magnitudes = v.abs()
        largest = magnitudes.topk(min((t + 1) * self.free_entries, self.num_atoms), -1).values
        return torch.where(magnitudes >= largest[..., -1:], v, small)

    def _matrices_for(self, dictionary: Tensor) -> tuple[Tensor, Tensor]:
        lipschitz = torch.linalg.matrix_norm(dictionary, ord=2).square()
        if self.coupled:
            return dictionary.T / lipschitz, dictionary
        gram = dictionary.T @ dictionary / lipschitz
        return dictionary.T / lipschitz, torch.eye(self.num_atoms, device=gram.device) - gram
