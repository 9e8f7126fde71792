"""ALISTA (Liu et al., 2019), a network whose matrices come from the coherence of D alone."""

import torch
from torch import Tensor, nn

from fwnet.models.lista import LISTA


class ALISTA(LISTA):
    """z^{t+1} = h_θt(z^t + η_t·W(x − Dz^t)), where only η_t and θ_t are learned.

    The rows of W are those of the pseudo-inverse of D, scaled to ⟨w_j, d_j⟩ = 1. This is an
    approximation of the W of least coherence with D.

    The arguments are those of `LISTA`; matrices are coupled.

    >>> import torch
    >>> from fwnet.experiments.alista import ALISTA
    >>> ALISTA.from_dictionary(torch.randn(10, 20), num_layers=4)(torch.randn(3, 10)).shape
    torch.Size([3, 20])
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
        free_entries: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(
            num_features,
            num_atoms,
            num_layers,
            threshold=threshold,
            share_weights=share_weights,
            reconstruct=reconstruct,
            input_scale=input_scale,
            coupled=True,
            free_entries=free_entries,
            generator=generator,
        )
        self.slopes = nn.Parameter(torch.ones(num_layers))
        for weight in (self.first.weight, self.others[0].weight):
            assert isinstance(weight, Tensor)
            weight.requires_grad_(False)

    @property
    def num_parameters(self) -> int:
        """The number of learned numbers."""
        return sum(weight.numel() for weight in self.parameters() if weight.requires_grad)

    def encode(self, x: Tensor) -> Tensor:
        """Return the codes, (batch, m), of signals x, (batch, n)."""
        signal = self._scaled(x)
        z = self._shrink(0, self.slopes[0] * self.first(signal))
        for t in range(1, self.num_layers):
            z = self._shrink(t, z + self.slopes[t] * self.first(signal - self.others[0](z)))
        return z

    def _matrices_for(self, dictionary: Tensor) -> tuple[Tensor, Tensor]:
        inverse = torch.linalg.pinv(dictionary)
        return inverse / (inverse * dictionary.T).sum(-1, keepdim=True), dictionary
