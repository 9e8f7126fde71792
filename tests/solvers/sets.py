"""A convex set that is not an Lp ball."""

from dataclasses import dataclass

import torch

from fwnet import ConvexSet, LpBall


@dataclass(frozen=True)
class Ellipsoid(ConvexSet):
    """{z : Σ (z_i/axis_i)² ≤ 1}."""

    axes: torch.Tensor

    def lmo(self, u):
        return self.axes * LpBall(2.0, 1.0).lmo(u * self.axes)

    def project(self, y):
        raise NotImplementedError

    def gauge(self, z):
        return (z / self.axes).norm(dim=-1)
