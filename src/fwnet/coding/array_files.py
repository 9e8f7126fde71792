"""Rows of numbers in files: npy, and parquet where pyarrow is installed. Nothing is unpickled.

A file is read and written in blocks of rows, so that it may be larger than memory.
"""

from __future__ import annotations

import os
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import BinaryIO, Protocol

import numpy as np

from fwnet.coding.errors import EncodeError

__all__ = ["RowFile", "check_suffix", "open_rows", "read_npy_matrix", "write_npy", "write_rows"]

SUFFIXES = (".npy", ".parquet")
PARQUET_BATCH_ENTRIES = 1 << 20

# What numpy raises for the header of an npy file that makes no sense.
BAD_HEADER = (
    ValueError,
    TypeError,
    ArithmeticError,
    EOFError,
    MemoryError,
    RecursionError,
    SyntaxError,
    tokenize.TokenError,
)


class RowFile(Protocol):
    """A matrix in a file; its values become float32 if they are that, else float64."""

    num_rows: int
    num_columns: int
    dtype: np.dtype

    def blocks(self, start: int, size: int) -> Iterator[np.ndarray]:
        """Yield the rows from `start` on, `size` at a time; the last block may be shorter."""
        ...


def check_suffix(path: Path) -> None:
    """Raise unless the file can be read and written here, going by its name."""
    if path.suffix not in SUFFIXES:
        raise EncodeError(f"expected a file that ends in .npy or .parquet, got {path}")
    if path.suffix == ".parquet":
        _parquet(path)


def open_rows(path: Path) -> RowFile:
    """Open a file of rows and columns, each row one signal."""
    check_suffix(path)
    if not path.exists():
        raise EncodeError(f"{path} does not exist")
    if not path.is_file():
        raise EncodeError(f"{path} is not a file")
    rows: RowFile = ParquetRows(path) if path.suffix == ".parquet" else NpyRows(path)
    if rows.num_rows == 0 or rows.num_columns == 0:
        raise EncodeError(
            f"{path} must have at least 1 row and 1 column, got {rows.num_rows} × "
            f"{rows.num_columns}"
        )
    return rows


class NpyRows:
    """The rows of an npy file, mapped into memory block by block."""

    def __init__(self, path: Path) -> None:
        self.path = path
        mapped = self._mapped()
        if mapped.ndim != 2:
            raise EncodeError(f"{path} must have 2 axes, rows and columns, got {mapped.shape}")
        if mapped.dtype.kind not in "biuf":
            raise EncodeError(f"{path} must hold real numbers, got {mapped.dtype}")
        self.num_rows, self.num_columns = mapped.shape
        single = mapped.dtype.kind == "f" and mapped.dtype.itemsize == 4
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def blocks(self, start: int, size: int) -> Iterator[np.ndarray]:
        """Yield blocks; each is mapped anew, so that pages already read do not add up."""
        for first in range(start, self.num_rows, size):
            yield np.array(self._mapped()[first : first + size], dtype=self.dtype, order="C")

    def _mapped(self) -> np.ndarray:
        if self.path.stat().st_size == 0:
            raise EncodeError(f"{self.path} is empty")
        try:
            with np.errstate(over="raise"):  # a shape beyond all numbers would only warn
                return np.lib.format.open_memmap(self.path, mode="r")
        except BAD_HEADER as error:
            if "Python objects" in str(error):
                raise EncodeError(
                    f"{self.path} must hold numbers, got Python objects, which are never unpickled"
                ) from error
            raise EncodeError(
                f"{self.path} is not a whole npy file: {_first_line(error)}"
            ) from error


class ParquetRows:
    """The rows of a parquet file: each column one feature, except the index of pandas."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pq = _parquet(path)
        import pyarrow as pa

        try:
            with self._pq.ParquetFile(path) as file:
                schema, self.num_rows = file.schema_arrow, file.metadata.num_rows
                groups = [
                    file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)
                ]
        except (pa.ArrowException, OSError) as error:
            raise EncodeError(
                f"{path} is not a whole parquet file: {_first_line(error)}"
            ) from error
        index_columns = (schema.pandas_metadata or {}).get("index_columns", [])
        self._positions = [i for i, name in enumerate(schema.names) if name not in index_columns]
        self._group_starts = np.cumsum([0, *groups])
        fields = [schema.field(i) for i in self._positions]
        for field in fields:
            kind = field.type
            if not (
                pa.types.is_floating(kind)
                or pa.types.is_integer(kind)
                or pa.types.is_boolean(kind)
                or pa.types.is_decimal(kind)
            ):
                raise EncodeError(
                    f"every column of {path} must hold numbers, got {kind} in {field.name!r}"
                )
        self.num_columns = len(fields)
        single = all(pa.types.is_float32(field.type) for field in fields)
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def blocks(self, start: int, size: int) -> Iterator[np.ndarray]:
        """Yield blocks; missing values are NaN."""
        group = int(np.searchsorted(self._group_starts, start, side="right")) - 1
        skipped = start - int(self._group_starts[group])
        waiting: list[np.ndarray] = []
        count = 0
        for batch in self._whole_batches(group):
            fresh = batch[skipped:]
            skipped = max(0, skipped - len(batch))
            while count + len(fresh) >= size:
                yield np.concatenate([*waiting, fresh[: size - count]])
                waiting, fresh, count = [], fresh[size - count :], 0
            waiting.append(fresh)
            count += len(fresh)
        if count:
            yield np.concatenate(waiting)

    def _whole_batches(self, first_group: int) -> Iterator[np.ndarray]:
        import pyarrow as pa

        try:
            yield from self._batches(first_group)
        except (pa.ArrowException, OSError) as error:
            raise EncodeError(f"{self.path} cannot be read: {_first_line(error)}") from error

    def _batches(self, first_group: int) -> Iterator[np.ndarray]:
        import pyarrow as pa

        target = pa.from_numpy_dtype(self.dtype)
        # Without the buffer a column of a row group is read whole, however large the group.
        with self._pq.ParquetFile(self.path, buffer_size=1 << 16, pre_buffer=False) as file:
            batches = file.iter_batches(
                batch_size=max(1, PARQUET_BATCH_ENTRIES // self.num_columns),
                row_groups=range(first_group, len(self._group_starts) - 1),
            )
            for batch in batches:
                values = np.empty((batch.num_rows, self.num_columns), self.dtype)
                for column, position in enumerate(self._positions):
                    numbers = batch.column(position).cast(target, safe=False)
                    values[:, column] = numbers.to_numpy(zero_copy_only=False)
                yield values


def read_npy_matrix(path: Path) -> np.ndarray:
    """Read a whole matrix of numbers from an npy file, as float32 or float64."""
    if path.suffix != ".npy":
        raise EncodeError(f"expected a file that ends in .npy, got {path}")
    rows = open_rows(path)
    return next(rows.blocks(0, rows.num_rows))


def write_rows(
    path: Path, suffix: str, shape: tuple[int, int], blocks: Iterable[np.ndarray]
) -> None:
    """Write blocks of codes one after the other into one file of the kind that suffix names."""
    if suffix == ".npy":
        write_npy(path, shape, blocks)
        return
    import pyarrow as pa

    writer = None
    names = [f"code{index}" for index in range(shape[1])]
    with path.open("wb") as file:
        for block in blocks:  # one row group a block
            columns = [pa.array(np.ascontiguousarray(block[:, i])) for i in range(shape[1])]
            table = pa.table(columns, names=names)
            if writer is None:
                # Codes hardly repeat: a dictionary of values would only be built and dropped.
                writer = _parquet(path).ParquetWriter(file, table.schema, use_dictionary=False)
            writer.write_table(table, row_group_size=max(1, len(block)))
        if writer is not None:
            writer.close()
        _flush(file)


def write_npy(path: Path, shape: tuple[int, ...], blocks: Iterable[np.ndarray]) -> None:
    """Write blocks one after the other as one npy array of the given shape."""
    with path.open("wb") as file:
        header_written = False
        for block in blocks:
            if not header_written:
                descr = np.lib.format.dtype_to_descr(block.dtype)
                header = {"descr": descr, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                header_written = True
            file.write(np.ascontiguousarray(block).data)
        _flush(file)


def _flush(file: BinaryIO) -> None:
    """Have the bytes on the disk before a rename makes the file count as whole."""
    file.flush()
    os.fsync(file.fileno())


def _parquet(path: Path) -> ModuleType:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise EncodeError(
            f"{path} needs pyarrow, which is not installed: pip install fwnet[parquet]"
        ) from error
    module: ModuleType = parquet
    return module


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
