"""Parquet files of rows, where pyarrow is installed."""

import contextlib
import fnmatch
import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np

from fwnet.coding.row_files import EncodeError, RowFile, first_line, kept_dtype
from fwnet.stores import StoredFile

PARQUET_BATCH_ENTRIES = 1 << 20


class ParquetRows(RowFile):
    """The rows of a parquet file. Every column is a feature, except the index of pandas."""

    def __init__(
        self, path: Path | StoredFile, columns: Sequence[str], keep: Sequence[str]
    ) -> None:
        super().__init__(path)
        self._parquet = import_parquet(path)
        import pyarrow as pa

        try:
            with self._open() as file:
                schema, about = file.schema_arrow, file.metadata
                self.num_rows = about.num_rows
                groups = [about.row_group(g).num_rows for g in range(about.num_row_groups)]
            if min(groups, default=0) < 0 or sum(groups) != self.num_rows:
                raise ValueError(f"expected {self.num_rows} rows, got groups of {groups[:9]}")
        except (pa.ArrowException, OSError, ValueError) as error:
            raise EncodeError(f"{path} is not a whole parquet file: {first_line(error)}") from error
        hidden = (schema.pandas_metadata or {}).get("index_columns", [])
        shown = [name for name in schema.names if name not in hidden]
        self._keep = _matching(keep, schema.names, path)
        if twice := next((n for n in schema.names if schema.names.count(n) > 1), None):
            raise EncodeError(
                f"the columns of {path} must have different names, got {twice!r} twice"
            )
        names = _matching(columns, shown, path) or [n for n in shown if n not in self._keep]
        self.columns = names
        kinds = ("floating", "integer", "boolean", "decimal")
        for field in map(schema.field, names):
            if not any(getattr(pa.types, f"is_{kind}")(field.type) for kind in kinds):
                raise EncodeError(
                    f"every column of {path} must hold numbers, got {field.type} in {field.name!r}"
                    "; choose with --columns"
                )
        self.num_columns = len(names)
        self.dtype = kept_dtype(all(pa.types.is_float32(schema.field(n).type) for n in names))

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
        for batch in self._batches(start, self.columns):
            columns = (batch.column(name).cast(target, safe=False) for name in self.columns)
            # Missing values become NaN.
            fresh = np.stack([c.to_numpy(zero_copy_only=False) for c in columns], axis=1)
            while count + len(fresh) >= size:
                yield np.concatenate([*waiting, fresh[: size - count]])
                waiting, fresh, count = [], fresh[size - count :], 0
            waiting.append(fresh)
            count += len(fresh)
        if count:
            yield np.concatenate(waiting)

    def _batches(self, start: int, names: Sequence[str]) -> Iterator[Any]:
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
            raise EncodeError(f"{self.path} cannot be read: {first_line(error)}") from error

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


def import_parquet(path: object) -> ModuleType:
    """Return `pyarrow.parquet`; raise if it is not installed."""
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise EncodeError(
            f"{path} needs pyarrow, which is not installed: pip install '.[parquet]' in the clone"
        ) from error
