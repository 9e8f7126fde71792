"""Files of arrays, models, estimators, cards and settings."""

import functools
import io
import json
import math
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from hypothesis import strategies as st

import fwnet
from fwnet.errors import FwnetError
from tests.fuzz.edits import (
    Edit,
    edited,
    edits,
    named,
    odd_json,
    odd_numbers,
    odd_values,
    odd_words,
)
from tests.fuzz.images import check_line
from tests.fuzz.registry import Tried, target


def read(content: bytes, name: str, reader: Callable[[Path], Any]) -> str:
    """Give a file to a reader; return what happened."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            reader(path)
        except FwnetError as error:
            check_line(error, path)
            return "refused"
        return "read"


def npy(array: np.ndarray) -> bytes:
    """Return an npy file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npy_with_header(header: str, data: bytes, version: int = 1) -> bytes:
    """Return an npy file with any header."""
    text = header.encode("utf-8", "replace")
    length = struct.pack("<H" if version == 1 else "<I", len(text) % 65536)
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def read_rows(path: Path) -> None:
    """Read all rows of a file, in shards."""
    from fwnet.coding.array_files import open_rows, read_matrix

    rows = open_rows(path)
    count = 0
    for number, shard in enumerate(rows.shards(0, 1 << 16)):
        assert shard.shape[1] == rows.num_columns
        assert shard.dtype == rows.dtype
        count += len(shard)
        if number == 3:
            return  # a sparse file of claimed length would only take time
    assert count == rows.num_rows
    if path.suffix == ".npy":
        read_matrix(path, np.dtype(np.float64))


RANDOM = np.random.default_rng(0)
ARRAYS = {
    "floats": lambda: npy(RANDOM.normal(size=(20, 3))),
    "float32, by columns": lambda: npy(np.asfortranarray(RANDOM.normal(size=(20, 3)), "f4")),
    "integers": lambda: npy(np.arange(12, dtype=">i2").reshape(4, 3)),
    "NaN": lambda: npy(np.full((3, 2), np.nan)),
    "three axes": lambda: npy(np.zeros((2, 2, 2))),
    "no rows": lambda: npy(np.zeros((0, 3))),
    "complex numbers": lambda: npy(np.zeros((2, 2), complex)),
    "texts": lambda: npy(np.array([["a", "b"]])),
    "a record": lambda: npy(np.zeros((2, 2), [("a", "f8"), ("b", "i4")])),
    "booleans": lambda: npy(np.zeros((2, 2), bool)),
    "dates": lambda: npy(np.zeros((2, 2), "M8[s]")),
    "long doubles": lambda: npy(np.full((2, 2), 1e4000, np.longdouble)),
    "Python objects": lambda: npy(np.array([[{}, []]], dtype=object)),
}


@functools.cache
def array(name: str) -> bytes:
    return ARRAYS[name]()


@target(
    "npy",
    st.tuples(st.sampled_from(sorted(ARRAYS)), edits),
    examples=60,
    needs=["fwnet.coding.array_files"],
)
def npy_files(case: tuple) -> Tried:
    """Files of arrays, damaged."""
    name, changes = case
    content = edited(array(name), changes)
    outcome = read(content, "x.npy", read_rows)
    readable = name in ("floats", "float32, by columns", "integers", "booleans")
    assert content != array(name) or (outcome == "read") == readable
    return Tried(f".npy of {name}" if not changes else f".npy: {named(changes)}", outcome)


headers = st.builds(
    lambda descr, order, shape, end: (
        f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}{end}"
    ),
    st.sampled_from(
        ["'<f8'", "'|O'", "'<f4'", "'<c16'", "'<V9'", "[('a', '<f8')]", "'<U9'", "'x'"]
    ),
    st.sampled_from(["False", "True", "None", "1", "'no'"]),
    st.one_of(
        st.lists(odd_numbers, max_size=3).map(lambda v: f"({', '.join(map(repr, v))})"),
        st.sampled_from(["(3, 4)", "(-1, 4)", "(2**70,)", "3", "None", "(1e3, 2)", "()", "(3,)"]),
    ),
    st.sampled_from(["\n", "", " " * 60 + "\n", "; import os", "(" * 3000, "\\x00"]),
)


@target(
    "npy-headers",
    st.tuples(st.one_of(headers, odd_words), st.sampled_from([1, 2, 3, 0, 255])),
    kept=[("{'descr': '<f4', 'fortran_order': False, 'shape': (True, True), }", 1)],
    examples=60,
    needs=["fwnet.coding.array_files"],
)
def npy_headers(case: tuple) -> Tried:
    """Headers that claim any shape and dtype."""
    header, version = case
    outcome = read(npy_with_header(header, bytes(96), version), "x.npy", read_rows)
    return Tried("header of .npy: any shape, dtype, order and version", outcome)


@functools.cache
def table(name: str) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {
        "floats": {"a": [1.0, 2.0, None], "b": [1.0, 2.0, 3.0]},
        "texts": {"a": ["x", "y"], "b": [1.0, 2.0]},
        "lists": {"a": [[1.0], [2.0]]},
        "no rows": {"a": pa.array([], pa.float64())},
        "large integers": {"a": [2**63 - 1, -(2**63)]},
        "dates": {"a": pa.array([1, 2], pa.timestamp("s"))},
        "nothing": {"a": pa.nulls(3)},
        "odd names": {"": [1.0], "a,b": [1.0], "*": [1.0], "\n": [1.0]},
    }
    file = io.BytesIO()
    codec = "snappy" if name == "floats" else "none"
    pq.write_table(pa.table(columns[name]), file, row_group_size=2, compression=codec)
    return file.getvalue()


TABLES = ["floats", "texts", "lists", "no rows", "large integers", "dates", "nothing", "odd names"]


@target(
    "parquet",
    st.tuples(st.sampled_from(TABLES), edits),
    kept=[
        ("odd names", [Edit("zeros", 222, 16777216)] * 2),
        ("lists", [Edit("changed bytes", 149, 12985246)] * 3 + [Edit("bytes inserted", 1, 2647)]),
    ],
    examples=40,
    needs=["fwnet.coding.array_files", "pyarrow.parquet"],
)
def parquet_files(case: tuple) -> Tried:
    """Tables, damaged."""
    name, changes = case
    content = edited(table(name), changes)
    outcome = read(content, "x.parquet", read_rows)
    readable = name in ("floats", "large integers", "odd names")
    assert content != table(name) or (outcome == "read") == readable
    return Tried(f".parquet of {name}" if not changes else f".parquet: {named(changes)}", outcome)


MODELS = {
    "FWNet": lambda: fwnet.FWNet(4, 6, num_layers=2),
    "LISTA": lambda: fwnet.LISTA(4, 6, num_layers=2),
    "LCoD": lambda: fwnet.LCoD(4, 6, num_layers=2),
    "MLP": lambda: fwnet.MLP(4, 6, num_layers=2),
    "ConvFWNet": lambda: fwnet.ConvFWNet(2, 3),
    "ConvLISTA": lambda: fwnet.ConvLISTA(2, 3),
    "DnCNN": lambda: fwnet.DnCNN(3, 3),
    "NoiseLevelNet": lambda: fwnet.models.NoiseLevelNet(2, 3),
}


@functools.cache
def model_parts(name: str) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    model = MODELS[name]()
    about = {"model": name, "config": model.config, "version": "0.1.0", "notes": {}}
    return about, model.state_dict()


def model_file(about: Any, weights: dict[str, torch.Tensor], key: str = "fwnet") -> bytes:
    text = about if isinstance(about, str) else json.dumps(about)
    tensors = {name: value.contiguous() for name, value in weights.items()}
    return safetensors.torch.save(tensors, {key: text})


@target("model-files", st.tuples(st.sampled_from(sorted(MODELS)), edits), examples=40)
def model_files(case: tuple) -> Tried:
    """Model files, damaged."""
    name, changes = case
    content = edited(model_file(*model_parts(name)), changes)
    outcome = read(content, "x.safetensors", fwnet.load_model)
    return Tried(f"model file: {named(changes)}", outcome)


@target(
    "model-settings",
    st.tuples(
        st.sampled_from(sorted(MODELS)),
        st.lists(st.tuples(st.integers(0, 30), st.one_of(odd_numbers, odd_json)), max_size=3),
        st.booleans(),
    ),
    kept=[
        ("FWNet", [(2, 10**9)], False),
        ("FWNet", [(1, 10**8)], False),
        ("ConvLISTA", [(3, 3), (25, 30), (19, -1)], True),
        ("NoiseLevelNet", [(13, 100000), (7, 0)], True),  # large beside a default
    ],
    examples=60,
)
def model_settings(case: tuple) -> Tried:
    """Model files whose configuration has odd values, such as a billion layers."""
    name, changes, drop = case
    about, weights = model_parts(name)
    config = dict(about["config"])
    names = [*config, "nosuch"]
    for place, value in changes:
        config[names[place % len(names)]] = value
    if drop:
        config.pop(names[len(changes)])
    outcome = read(model_file({**about, "config": config}, weights), "x.safetensors", run_model)
    kind = "a setting left out" if drop else "odd settings" if changes else "whole"
    return Tried(f"model file: {kind}", outcome)


def run_model(path: Path) -> None:
    """Load a model; what loads must run."""
    model = fwnet.load_model(path)
    if isinstance(model, fwnet.models.SignalModel):
        assert model.encode(torch.zeros(2, model.num_features)).shape[0] == 2
    elif isinstance(model, fwnet.models.ImageModel) and model.in_channels < 100:
        x = torch.zeros(1, model.in_channels, 8, 8)
        model(x, 0.1 if model.noise_level_input else None)


@target(
    "model-texts",
    st.tuples(
        st.one_of(
            odd_json.map(lambda value: json.dumps(value, default=str)),
            odd_json.map(lambda v: json.dumps({"model": v, "config": v})),
            odd_json.map(lambda v: json.dumps({"model": "FWNet", "config": v})),
            odd_words,
            st.sampled_from(["[" * 10**5, '{"model": "FWNet", "config": {"a": ' + "[" * 5000]),
        ),
        st.dictionaries(
            odd_words, st.sampled_from([torch.zeros(0), torch.ones(3), torch.zeros((), dtype=int)]),
            max_size=3,
        ),
    ),
    kept=[('{"model": null, "config": null}', {}), ('{"model": "FWNet", "config": {}}', {})],
    examples=60,
)  # fmt: skip
def model_texts(case: tuple) -> Tried:
    """Model files that describe anything, with any tensors."""
    text, weights = case
    try:
        content = model_file(text, {name: value.clone() for name, value in weights.items()})
    except Exception:  # what safetensors does not write, nobody can read
        return Tried("model file: any JSON and any tensors", "not written by safetensors")
    outcome = read(content, "x.safetensors", run_model)
    return Tried("model file: any JSON and any tensors", outcome)


@functools.cache
def estimator(name: str) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    from fwnet.coding import estimator_files
    from fwnet.models import read_weights

    x = np.random.default_rng(0).normal(size=(40, 4))
    made: Any = {
        "LpCoder": lambda: fwnet.LpCoder(np.eye(4), p=1.5, radius=1.0).fit(x),
        "LpDictionaryLearning": lambda: fwnet.LpDictionaryLearning(
            n_components=5, p=1.5, radius=1.0, max_iter=2
        ).fit(x),
        "FWNetCoder": lambda: fwnet.FWNetCoder(
            n_components=5, p=1.5, num_layers=2, max_iter=1, random_state=0
        ).fit(x, np.abs(x[:, :3] @ np.ones((3, 5)))),
    }[name]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.safetensors"
        made.save(path)
        weights, metadata = read_weights(path)
    return json.loads(metadata[estimator_files.METADATA_KEY]), weights


def _replaced(value: Any, place: int, new: Any) -> Any:
    """Return nested JSON with one of its values replaced."""
    spots: list[tuple[Any, Any]] = []

    def visit(part: Any) -> None:
        keys = part if isinstance(part, dict) else range(len(part))
        for key in list(keys):
            spots.append((part, key))
            if isinstance(part[key], dict | list):
                visit(part[key])

    value = json.loads(json.dumps(value))
    visit(value)
    part, key = spots[place % len(spots)]
    part[key] = new
    return value


ESTIMATORS = ["LpCoder", "LpDictionaryLearning", "FWNetCoder"]
references = st.sampled_from(
    [
        {"array": "nosuch"},
        {"tensor": 3},
        {"model": "FWNet", "config": {}, "weights": "a"},
        {"model": []},
        {"set": "LpBall", "p": -1},
        {"set": "Box"},
        {"set": {"a": 1}},
        {"mapping": {"fit": 1}},
        {"mapping": 3},
        {"tuple": 5},
        {"words": [[1], [2, 3]], "objects": True},
    ]
)


@target(
    "estimator-files",
    st.tuples(
        st.sampled_from(ESTIMATORS),
        st.lists(st.tuples(st.integers(0, 60), st.one_of(odd_json, references)), max_size=2),
        edits,
    ),
    kept=[("FWNetCoder", [(0, "a\nb")], [])],
    examples=40,
    needs=["fwnet.coding.estimator_files"],
)
def estimator_files(case: tuple) -> Tried:
    """Files of estimators with odd values and references."""
    name, changes, bytes_changed = case
    about, weights = estimator(name)
    for place, value in changes:
        about = _replaced(about, place, value)
    content = edited(model_file(about, weights, "fwnet-estimator"), bytes_changed)
    outcome = read(content, "x.safetensors", getattr(fwnet, name).load)
    kind = "odd values" if changes else named(bytes_changed)
    return Tried(f"file of an estimator: {kind}", outcome)


@target(
    "cards",
    st.tuples(odd_values, edits),
    kept=[([(1, {"a": 3})], []), ([(0, "a\nb")], []), ([(19, {"a\nb": False})], [])],
    examples=40,
    needs=["fwnet.zoo"],
)
def cards(case: tuple) -> Tried:
    """Cards of models, with odd values."""
    changes, bytes_changed = case
    name = "conv_fwnet_t4.denoise_gray_s25"
    about = json.loads(fwnet.zoo.shelf.card_path(name).read_text())
    for place, value in changes:
        about = _replaced(about, place, value)

    def reader(path: Path) -> None:
        folder = path.parent
        (folder / "cards").mkdir()
        path = path.rename(folder / "cards" / path.name)
        fwnet.list_models(folder=folder)
        fwnet.zoo.find_card(name, folder)

    outcome = read(edited(json.dumps(about).encode(), bytes_changed), f"{name}.json", reader)
    return Tried(f"card of a model: {'odd values' if changes else named(bytes_changed)}", outcome)


SETTINGS = ["num_epochs", "batch_size", "optimizer", "learning_rate", "decay_at", "precision"]


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(value)
    return json.dumps(value, default=str)


@target(
    "toml",
    st.tuples(
        st.lists(st.tuples(st.sampled_from([*SETTINGS, "nosuch", ""]), odd_json), max_size=3), edits
    ),
    examples=60,
    needs=["fwnet.training"],
)
def toml_files(case: tuple) -> Tried:
    """Settings of a training with odd values."""
    values, changes = case
    text = "".join(f"{name or '[x'} = {_toml(value)}\n" for name, value in values)
    content = edited(text.encode("utf-8", "replace"), changes)
    outcome = read(content, "x.toml", read_settings)
    return Tried(f"TOML: {'odd settings' if values else 'none'}, {named(changes)}", outcome)


def read_settings(path: Path) -> None:
    """Read settings; what is accepted can be written and read again."""
    config = fwnet.training.TrainingConfig.read(path)
    assert config.num_epochs >= 1
    config.write(path)
    assert fwnet.training.TrainingConfig.read(path) == config


def _check_refusal(error: BaseException) -> None:
    assert str(error).strip()
    assert "\n" not in str(error).strip()


@functools.cache
def _stopped_training() -> dict[str, bytes]:
    """Return the files of a small training."""
    with tempfile.TemporaryDirectory() as folder:
        _train(Path(folder), resume=False)
        return {one.name: one.read_bytes() for one in Path(folder).iterdir() if one.is_file()}


@functools.cache
def _stopped_model() -> dict[str, torch.Tensor]:
    """Return the weights of that training."""
    return safetensors.torch.load(_stopped_training()["model.safetensors"])


def _train(folder: Path, *, resume: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(8, 4, generator=generator)
    network = fwnet.FWNet(4, 6, num_layers=2, generator=generator)
    task = fwnet.training.CodeRegression(x, torch.randn(8, 6, generator=generator))
    config = fwnet.training.TrainingConfig(num_epochs=1, batch_size=4)
    run = fwnet.training.TrainingRun(folder, resume=resume, force=True)
    fwnet.training.train(network, task, config, run)


@target(
    "checkpoints",
    st.tuples(
        st.integers(0, 5), edits, st.lists(st.tuples(st.integers(0, 60), odd_json), max_size=2)
    ),
    kept=[
        (4, [], [(0, None)]),
        (5, [], [(1, [])]),
        (2, [Edit("changed bytes", 95, 252)], []),
        (2, [], [(2, 10**30)]),
        (0, [], [(0, {"a\nb": 1})]),
    ],
    examples=12,
    needs=["fwnet.training"],
)
def checkpoints(case: tuple) -> Tried:
    """A training that continues from a folder with a damaged file."""
    from fwnet.models import read_weights
    from fwnet.training.checkpoint import MODEL, STATE

    place, changes, values = case
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = _stopped_training()
        for one, content in files.items():
            (folder / one).write_bytes(content)
        if values:
            weights, metadata = read_weights(folder / STATE)
            about = json.loads(metadata["training"])
            for spot, value in values:
                about = _replaced(about, spot, value)
            (folder / STATE).write_bytes(model_file(about, weights, "training"))
            damaged = STATE
        else:
            damaged = sorted(files)[place % len(files)]
            (folder / damaged).write_bytes(edited(files[damaged], changes))
        kind = "odd values" if values else named(changes)
        try:
            _train(folder, resume=True)
        except FwnetError as error:
            _check_refusal(error)
            return Tried(f"{damaged} of a training: {kind}", "refused")
        if damaged != STATE:  # what is not read must not change the result
            model, whole = (read_weights(folder / MODEL)[0], _stopped_model())
            assert all(torch.equal(model[name], whole[name]) for name in whole)
        return Tried(f"{damaged} of a training: {kind}", "read")


@target(
    "encode-state",
    st.tuples(
        edits, st.lists(st.tuples(st.integers(0, 40), odd_json), max_size=2), st.integers(0, 9)
    ),
    kept=[
        ([Edit("a part twice", 0, 7)], [], 1),
        ([], [(1, None)], 0),
        ([], [(0, -math.inf)], 0),
        ([], [(0, {"\n\x02c": 1e300})], 4),
        ([], [(35, ["1e999", "1e999"])], 0),
        ([Edit("cut short", 156, 0)], [], 8),  # codes that are finished, damaged later
    ],
    examples=12,
    needs=["fwnet.coding"],
)
def encode_state(case: tuple) -> Tried:
    """An encoding that continues from damaged files of its own, of one file and of many."""
    changes, values, place = case
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        x = np.random.default_rng(0).normal(size=(6, 3))
        np.save(folder / "x.npy", x)
        output = folder / ("z.npy" if place % 2 else "z")
        encode = fwnet.coding.encode_file if place % 2 else fwnet.coding.encode_folder
        options: dict[str, Any] = {"p": 1.5, "radius": 1.0, "shard_rows": 2, "device": "cpu"}
        _stop_early(encode, folder / "x.npy", output, options)
        states = [p for p in folder.rglob("*") if p.is_file() and p.name != "x.npy"]
        damaged = sorted(states)[place // 2 % len(states)] if states else None
        if damaged is None:
            return Tried("encode: nothing was stopped", "read")
        content = damaged.read_bytes()
        if values and damaged.suffix == ".json":
            about = json.loads(content)
            for spot, value in values:
                about = _replaced(about, spot, value)
            content = json.dumps(about).encode()
        damaged.write_bytes(edited(content, changes))
        where = "a file" if place % 2 else "a folder"
        kind = f"encode of {where}, continued: damaged {damaged.suffix}"
        try:
            encode(folder / "x.npy", output, **options, resume=True)
        except ValueError as error:
            _check_refusal(error)
            return Tried(kind, "refused")
        codes = [output] if output.is_file() else sorted(output.glob("*.npy"))
        assert sum(len(np.load(one)) for one in codes) == len(x), "rows are lost or doubled"
        return Tried(kind, "read")


def _stop_early(encode: Any, data: Path, output: Path, options: dict[str, Any]) -> None:
    """Encode a file, and stop after some rows."""

    def stop(progress: Any) -> None:
        if progress.done >= 4 and "check" not in progress.stage:
            raise InterruptedError

    try:
        encode(data, output, **options, progress=stop)
    except fwnet.coding.EncodeError:  # made of that
        return
