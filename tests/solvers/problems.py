"""Small coding problems that every solver is tried on."""

import torch

from fwnet.data import synthetic_codes

EXPONENTS = (1.0, 1.02, 1.1, 1.3, 1.6, 2.0, 3.0, 8.0, torch.inf)
FEW_EXPONENTS = (1.0, 1.02, 1.3, 2.0, 3.0, torch.inf)  # one for every method, and one near 1


def gaussian(rows=20, n=8, m=15, seed=0, dtype=torch.float64):
    """Random x and a dictionary of unit-norm atoms."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, n, dtype=torch.float64, generator=generator)
    dictionary = torch.randn(n, m, dtype=torch.float64, generator=generator)
    dictionary /= dictionary.norm(dim=0)
    return x.to(dtype), dictionary.to(dtype)


def paper(rows=100, radius=5.0, p=1.3, n=50, m=100, seed=0):
    """The paper's synthetic data, with unit-norm atoms."""
    data = synthetic_codes(
        p,
        num_train=rows,
        num_test=0,
        num_features=n,
        num_atoms=m,
        radius=radius,
        dictionary_scale=1.0,
        unit_atoms=True,
        seed=seed,
        dtype=torch.float64,
    )
    return data.signals, data.dictionary


def objective(x, dictionary, code):
    return 0.5 * (x - code @ dictionary.T).square().sum(-1)
