"""Read files of rows: .npy, and .parquet where pyarrow is installed. Nothing is unpickled.

A file is read in shards of rows, so it may be larger than memory.
"""

import contextlib
import fnmatch
import importlib
import tokenize
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from fwnet.errors import FwnetError
from fwnet.stores import StoredFile

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


def check_suffix(path: Path | StoredFile, suffixes: tuple[str, ...] = SUFFIXES) -> None:
    """Raise unless the file name ends in one of the suffixes and its format can be used here."""
    if path.suffix not in suffixes:
        raise EncodeError(f"expected a file that ends in {' or '.join(suffixes)}, got {path}")
    if path.suffix == ".parquet":
        _import_parquet(path)


def open_rows(
    path: Path | StoredFile, columns: Sequence[str] = (), keep: Sequence[str] = ()
) -> RowFile:
    """Open a file in which every row is a signal.

    Args:
        path: The file.
        columns: Columns of a parquet file that make the signal, as names or patterns, in this
            order. Default: all that are not kept.
        keep: Columns of a parquet file that go with the codes as they are.
    """
    if not path.suffix and not path.exists():  # meant as a folder
        raise EncodeError(f"{path} does not exist")
    if path.suffix in (".csv", ".txt"):
        numbers = f"np.loadtxt({path.name!r}, delimiter=',')"
        raise EncodeError(
            f"expected a .npy or .parquet file, got {path}; "
            f"convert it with np.save({path.name.removesuffix(path.suffix) + '.npy'!r}, {numbers})"
        )
    check_suffix(path)
    if path.suffix != ".parquet" and (columns or keep):
        raise EncodeError(f"columns have names in .parquet files alone, got {path}")
    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise EncodeError(f"{path} {what}")
    rows: RowFile
    if path.suffix == ".parquet":
        rows = ParquetRows(path, columns, keep)
    else:
        rows = NpyRows(path) if isinstance(path, Path) else StoredNpyRows(path)
    if rows.num_rows == 0 or rows.num_columns == 0:
        raise EncodeError(
            f"{path} must have at least 1 row and 1 column, got {rows.num_rows} × "
            f"{rows.num_columns}"
        )
    return rows


def count_rows(path: Path | StoredFile) -> int:
    """Return how many rows a file of ours holds; 0 if it is not there, or not whole."""
    try:
        if path.suffix != ".parquet":
            return open_rows(path).num_rows
        with path.open("rb") as file:
            return int(_import_parquet(path).ParquetFile(file).metadata.num_rows)
    except (EncodeError, OSError, ValueError):  # pyarrow's own error is a ValueError
        return 0


class NpyRows(RowFile):
    """The rows of an npy file."""

    path: Path

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._set_shape(self._map())

    def _set_shape(self, array: Any) -> None:
        """Check and take the shape and the dtype of an array."""
        if len(array.shape) != 2:
            raise EncodeError(f"{self.path} must have 2 axes, rows and columns, got {array.shape}")
        if array.dtype.kind not in "biuf":
            raise EncodeError(f"{self.path} must hold real numbers, got {array.dtype}")
        self.num_rows, self.num_columns = array.shape
        single = array.dtype.kind == "f" and array.dtype.itemsize == 4
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def _shards(self, start: int, size: int) -> Iterator[np.ndarray]:
        for first in range(start, self.num_rows, size):
            # Mapped again for every shard, so that pages already read do not fill the memory.
            mapped = self._map()
            if not mapped.flags.c_contiguous:
                yield np.array(mapped[first : first + size], dtype=self.dtype, order="C")
                continue
            # Read: a mapped file that another process makes shorter would end this one.
            count = min(size, self.num_rows - first) * self.num_columns
            with self.path.open("rb") as file:
                file.seek(mapped.offset + first * self.num_columns * mapped.itemsize)
                entries = np.fromfile(file, mapped.dtype, count)
            if len(entries) < count:
                raise EncodeError(f"{self.path} changed while it was read")
            yield entries.reshape(-1, self.num_columns).astype(self.dtype, copy=False)

    def _map(self) -> np.memmap[Any, Any]:
        if self.path.stat().st_size == 0:
            raise EncodeError(f"{self.path} is empty")
        with (
            self._reported_header(),
            np.errstate(over="raise"),
        ):  # too large a shape would only warn
            return np.lib.format.open_memmap(self.path, mode="r")

    @contextlib.contextmanager
    def _reported_header(self) -> Iterator[None]:
        """Turn the errors of a broken header into one line."""
        try:
            yield
        except BAD_HEADER as error:
            if "Python objects" in str(error):
                raise EncodeError(
                    f"{self.path} must hold numbers, got Python objects, which are never unpickled"
                ) from error
            raise EncodeError(
                f"{self.path} is not a whole npy file: {_first_line(error)}"
            ) from error


class StoredNpyRows(NpyRows):
    """The rows of an npy file at a URL: a shard is one request."""

    def __init__(self, path: StoredFile) -> None:
        RowFile.__init__(self, path)
        with self._reported_header(), path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            if version not in ((1, 0), (2, 0)):
                raise ValueError(f"expected version 1 or 2 of the format, got {version}")
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, self._by_columns, self._stored = read(file)
            self._offset = file.tell()
            if self._stored.hasobject:
                raise ValueError("Python objects")
        self._set_shape(_Header(shape, self._stored))
        if self._by_columns:
            raise EncodeError(f"{path} must hold one row after the other, got Fortran order")
        if self.stamp[0] < self._offset + self.num_rows * self._row_bytes:
            raise EncodeError(f"{path} is not a whole npy file: it ends too early")

    @property
    def _row_bytes(self) -> int:
        return self.num_columns * self._stored.itemsize

    def _shards(self, start: int, size: int) -> Iterator[np.ndarray]:
        for first in range(start, self.num_rows, size):
            count = min(size, self.num_rows - first)
            with self.path.open("rb") as file:
                file.seek(self._offset + first * self._row_bytes)
                content = file.read(count * self._row_bytes)
            yield np.frombuffer(content, self._stored).reshape(count, -1).astype(self.dtype)


class _Header(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype


class ParquetRows(RowFile):
    """The rows of a parquet file. Every column is a feature, except the index of pandas."""

    def __init__(
        self, path: Path | StoredFile, columns: Sequence[str] = (), keep: Sequence[str] = ()
    ) -> None:
        super().__init__(path)
        self._parquet = _import_parquet(path)
        import pyarrow as pa

        try:
            with self._open() as file:
                schema, about = file.schema_arrow, file.metadata
                self.num_rows = about.num_rows
                groups = [about.row_group(g).num_rows for g in range(about.num_row_groups)]
            if min(groups, default=0) < 0 or sum(groups) != self.num_rows:
                raise ValueError(f"expected {self.num_rows} rows, got groups of {groups[:9]}")
        except (pa.ArrowException, OSError, ValueError) as error:
            raise EncodeError(
                f"{path} is not a whole parquet file: {_first_line(error)}"
            ) from error
        hidden = (schema.pandas_metadata or {}).get("index_columns", [])
        shown = [name for name in schema.names if name not in hidden]
        self._keep = _matching(keep, schema.names, path)
        if twice := next((n for n in schema.names if schema.names.count(n) > 1), None):
            raise EncodeError(
                f"the columns of {path} must have different names, got {twice!r} twice"
            )
        names = _matching(columns, shown, path) or [n for n in shown if n not in self._keep]
        self._columns = names
        kinds = ("floating", "integer", "boolean", "decimal")
        for field in map(schema.field, names):
            if not any(getattr(pa.types, f"is_{kind}")(field.type) for kind in kinds):
                raise EncodeError(
                    f"every column of {path} must hold numbers, got {field.type} in {field.name!r}"
                    "; choose with --columns, carry with --keep"
                )
        self.num_columns = len(names)
        single = all(pa.types.is_float32(schema.field(name).type) for name in names)
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def kept(self, first: int, count: int) -> Any:
        """Return the columns to keep of some rows."""
        import pyarrow as pa

        taken = []
        for batch in self._batches(first, self._keep) if self._keep else ():
            taken.append(batch.slice(0, count))
            count -= taken[-1].num_rows
            if count == 0:
                break
        return pa.Table.from_batches(taken) if taken else None

    def _shards(self, start: int, size: int) -> Iterator[np.ndarray]:
        import pyarrow as pa

        target = pa.from_numpy_dtype(self.dtype)
        waiting: list[np.ndarray] = []
        count = 0
        for batch in self._batches(start, self._columns):
            columns = (batch.column(name).cast(target, safe=False) for name in self._columns)
            # Missing values become NaN.
            fresh = np.stack([c.to_numpy(zero_copy_only=False) for c in columns], axis=1)
            while count + len(fresh) >= size:
                yield np.concatenate([*waiting, fresh[: size - count]])
                waiting, fresh, count = [], fresh[size - count :], 0
            waiting.append(fresh)
            count += len(fresh)
        if count:
            yield np.concatenate(waiting)

    def _batches(self, start: int, names: list[str]) -> Iterator[Any]:
        """Yield columns of the rows from `start` in batches; groups before it are not read."""
        import pyarrow as pa

        # Without the buffer a column of a row group is read whole, however large the group.
        options = {"buffer_size": 1 << 16, "pre_buffer": False}
        batch_rows = max(1, PARQUET_BATCH_ENTRIES // self.num_columns)
        try:
            with self._open(**options) as file:
                sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
                ends = np.cumsum(sizes)
                groups = [group for group, end in enumerate(ends) if end > start]
                start -= sum(sizes[: groups[0]]) if groups else 0
                for batch in file.iter_batches(batch_rows, groups, columns=names) if groups else ():
                    if start < batch.num_rows:
                        yield batch.slice(start)
                    start = max(0, start - batch.num_rows)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise EncodeError(f"{self.path} cannot be read: {_first_line(error)}") from error

    @contextlib.contextmanager
    def _open(self, **options: Any) -> Iterator[Any]:
        with contextlib.ExitStack() as held:
            path = self.path
            source = path if isinstance(path, Path) else held.enter_context(path.open("rb"))
            yield held.enter_context(self._parquet.ParquetFile(source, **options))


def _matching(wanted: Sequence[str], names: list[str], path: object) -> list[str]:
    """Return the names that are wanted by name or pattern, each once, in the order of `wanted`."""
    found: dict[str, None] = {}
    for pattern in wanted:
        some = [pattern] if pattern in names else fnmatch.filter(names, pattern)
        if not some:
            shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
            raise EncodeError(f"{path} must have a column {pattern!r}, got {shown}")
        found |= dict.fromkeys(some)
    return [*found]


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
    path: Path, signals: object, num_features: int, dtype: np.dtype, num_atoms: int | None = None
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


def write_parquet(
    file: BinaryIO,
    shards: Iterable[np.ndarray],
    kept: Callable[[int, int], Any] = lambda *_: None,
) -> None:
    """Write shards of codes as a parquet file, one row group per shard.

    Args:
        file: The open file.
        shards: The codes.
        kept: Returns the columns that stand before the codes, of the first row and a number of
            rows, as a table; or None.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer, done = None, 0
    for shard in shards:
        table = kept(done, len(shard))
        arrays = [pa.array(np.ascontiguousarray(column)) for column in shard.T]
        names = [f"code{index}" for index in range(len(arrays))]
        if table is None:
            table = pa.table(arrays, names=names)
        else:
            table = pa.table([*table.columns, *arrays], names=[*table.column_names, *names])
        done += len(shard)
        if writer is None:
            # Codes hardly repeat, so a dictionary of values would not make the file smaller.
            writer = pq.ParquetWriter(file, table.schema, use_dictionary=False)
        writer.write_table(table, row_group_size=len(shard))
    if writer is not None:
        writer.close()


def _import_parquet(path: object) -> ModuleType:
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise EncodeError(
            f"{path} needs pyarrow, which is not installed: pip install '.[parquet]' in the clone"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
