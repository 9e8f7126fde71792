"""`train_coder`: a network learns the codes of a user's own signals, behind `fwnet train coder`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fwnet.coding.array_files import read_npy_matrix
from fwnet.coding.errors import EncodeError
from fwnet.data import keyed_generator
from fwnet.functional import lp_norm
from fwnet.metrics import code_error
from fwnet.models import MODELS, Model
from fwnet.models.coding_network import CodingNetwork
from fwnet.progress import ProgressCallback, silent
from fwnet.training import CodeRegression, TrainingConfig, TrainingResult, TrainingRun, train

__all__ = ["CoderReport", "train_coder"]

RIDGE = 1e-6  # relative to the mean energy of a code's entry: for atoms that no code uses


@dataclass(frozen=True)
class CoderReport:
    """What was trained.

    Attributes:
        model_path: The file that `fwnet encode --model` takes.
        network: The trained network.
        training: History, seconds, and the epoch that was kept.
        validation_error: The mean over held-out samples of Σ(z − z*)²; None without such.
        zero_error: The same for codes of zeros: what there is to gain.
    """

    model_path: Path
    network: Model
    training: TrainingResult
    validation_error: float | None
    zero_error: float


def train_coder(
    signals: str | Path,
    codes: str | Path,
    output: str | Path,
    *,
    config: TrainingConfig | None = None,
    model: str = "FWNet",
    num_layers: int = 6,
    dictionary: str | Path | None = None,
    p: float = 2.0,
    learn_p: bool = True,
    radius: float | None = None,
    share_weights: bool | None = None,
    validation: float = 0.1,
    device: str | torch.device = "cpu",
    resume: bool = False,
    force: bool = False,
    checkpoint_seconds: float = 30.0,
    progress: ProgressCallback = silent,
) -> CoderReport:
    """min_W mean ½‖f_W(x) − z‖² over pairs (x, z) in two files; f is a network of T layers.

    Args:
        signals: A file .npy, one signal x a row.
        codes: A file .npy, the code z of each signal.
        output: A folder for model.safetensors, the history and checkpoints.
        config: The settings of the training.
        model: FWNet, MLP, LISTA or LCoD.
        num_layers: T.
        dictionary: A file .npy with D of shape (n, m), to start from. Without it D is the one that
            rebuilds the signals from the codes best: argmin ‖X − Z Dᵀ‖².
        p: For FWNet, the exponent, or where it starts.
        learn_p: For FWNet, whether p is learned.
        radius: For FWNet, the radius of the ball. Without it every layer learns one, from the
            largest norm of a code on.
        share_weights: Whether all layers share one matrix: fewer parameters for few samples. By
            default as the model has it, which is no, and yes for LCoD.
        validation: The part of the samples that is held back, to keep the weights of the epoch that
            does best on it; 0 trains on all samples and keeps the last epoch.
        device: Where to train.
        resume: Go on from where an earlier run with the same arguments was stopped.
        force: Begin anew though the folder holds an earlier run.
        checkpoint_seconds: How much work a kill may cost.
        progress: Called with a `Progress` a few times per second.

    Raises `ValueError` (`EncodeError`, `ConfigError`, `TrainingError`), in one line, for what does
    not fit.
    """
    config = config or TrainingConfig()
    coding_models = [name for name, kind in MODELS.items() if issubclass(kind, CodingNetwork)]
    if model not in coding_models:
        raise EncodeError(f"model must be one of {', '.join(coding_models)}, got {model!r}")
    if not 0 <= validation < 1:
        raise EncodeError(f"validation must be in [0, 1), got {validation!r}")
    x, z = _read_pairs(Path(signals), Path(codes))
    train_rows, held_rows = _split(len(x), validation, config)
    matrix = _dictionary(dictionary, x[train_rows], z[train_rows])
    norm = torch.linalg.matrix_norm(matrix, ord=2).item()
    if not 0 < norm < math.inf:
        raise EncodeError(f"the dictionary must have a norm > 0, got {norm}: are all codes zero?")
    scale = 1 / norm
    options: dict[str, Any] = {"input_scale": scale}
    if share_weights is not None:
        options["share_weights"] = share_weights
    if model == "FWNet":
        if not learn_p and p in (1, math.inf):
            raise EncodeError(
                f"with p fixed at {p:g} no weight gets a gradient: expected p > 1 and finite, "
                "1.01 for one, or a p that is learned"
            )
        options |= {"p": p, "learn_p": learn_p, "radius": radius, "learn_radius": radius is None}
        if radius is None:
            options["radius"] = max(float(lp_norm(z[train_rows], p).max()), 1e-12)
    network = _network(model, matrix * scale, num_layers, options, config)
    held = (x[held_rows], z[held_rows]) if len(held_rows) else (None, None)
    result = train(
        network,
        CodeRegression(x[train_rows], z[train_rows], *held),
        config,
        TrainingRun(
            device=device,
            folder=output,
            resume=resume,
            force=force,
            checkpoint_seconds=checkpoint_seconds,
            progress=progress,
        ),
        keep_best=bool(len(held_rows)),
        notes={"signals": str(signals), "codes": str(codes)},
    )
    rows = held_rows if len(held_rows) else train_rows
    error = None
    if held[0] is not None and held[1] is not None:
        where = next(network.parameters()).device
        with torch.no_grad():
            error = code_error(network(held[0].to(where)), held[1].to(where)).item()
    zero_error = code_error(torch.zeros_like(z[rows]), z[rows]).item()
    return CoderReport(Path(output) / "model.safetensors", network, result, error, zero_error)


def _read_pairs(signals: Path, codes: Path) -> tuple[Tensor, Tensor]:
    parts = []
    for path in (signals, codes):
        with np.errstate(over="ignore"):  # what becomes infinite is refused below
            matrix = read_npy_matrix(path).astype(np.float32)
        if not np.isfinite(matrix).all():
            rows = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
            raise EncodeError(
                f"{path} must be finite in float32, got NaN or infinity in {len(rows)} of "
                f"{len(matrix)} rows, the first of them row {rows[0]} (counted from 0)"
            )
        parts.append(torch.from_numpy(matrix))
    x, z = parts
    if len(x) != len(z):
        raise EncodeError(
            f"{codes} must have a row for each of the {len(x)} rows of {signals}, got {len(z)}"
        )
    return x, z


def _split(count: int, validation: float, config: TrainingConfig) -> tuple[Tensor, Tensor]:
    """Rows to train with and rows to hold back, drawn by the seed."""
    held = min(round(validation * count), count - 1)
    order = torch.randperm(count, generator=keyed_generator(config.seed, "validation"))
    if count - held < config.batch_size:
        raise EncodeError(
            f"batch_size must be at most the {count - held} rows that are left to train with, "
            f"got {config.batch_size}"
        )
    return order[held:], order[:held]


def _dictionary(path: str | Path | None, x: Tensor, z: Tensor) -> Tensor:
    n, m = x.shape[1], z.shape[1]
    if path is None:
        codes, signals = z.double(), x.double()
        gram = codes.T @ codes
        ridge = RIDGE * gram.diagonal().mean().clamp(min=1e-30)
        solved: Tensor = torch.linalg.solve(gram + ridge * torch.eye(m).double(), codes.T @ signals)
        return solved.T.float()
    matrix = read_npy_matrix(Path(path))
    if matrix.shape != (n, m):
        hint = ""
        if matrix.shape == (m, n):
            hint = "; this is scikit-learn's (n_components, n_features): save its transpose"
        raise EncodeError(f"{path} must have shape (n, m) = ({n}, {m}), got {matrix.shape}{hint}")
    if not np.isfinite(matrix).all():
        raise EncodeError(f"{path} must be finite, got NaN or infinity")
    return torch.from_numpy(matrix).float()


def _network(
    name: str, dictionary: Tensor, num_layers: int, options: dict[str, Any], config: TrainingConfig
) -> Model:
    kind: Any = MODELS[name]
    try:
        if name == "MLP":  # starts at random, as networks with ReLU do
            generator = keyed_generator(config.seed, "weights")
            n, m = dictionary.shape
            network = kind(n, m, num_layers, generator=generator, **options)
        else:
            network = kind.from_dictionary(dictionary, num_layers, **options)
    except (TypeError, ValueError) as error:
        raise EncodeError(str(error)) from error
    assert isinstance(network, Model)
    return network
