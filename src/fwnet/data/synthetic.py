"""The paper's synthetic data: codes inside an Lp ball, and signals made of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from fwnet.data.seeds import keyed_generator
from fwnet.sets import LpBall

__all__ = ["SyntheticCodes", "synthetic_codes"]

Law = Literal["normal", "uniform", "positive-uniform"]


@dataclass(frozen=True)
class SyntheticCodes:
    """Signals x = Dz + e with the codes z that they were made of.

    Attributes:
        dictionary: D, of shape (n, m).
        ball: The ball that the codes lie in.
        signals: x for training, (num_train, n).
        codes: z for training, (num_train, m).
        test_signals: x for testing, made in the same way from the same D.
        test_codes: z for testing.
    """

    dictionary: Tensor
    ball: LpBall
    signals: Tensor
    codes: Tensor
    test_signals: Tensor
    test_codes: Tensor

    def scaled(self) -> SyntheticCodes:
        """Divide D and x by ‖D‖₂: the same codes for the same problem, with ‖D‖₂ = 1.

        It changes no code and no minimizer; only learning rates mean the same whatever D is.
        """
        norm = torch.linalg.matrix_norm(self.dictionary, ord=2)
        return SyntheticCodes(
            self.dictionary / norm,
            self.ball,
            self.signals / norm,
            self.codes,
            self.test_signals / norm,
            self.test_codes,
        )


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

    y and D are random. The paper leaves their laws open; the defaults, y ~ N(0, 1) and
    D ~ N(0, 10²), are those under which the exact solution at p = 1 has the error that the paper
    prints (`fwnet reproduce synthetic-data`). D ~ N(0, 1) with noise of deviation 0.01 is the same.

    Args:
        p: The exponent of the ball, the paper's "real p".
        num_train: How many samples to train with.
        num_test: How many samples to test with.
        num_features: n, the length of x.
        num_atoms: m, the length of z.
        radius: The radius of the ball.
        noise_variance: The variance of an entry of e.
        dictionary_scale: What the entries of D are multiplied by.
        code_law: The law of the entries of y: "normal" N(0, 1), "uniform" on [−1, 1] or
            "positive-uniform" on [0, 1].
        code_scale: What they are multiplied by.
        dictionary_law: The law of the entries of D, likewise.
        unit_atoms: Whether the columns of D are normalized before they are scaled.
        seed: Of all of it.
        dtype: The dtype of the result. All is computed in float64.
    """
    for name, value in (("num_train", num_train), ("num_test", num_test)):
        if value < 0:
            raise ValueError(f"{name} must be >= 0, got {value!r}")
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
        raise ValueError(f"a law must be one of {', '.join(get_args(Law))}, got {law!r}")
    uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
    return uniform if law == "positive-uniform" else 2 * uniform - 1
