"""Learned ISTA (Gregor and LeCun, 2010), with the depth, widths and sharing of `FWNet`."""

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from fwnet.functional import soft_threshold
from fwnet.models.coding_network import CodingNetwork, raw_thresholds


class LISTA(CodingNetwork):
    """z^{t+1} = h_θt(W_e x + S_t z^t),   z⁰ = 0,   h_θ(u) = sign(u)·max(|u| − θ, 0).

    With W_e = Dᵀ/L, S_t = I − DᵀD/L and L = ‖D‖² these are T iterations of ISTA for
    ½‖x − Dz‖² + λ‖z‖₁, θ = λ/L (`from_dictionary`). T layers have T − 1 matrices S_t, as `FWNet`
    has T − 1 matrices W_t, and T vectors of thresholds, kept positive as softplus(ρ).

    Args:
        threshold: The initial thresholds, > 0 (default 0.1).
        share_weights: Whether the S_t are one matrix (default False). Every layer keeps its own
            thresholds.

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
        self.raw_thresholds = nn.ParameterList(
            raw_thresholds(threshold, num_atoms) for _ in range(num_layers)
        )
        self._set_random_weights(generator)

    def encode(self, x: Tensor) -> Tensor:
        """Return the codes, (batch, m), of signals x, (batch, n)."""
        b = self._w0_x(x)
        thresholds = [softplus(raw) for raw in self.raw_thresholds]
        z = soft_threshold(b, thresholds[0])
        for matrix, threshold in zip(self._matrices(), thresholds[1:], strict=True):
            z = soft_threshold(b + matrix(z), threshold)
        return z

    def watched(self) -> dict[str, float | list[float]]:
        """Return the mean threshold of every layer."""
        means = [softplus(raw).mean() for raw in self.raw_thresholds]
        return {"threshold": torch.stack(means).tolist()}

    def _matrices_for(self, dictionary: Tensor) -> tuple[Tensor, Tensor]:
        lipschitz = torch.linalg.matrix_norm(dictionary, ord=2).square()
        gram = dictionary.T @ dictionary / lipschitz
        return dictionary.T / lipschitz, torch.eye(self.num_atoms, device=gram.device) - gram
