"""Files of rows, read in blocks from any row on."""

import numpy as np
import pytest

from fwnet.coding.array_files import open_rows
from fwnet.coding.parquet_files import write_parquet


@pytest.fixture
def values():
    return np.random.default_rng(0).standard_normal((23, 4))


@pytest.fixture(params=["npy", "npy in columns", "parquet", "parquet in groups"])
def rows(request, tmp_path, values, monkeypatch):
    path = tmp_path / f"data.{request.param.split()[0]}"
    if path.suffix == ".npy":
        np.save(path, np.asarray(values, order="F" if "columns" in request.param else "C"))
    else:
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        table = pyarrow.table({f"x{i}": values[:, i] for i in range(4)})
        size = 6 if "groups" in request.param else 100
        parquet.write_table(table, path, row_group_size=size)
        monkeypatch.setattr("fwnet.coding.parquet_files.PARQUET_BATCH_ENTRIES", 4 * 2)
    return open_rows(path)


@pytest.mark.parametrize("size", [1, 5, 100])
def test_blocks_from_every_row_on(rows, values, size):
    assert (rows.num_rows, rows.num_columns, rows.dtype) == (23, 4, np.float64)
    for start in range(23):
        blocks = list(rows.shards(start, size))
        np.testing.assert_array_equal(np.concatenate(blocks), values[start:])
        assert all(len(block) == size for block in blocks[:-1])
        assert 0 < len(blocks[-1]) <= size
    assert list(rows.shards(23, size)) == []


def test_parquet_that_is_written_in_blocks_is_read_back(tmp_path, values):
    pytest.importorskip("pyarrow")
    path = tmp_path / "codes.parquet"
    with path.open("wb") as file:
        write_parquet(file, [values[:10], values[10:]])
    (block,) = open_rows(path).shards(0, 23)
    np.testing.assert_array_equal(block, values)
