"""`train_coder`: train a network on your own signals and codes, behind `fwnet train coder`."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import fwnet.models
from fwnet.coding.array_files import read_dictionary, read_matrix
from fwnet.coding.coder_network import dictionary_from_pairs, network_for_codes, split_rows
from fwnet.coding.row_files import EncodeError
from fwnet.metrics import code_error
from fwnet.models import MODELS, Model
from fwnet.models.coding_network import CodingNetwork
from fwnet.training import CodeRegression, TrainingConfig, TrainingResult, TrainingRun, train

FLOAT32 = np.dtype(np.float32)
# Tried on random dictionaries and on digits, with FWNet, LISTA and LCoD: 0.001 to 0.03.
SETTINGS: dict[str, Any] = {"learning_rate": 0.01}


@dataclass(frozen=True)
class CoderReport:
    """The result of `train_coder`.

    Attributes:
        model_path: The file for `fwnet encode --model`.
        network: The trained network.
        training: History, seconds, and the epoch whose weights were kept.
        validation_error: Mean of Σ(z − z*)² over held-out samples; None without such samples.
        zero_error: The same for codes of zeros, for comparison.

    >>> import fwnet, numpy as np
    >>> from fwnet.training import TrainingConfig, TrainingRun
    >>> data = fwnet.data.synthetic_codes(num_train=200, num_test=0)
    >>> np.save("x.npy", data.signals)
    >>> np.save("z.npy", data.codes)
    >>> config = TrainingConfig(num_epochs=1)
    >>> report = fwnet.coding.train_coder("x.npy", "z.npy", TrainingRun("mynet"), config=config)
    >>> len(report.training.history), report.network.num_layers
    (1, 6)
    """

    model_path: Path
    network: Model
    training: TrainingResult
    validation_error: float | None
    zero_error: float


def train_coder(
    signals: str | Path,
    codes: str | Path,
    run: TrainingRun,
    *,
    config: TrainingConfig | None = None,
    model: str = "FWNet",
    num_layers: int = 6,
    dictionary: str | Path | None = None,
    p: float = 2.0,
    learn_p: bool = True,
    radius: float | None = None,
    sparse: bool | None = None,
    share_weights: bool | None = None,
    validation: float = 0.1,
) -> CoderReport:
    """min_W mean ½‖f_W(x) − z‖² over pairs (x, z) in two files; f is a network of T layers.

    Args:
        signals: A .npy file, one signal x per row.
        codes: A .npy file, one code z per row.
        run: Output folder (`run.folder`), device, resume, progress; see `TrainingRun`.
        config: Settings of the training. Default: `SETTINGS`.
        model: FWNet, MLP, LISTA or LCoD.
        num_layers: T.
        dictionary: A .npy file with D of shape (n, m), to start from. Default: the dictionary that
            rebuilds the signals from the codes best, argmin ‖X − Z Dᵀ‖².
        p: For FWNet, the exponent, or the start of a learned one.
        learn_p: For FWNet, whether p is learned.
        radius: For FWNet, the radius of the ball. Default: every layer learns one, starting from
            the largest norm of a code.
        sparse: For FWNet, whether to use the layers for sparse codes: conjugate steps and "shrink"
            instead of exact steps and pool_p (`fwnet.nn.LineSearch`). They have no p. Default:
            where most entries of the codes are 0 and p is not fixed.
        share_weights: True for one matrix for all layers, False for one per layer. For FWNet,
            either means the paper's form, with one learned step size per layer instead of a line
            search. Default: FWNet has a line search, LCoD one matrix, LISTA and MLP separate ones.
        validation: The fraction of the samples to hold out; the weights of the epoch with the
            smallest error on them are kept. 0 trains on all samples and keeps the last epoch.

    Raises `ValueError` (`EncodeError`, `ConfigError`, `TrainingError`) with one line for input that
    does not fit.

    >>> import fwnet, numpy as np
    >>> from fwnet.training import TrainingConfig, TrainingRun
    >>> data = fwnet.data.synthetic_codes(num_train=500, num_test=0)
    >>> np.save("x.npy", data.signals)
    >>> np.save("z.npy", data.codes)
    >>> config = TrainingConfig(num_epochs=5, learning_rate=0.03)
    >>> report = fwnet.coding.train_coder(
    ...     "x.npy", "z.npy", TrainingRun("mynet"), config=config, num_layers=2
    ... )
    >>> report.validation_error < report.zero_error, report.model_path.name
    (True, 'model.safetensors')
    """
    config = config or TrainingConfig(**SETTINGS)
    if run.folder is None:
        raise EncodeError("run.folder must be a folder for the trained network, got None")
    if not 0 <= validation < 1:
        raise EncodeError(f"validation must be in [0, 1), got {validation!r}")
    _check_network(model, None if learn_p else p, sparse, share_weights)
    x, z = _read_pairs(Path(signals), Path(codes))
    kept, held = split_rows(len(x), validation, config.seed)
    if len(kept) < config.batch_size:
        raise EncodeError(
            f"batch_size must be at most the {len(kept)} rows that are left to train with, "
            f"got {config.batch_size}"
        )
    if dictionary is None:
        start = dictionary_from_pairs(x[kept], z[kept])
    else:
        shape = (x.shape[1], FLOAT32, z.shape[1])
        start = torch.from_numpy(read_dictionary(Path(dictionary), Path(signals), *shape))
    if not start.any():
        raise EncodeError("the dictionary must have a norm > 0, got 0: are all codes zero?")
    network = network_for_codes(
        model,
        start,
        z[kept],
        num_layers,
        p=p,
        learn_p=learn_p,
        radius=radius,
        line_search=share_weights is None,
        sparse=sparse,
        seed=config.seed,
        **({} if share_weights is None else {"share_weights": share_weights}),
    )
    held_pairs = (x[held], z[held]) if len(held) else (None, None)
    task = CodeRegression(x[kept], z[kept], *held_pairs)
    notes = {"signals": str(signals), "codes": str(codes)}
    result = train(network, task, config, run, keep_best=bool(len(held)), notes=notes)
    with torch.no_grad():
        error = task.to(next(network.parameters()).device).validate(network)
    judged = z[held] if len(held) else z[kept]
    zero_error = code_error(torch.zeros_like(judged), judged).item()
    return CoderReport(Path(run.folder) / "model.safetensors", network, result, error, zero_error)


def _check_network(
    model: str, fixed_p: float | None, sparse: bool | None, share_weights: bool | None
) -> None:
    """Raise for a network that does not exist, or that cannot learn."""
    coding_models = [
        name
        for name, kind in MODELS.items()
        if issubclass(kind, CodingNetwork) and name in fwnet.models.__all__
    ]
    if model not in coding_models:
        raise EncodeError(f"model must be one of {', '.join(coding_models)}, got {model!r}")
    if model == "FWNet" and fixed_p in (1, math.inf):
        raise EncodeError(
            f"a fixed p must be > 1 and finite, got {fixed_p:g}: no weight would get a gradient; "
            "use 1.01, for example, or learn p"
        )
    if sparse is not None and (model != "FWNet" or share_weights is not None):
        raise EncodeError(
            "sparse or dense is a choice for FWNet with a line search, got it with "
            + (f"model {model}" if model != "FWNet" else "shared or separate weights")
        )


def _read_pairs(signals: Path, codes: Path) -> tuple[Tensor, Tensor]:
    x, z = (torch.from_numpy(read_matrix(path, FLOAT32)) for path in (signals, codes))
    if len(x) != len(z):
        raise EncodeError(
            f"{codes} must have a row for each of the {len(x)} rows of {signals}, got {len(z)}"
        )
    return x, z
