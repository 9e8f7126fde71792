"""Images at URLs."""

import fsspec
import numpy as np
import pytest
from PIL import Image

import fwnet
from fwnet.imaging import FailedFile, ImageError, restore_files
from fwnet.restoration import Denoising


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store with in/a.png, in/more/b.jpg, in/bad.png and in/notes.txt; net.safetensors here."""
    monkeypatch.chdir(tmp_path)
    fwnet.ConvFWNet(num_layers=1, channels=4).save("net.safetensors", {"task": "denoise"})
    fs = fsspec.filesystem("memory")
    rng = np.random.default_rng(0)
    for name in ("a.png", "more/b.jpg"):
        with fs.open(f"/bucket/in/{name}", "wb") as file:
            kind = "PNG" if name.endswith("png") else "JPEG"
            Image.fromarray(rng.integers(0, 256, (20, 24), np.uint8)).save(file, kind)
    fs.pipe_file("/bucket/in/bad.png", b"no image")
    fs.pipe_file("/bucket/in/notes.txt", b"text")
    yield fs
    fs.rm("/bucket", recursive=True)


def restore(inputs, output, **options):
    options = {"model": "net.safetensors", "sigma": None, "device": "cpu", **options}
    return [*restore_files(Denoising, inputs, output, **options)]


def test_results_are_those_of_paths(store, tmp_path):
    outcomes = restore(["memory://bucket/in"], "memory://bucket/out")
    assert [type(one).__name__ for one in outcomes] == [
        "RestoredFile",
        "FailedFile",
        "RestoredFile",
    ]
    assert outcomes[1].reason == "memory:///bucket/in/bad.png is not an image that can be read"
    assert str(outcomes[2].place) == "memory:///bucket/out/more/b.jpg"
    assert store.find("/bucket/out") == ["/bucket/out/a.png", "/bucket/out/more/b.jpg"]
    for name in ("a.png", "more/b.jpg"):
        near = tmp_path / name.replace("/", "-")
        near.write_bytes(store.cat_file(f"/bucket/in/{name}"))
        (done,) = restore([str(near)], f"clean-{near.name}")
        assert done.place.read_bytes() == store.cat_file(f"/bucket/out/{name}")


def test_a_url_into_a_folder_and_back(store, tmp_path):
    (done,) = restore(["memory://bucket/in/a.png"], "near")
    assert done.place == tmp_path / "near" / "a.png"
    (back,) = restore(["near/a.png"], "memory://bucket/again/")
    assert store.exists("/bucket/again/a.png")
    assert back.width == 24


def test_existing_results(store):
    inputs, output = ["memory://bucket/in/a.png"], "memory://bucket/out"
    restore(inputs, output)
    (again,) = restore(inputs, output)
    assert again.reason == "memory:///bucket/out/a.png exists; overwrite it with --force"
    lines = []
    assert restore(inputs, output, skip_existing=True, warn=lines.append) == []
    assert lines == ["1 file skipped: existing results are kept."]
    (forced,) = restore(inputs, output, force=True)
    assert not isinstance(forced, FailedFile)


def test_what_cannot_be_done(store):
    (missing,) = restore(["memory://bucket/no.png"], "near")
    assert missing.reason == "memory:///bucket/no.png does not exist"
    (none,) = restore(["memory://bucket/in/*.tif"], "near")
    assert none.reason == "memory://bucket/in/*.tif has no images in it"
    store.cp_file("/bucket/in/a.png", "/bucket/in/a.gif")
    reasons = [getattr(one, "reason", "") for one in restore(["memory://bucket/in/a.*"], "near")]
    assert any("would go to" in reason for reason in reasons)
    with pytest.raises(ImageError, match="--compare is for paths, got a URL"):
        restore(["memory://bucket/in"], "near", compare=True)
