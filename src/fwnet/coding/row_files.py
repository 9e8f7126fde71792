"""The base of files of rows, and npy files. Nothing is unpickled."""

import tokenize
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fwnet.errors import FwnetError
from fwnet.stores import StoredFile

# What numpy raises for a broken header of an npy file.
BAD_HEADER: tuple[type[Exception], ...] = (ValueError, TypeError, ArithmeticError, EOFError)
BAD_HEADER += (MemoryError, RecursionError, SyntaxError, tokenize.TokenError)
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


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
        columns: Names of the columns of a parquet file that make the signal.
        dtype: float32 if the file holds float32, float64 for every other number type.
    """

    num_rows: int
    num_columns: int
    columns: Sequence[str] = ()
    dtype: np.dtype

    def __init__(self, path: Path | StoredFile) -> None:
        self.path = path
        self.stamp = self._read_stamp()

    def rows(self, first: int, count: int) -> np.ndarray:
        """Return some rows."""
        return next(self.shards(first, count))

    def kept(self, first: int, count: int) -> Any:  # noqa: ARG002, for parquet
        """Return the columns to keep of some rows as a pyarrow table; None if there are none."""
        return None

    def shards(self, start: int, size: int) -> Iterator[np.ndarray]:
        """Yield the rows from `start`, `size` at a time; the last shard may be shorter.

        Raise `EncodeError` if the file has changed since it was opened.
        """
        self._check_unchanged()
        done = start
        for shard in self._shards(start, size):
            self._check_unchanged()
            done += len(shard)
            yield shard
        self._check_unchanged()
        if done < self.num_rows:
            raise EncodeError(f"{self.path} must have {self.num_rows} rows, got {done}")

    @abstractmethod
    def _shards(self, start: int, size: int) -> Iterator[np.ndarray]: ...

    def _check_unchanged(self) -> None:
        if self._read_stamp() != self.stamp:
            raise EncodeError(f"{self.path} changed while it was read")

    def _read_stamp(self) -> tuple[Any, ...]:
        if not isinstance(self.path, Path):
            return self.path.stamp()
        status = self.path.stat()
        return status.st_size, status.st_mtime_ns


class NpyRows(RowFile):
    """The rows of an npy file. A shard is one read: at a URL, one request."""

    def __init__(self, path: Path | StoredFile) -> None:
        super().__init__(path)
        size = self.stamp[0]
        if size == 0:
            raise EncodeError(f"{path} is empty")
        try:
            with path.open("rb") as file:
                version = np.lib.format.read_magic(file)
                if version not in HEADERS:
                    raise ValueError(f"expected version 1 or 2 of the format, got {version}")
                shape, self._by_columns, self._stored = HEADERS[version](file)
                self._offset = file.tell()
            if min(shape, default=0) < 0:
                raise ValueError(f"expected lengths >= 0, got {shape}")
        except BAD_HEADER as error:
            raise EncodeError(f"{path} is not a whole npy file: {first_line(error)}") from error
        if self._stored.hasobject:
            raise EncodeError(
                f"{path} must hold numbers, got Python objects, which are never unpickled"
            )
        if len(shape) != 2:
            raise EncodeError(f"{path} must have 2 axes, rows and columns, got {shape}")
        if self._stored.kind not in "biuf":
            raise EncodeError(f"{path} must hold real numbers, got {self._stored}")
        self.num_rows, self.num_columns = map(int, shape)  # numpy lets True pass for a length
        self._row_bytes = self.num_columns * self._stored.itemsize
        if size < self._offset + self.num_rows * self._row_bytes:
            raise EncodeError(f"{path} is not a whole npy file: it ends too early")
        if self._by_columns and not isinstance(path, Path):
            raise EncodeError(f"{path} must hold one row after the other, got Fortran order")
        self.dtype = kept_dtype(self._stored.newbyteorder("=") == np.float32)

    def _shards(self, start: int, size: int) -> Iterator[np.ndarray]:
        for first in range(start, self.num_rows, size):
            if self._by_columns:
                # Mapped again for every shard, so that pages already read do not fill the memory.
                assert isinstance(self.path, Path)
                mapped = np.lib.format.open_memmap(self.path, mode="r")
                yield np.array(mapped[first : first + size], dtype=self.dtype, order="C")
                continue
            # Read: a mapped file that another process makes shorter would end this one.
            num_bytes = min(size, self.num_rows - first) * self._row_bytes
            with self.path.open("rb") as file:
                file.seek(self._offset + first * self._row_bytes)
                content = file.read(num_bytes)
            if len(content) < num_bytes:
                raise EncodeError(f"{self.path} changed while it was read")
            entries = np.frombuffer(content, self._stored).reshape(-1, self.num_columns)
            yield entries.astype(self.dtype, copy=False)


def kept_dtype(is_float32: bool) -> np.dtype:
    """Return float32 for files that hold it, and float64 for every other number type."""
    return np.dtype(np.float32 if is_float32 else np.float64)


def first_line(error: Exception) -> str:
    """Return the first line of a message, or the name of the error."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
