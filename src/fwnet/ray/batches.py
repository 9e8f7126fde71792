"""Callables for `ray.data.Dataset.map_batches`: one coder, network or restorer per actor."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fwnet.checks import check_tolerance
from fwnet.coding.row_coders import CERTIFICATE, RowCoder, solver_coder
from fwnet.hardware import choose_device
from fwnet.imaging import ImageError, Restorer
from fwnet.imaging.pixels import map_images
from fwnet.models import SignalModel, load_model
from fwnet.restoration import Denoising, Restoration, Upscaling
from fwnet.sets import ConvexSet, LpBall

Batch = Any  # a dict of NumPy arrays, or a table of pyarrow


class Coder:
    """min_z ½‖x − Dz‖²  s.t.  ‖z‖_p ≤ radius, or z ∈ C, for every row x of a batch, certified.

    A batch, of NumPy or pyarrow, comes back with the columns code, gap, norm_gap, status_code and
    num_steps; see `fwnet.Solution`. Rows that are not finite have NaN as code and status_code -2.

    Args:
        dictionary: D of shape (n, m), one atom per column. None for the identity.
        p: Exponent of the norm, in [1, ∞].
        radius: Bound on the norm of a code, > 0.
        convex_set: C, instead of p and radius.
        columns: The column of vectors, or the columns of numbers that make the vector.
        tol: Tolerance of the certificate; see `fwnet.solve`.
        device: "auto" means the GPU of the actor if it has one, else the CPU.

    >>> import fwnet, numpy as np
    >>> coder = fwnet.ray.Coder(np.eye(8), p=2, radius=0.5)
    >>> batch = coder({"id": np.arange(3), "x": np.ones((3, 8))})
    >>> batch["id"], batch["code"].shape, batch["status_code"]
    (array([0, 1, 2]), (3, 8), array([0, 0, 0], dtype=int8))

    In a pipeline, each actor makes one:

    >>> import ray
    >>> codes = ray.data.from_numpy(np.ones((10, 8), np.float32)).map_batches(
    ...     fwnet.ray.Coder,
    ...     fn_constructor_kwargs={"p": 2, "radius": 0.5, "columns": "data"},
    ...     compute=ray.data.ActorPoolStrategy(size=1),
    ... )
    >>> codes.count()
    10
    """

    def __init__(
        self,
        dictionary: Any = None,
        p: float | None = None,
        radius: float | None = None,
        *,
        convex_set: ConvexSet | None = None,
        columns: str | Sequence[str] = "x",
        tol: float | None = None,
        device: str | torch.device = "auto",
    ) -> None:
        if (convex_set is None) == (p is None and radius is None):
            raise ValueError(
                f"expected either p and radius or a convex_set, got p {p}, radius {radius} and "
                f"convex_set {convex_set}"
            )
        if convex_set is None and (p is None or radius is None):
            raise ValueError(f"expected p and radius, got p {p} and radius {radius}")
        check_tolerance("tol", tol)
        self.dictionary = None if dictionary is None else np.asarray(dictionary)
        self.convex_set = convex_set or LpBall(p, radius)  # type: ignore[arg-type]
        self.columns, self.tol = columns, tol
        self.device = choose_device(device)
        self._coders: dict[np.dtype, RowCoder] = {}

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with codes and certificates."""
        rows = _vectors(batch, self.columns)
        codes, records = self._coder(rows).code_any(rows)
        names = CERTIFICATE.names or ()
        return _with_columns(batch, {"code": codes} | {name: records[name] for name in names})

    def _coder(self, rows: np.ndarray) -> RowCoder:
        if rows.dtype not in self._coders:
            given = self.dictionary
            matrix = (np.eye(rows.shape[1]) if given is None else given).astype(rows.dtype)
            self._coders[rows.dtype] = solver_coder(matrix, self.convex_set, self.tol, self.device)
        return self._coders[rows.dtype]


class Network:
    """z = f(x) with a trained network, for every row x of a batch; the column code is added.

    Args:
        model: A file that `fwnet train coder` wrote, or a network such as `FWNet`.
        columns: The column of vectors, or the columns of numbers that make the vector.
        device: "auto" means the GPU of the actor if it has one, else the CPU.

    >>> import fwnet, numpy as np
    >>> network = fwnet.ray.Network(fwnet.FWNet(8, 16, num_layers=2))
    >>> network({"x": np.ones((3, 8), np.float32)})["code"].shape
    (3, 16)
    """

    def __init__(
        self,
        model: str | Path | SignalModel,
        *,
        columns: str | Sequence[str] = "x",
        device: str | torch.device = "auto",
    ) -> None:
        network = model if isinstance(model, SignalModel) else load_model(model)
        if not isinstance(network, SignalModel):
            name = type(network).__name__
            raise ValueError(f"{model} must hold a network that codes signals, got {name}")
        self.columns, self.device = columns, choose_device(device)
        self.network = network.to(self.device).eval()

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with codes."""
        rows = _vectors(batch, self.columns)
        if rows.shape[1] != self.network.num_features:
            raise ValueError(
                f"{self.columns!r} must have {self.network.num_features} numbers per row, the "
                f"input size of the network, got {rows.shape[1]}"
            )
        dtype = next(self.network.parameters()).dtype
        with torch.no_grad():
            codes = self.network.encode(torch.tensor(rows, dtype=dtype, device=self.device))
        return _with_columns(batch, {"code": codes.float().cpu().numpy()})


class _Restorer:
    """Restores the images of a column."""

    kind: type[Restoration]

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        column: str = "image",
        device: str | torch.device = "auto",
        tile: int | None = None,
        **asked: Any,
    ) -> None:
        self.column = column
        chosen = choose_device(device)
        self.restorer = Restorer(self.kind, model, device=chosen, tile=tile, **asked)

    def __call__(self, batch: Batch) -> dict[str, Any]:
        """Return the batch with restored images and a column of problems, empty where none is."""
        values = dict(batch) if isinstance(batch, dict) else _numpy_columns(batch)
        if self.column not in values:
            raise ValueError(f"a batch must have a column {self.column!r}, got {[*values]}")
        images, problems = [], []
        for image in values[self.column]:
            problem = ""
            try:
                image = map_images(np.asarray(image), lambda x: self.restorer.run(x).pixels)
            except ImageError as error:
                problem = str(error)
            images.append(image)
            problems.append(problem)
        return {**values, self.column: _stacked(images), "problem": np.array(problems, object)}


class Denoiser(_Restorer):
    """Remove noise from the images of a batch, as `fwnet.denoise` does.

    Images are arrays (height, width) or (height, width, channels), of one size or of several, as
    `ray.data.read_images` gives them. The column problem says why an image could not be restored
    and stays as it was; elsewhere it is empty.

    Args:
        model: A name from `fwnet.list_models`, or a path.
        column: The column of images.
        device: "auto" means the GPU of the actor if it has one, else the CPU.
        tile: See `fwnet.imaging.Restorer`.
        asked: Options of `fwnet.denoise`: sigma, fast, …

    >>> import fwnet, numpy as np
    >>> denoiser = fwnet.ray.Denoiser(sigma=25 / 255, fast=True)
    >>> denoiser({"image": np.full((2, 16, 16), 128, np.uint8)})["image"].shape
    (2, 16, 16)
    """

    kind = Denoising


class Upscaler(_Restorer):
    """Enlarge the images of a batch, as `fwnet.upscale` does; see `Denoiser`.

    Args:
        model: A name from `fwnet.list_models`, or a path.
        column: The column of images.
        device: "auto" means the GPU of the actor if it has one, else the CPU.
        tile: See `fwnet.imaging.Restorer`.
        asked: Options of `fwnet.upscale`: scale, jpeg.

    >>> import fwnet, numpy as np
    >>> upscaler = fwnet.ray.Upscaler(scale=2)
    >>> upscaler({"image": np.full((2, 16, 16), 128, np.uint8)})["image"].shape
    (2, 32, 32)
    """

    kind = Upscaling


def _vectors(batch: Batch, columns: str | Sequence[str]) -> np.ndarray:
    """Return the vectors of a batch as a matrix of float32 or float64."""
    names = [columns] if isinstance(columns, str) else [*columns]
    present = [*batch] if isinstance(batch, dict) else batch.column_names
    if missing := [name for name in names if name not in present]:
        raise ValueError(f"a batch must have a column {missing[0]!r}, got {present}")
    arrays = [_numpy(batch[name]) for name in names]
    rows = arrays[0] if isinstance(columns, str) else np.stack(arrays, axis=1)
    if rows.dtype == object:
        rows = np.stack(list(rows))
    if rows.ndim != 2:
        raise ValueError(f"{columns!r} must hold one vector per row, got shape {rows.shape}")
    return rows if rows.dtype == np.float32 else rows.astype(np.float64)


def _numpy(column: Any) -> np.ndarray:
    """Return a column of NumPy or pyarrow as an array; lists of one length become a matrix."""
    if isinstance(column, np.ndarray):
        return column
    import pyarrow as pa

    chunk = column.combine_chunks()
    chunk = chunk.chunk(0) if isinstance(chunk, pa.ChunkedArray) and chunk.num_chunks else chunk
    if pa.types.is_fixed_size_list(chunk.type):
        flat: np.ndarray = chunk.flatten().to_numpy(zero_copy_only=False)
        return flat.reshape(len(chunk), chunk.type.list_size)
    array: np.ndarray = chunk.to_numpy(zero_copy_only=False)
    return array


def _numpy_columns(table: Any) -> dict[str, np.ndarray]:
    return {name: _numpy(table[name]) for name in table.column_names}


def _with_columns(batch: Batch, columns: dict[str, np.ndarray]) -> Batch:
    """Add or replace columns; a matrix becomes a column of lists of one length in a table."""
    if isinstance(batch, dict):
        return {**batch, **columns}
    import pyarrow as pa

    for name, values in columns.items():
        flat = pa.array(np.ascontiguousarray(values).reshape(-1))
        array = (
            pa.FixedSizeListArray.from_arrays(flat, values.shape[1]) if values.ndim == 2 else flat
        )
        if name in batch.column_names:
            batch = batch.drop_columns([name])
        batch = batch.append_column(name, array)
    return batch


def _stacked(images: list[Any]) -> np.ndarray:
    """Return images as one array if they have one shape, else as an array of arrays."""
    if len({np.shape(image) for image in images}) == 1:
        return np.stack(images)
    values = np.empty(len(images), object)
    values[:] = images
    return values
