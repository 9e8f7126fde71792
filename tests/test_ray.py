"""fwnet on Ray: callables for Ray Data, the engine, and the commands with --engine ray.

`pip install '.[ray]'` in the clone, then `pytest tests/test_ray.py`: about two minutes.
"""

import doctest
import inspect
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image
from typer.testing import CliRunner

from fwnet.cli import app

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
ray = pytest.importorskip("ray", reason="ray not here: pip install '.[ray]'")
import fwnet.ray  # noqa: E402
from fwnet.coding import EncodeError, encode_file, encode_folder  # noqa: E402
from fwnet.engine import Lost  # noqa: E402
from tests import ray_kills  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own
OPTIONS = {"p": 1.3, "radius": 1.0, "device": "cpu"}


@pytest.fixture(scope="module")
def engine():
    """A cluster of this machine with two CPUs."""
    with fwnet.ray.RayEngine(num_cpus=2) as running:
        yield running


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with data/0.npy to data/3.npy, 20 × 6 each."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for number in range(4):
        rows = np.random.default_rng(number).standard_normal((20, 6))
        np.save(f"data/{number}.npy", rows.astype(np.float32))
    return tmp_path


def dies_once(path):
    """Return the process after the first one, which SIGKILL ends."""
    if not os.path.exists(path):  # noqa: PTH110
        with open(path, "w"):  # noqa: PTH123
            os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def dies(_):
    os.kill(os.getpid(), signal.SIGKILL)


def refuses(item):
    raise EncodeError(f"expected something else, got {item}")


class TestEngine:
    def test_every_item_has_its_result(self, engine):
        assert sorted(engine.each(abs, range(-30, 0))) == [(i, -i) for i in range(-30, 0)]
        assert [*engine.each(abs, [])] == []

    def test_a_worker_that_dies_is_replaced(self, engine, tmp_path):
        path = str(tmp_path / "died")
        ((item, process),) = engine.each(dies_once, [path])
        assert item == path
        assert isinstance(process, int)

    def test_an_item_that_always_kills_is_lost_and_the_others_are_not(self, engine):
        ((_, result),) = engine.each(dies, ["bad"])
        assert isinstance(result, Lost)
        assert "the worker died 6 times" in result.reason
        assert [*engine.each(abs, [-1])] == [(-1, 1)]

    def test_an_error_is_the_one_of_the_function(self, engine):
        with pytest.raises(EncodeError, match=r"^expected something else, got 3$"):
            [*engine.each(refuses, [3])]

    def test_few_items_wait_at_a_time(self, engine):
        taken = []
        items = (taken.append(i) or i for i in range(1000))
        results = engine.each(abs, items)
        next(results)
        assert len(taken) <= 5
        results.close()

    def test_a_full_cluster_is_reported(self, engine, monkeypatch):
        lines = []
        holder = ray.remote(num_cpus=2)(Holder).remote()
        ray.get(holder.wait.remote())
        monkeypatch.setattr("fwnet.ray.engine.PATIENCE_SECONDS", 0.5)
        monkeypatch.setattr(engine, "warn", lambda line: lines.append(line) or ray.kill(holder))
        assert [*engine.each(abs, [-1])] == [(-1, 1)]
        assert lines[0].startswith("Waiting for the cluster: 0 of 2 CPUs are free.")

    def test_cuda_needs_a_cluster_with_gpus(self, engine):
        if ray.cluster_resources().get("GPU"):
            pytest.skip("the machine has a GPU")
        with pytest.raises(ValueError, match="device cuda needs a cluster with GPUs"):
            engine.choose_device("cuda")
        assert engine.choose_device("auto").type == "cpu"


class Holder:
    """An actor that holds CPUs."""

    def wait(self):
        return True


def test_codes_are_those_of_one_process(engine, folder):
    one = encode_folder("data", "one", shard_rows=8, **OPTIONS)
    many = encode_folder("data", "many", shard_rows=8, engine=engine, **OPTIONS)
    assert (many.rows, many.counts, many.largest_gap) == (80, one.counts, one.largest_gap)
    for path in (folder / "one").iterdir():
        assert (folder / "many" / path.name).read_bytes() == path.read_bytes()


def test_networks_and_urls(engine, folder):
    fwnet.FWNet(6, 9, num_layers=2).save("net.safetensors")
    there = f"file://{folder}"
    encode_folder(f"{there}/data", f"{there}/many", model="net.safetensors", engine=engine)
    for number in range(4):
        encode_file(f"data/{number}.npy", "one.npy", model="net.safetensors", force=True)
        np.testing.assert_array_equal(np.load(f"many/{number}.npy"), np.load("one.npy"))


def test_a_cluster_of_one_machine_adds_no_machines(engine):
    """Its autoscaler would use a core for a second, and delay the end by another."""
    running = [child for child in psutil.Process().children() if child.status() != "zombie"]
    assert running
    assert not any("autoscaler" in part for child in running for part in child.cmdline())


def test_bad_rows_are_counted(engine, folder):
    rows = np.load("data/2.npy")
    rows[5] = np.nan
    np.save("data/2.npy", rows)
    lines = []
    report = encode_folder("data", "many", engine=engine, warn=lines.append, **OPTIONS)
    assert report.counts == {"certified": 79, "not finite, with NaN as code": 1}
    assert "2.npy must be finite" in lines[0]
    with pytest.raises(EncodeError, match="in 1 of its rows, the first of them row 5"):
        encode_folder("data", "strict", engine=engine, strict=True, **OPTIONS)


class TestRayData:
    @pytest.mark.parametrize("batch_format", ["numpy", "pyarrow"])
    def test_certified_codes(self, engine, batch_format):
        rng = np.random.default_rng(0)
        x, atoms = rng.standard_normal((50, 6)), rng.standard_normal((6, 9))
        x[7] = np.inf
        data = ray.data.from_items([{"id": i, "x": row} for i, row in enumerate(x)])
        codes = data.map_batches(
            fwnet.ray.Coder,
            fn_constructor_args=(atoms, 1.3, 1.0),
            compute=ray.data.ActorPoolStrategy(size=1),
            batch_format=batch_format,
            batch_size=20,
        )
        rows = sorted(codes.take_all(), key=lambda row: row["id"])
        assert [row["id"] for row in rows] == [*range(50)]
        assert [row["id"] for row in rows if row["status_code"]] == [7]
        good = [row for row in rows if row["status_code"] == 0]
        assert max(row["gap"] for row in good) < 1e-8
        expected = fwnet.solve(np_tensor(x[np.arange(50) != 7]), np_tensor(atoms), ball())
        got = np.stack([row["code"] for row in good])
        np.testing.assert_allclose(got, expected.code.numpy(), atol=1e-6)

    def test_columns_of_numbers(self):
        coder = fwnet.ray.Coder(p=2, radius=100, columns=["b", "a"])
        batch = coder({"a": np.array([1.0, 2]), "b": np.array([3.0, 4])})
        np.testing.assert_allclose(batch["code"], [[3, 1], [4, 2]])

    def test_tables(self):
        pa = pytest.importorskip("pyarrow")
        table = pa.table({"id": [1, 2], "a": [1.0, 2], "b": [3.0, 4]})
        made = fwnet.ray.Coder(p=2, radius=100, columns=["a", "b"])(table)
        np.testing.assert_allclose(made["code"].to_pylist(), [[1, 3], [2, 4]])
        assert made["id"].to_pylist() == [1, 2]
        again = fwnet.ray.Network(fwnet.FWNet(2, 3, 1), columns="code")(made)
        assert again["code"].type.list_size == 3

    def test_read_only_rows(self):
        rows = np.ones((2, 3))
        rows.setflags(write=False)
        assert fwnet.ray.Coder(p=2, radius=1)({"x": rows})["code"].shape == (2, 3)

    def test_images_of_several_sizes_and_a_bad_one(self, engine, folder):
        rng = np.random.default_rng(0)
        (folder / "photos").mkdir()
        for number, size in enumerate([(16, 20), (24, 16)]):
            Image.fromarray(rng.integers(0, 256, size, np.uint8)).save(f"photos/{number}.png")
        photos = ray.data.read_images(str(folder / "photos"), include_paths=True)
        restored = photos.map_batches(
            fwnet.ray.Denoiser,
            fn_constructor_kwargs={"sigma": 25 / 255, "fast": True},
            compute=ray.data.ActorPoolStrategy(size=1),
        ).take_all()
        for row in restored:
            before = np.asarray(Image.open(row["path"]))
            after = fwnet.denoise(before, sigma=25 / 255, fast=True)
            assert row["problem"] == ""
            assert abs(row["image"].astype(int) - after).max() <= 1
        batch = {"image": np.zeros((1, 4, 4, 7), np.uint8)}
        assert "an array must have shape" in fwnet.ray.Upscaler(scale=2)(batch)["problem"][0]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({}, "expected either p and radius or a convex_set"),
            ({"p": 2}, "expected p and radius, got p 2 and radius None"),
            ({"p": 2, "radius": 1, "tol": -1}, "tol must be"),
        ],
    )
    def test_bad_arguments(self, options, message):
        with pytest.raises(ValueError, match=message):
            fwnet.ray.Coder(**options)

    def test_a_missing_column(self):
        with pytest.raises(ValueError, match=r"must have a column 'x', got \['y'\]"):
            fwnet.ray.Coder(p=2, radius=1)({"y": np.ones((2, 3))})


@pytest.mark.parametrize("name", fwnet.ray.__all__)
def test_the_example_of_a_docstring_runs(engine, folder, name):
    text = inspect.getdoc(getattr(fwnet.ray, name))
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    report = []
    doctest.DocTestRunner().run(test, out=report.append)
    assert test.examples
    assert not report, "".join(report)


def np_tensor(values):
    import torch

    return torch.from_numpy(values)


def ball():
    return fwnet.LpBall(1.3, 1.0)


def command(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_denoise_reports_broken_files_as_one_machine_does(engine, folder):
    rng = np.random.default_rng(0)
    (folder / "photos").mkdir()
    for number in range(6):
        picture = rng.integers(0, 256, (20, 24), np.uint8)
        Image.fromarray(picture).save(f"photos/{number}.png")
    (folder / "photos" / "broken.png").write_bytes(b"no image")
    (folder / "photos" / "cut.png").write_bytes((folder / "photos" / "0.png").read_bytes()[:200])
    network = fwnet.ConvFWNet(num_layers=1, channels=4)
    network.save("net.safetensors", {"task": "denoise", "sigma": 25})
    arguments = ["denoise", "photos", "--model", "net.safetensors"]
    one = command(*arguments, "one")
    many = command(*arguments, "many", "--engine", "ray")
    assert one.exit_code == many.exit_code == 2
    for place in ("stdout", "stderr"):
        lines = [
            sorted(
                re.sub(r"[\d.]+ s, ", "", getattr(r, place)).replace("many/", "one/").split("\n")
            )
            for r in (one, many)
        ]
        assert lines[0] == lines[1]
    for number in range(6):
        there = [(folder / n / f"{number}.png").read_bytes() for n in ("one", "many")]
        assert there[0] == there[1]
    there = f"file://{folder}"
    urls = command("denoise", f"{there}/photos", f"{there}/urls", *arguments[2:], "--engine", "ray")
    assert urls.exit_code == 2
    assert urls.stderr.count("Error: ") == 2
    for number in range(6):
        there = [(folder / n / f"{number}.png").read_bytes() for n in ("one", "urls")]
        assert there[0] == there[1]
    again = command(*arguments, "many", "--engine", "ray")
    assert again.exit_code == 2
    assert again.stderr.count("exists; overwrite it with --force") == 6
    more = command(*arguments, "many", "--engine", "ray", "--skip-existing")
    assert "6 files skipped: existing results are kept." in more.stderr
    assert more.exit_code == 2


def test_an_address_without_a_cluster_is_one_line(folder):
    command = [sys.executable, "-m", "fwnet", "encode", "data", "-o", "codes", "--p", "2"]
    command += ["--radius", "1", "--engine", "ray", "--address", "127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Error: cannot reach a Ray cluster at 127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_kills_leave_every_row_once():
    """One short run of tests/ray_kills.py: a worker, a node and the driver get SIGKILL."""
    (done,) = ray_kills.main(["--runs", "1", "--files", "30", "--file-rows", "6000"])
    assert done["killed"]  # all three, unless the machine is very fast


def test_the_example_runs():
    example = Path(__file__).parents[1] / "examples" / "ray_pipeline.py"
    done = subprocess.run([sys.executable, example], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "1996 of 2000 rows are certified" in lines
    assert "rows without a code: [7, 507, 1007, 1507]" in lines
