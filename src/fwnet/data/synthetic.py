"""The paper's synthetic data: codes in an Lp ball, and signals made from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from fwnet.checks import check_size
from fwnet.data.seeds import keyed_generator
from fwnet.sets import LpBall

Law = Literal["normal", "uniform", "positive-uniform"]


@dataclass(frozen=True)
class SyntheticCodes:
    """Signals x = Dz + e with their codes z.

    Attributes:
        dictionary: D, of shape (n, m).
        ball: The ball that contains the codes.
        signals: Training signals x, (num_train, n).
        codes: Their codes z, (num_train, m).
        test_signals: Test signals, drawn in the same way with the same D.
        test_codes: Their codes.

    >>> import fwnet, torch
    >>> data = fwnet.data.synthetic_codes(num_train=10, num_test=0).scaled()
    >>> round(torch.linalg.matrix_norm(data.dictionary, 2).item(), 4)
    1.0
    """

    dictionary: Tensor
    ball: LpBall
    signals: Tensor
    codes: Tensor
    test_signals: Tensor
    test_codes: Tensor

    def scaled(self) -> SyntheticCodes:
        """Divide D and x by ‖D‖₂, so that a learning rate means the same for every D.

        Codes and minimizers stay the same.
        """
        norm = torch.linalg.matrix_norm(self.dictionary, ord=2)
        names = ("dictionary", "signals", "test_signals")
        return replace(self, **{name: getattr(self, name) / norm for name in names})


def synthetic_codes(
    p: float = 1.3,
    *,
    num_train: int = 15_000,
    num_test: int = 1_000,
    num_features: int = 50,
    num_atoms: int = 100,
    radius: float = 5.0,
    noise_variance: float = 0.01,
    dictionary_scale: float = 10.0,
    code_law: Law = "normal",
    code_scale: float = 1.0,
    dictionary_law: Law = "normal",
    unit_atoms: bool = False,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> SyntheticCodes:
    """z = argmin ½‖y − z‖² s.t. ‖z‖_p ≤ radius,   x = Dz + e,   e ~ N(0, noise_variance).

    y and D are random. The paper does not state their distributions. With the defaults,
    y ~ N(0, 1) and D ~ N(0, 10²), the exact solution at p = 1 has the error that the paper prints
    (`fwnet reproduce synthetic-data`). D ~ N(0, 1) with noise of deviation 0.01 is equivalent.

    Args:
        p: Exponent of the ball, the paper's "real p".
        num_train: Number of training samples.
        num_test: Number of test samples.
        num_features: n, the length of x.
        num_atoms: m, the length of z.
        radius: Radius of the ball.
        noise_variance: Variance of the entries of e.
        dictionary_scale: Factor of the entries of D.
        code_law: Distribution of the entries of y: "normal" N(0, 1), "uniform" on [−1, 1] or
            "positive-uniform" on [0, 1].
        code_scale: Factor of the entries of y.
        dictionary_law: Distribution of the entries of D, with the same choices.
        unit_atoms: Whether to normalize the columns of D before they are scaled.
        seed: Seed of all random numbers.
        dtype: dtype of the result; the computation is in float64.

    >>> import fwnet
    >>> data = fwnet.data.synthetic_codes(p=1.3, num_train=500, num_test=100)
    >>> data.signals.shape, data.codes.shape, data.dictionary.shape
    (torch.Size([500, 50]), torch.Size([500, 100]), torch.Size([50, 100]))
    >>> data.ball.contains(data.codes).all()
    tensor(True)
    """
    check_size("num_features", num_features)
    check_size("num_atoms", num_atoms)
    check_size("num_train", num_train, 0)
    check_size("num_test", num_test, 0)
    if not noise_variance >= 0:
        raise ValueError(f"noise_variance must be >= 0, got {noise_variance!r}")
    ball = LpBall(p, radius)
    dictionary = _draw(dictionary_law, (num_features, num_atoms), seed, "dictionary")
    if unit_atoms:
        dictionary = torch.nn.functional.normalize(dictionary, dim=0)
    dictionary = dictionary_scale * dictionary
    parts = {}
    for part, count in (("train", num_train), ("test", num_test)):
        y = code_scale * _draw(code_law, (count, num_atoms), seed, part, "codes")
        code = ball.project(y)
        noise = _draw("normal", (count, num_features), seed, part, "noise")
        parts[part] = (code @ dictionary.T + math.sqrt(noise_variance) * noise, code)
    tensors = (dictionary, *parts["train"], *parts["test"])
    matrix, x, z, test_x, test_z = (tensor.to(dtype) for tensor in tensors)
    return SyntheticCodes(matrix, ball, x, z, test_x, test_z)


def _draw(law: Law, shape: tuple[int, ...], seed: int, *keys: str) -> Tensor:
    generator = keyed_generator(seed, *keys)
    if law == "normal":
        return torch.randn(shape, generator=generator, dtype=torch.float64)
    if law not in get_args(Law):
        raise ValueError(f"a distribution must be one of {', '.join(get_args(Law))}, got {law!r}")
    uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
    return uniform if law == "positive-uniform" else 2 * uniform - 1
