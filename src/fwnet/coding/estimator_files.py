"""Save estimators as safetensors files: parameters and fitted attributes. Nothing is pickled.

Arrays and the weights of networks are the tensors of the file. Everything else is JSON in its
metadata, where {"array": name}, {"tensor": name} or {"model": name, …} refers to tensors and
{"set": name, …} is a convex set.
"""

import json
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from fwnet.models import Model, ModelFileError, read_weights, restore_model, write_weights
from fwnet.sets import ConvexSet, set_from_config, set_to_config
from fwnet.version import __version__

METADATA_KEY = "fwnet-estimator"


class EstimatorFileMixin:
    """`save` and `load` for an estimator of numbers, strings, arrays, tensors and networks.

    Parameters are passed to `__init__` again; all other attributes are set as they were.
    """

    def save(self, path: str | Path) -> None:
        """Write the estimator to one safetensors file."""
        assert isinstance(self, BaseEstimator)
        parameters = self.get_params(deep=False)
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
        """Read an estimator that `save` wrote. Nothing is unpickled."""
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
            # RuntimeError: weights of a wrong shape, or values nested too deeply.
            line = " ".join(str(error).split())
            raise ModelFileError(f"{path} cannot be loaded: {line}") from error
        for key, value in fitted.items():
            if hasattr(cls, key):  # a file must not replace methods
                raise ModelFileError(f"{path} holds {key!r}, which is no fitted attribute")
            setattr(estimator, key, value)
        return estimator


def _pack(name: str, value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return a value as JSON; add its arrays to `tensors`, under names that start with `name`."""
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
    if isinstance(value, ConvexSet):
        return set_to_config(value)
    if isinstance(value, Tensor):
        tensors[name] = value.detach().clone()  # a file holds no tensor twice
        return {"tensor": name}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        tensors[name] = torch.from_numpy(np.array(value, order="C"))
        return {"array": name}
    if isinstance(value, np.ndarray) and all(isinstance(word, str) for word in value.flat):
        return {"words": value.tolist(), "objects": value.dtype.kind == "O"}
    raise TypeError(
        f"{name} must be a number, a string, an array, a network or a list of those to be saved, "
        f"got {type(value).__name__}"
    )


def _unpack(packed: Any, tensors: dict[str, Tensor]) -> Any:
    """Return the value that `_pack` was given."""
    if isinstance(packed, list):
        return [_unpack(part, tensors) for part in packed]
    if not isinstance(packed, dict):
        return packed
    if "tuple" in packed:
        return tuple(_unpack(packed["tuple"], tensors))
    if "mapping" in packed:
        return {key: _unpack(part, tensors) for key, part in packed["mapping"].items()}
    if "set" in packed:
        return set_from_config(packed)
    if "model" in packed:
        prefix = f"{packed['weights']}."
        names = [name for name in tensors if name.startswith(prefix)]
        weights = {name.removeprefix(prefix): tensors[name] for name in names}
        return restore_model(packed["model"], packed["config"], weights)
    if "tensor" in packed:
        return tensors[packed["tensor"]]
    if "words" in packed:
        return np.array(packed["words"], dtype=object if packed["objects"] else None)
    return tensors[packed["array"]].numpy()
