"""Random generators that depend on a seed and on keys, not on earlier draws."""

import hashlib
import operator

import torch


def keyed_generator(
    seed: int, *keys: int | str, device: torch.device | str = "cpu"
) -> torch.Generator:
    """Return a generator that depends only on the seed and the keys.

    keyed_generator(seed, "epoch", 7) is the same whatever was drawn in epochs 0 to 6, so that a
    stopped run continues with the same random numbers.

    >>> import torch
    >>> from fwnet.data import keyed_generator
    >>> first = torch.rand(3, generator=keyed_generator(0, "epoch", 7))
    >>> torch.equal(first, torch.rand(3, generator=keyed_generator(0, "epoch", 7)))
    True
    """
    try:
        seed = operator.index(seed)
    except TypeError as error:
        raise TypeError(f"seed must be an integer, got {seed!r}") from error
    digest = hashlib.sha256(repr((seed, *keys)).encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "big") >> 1)
