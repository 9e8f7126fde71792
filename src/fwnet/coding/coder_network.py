"""Prepare the training of a network on pairs of signals and codes: dictionary, scale, radius."""

import math
from typing import Any, cast

import torch
from torch import Tensor

from fwnet.data import keyed_generator
from fwnet.errors import FwnetError
from fwnet.functional import lp_norm
from fwnet.models import LISTA, MODELS, LCoD
from fwnet.models.coding_network import CodingNetwork

MOST_USED = 0.5  # the part of the entries of sparse codes that may differ from 0
FIRST_THRESHOLD = 0.3  # of the largest entry of a signal's Dᵀx: a large one keeps codes at 0
RIDGE = 1e-6  # relative to the mean energy of an entry of a code: for atoms that no code uses


def split_rows(
    count: int, fraction: float, seed: int, labels: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the rows to train with and the rows to hold out, at random.

    With labels, the fraction is held out from every class. At least one row (of every class) is
    left to train with.
    """
    order = torch.randperm(count, generator=keyed_generator(seed, "validation"))
    parts = [order] if labels is None else [order[labels[order] == k] for k in labels.unique()]
    counts = [min(round(fraction * len(part)), len(part) - 1) for part in parts]
    kept = torch.cat([part[held:] for part, held in zip(parts, counts, strict=True)])
    return kept, torch.cat([part[:held] for part, held in zip(parts, counts, strict=True)])


def dictionary_from_pairs(signals: Tensor, codes: Tensor) -> Tensor:
    """argmin_D ‖X − Z Dᵀ‖² + ε‖D‖²: the dictionary, (n, m), that rebuilds X from Z best."""
    z, x = codes.double(), signals.double()
    gram = z.T @ z
    ridge = RIDGE * gram.diagonal().mean().clamp(min=1e-30)
    solved: Tensor = torch.linalg.solve(gram + ridge * torch.eye(len(gram)).double(), z.T @ x)
    return solved.T


def network_for_codes(
    model: str,
    dictionary: Tensor,
    codes: Tensor,
    num_layers: int,
    *,
    p: float = 2.0,
    learn_p: bool = True,
    radius: float | None = None,
    line_search: bool = False,
    sparse: bool | None = None,
    unit: float = 1.0,
    seed: int = 0,
    **options: Any,
) -> CodingNetwork:
    """Return a network initialized from a dictionary D, (n, m), to learn codes, (count, m).

    The network sees D and x scaled so that the spectral norm of D is 1, and gives codes divided by
    `unit`. `seed` is for the random weights of MLP, and `options` are further arguments of the
    network. `p`, `learn_p`, `radius`, `line_search` and `sparse` are for FWNet only, as in
    `train_coder`.
    """
    dictionary = dictionary.float()
    if not dictionary.isfinite().all():
        raise FwnetError("the dictionary must be finite in float32, got NaN or infinity")
    norm = torch.linalg.matrix_norm(dictionary, ord=2).item()
    scale = 1 / norm if norm > 0 else 1.0
    kind: Any = MODELS[model]
    options["input_scale"] = scale / unit
    if model == "MLP":  # starts at random
        n, m = dictionary.shape
        generator = keyed_generator(seed, "weights")
        return cast("CodingNetwork", kind(n, m, num_layers, generator=generator, **options))
    if model == "FWNet":
        options |= {"p": p, "learn_p": learn_p, "learn_radius": radius is None}
        if line_search:
            used = int(codes.count_nonzero()) / max(1, len(codes))  # entries per code
            if sparse is None:
                sparse = learn_p and used < MOST_USED * codes.shape[1]
            options["line_search"] = "conjugate" if sparse else "exact"
            if sparse:
                free = max(1, round(used / num_layers))
                options |= {"activation": "shrink", "free_entries": free}
        if radius is None:
            radius = float(lp_norm(codes.double(), 1 if sparse else p).max()) or unit
        options["radius"] = radius / unit
    if issubclass(kind, LISTA | LCoD):
        atoms = dictionary * scale
        largest = lp_norm(codes.float() / unit @ atoms.T @ atoms, math.inf)  # before a threshold
        options["threshold"] = FIRST_THRESHOLD * float(largest.median()) or 1.0
    network = kind.from_dictionary(dictionary * scale, num_layers, **options)
    return cast("CodingNetwork", network)
