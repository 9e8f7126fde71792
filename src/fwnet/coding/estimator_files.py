"""Estimators in safetensors files: constructor parameters and what was fitted. Nothing is pickled.

Arrays, and the weights of networks, are the tensors of the file; everything else is JSON beside
them, in which {"array": name}, {"tensor": name} or {"model": name, …} stands for the tensors.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from fwnet.models import Model, ModelFileError, read_weights, restore_model, write_weights
from fwnet.version import __version__

__all__ = ["EstimatorFileMixin"]

METADATA_KEY = "fwnet-estimator"


class EstimatorFileMixin:
    """`save` and `load` for an estimator of numbers, words, arrays, tensors and networks.

    What `__init__` takes goes back through `__init__`; every other attribute of the object is what
    `fit` left, and is set again as it was.
    """

    def save(self, path: str | Path) -> None:
        """Write the estimator to one safetensors file, whole or not at all."""
        parameters = _parameters(self)
        fitted = {name: value for name, value in vars(self).items() if name not in parameters}
        tensors: dict[str, Tensor] = {}
        about = {
            "estimator": type(self).__name__,
            "version": __version__,
            "parameters": _pack("parameters", parameters, tensors)["mapping"],
            "fitted": _pack("fitted", fitted, tensors)["mapping"],
        }
        write_weights(Path(path), tensors, {METADATA_KEY: json.dumps(about)})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Make the estimator that `save` wrote. Nothing is unpickled."""
        tensors, metadata = read_weights(Path(path))
        try:
            about = json.loads(metadata[METADATA_KEY])
            name, packed = about["estimator"], (about["parameters"], about["fitted"])
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"{path} holds no estimator: expected a file that {cls.__name__}.save wrote"
            ) from error
        if name != cls.__name__:
            raise ModelFileError(f"{path} must hold a {cls.__name__}, got a {name}")
        try:
            parameters, fitted = (_unpack({"mapping": part}, tensors) for part in packed)
            estimator = cls(**parameters)
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
            # RuntimeError: weights that do not fit, or values nested without end.
            raise ModelFileError(f"{path} holds what cannot be made here: {error}") from error
        for key, value in fitted.items():
            if hasattr(cls, key):  # a file brings values, and never puts them in a method's place
                raise ModelFileError(f"{path} holds {key!r}, which no fit leaves")
            setattr(estimator, key, value)
        return estimator


def _parameters(estimator: Any) -> dict[str, Any]:
    assert isinstance(estimator, BaseEstimator)
    parameters: dict[str, Any] = estimator.get_params(deep=False)
    return parameters


def _pack(name: str, value: Any, tensors: dict[str, Tensor]) -> Any:
    """Put a value into JSON's kinds of values, and its arrays among the tensors by their names."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [_pack(f"{name}.{index}", part, tensors) for index, part in enumerate(value)]
    if isinstance(value, tuple):
        return {"tuple": _pack(name, list(value), tensors)}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        packed = {key: _pack(f"{name}.{key}", part, tensors) for key, part in value.items()}
        return {"mapping": packed}
    if isinstance(value, Model):
        weights = value.state_dict()
        tensors |= {f"{name}.{key}": weight for key, weight in weights.items()}
        return {"model": type(value).__name__, "config": value.config, "weights": name}
    if isinstance(value, Tensor):
        tensors[name] = value.detach().clone()  # a file holds no tensor twice
        return {"tensor": name}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        tensors[name] = torch.from_numpy(np.array(value, order="C"))
        return {"array": name}
    if isinstance(value, np.ndarray) and all(isinstance(word, str) for word in value.flat):
        return {"words": value.tolist(), "objects": value.dtype.kind == "O"}
    raise TypeError(
        f"{name} must be a number, a word, an array, a network or a list of those to be saved, "
        f"got {type(value).__name__}"
    )


def _unpack(packed: Any, tensors: dict[str, Tensor]) -> Any:
    """Make the value that `_pack` took apart."""
    if isinstance(packed, list):
        return [_unpack(part, tensors) for part in packed]
    if not isinstance(packed, dict):
        return packed
    if "tuple" in packed:
        return tuple(_unpack(packed["tuple"], tensors))
    if "mapping" in packed:
        return {key: _unpack(part, tensors) for key, part in packed["mapping"].items()}
    if "model" in packed:
        return _made_model(packed, tensors)
    if "tensor" in packed:
        return tensors[packed["tensor"]]
    if "words" in packed:
        return np.array(packed["words"], dtype=object if packed["objects"] else None)
    return tensors[packed["array"]].numpy()


def _made_model(packed: dict[str, Any], tensors: dict[str, Tensor]) -> Model:
    prefix = f"{packed['weights']}."
    weights = {
        key.removeprefix(prefix): weight
        for key, weight in tensors.items()
        if key.startswith(prefix)
    }
    return restore_model(packed["model"], packed["config"], weights)
