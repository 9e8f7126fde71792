"""pool_p as a layer, with p fixed or learned."""

from torch import Tensor

from fwnet.functional import check_eps, check_radius, pool_excess
from fwnet.nn.exponent import Exponent, check_eps_fits, check_plain


class PoolP(Exponent):
    """s = pool_p(u) along one axis: `fwnet.pool_p` with its own p.

    Args:
        p, learn_p, bounds: See `Exponent`.
        radius: The radius of the ball (default 1).
        dim: The axis of a row (default: the last); 1 pools across the channels of images.
        eps: See `fwnet.pool_p` (default 0); image models need it.

    A fixed p = 1 passes no gradient to u, since the unit is then piecewise constant, so layers
    before it cannot learn. Use p = 1.01 instead.

    >>> import fwnet, torch
    >>> layer = fwnet.nn.PoolP(p=1.5, dim=1)
    >>> s = layer(torch.randn(8, 64, 16, 16))
    >>> s.shape, torch.allclose(s.norm(1.5, dim=1), torch.ones(8, 16, 16), atol=1e-4)
    (torch.Size([8, 64, 16, 16]), True)
    >>> layer
    PoolP(p=1.5 learned in [1.001, 100], radius=1, dim=1, eps=0)
    """

    def __init__(
        self,
        p: float = 2.0,
        *,
        learn_p: bool = True,
        bounds: tuple[float, float] = (1.001, 100.0),
        radius: float = 1.0,
        dim: int = -1,
        eps: float = 0.0,
    ) -> None:
        super().__init__(p, learn_p=learn_p, bounds=bounds)
        check_radius(radius)
        check_plain("radius", radius)
        check_eps(eps)
        check_eps_fits(eps, p)
        self.radius, self.dim, self.eps = float(radius), dim, float(eps)

    def forward(self, u: Tensor) -> Tensor:
        """Return pool_p(u), of the shape and dtype of u."""
        return pool_excess(u, self.excess, self.radius, self.dim, self.eps)

    def extra_repr(self) -> str:
        """Return all settings in one line."""
        return f"{super().extra_repr()}, radius={self.radius:g}, dim={self.dim}, eps={self.eps:g}"
