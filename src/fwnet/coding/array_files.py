"""Open files of rows: .npy, and .parquet where pyarrow is installed.

A file is read in shards of rows, so it may be larger than memory.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fwnet.coding.parquet_files import ParquetRows, import_parquet
from fwnet.coding.row_files import EncodeError, NpyRows, RowFile
from fwnet.stores import StoredFile

SUFFIXES = (".npy", ".parquet")
# How NumPy reads other files of numbers.
READERS = {
    ".csv": "np.loadtxt({!r}, delimiter=',', skiprows=0)",
    ".txt": "np.loadtxt({!r}, skiprows=0)",
    ".npz": "np.load({!r})['x']",
}


def check_suffix(path: Path | StoredFile, suffixes: tuple[str, ...] = SUFFIXES) -> None:
    """Raise unless the file name ends in one of the suffixes and its format can be used here."""
    if path.suffix not in suffixes:
        raise EncodeError(f"expected a file that ends in {' or '.join(suffixes)}, got {path}")
    if path.suffix == ".parquet":
        import_parquet(path)


def check_input(path: Path | StoredFile, suffixes: tuple[str, ...] = SUFFIXES) -> None:
    """Raise unless a file of rows can be read here; say how to convert other files of numbers."""
    if reader := READERS.get(path.suffix):
        name = path.name.removesuffix(path.suffix) + ".npy"
        header = "" if path.suffix == ".npz" else " (skiprows=1 if it has a header)"
        raise EncodeError(
            f"expected a file that ends in {' or '.join(suffixes)}, got {path}; "
            f"convert it with np.save({name!r}, {reader.format(path.name)}){header}"
        )
    check_suffix(path, suffixes)


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
    check_input(path)
    is_parquet = path.suffix == ".parquet"
    if not is_parquet and (columns or keep):
        raise EncodeError(f"columns have names in .parquet files alone, got {path}")
    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise EncodeError(f"{path} {what}")
    rows: RowFile = ParquetRows(path, columns, keep) if is_parquet else NpyRows(path)
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
            return int(import_parquet(path).ParquetFile(file).metadata.num_rows)
    except (EncodeError, OSError, ValueError):  # pyarrow's own error is a ValueError
        return 0


def read_matrix(path: Path, dtype: np.dtype) -> np.ndarray:
    """Read a whole matrix from an npy file; raise unless it is finite in the dtype."""
    check_input(path, (".npy",))
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
        elif str(signals).endswith(".parquet"):
            hint = "; --columns chooses the columns of the signal"
        raise EncodeError(
            f"{path} must have shape (n, m) = ({num_features}, {num_atoms or 'm'}), where n is the "
            f"number of columns of {signals}, got {dictionary.shape}{hint}"
        )
    return dictionary
