"""Randomness that is keyed by what it is for, not by what was drawn before."""

from __future__ import annotations

import hashlib

import torch

__all__ = ["keyed_generator"]


def keyed_generator(
    seed: int, *keys: int | str, device: torch.device | str = "cpu"
) -> torch.Generator:
    """Return a generator that depends on the seed and the keys alone.

    keyed_generator(seed, "epoch", 7) is the same whatever happened in epochs 0 to 6, so that work
    that was stopped goes on as if it had not been.
    """
    digest = hashlib.sha256(repr((int(seed), *keys)).encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "big") >> 1)
