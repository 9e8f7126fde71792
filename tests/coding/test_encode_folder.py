"""`encode_folder`: codes of many files, whatever dies on the way."""

import json
from pathlib import Path

import fsspec
import numpy as np
import pytest

from fwnet.coding import EncodeError, encode_file, encode_folder
from fwnet.coding.encode_folder import CodeRange
from fwnet.engine import Lost, OneProcess
from fwnet.errors import FwnetError
from fwnet.stores import Store

SETTINGS = {"p": 1.3, "radius": 1.0, "device": "cpu"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with data/a.npy, data/b.npy and data/more/a.npy, 6 columns each."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "more").mkdir(parents=True)
    for seed, (name, rows) in enumerate({"a": 10, "b": 25, "more/a": 7}.items()):
        np.save(f"data/{name}.npy", np.random.default_rng(seed).standard_normal((rows, 6)))
    return tmp_path


@pytest.fixture
def table(folder):
    """The file table.parquet: id and name, x0 to x3 in two row groups, and other."""
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    x = np.random.default_rng(5).standard_normal((30, 4)).astype(np.float32)
    columns = {"id": np.arange(100, 130), "name": [f"row {i}" for i in range(30)]}
    columns |= {f"x{i}": x[:, i] for i in range(4)} | {"other": np.zeros(30)}
    pq.write_table(pa.table(columns), "table.parquet", row_group_size=13)
    return x


DAMAGES = {
    "codes/b.npy": lambda path: path.unlink(),
    "codes/a.npy": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "codes/more/a.npy": lambda path: path.write_bytes(b""),
    "why/a.npy": lambda path: path.unlink(),
}


def contents(place):
    files = {path.relative_to(place): path for path in place.rglob("*") if path.is_file()}
    return {str(name): path.read_bytes() for name, path in files.items()}


@pytest.mark.parametrize("name", DAMAGES)
def test_codes_that_are_lost_or_cut_are_made_again(folder, name):
    options = {"certificates": "why", **SETTINGS}
    encode_folder("data", "codes", **options)
    whole = contents(folder)
    DAMAGES[name](folder / name)
    assert encode_folder("data", "codes", resume=True, **options).rows_resumed < 42
    assert contents(folder) == whole


class Stops(OneProcess):
    """An engine that stops after some items."""

    def __init__(self, count):
        self.count = count

    def each(self, function, items):
        for number, pair in enumerate(super().each(function, items)):
            if number == self.count:
                raise KeyboardInterrupt
            yield pair


class Twice(OneProcess):
    """An engine that lets two processes do every item."""

    def each(self, function, items):
        for item in items:
            function(item)
            yield item, function(item)


def test_every_file_becomes_a_file_of_the_same_name(folder):
    report = encode_folder("data", "codes", certificates="why", **SETTINGS)
    assert (report.rows, report.files, report.counts) == (42, 3, {"certified": 42})
    assert report.largest_gap <= 1e-8
    for name in ("a", "b", "more/a"):
        encode_file(f"data/{name}.npy", "one.npy", certificates="c.npy", force=True, **SETTINGS)
        np.testing.assert_array_equal(np.load(f"codes/{name}.npy"), np.load("one.npy"))
        np.testing.assert_array_equal(np.load(f"why/{name}.npy"), np.load("c.npy"))
    assert {*contents(folder / "codes")} == {"a.npy", "b.npy", "more/a.npy", "_manifest.json"}


def test_the_mean_error_is_that_of_all_rows(folder):
    data = np.load("data/b.npy")
    data[0], data[1] = 0.0, np.nan  # have no relative error
    np.save("data/b.npy", data)
    report = encode_folder("data", "codes", certificates="why", shard_rows=8, **SETTINGS)
    records = [np.load(path) for path in Path("why").rglob("*.npy")]
    errors = np.concatenate(records)["relative_error"]
    assert np.isnan(errors).sum() == 2
    assert report.relative_error == pytest.approx(np.nanmean(errors))


def test_a_pattern_chooses_files(folder):
    report = encode_folder("data/?.npy", "codes", **SETTINGS)
    assert (report.rows, report.files) == (35, 2)


def test_a_long_file_becomes_several(folder):
    encode_folder("data/b.npy", "codes", shard_rows=10, **SETTINGS)
    names = [f"b-{i:05}.npy" for i in range(3)]
    assert {*contents(folder / "codes")} == {*names, "_manifest.json"}
    encode_file("data/b.npy", "one.npy", shard_rows=10, **SETTINGS)
    codes = np.concatenate([np.load(f"codes/{name}") for name in names])
    np.testing.assert_array_equal(codes, np.load("one.npy"))


@pytest.mark.parametrize("count", [0, 1, 3, 4])
def test_a_stopped_run_continues_and_repeats_nothing(folder, monkeypatch, count):
    options = {"shard_rows": 10, "certificates": "why", **SETTINGS}
    encode_folder("data", "whole", **(options | {"certificates": "why whole"}))
    with pytest.raises(KeyboardInterrupt):
        encode_folder("data", "codes", engine=Stops(count), **options)
    done = []
    call = CodeRange.__call__
    monkeypatch.setattr(
        CodeRange, "__call__", lambda self, part: done.append(part.name) or call(self, part)
    )
    with pytest.raises(EncodeError, match="is unfinished: --resume continues it, --force"):
        encode_folder("data", "codes", **options)
    report = encode_folder("data", "codes", resume=True, **options)
    # The item at which the engine stopped was coded, and is not repeated either.
    assert len(done) == 4 - count
    assert report.rows_resumed == 42 - sum(len(np.load(f"codes/{name}")) for name in done)
    assert contents(folder / "codes") == contents(folder / "whole")
    assert contents(folder / "why") == contents(folder / "why whole")
    assert encode_folder("data", "codes", resume=True, **options).rows_resumed == 42
    assert report.counts == {"certified": 42}


def test_a_range_that_was_killed_while_it_was_written_is_done_again(folder):
    encode_folder("data", "whole", **SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        encode_folder("data", "codes", engine=Stops(1), **SETTINGS)
    codes = folder / "codes"
    (codes / "b.npy").write_bytes(b"half")  # written, but without its record
    (codes / "_done" / "b.npy.json").unlink(missing_ok=True)
    (codes / ".b.npy-0123abcd.tmp").write_bytes(b"half")
    encode_folder("data", "codes", resume=True, **SETTINGS)
    assert contents(codes) == contents(folder / "whole")


def test_two_processes_may_do_the_same_range(folder):
    encode_folder("data", "whole", **SETTINGS)
    encode_folder("data", "codes", engine=Twice(), **SETTINGS)
    assert contents(folder / "codes") == contents(folder / "whole")


def test_results_inside_the_data_are_no_data(folder):
    for _ in range(2):
        report = encode_folder(
            "data", "data/codes", certificates="data/why", force=True, **SETTINGS
        )
        assert (report.files, report.rows) == (3, 42)


def test_a_file_that_changes_on_the_way_is_refused(folder):
    class Late(OneProcess):
        def each(self, function, items):
            np.save("data/b.npy", np.zeros((30, 6)))
            return super().each(function, items)

    with pytest.raises(EncodeError, match=r"b.npy changed while it was read"):
        encode_folder("data", "codes", engine=Late(), **SETTINGS)


def test_a_lost_range_is_named(folder):
    class LosesTheSecond(OneProcess):
        def each(self, function, items):
            for number, item in enumerate(items):
                yield item, Lost("the worker died 6 times") if number else function(item)

    options = {"shard_rows": 10, "engine": LosesTheSecond(), **SETTINGS}
    with pytest.raises(EncodeError, match=r"b.npy, rows 10 to 19: the worker died 6 times; cont"):
        encode_folder("data/b.npy", "codes", **options)


def test_bad_rows_are_counted_and_have_no_code(folder):
    whole = np.load("data/b.npy")
    rows = whole.copy()
    rows[3, 2], rows[17] = np.nan, np.inf
    np.save("data/b.npy", rows)
    lines = []
    report = encode_folder("data", "codes", certificates="why", warn=lines.append, **SETTINGS)
    assert report.counts == {"certified": 40, "not finite, with NaN as code": 2}
    assert report.largest_gap <= 1e-8
    (line,) = lines
    assert "b.npy must be finite, got NaN, infinite or missing values in 2 of its rows" in line
    assert "the first of them row 3 (counted from 0); their codes are NaN" in line
    codes = np.load("codes/b.npy")
    assert [*np.flatnonzero(np.isnan(codes).any(1))] == [3, 17]
    assert [*np.flatnonzero(np.load("why/b.npy")["status_code"])] == [3, 17]
    good = np.isfinite(rows).all(1)
    np.save("good.npy", rows[good])
    encode_file("good.npy", "one.npy", **SETTINGS)
    np.testing.assert_array_equal(codes[good], np.load("one.npy"))
    with pytest.raises(EncodeError, match="in 2 of its rows, the first of them row 3"):
        encode_folder("data", "strict", strict=True, **SETTINGS)
    lines.clear()
    encode_folder("data", "several", shard_rows=5, warn=lines.append, **SETTINGS)
    (again,) = lines
    assert again == line


def test_columns_are_chosen_and_kept(table):
    pq = pytest.importorskip("pyarrow.parquet")
    options = {"columns": ["x*"], "keep": ["id", "name"], **SETTINGS}
    encode_folder("table.parquet", "codes", shard_rows=11, **options)
    encode_file("table.parquet", "codes.parquet", shard_rows=11, **options)
    many, one = pq.read_table("codes"), pq.read_table("codes.parquet")
    assert many.equals(one)
    assert one.column_names == ["id", "name", *(f"code{i}" for i in range(4))]
    assert one["id"].to_pylist() == [*range(100, 130)]
    assert one["name"].to_pylist()[-1] == "row 29"
    np.save("x.npy", table)
    encode_file("x.npy", "codes.npy", shard_rows=11, **SETTINGS)
    for i, column in enumerate(np.load("codes.npy").T):
        np.testing.assert_array_equal(one[f"code{i}"].to_numpy(), column)


def test_columns_come_in_the_order_that_was_asked(table):
    encode_file("table.parquet", "codes.npy", columns=["x3", "x0"], p=2, radius=100)
    np.testing.assert_allclose(np.load("codes.npy"), table[:, [3, 0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["y"]}, "table.parquet must have a column 'y', got id, name, x0"),
        ({"keep": ["y*"]}, r"table.parquet must have a column 'y\*'"),
        ({}, "must hold numbers, got .*string in 'name'; choose with --columns"),
    ],
)
def test_columns_that_do_not_fit_are_refused(table, options, message):
    with pytest.raises(EncodeError, match=message):
        encode_folder("table.parquet", "codes", **options, **SETTINGS)
    with pytest.raises(EncodeError, match=message):
        encode_file("table.parquet", "codes.parquet", **options, **SETTINGS)


def change(folder):
    np.save("data/a.npy", np.zeros((11, 6)))


@pytest.mark.parametrize(
    ("prepare", "options", "message"),
    [
        (None, {"p": 1.5}, r"codes was started with other inputs: p \(was 1.3, now 1.5\) differs"),
        (change, {}, "codes was started with other inputs: files differs"),
        (None, {"shard_rows": 5}, "shard_rows"),
    ],
)
def test_a_run_continues_with_the_same_inputs_alone(folder, prepare, options, message):
    with pytest.raises(KeyboardInterrupt):
        encode_folder("data", "codes", engine=Stops(1), **SETTINGS)
    if prepare:
        prepare(folder)
    with pytest.raises(EncodeError, match=message):
        encode_folder("data", "codes", resume=True, **(SETTINGS | options))


def test_force_removes_what_an_earlier_run_wrote(folder):
    encode_folder("data", "codes", shard_rows=5, **SETTINGS)
    with pytest.raises(EncodeError, match="is complete: --resume repairs it"):
        encode_folder("data", "codes", **SETTINGS)
    encode_folder("data", "codes", force=True, **SETTINGS)
    assert {*contents(folder / "codes")} == {"a.npy", "b.npy", "more/a.npy", "_manifest.json"}


@pytest.mark.parametrize(
    ("data", "output", "message"),
    [
        ("nosuch/*.npy", "codes", r"got none in nosuch/\*.npy"),
        ("nosuch.npy", "codes", "nosuch.npy does not exist"),
        ("nosuch", "codes", "nosuch does not exist"),
        ("empty", "codes", "expected files that end in .npy or .parquet, got none in empty"),
        ("data", "data", "codes must go into a folder of their own, got .*data"),
        ("data", "taken", "taken must be empty or hold an earlier encoding, got 'mine.txt'"),
        ("mixed", "codes", "b.npy must have 6 columns of float64, as .*a.npy has, got 5 columns"),
        ("nosuch://data", "codes", "cannot open nosuch://data: "),
    ],
)
def test_bad_places_are_refused(folder, data, output, message):
    for name in ("empty", "taken", "mixed"):
        (folder / name).mkdir()
    (folder / "taken" / "mine.txt").write_text("keep me")
    np.save("mixed/a.npy", np.ones((3, 6)))
    np.save("mixed/b.npy", np.ones((3, 5)))
    with pytest.raises(FwnetError, match=message):
        encode_folder(data, output, **SETTINGS)


@pytest.mark.parametrize(
    ("data", "place"), [("data", "data"), ("data/a.npy", "data"), ("data", "codes")]
)
def test_certificates_take_the_place_of_nothing(folder, data, place):
    before = contents(folder)
    with pytest.raises(EncodeError, match=f"certificates must go into .* own, got .*{place}"):
        encode_folder(data, "codes", certificates=place, **SETTINGS)
    (folder / "mine").mkdir()
    np.save("mine/a.npy", np.ones(3))
    with pytest.raises(EncodeError, match=r"a\.npy exists; overwrite it with --force"):
        encode_folder(data, "codes", certificates="mine", **SETTINGS)
    assert {**before, "mine/a.npy": (folder / "mine" / "a.npy").read_bytes()} == contents(folder)
    assert np.load("mine/a.npy").shape == (3,)


def test_certificates_of_files_that_differ_in_kind_alone(folder):
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    x = np.load("data/a.npy")
    pq.write_table(pa.table({f"x{i}": column for i, column in enumerate(x.T)}), "data/a.parquet")
    with pytest.raises(EncodeError, match=r"certificates must have its own name, got a\.npy twice"):
        encode_folder("data/a.*", "codes", certificates="why", **SETTINGS)


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_a_store_far_away(folder, table, kind):
    fs = fsspec.filesystem("memory")
    name = "data/b.npy" if kind == "npy" else "table.parquet"
    options = SETTINGS if kind == "npy" else {**SETTINGS, "columns": ["x*"], "keep": ["id"]}
    fs.pipe_file(f"/bucket/in/b.{kind}", (folder / name).read_bytes())
    encode_folder(name, "codes", shard_rows=10, **options)
    try:
        places = "memory://bucket/in", "memory://bucket/out"
        with pytest.raises(KeyboardInterrupt):
            encode_folder(*places, engine=Stops(1), shard_rows=10, **options)
        report = encode_folder(*places, shard_rows=10, resume=True, **options)
        assert report.rows_resumed == 20
        stem = "b" if kind == "npy" else "table"
        for i in range(3):
            there = fs.cat_file(f"/bucket/out/b-{i:05}.{kind}")
            assert there == (folder / "codes" / f"{stem}-{i:05}.{kind}").read_bytes()
        records = json.loads(fs.cat_file("/bucket/out/_manifest.json"))["records"]
        assert [record["rows"] for record in records.values()][:2] == [10, 10]
        assert not fs.exists("/bucket/out/_done")
    finally:
        fs.rm("/bucket", recursive=True)


def test_a_store_far_away_with_half_a_file(folder):
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/bucket/b.npy", (folder / "data" / "b.npy").read_bytes()[:500])
    try:
        with pytest.raises(EncodeError, match=r"b.npy is not a whole npy file: it ends too early"):
            encode_folder("memory://bucket", "codes", **SETTINGS)
    finally:
        fs.rm("/bucket", recursive=True)


def test_a_store_that_shows_unfinished_files(folder, monkeypatch):
    """There, a file gets its name when it is whole, and what a dead process left is removed."""
    monkeypatch.setattr("fwnet.stores.WHOLE_OBJECTS", set())
    store = Store.at("memory://bucket/out")

    def dies(file):
        file.write(b"half")
        raise KeyboardInterrupt

    try:
        store.write("a", b"old")
        store.write("a", b"whole")
        with pytest.raises(KeyboardInterrupt):
            store.write("a", dies)
        assert store.read("a") == b"whole"
        store.remove_unfinished()
        assert store.names() == ["a"]
    finally:
        store.fs.rm("/bucket", recursive=True)
