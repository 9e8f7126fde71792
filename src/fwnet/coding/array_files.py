"""Read files of rows: .npy, and .parquet where pyarrow is installed. Nothing is unpickled.

A file is read in shards of rows, so it may be larger than memory.
"""

import importlib
import tokenize
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

import numpy as np

from fwnet.errors import FwnetError

SUFFIXES = (".npy", ".parquet")
PARQUET_BATCH_ENTRIES = 1 << 20

# What numpy raises for a broken header of an npy file.
BAD_HEADER: tuple[type[Exception], ...] = (ValueError, TypeError, ArithmeticError, EOFError)
BAD_HEADER += (MemoryError, RecursionError, SyntaxError, tokenize.TokenError)


class EncodeError(FwnetError):
    """A file or argument that cannot be used.

    >>> import fwnet
    >>> try:
    ...     fwnet.coding.encode_file("nosuchfile.npy", "codes.npy", p=1.3, radius=1.0)
    ... except fwnet.coding.EncodeError as error:
    ...     print(error)
    nosuchfile.npy ...
    """


class RowFile(ABC):
    """A matrix in a file.

    Attributes:
        path: The file.
        num_rows: Number of rows.
        num_columns: Number of columns.
        dtype: float32 if the file holds float32, float64 for every other number type.
    """

    num_rows: int
    num_columns: int
    dtype: np.dtype

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp = self._read_stamp()

    def shards(self, start: int, size: int) -> Iterator[np.ndarray]:
        """Yield the rows from `start`, `size` at a time; the last shard may be shorter.

        Raise `EncodeError` if the file has changed since it was opened.
        """
        self._check_unchanged()
        for shard in self._shards(start, size):
            self._check_unchanged()
            yield shard
        self._check_unchanged()

    @abstractmethod
    def _shards(self, start: int, size: int) -> Iterator[np.ndarray]: ...

    def _check_unchanged(self) -> None:
        if self._read_stamp() != self._stamp:
            raise EncodeError(f"{self.path} changed while it was read")

    def _read_stamp(self) -> tuple[int, int]:
        status = self.path.stat()
        return status.st_size, status.st_mtime_ns


def check_suffix(path: Path, suffixes: tuple[str, ...] = SUFFIXES) -> None:
    """Raise unless the file name ends in one of the suffixes and its format can be used here."""
    if path.suffix not in suffixes:
        raise EncodeError(f"expected a file that ends in {' or '.join(suffixes)}, got {path}")
    if path.suffix == ".parquet":
        _import_parquet(path)


def open_rows(path: Path) -> RowFile:
    """Open a file in which every row is a signal."""
    check_suffix(path)
    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise EncodeError(f"{path} {what}")
    rows: RowFile = ParquetRows(path) if path.suffix == ".parquet" else NpyRows(path)
    if rows.num_rows == 0 or rows.num_columns == 0:
        raise EncodeError(
            f"{path} must have at least 1 row and 1 column, got {rows.num_rows} × "
            f"{rows.num_columns}"
        )
    return rows


class NpyRows(RowFile):
    """The rows of an npy file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        mapped = self._map()
        if mapped.ndim != 2:
            raise EncodeError(f"{path} must have 2 axes, rows and columns, got {mapped.shape}")
        if mapped.dtype.kind not in "biuf":
            raise EncodeError(f"{path} must hold real numbers, got {mapped.dtype}")
        self.num_rows, self.num_columns = mapped.shape
        single = mapped.dtype.kind == "f" and mapped.dtype.itemsize == 4
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def _shards(self, start: int, size: int) -> Iterator[np.ndarray]:
        for first in range(start, self.num_rows, size):
            # Mapped again for every shard, so that pages already read do not fill the memory.
            yield np.array(self._map()[first : first + size], dtype=self.dtype, order="C")

    def _map(self) -> np.ndarray:
        if self.path.stat().st_size == 0:
            raise EncodeError(f"{self.path} is empty")
        try:
            with np.errstate(over="raise"):  # a shape that overflows would only warn
                return np.lib.format.open_memmap(self.path, mode="r")
        except BAD_HEADER as error:
            if "Python objects" in str(error):
                raise EncodeError(
                    f"{self.path} must hold numbers, got Python objects, which are never unpickled"
                ) from error
            raise EncodeError(
                f"{self.path} is not a whole npy file: {_first_line(error)}"
            ) from error


class ParquetRows(RowFile):
    """The rows of a parquet file. Every column is a feature, except the index of pandas."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._parquet = _import_parquet(path)
        import pyarrow as pa

        try:
            with self._parquet.ParquetFile(path) as file:
                schema, self.num_rows = file.schema_arrow, file.metadata.num_rows
        except (pa.ArrowException, OSError) as error:
            raise EncodeError(
                f"{path} is not a whole parquet file: {_first_line(error)}"
            ) from error
        index_columns = (schema.pandas_metadata or {}).get("index_columns", [])
        self._positions = [i for i, name in enumerate(schema.names) if name not in index_columns]
        fields = [schema.field(i) for i in self._positions]
        kinds = ("floating", "integer", "boolean", "decimal")
        for field in fields:
            if not any(getattr(pa.types, f"is_{kind}")(field.type) for kind in kinds):
                raise EncodeError(
                    f"every column of {path} must hold numbers, got {field.type} in {field.name!r}"
                )
        self.num_columns = len(fields)
        single = all(pa.types.is_float32(field.type) for field in fields)
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def _shards(self, start: int, size: int) -> Iterator[np.ndarray]:
        waiting: list[np.ndarray] = []
        count = 0
        for batch in self._batches():
            fresh = batch[start:]
            start = max(0, start - len(batch))
            while count + len(fresh) >= size:
                yield np.concatenate([*waiting, fresh[: size - count]])
                waiting, fresh, count = [], fresh[size - count :], 0
            waiting.append(fresh)
            count += len(fresh)
        if count:
            yield np.concatenate(waiting)

    def _batches(self) -> Iterator[np.ndarray]:
        """Yield all rows in batches; missing values become NaN."""
        import pyarrow as pa

        target = pa.from_numpy_dtype(self.dtype)
        # Without the buffer a column of a row group is read whole, however large the group.
        options = {"buffer_size": 1 << 16, "pre_buffer": False}
        batch_rows = max(1, PARQUET_BATCH_ENTRIES // self.num_columns)
        try:
            with self._parquet.ParquetFile(self.path, **options) as file:
                for batch in file.iter_batches(batch_size=batch_rows):
                    columns = (batch.column(i).cast(target, safe=False) for i in self._positions)
                    yield np.stack([c.to_numpy(zero_copy_only=False) for c in columns], axis=1)
        except (pa.ArrowException, OSError) as error:
            raise EncodeError(f"{self.path} cannot be read: {_first_line(error)}") from error


def read_matrix(path: Path, dtype: np.dtype) -> np.ndarray:
    """Read a whole matrix from an npy file; raise unless it is finite in the dtype."""
    check_suffix(path, (".npy",))
    rows = open_rows(path)
    with np.errstate(over="ignore"):  # values that become infinite are refused below
        matrix = next(rows.shards(0, rows.num_rows)).astype(dtype)
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(bad):
        raise EncodeError(
            f"{path} must be finite in {dtype}, got NaN or infinity in {len(bad)} of "
            f"{len(matrix)} rows, the first of them row {bad[0]} (counted from 0)"
        )
    return matrix


def read_dictionary(
    path: Path, signals: Path, num_features: int, dtype: np.dtype, num_atoms: int | None = None
) -> np.ndarray:
    """Read D, of shape (n, m), from an npy file and check that it fits the signals.

    Args:
        path: The file of D.
        signals: The file of the signals, for error messages.
        num_features: n.
        dtype: The dtype to convert to; entries must be finite in it.
        num_atoms: m; None accepts any.
    """
    dictionary = read_matrix(path, dtype)
    expected = (num_features, num_atoms or dictionary.shape[1])
    if dictionary.shape != expected:
        hint = ""
        if dictionary.shape[1] == num_features and num_atoms in (None, len(dictionary)):
            hint = "; this is scikit-learn's (n_components, n_features): save its transpose"
        raise EncodeError(
            f"{path} must have shape (n, m) = ({num_features}, {num_atoms or 'm'}), where n is the "
            f"number of columns of {signals}, got {dictionary.shape}{hint}"
        )
    return dictionary


def write_parquet(file: BinaryIO, shards: Iterable[np.ndarray]) -> None:
    """Write shards of codes as a parquet file, one row group per shard."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for shard in shards:
        columns = [pa.array(np.ascontiguousarray(column)) for column in shard.T]
        table = pa.table(columns, names=[f"code{index}" for index in range(len(columns))])
        if writer is None:
            # Codes hardly repeat, so a dictionary of values would not make the file smaller.
            writer = pq.ParquetWriter(file, table.schema, use_dictionary=False)
        writer.write_table(table, row_group_size=len(shard))
    if writer is not None:
        writer.close()


def _import_parquet(path: Path) -> ModuleType:
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise EncodeError(
            f"{path} needs pyarrow, which is not installed: pip install '.[parquet]' in the clone"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
