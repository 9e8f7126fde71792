"""Layers: what runs a fixed number of steps with parameters."""

from fwnet.nn.pool import PoolP

__all__ = ["PoolP"]
