import functools
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from fwnet import FWNet, LpBall, solve
from fwnet.coding import EncodeError, encode_file
from fwnet.solvers import SolveProgress, Status

P, RADIUS, ROWS, SHARD = 1.3, 2.0, 50, 16  # 4 shards, the last of 2 rows


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def dictionary(rng):
    atoms = rng.standard_normal((6, 9))
    return atoms / np.linalg.norm(atoms, axis=0)


@pytest.fixture
def folder(tmp_path, rng, dictionary):
    """A folder with data.npy (float32) and D.npy."""
    np.save(tmp_path / "data.npy", rng.standard_normal((ROWS, 6)).astype(np.float32))
    np.save(tmp_path / "D.npy", dictionary)
    return tmp_path


def encode(folder, data="data.npy", output="codes.npy", **options):
    settings = {"p": P, "radius": RADIUS, "dictionary": folder / "D.npy", "shard_rows": SHARD}
    return encode_file(folder / data, folder / output, **(settings | options))


def solved(values, dictionary, p=P):
    """The codes as `solve` finds them, in the same shards."""
    x, atoms = torch.tensor(values), torch.tensor(dictionary.astype(values.dtype))
    parts = [solve(part, atoms, LpBall(p, RADIUS)).code for part in x.split(SHARD)]
    return torch.cat(parts).numpy()


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_codes_are_those_of_solve(folder, dictionary):
    report = encode(folder)
    codes = np.load(folder / "codes.npy")
    data = np.load(folder / "data.npy")
    assert codes.dtype == np.float32
    np.testing.assert_allclose(codes, solved(data, dictionary), atol=1e-5)
    assert (report.rows, report.rows_resumed) == (ROWS, 0)
    assert report.counts == {"certified": ROWS}
    assert 0 < report.largest_gap < 1e-4
    assert sorted(path.name for path in folder.iterdir()) == ["D.npy", "codes.npy", "data.npy"]


def test_the_file_is_what_numpy_would_have_saved(folder):
    encode(folder)
    codes = np.load(folder / "codes.npy")
    np.save(folder / "again.npy", codes)
    assert digest(folder / "codes.npy") == digest(folder / "again.npy")


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("<f4", np.float32),
        (">f4", np.float32),
        ("<f8", np.float64),
        ("<f2", np.float64),
        ("u1", np.float64),
        ("?", np.float64),
    ],
)
def test_every_number_type_and_both_orders(folder, dictionary, dtype, expected):
    values = (10 * np.load(folder / "data.npy")).clip(0, 200).astype(dtype)
    np.save(folder / "numbers.npy", np.asarray(values, order="F" if dtype == ">f4" else "C"))
    encode(folder, "numbers.npy")
    codes = np.load(folder / "codes.npy")
    assert codes.dtype == expected
    np.testing.assert_allclose(codes, solved(values.astype(expected), dictionary), atol=1e-5)


@pytest.mark.parametrize("p", [1.0, 5.0, np.inf])
def test_every_p(folder, dictionary, p):
    report = encode(folder, p=p)
    codes = np.load(folder / "codes.npy")
    np.testing.assert_allclose(
        codes, solved(np.load(folder / "data.npy"), dictionary, p), atol=1e-5
    )
    assert report.counts == {"certified": ROWS}


def test_without_a_dictionary_the_code_is_the_nearest_point_of_the_ball(folder):
    encode(folder, dictionary=None)
    nearest = LpBall(P, RADIUS).project(torch.tensor(np.load(folder / "data.npy")))
    np.testing.assert_allclose(np.load(folder / "codes.npy"), nearest, atol=1e-2)


def test_certificates(folder, dictionary):
    report = encode(folder, certificates=folder / "why.npy")
    records = np.load(folder / "why.npy")
    assert records.shape == (ROWS,)
    assert records["gap"].max() == report.largest_gap
    assert records["norm_gap"].max() == report.largest_norm_gap
    assert (records["status_code"] == Status.CERTIFIED).all()
    assert records["num_steps"].max() > 0


def test_the_relative_error_is_the_mean_over_the_rows(folder, dictionary):
    data = np.load(folder / "data.npy")
    data[3] = 0.0  # has no relative error
    data[4] *= 1e-25  # whose square is 0 in float32
    np.save(folder / "data.npy", data)
    report = encode(folder, certificates=folder / "why.npy")
    rows, codes = data.astype(float), np.load(folder / "codes.npy").astype(float)
    norms = np.linalg.norm(rows, axis=1)
    norms[3] = np.nan
    errors = np.linalg.norm(rows - codes @ dictionary.T, axis=1) / norms
    found = np.load(folder / "why.npy")["relative_error"]
    np.testing.assert_allclose(found, errors, rtol=1e-4, atol=1e-6)
    assert report.relative_error == pytest.approx(np.nanmean(errors), rel=1e-4)


def test_rows_that_are_not_certified_are_counted(folder, monkeypatch):
    data = np.load(folder / "data.npy")
    data[:3] = 0.0  # whose code needs no step
    np.save(folder / "data.npy", data)
    monkeypatch.setattr("fwnet.coding.row_coders.solve", functools.partial(solve, max_steps=0))
    report = encode(folder)
    assert report.counts == {"certified": 3, "step limit reached": ROWS - 3}
    assert report.largest_gap > 1e-3


@pytest.mark.parametrize("group_rows", [7, 1000])
def test_parquet_gives_the_codes_of_npy(folder, group_rows):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    data = np.load(folder / "data.npy")
    table = pyarrow.table({f"x{i}": data[:, i] for i in range(6)})
    parquet.write_table(table, folder / "data.parquet", row_group_size=group_rows)
    encode(folder)
    encode(folder, "data.parquet", "codes.parquet")
    expected = np.load(folder / "codes.npy")
    written = parquet.ParquetFile(folder / "codes.parquet")
    assert written.schema_arrow.names == [f"code{i}" for i in range(9)]
    assert [written.metadata.row_group(i).num_rows for i in range(4)] == [16, 16, 16, 2]
    codes = np.stack([column.to_numpy() for column in written.read().columns], axis=1)
    assert codes.dtype == np.float32
    np.testing.assert_array_equal(codes, expected)
    encode(folder, "data.parquet", "from_parquet.npy")
    assert digest(folder / "from_parquet.npy") == digest(folder / "codes.npy")
    encode(folder, "data.npy", "from_npy.parquet")
    assert digest(folder / "from_npy.parquet") == digest(folder / "codes.parquet")


def test_columns_of_parquet_that_are_numbers_of_any_kind(folder, dictionary):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    data = np.load(folder / "data.npy")
    frame = pandas.DataFrame(data, columns=list("abcdef"))
    frame["a"] = frame["a"].round().astype("int32")
    frame["b"] = frame["b"] > 0
    frame.index = [f"row {i}" for i in range(ROWS)]  # saved as a column, which is no feature
    frame.to_parquet(folder / "data.parquet")
    encode(folder, "data.parquet")
    values = frame.to_numpy(dtype=np.float64)
    np.testing.assert_allclose(np.load(folder / "codes.npy"), solved(values, dictionary), atol=1e-8)


class Killed(BaseException):
    """Nothing catches it, as nothing catches a SIGKILL."""


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_killed_before_any_change_of_a_file_it_goes_on_to_the_same_bytes(
    folder, monkeypatch, suffix
):
    """Each change of the disk in turn is the one that does not happen any more."""
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    output, why = folder / f"codes{suffix}", folder / "why.npy"
    np.save(folder / "data.npy", np.load(folder / "data.npy")[:20])  # 2 shards
    options = {"output": output.name, "certificates": why}
    encode(folder, **options)
    expected = digest(output), digest(why)

    left = -1

    def count_down(method):
        def counted(self, *arguments, **keywords):
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return method(self, *arguments, **keywords)

        return counted

    for name in ("replace", "unlink", "rmdir", "mkdir"):
        monkeypatch.setattr(Path, name, count_down(getattr(Path, name)))
    moments = 0
    while True:
        left = -1
        output.unlink()
        why.unlink()
        left = moments
        try:
            encode(folder, **options)
            break
        except Killed:
            moments += 1
        left = -1
        if output.exists():
            assert digest(output) == expected[0]
        # With the manifest, the last thing that a run needed is gone: the output is complete.
        complete = output.exists() and not Path(f"{output}.parts/manifest.json").exists()
        report = encode(folder, resume=True, force=complete, **options)
        assert report.counts == {"certified": 20}
        assert (digest(output), digest(why)) == expected
        assert not Path(f"{output}.parts").exists()
    assert moments > 10  # manifests, outputs, removals


def stopped_after(folder, shards, **options):
    """Encode until so many shards are there."""

    def stop(progress):
        if progress.stage == "coding" and progress.done > shards * SHARD:
            raise Killed

    with pytest.raises(Killed):
        encode(folder, progress=stop, **options)


def test_resume_solves_only_what_is_missing(folder, monkeypatch):
    stopped_after(folder, 2)
    sizes = []

    def spy(x, *arguments, **options):
        sizes.append(len(x))
        return solve(x, *arguments, **options)

    monkeypatch.setattr("fwnet.coding.row_coders.solve", spy)
    report = encode(folder, resume=True)
    assert sizes == [16, 2]
    assert report.rows_resumed == 32


def test_resume_with_nothing_to_go_on_from_begins(folder):
    assert encode(folder, resume=True).rows_resumed == 0


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"p": 1.5}, r"p \(was 1.3, now 1.5\)"),
        ({"radius": 3.0}, r"radius \(was 2.0, now 3.0\)"),
        ({"tol": 1e-3}, r"tol \(was None, now 0.001\)"),
        ({"shard_rows": 10}, r"shard_rows \(was 16, now 10\)"),
        ({"dictionary": None}, r"dictionary, atoms \(was 9, now 6\)"),
        ({"data": "other.npy"}, "with other inputs: data differs"),
        ({"data": "wide.npy"}, r"dtype \(was float32, now float64\)"),
        ({"p": None, "radius": None, "dictionary": None, "model": "net.safetensors"}, "model"),
    ],
)
def test_resume_refuses_to_mix(folder, options, difference):
    data = np.load(folder / "data.npy")
    np.save(folder / "wide.npy", data.astype(np.float64))
    data[-1, -1] += 1
    np.save(folder / "other.npy", data)
    FWNet(6, 9, 2).save(folder / "net.safetensors")
    if "model" in options:
        options = options | {"model": folder / options["model"]}
    stopped_after(folder, 1)
    before = {path: digest(path) for path in (folder / "codes.npy.parts").iterdir()}
    with pytest.raises(EncodeError, match=difference):
        encode(folder, resume=True, **options)
    assert {path: digest(path) for path in (folder / "codes.npy.parts").iterdir()} == before
    encode(folder, resume=True)


def test_an_unfinished_run_is_neither_continued_nor_discarded_unasked(folder):
    stopped_after(folder, 2)
    with pytest.raises(EncodeError, match="continue it with --resume, or start over with --force"):
        encode(folder)
    assert encode(folder, force=True).rows_resumed == 0


def test_an_output_is_not_overwritten_unasked(folder):
    (folder / "codes.npy").write_text("precious")
    with pytest.raises(EncodeError, match=r"codes\.npy exists; overwrite it with --force"):
        encode(folder)
    assert (folder / "codes.npy").read_text() == "precious"
    stopped_after(folder, 1, force=True)
    with pytest.raises(EncodeError, match=r"codes\.npy exists; overwrite it with --force"):
        encode(folder, resume=True)
    assert (folder / "codes.npy").read_text() == "precious"
    report = encode(folder, resume=True, force=True)
    assert report.rows_resumed == SHARD
    assert np.load(folder / "codes.npy").shape == (ROWS, 9)


def test_a_folder_of_somebody_else_is_left_alone(folder):
    work = folder / "codes.npy.parts"
    work.mkdir()
    (work / "thesis.tex").write_text("precious")
    for options in ({"force": True}, {"resume": True}):
        with pytest.raises(
            EncodeError, match=r"nothing but an unfinished encoding, got 'thesis.tex'"
        ):
            encode(folder, **options)
    assert [path.name for path in work.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("name", ["notes.tmp", ".manifest.json-notes.tmp"])
def test_a_file_of_somebody_else_among_the_shards_is_left_alone(folder, name):
    stopped_after(folder, 1)
    note = folder / "codes.npy.parts" / name
    note.write_text("precious")
    for options in ({"force": True}, {"resume": True}):
        with pytest.raises(EncodeError, match=f"nothing but an unfinished encoding, got '{name}'"):
            encode(folder, **options)
    assert note.read_text() == "precious"


@pytest.mark.parametrize("option", ["force", "resume"])
def test_what_a_killed_run_had_not_finished_is_dropped(folder, option):
    stopped_after(folder, 1)
    work = folder / "codes.npy.parts"
    (work / ".manifest.json-0123abcd.tmp").write_text("half")
    with (work / "codes.npy").open("r+b") as file:  # rows that the manifest does not count
        file.seek(-4 * 9 * (ROWS - SHARD), os.SEEK_END)
        file.write(b"half")
    encode(folder, **{option: True})
    resumed = digest(folder / "codes.npy")
    assert not work.exists()
    encode(folder, force=True)
    assert digest(folder / "codes.npy") == resumed


def test_force_discards_a_run_whose_manifest_says_too_little(folder):
    work = folder / "codes.npy.parts"
    work.mkdir()
    (work / "manifest.json").write_text('{"version": "0.1", "rows": 50}')
    with pytest.raises(EncodeError, match="start over with --force"):
        encode(folder)
    with pytest.raises(EncodeError, match=r"manifest.json cannot be read; start over with --force"):
        encode(folder, resume=True)
    assert encode(folder, force=True).rows == ROWS
    assert not work.exists()


def test_a_file_beside_the_certificates_is_left_alone(folder):
    (folder / "why.npy.tmp").write_text("precious")
    encode(folder, certificates=folder / "why.npy")
    assert (folder / "why.npy.tmp").read_text() == "precious"
    expected = ["D.npy", "codes.npy", "data.npy", "why.npy", "why.npy.tmp"]
    assert sorted(path.name for path in folder.iterdir()) == expected
    assert (folder / "why.npy").stat().st_mode == (folder / "codes.npy").stat().st_mode


def test_an_output_that_does_not_fit_on_the_disk_leaves_no_half_file(folder, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("shutil.copyfileobj", full)
        with pytest.raises(EncodeError, match="No space left on device"):
            encode(folder, certificates=folder / "why.npy")
    expected = ["D.npy", "codes.npy.parts", "data.npy"]
    assert sorted(path.name for path in folder.iterdir()) == expected
    report = encode(folder, certificates=folder / "why.npy", resume=True)
    assert report.rows_resumed == ROWS


def test_an_empty_work_folder_counts_as_none(folder):
    """It is left by a run that was killed before its very last act."""
    (folder / "codes.npy.parts").mkdir()
    assert encode(folder).rows == ROWS
    assert not (folder / "codes.npy.parts").exists()


def test_missing_folders_are_made(folder):
    encode(folder, output="new/deep/codes.npy", certificates=folder / "other" / "why.npy")
    assert np.load(folder / "new/deep/codes.npy").shape == (ROWS, 9)
    assert np.load(folder / "other/why.npy").shape == (ROWS,)


@pytest.mark.parametrize(
    ("stage", "rows_done", "shape"),
    [
        ("checking", 0, (ROWS, 6)),
        ("checking", SHARD, (3, 6)),
        ("coding", 0, (ROWS,)),
        ("coding", SHARD, (ROWS, 5)),
        ("coding", ROWS, (ROWS, 6)),
    ],
)
def test_data_that_changes_on_the_way_is_refused(folder, stage, rows_done, shape):
    data = folder / "data.npy"

    def change(progress):
        if (progress.stage, progress.done) == (stage, rows_done):
            status = data.stat()
            np.save(data, np.ones(shape, np.float32))
            os.utime(data, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))

    with pytest.raises(EncodeError, match=r"data\.npy changed while it was read"):
        encode(folder, progress=change)
    assert not (folder / "codes.npy").exists()
    if stage == "checking":
        assert not (folder / "codes.npy.parts").exists()


def test_a_manifest_that_cannot_be_read_is_reported(folder):
    stopped_after(folder, 1)
    for content in ("{", "3", "{}"):
        (folder / "codes.npy.parts" / "manifest.json").write_text(content)
        with pytest.raises(EncodeError, match=r"manifest.json cannot be read; start over with"):
            encode(folder, resume=True)
    encode(folder, force=True)


def test_one_process_at_a_time(folder):
    refused = []

    def second_run(progress):
        for options in ({}, {"force": True}, {"resume": True}):
            with pytest.raises(EncodeError, match="another process is at work"):
                encode(folder, **options)
            refused.append(progress.stage)

    encode(folder, progress=second_run)
    assert {"checking", "coding"} == set(refused)


def test_progress_has_every_stage_and_never_goes_back(folder):
    pytest.importorskip("pyarrow")
    heard = []
    encode(folder, output="codes.parquet", progress=heard.append)
    stages = list(dict.fromkeys(progress.stage for progress in heard))
    assert stages == ["checking", "coding", "writing"]
    for stage in stages:
        rows = [progress.done for progress in heard if progress.stage == stage]
        assert rows == sorted(rows)
        assert rows[-1] == ROWS
    assert {progress.total for progress in heard} == {ROWS}


def test_progress_keeps_the_most_rows_that_were_done(folder, monkeypatch):
    def back_and_forth(x, *arguments, callback, **options):
        for rows_done in (0, 2, 1, 2):
            callback(SolveProgress(0, rows_done, len(x), 0.0))
        return solve(x, *arguments, **options)

    monkeypatch.setattr("fwnet.coding.row_coders.solve", back_and_forth)
    heard = []
    encode(folder, progress=heard.append)
    rows = [progress.done for progress in heard if progress.stage == "coding"]
    assert rows[:6] == [0, 0, 2, 2, 2, SHARD]


def test_by_default_a_shard_is_as_long_as_its_width_allows(folder, monkeypatch):
    monkeypatch.setattr("fwnet.coding.chunks.CHUNK_ENTRIES", 15 * 20)
    heard = []
    encode(folder, shard_rows=None, progress=heard.append)
    assert {p.done for p in heard if p.stage == "checking"} == {0, 20, 40, 50}


def test_a_full_disk_is_reported_and_what_is_done_is_kept(folder, monkeypatch):
    stopped_after(folder, 1)

    def full(*arguments):
        raise OSError(28, "No space left on device", str(folder / "codes.npy.parts"))

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(EncodeError, match=r"cannot read or write .*: No space left on device"):
            encode(folder, resume=True)
    assert encode(folder, resume=True).rows == ROWS


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_named(folder, value):
    data = np.load(folder / "data.npy")
    data[[SHARD + 3, 2 * SHARD], 1] = value
    np.save(folder / "data.npy", data)
    expected = rf"2 of {ROWS} rows, the first of them row {SHARD + 3} \(counted from 0\)"
    with pytest.raises(EncodeError, match=expected):
        encode(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["D.npy", "data.npy"]


def test_rows_are_on_the_disk_before_the_manifest_counts_them(folder, monkeypatch):
    names = []
    fsync = os.fsync

    def noted(number):
        names.append(Path(f"/proc/self/fd/{number}").readlink().name)
        fsync(number)

    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc to see which file is meant")
    monkeypatch.setattr(os, "fsync", noted)
    encode(folder, shard_rows=ROWS)
    kinds = ["manifest" if "manifest" in name else name for name in names]
    assert kinds == ["manifest", "codes.npy", "certificates.npy", "manifest"]
