"""Model files: the weights and a description in one safetensors file. Nothing is pickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from fwnet.errors import FwnetError
from fwnet.files import why_not_readable, write_whole

METADATA_KEY = "fwnet"


class ModelFileError(FwnetError):
    """A file that holds no usable model.

    >>> import fwnet
    >>> try:
    ...     fwnet.load_model("nosuchfile.safetensors")
    ... except fwnet.models.ModelFileError as error:
    ...     print(error)
    nosuchfile.safetensors does not exist
    """


def read_model(
    path: str | Path, data: bytes | None = None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return what a file says about its model (model, config, version, notes), and the weights.

    data: The bytes of the file, where they are known already.

    >>> import fwnet
    >>> fwnet.FWNet(10, 20, num_layers=3).save("mine.safetensors")
    >>> about, weights = fwnet.models.read_model("mine.safetensors")
    >>> about["model"], about["config"]["num_layers"], list(weights)[:2]
    ('FWNet', 3, [...])
    """
    weights, metadata = read_weights(Path(path), data)
    try:
        about: dict[str, Any] = json.loads(metadata[METADATA_KEY])
        if not (isinstance(about["model"], str) and isinstance(about["config"], dict)):
            raise TypeError
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(
            f"{path} holds tensors but no fwnet model: expected a file that Model.save wrote"
        ) from error
    return about, weights


def write_model(path: str | Path, about: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Write such a file, whole or not at all.

    >>> import fwnet
    >>> net = fwnet.FWNet(10, 20, num_layers=3)
    >>> about = {"model": "FWNet", "config": net.config}
    >>> fwnet.models.write_model("mine.safetensors", about, net.state_dict())
    >>> fwnet.load_model("mine.safetensors").num_layers
    3
    """
    write_weights(Path(path), weights, {METADATA_KEY: json.dumps(about)})


def write_weights(path: Path, weights: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write tensors and texts through a temporary file: a kill leaves the old file or the new.

    >>> import fwnet, torch
    >>> from pathlib import Path
    >>> fwnet.models.write_weights(Path("w.safetensors"), {"W": torch.eye(2)}, {})
    >>> Path("w.safetensors").exists()
    True
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    write_whole(path, safetensors.torch.save(tensors, metadata))


def read_weights(path: Path, data: bytes | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a file and the texts beside them; `data` as in `read_model`.

    >>> import fwnet, torch
    >>> from pathlib import Path
    >>> fwnet.models.write_weights(Path("w.safetensors"), {"W": torch.eye(2)}, {"made by": "me"})
    >>> fwnet.models.read_weights(Path("w.safetensors"))
    ({'W': tensor([[1., 0.],
            [0., 1.]])}, {'made by': 'me'})
    """
    if data is None and (problem := why_not_readable(path)):
        inside = path / "model.safetensors"  # in the folder of a training
        if problem == "is not a file" and inside.is_file():
            problem = f"is a folder, and the model in it is {inside}"
        raise ModelFileError(f"{path} {problem}")
    try:
        data = path.read_bytes() if data is None else data
    except OSError as error:  # no permission
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from error
    try:
        weights = safetensors.torch.load(data)
        length = int.from_bytes(data[:8], "little")  # of the header, which holds the texts
        metadata = json.loads(data[8 : 8 + length]).get("__metadata__", {})
    except (SafetensorError, ValueError) as error:
        raise ModelFileError(
            f"{path} is not a model file of fwnet (.safetensors), or it is incomplete"
        ) from error
    return weights, metadata
