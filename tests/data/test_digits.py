import gzip
import hashlib
from pathlib import Path

import pytest
import torch

from fwnet.data import DataError, load_mnist, small_digits
from fwnet.data.digits import FILES
from fwnet.data.folders import data_folder, download
from tests.real_data import DATA, needs


def md5(content):
    return hashlib.md5(content).hexdigest()


@needs("mnist")
def test_mnist_is_whole(tmp_path):
    digits = load_mnist(DATA)
    assert digits.images.shape == (60_000, 784)
    assert digits.test_images.shape == (10_000, 784)
    assert digits.images.min() == 0
    assert digits.images.max() == 1
    assert digits.labels[:6].tolist() == [5, 0, 4, 1, 9, 2]
    assert digits.labels.bincount().tolist()[:3] == [5923, 6742, 5958]
    held = digits.split(10_000)
    assert held.images.shape == (50_000, 784)
    assert held.test_images.shape == (10_000, 784)
    # The files may also be unpacked, or some of them.
    for name in FILES:
        content = (DATA / "mnist" / f"{name}.gz").read_bytes()
        if "labels" in name:
            (tmp_path / name).write_bytes(gzip.decompress(content))
        else:
            (tmp_path / f"{name}.gz").write_bytes(content)
    assert torch.equal(load_mnist(tmp_path).test_labels, digits.test_labels)


def test_the_small_digits_need_no_file():
    digits = small_digits()
    assert digits.images.shape == (1437, 64)
    assert digits.test_images.shape == (360, 64)
    assert 0 <= digits.images.min() < digits.images.max() == 1
    assert digits.labels.unique().tolist() == list(range(10))


def test_a_split_looks_at_training_images_alone_and_at_each_once():
    digits = small_digits()
    held = digits.split(300, seed=1)
    assert len(held.images) == 1137
    together = torch.cat([held.images, held.test_images])
    assert torch.equal(together.sum(1).sort().values, digits.images.sum(1).sort().values)
    assert torch.equal(digits.split(300, seed=1).test_labels, held.test_labels)
    assert not torch.equal(digits.split(300, seed=2).test_labels, held.test_labels)


@pytest.mark.parametrize("count", [0, 1437, -1])
def test_bad_splits(count):
    with pytest.raises(ValueError, match=f"between 1 and 1436, .* got {count}"):
        small_digits().split(count)


def test_what_is_not_mnist_is_refused(tmp_path):
    with pytest.raises(DataError, match="expected a folder with the data set mnist"):
        load_mnist(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"expected train-images-idx3-ubyte.gz or .* got neither"):
        load_mnist(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(b"something else")
    with pytest.raises(DataError, match="is not a file of MNIST: expected the MD5 6bbc9ace"):
        load_mnist(tmp_path)
    path.unlink()
    path.with_suffix(".gz").write_bytes(b"\x1f\x8b not an archive")
    with pytest.raises(DataError, match="cannot be read"):
        load_mnist(tmp_path)


def test_the_folder_is_given_or_named_by_the_variable(tmp_path, monkeypatch):
    monkeypatch.delenv("FWNET_DATA", raising=False)
    assert data_folder("mnist") is None
    (tmp_path / "mnist").mkdir()
    assert data_folder("mnist", tmp_path) == tmp_path / "mnist"
    assert data_folder("mnist", tmp_path / "mnist") == tmp_path / "mnist"
    monkeypatch.setenv("FWNET_DATA", str(tmp_path))
    assert data_folder("mnist") == tmp_path / "mnist"
    assert data_folder("another") is None


class TestDownload:
    """From a folder of this machine, through the same code as from a server."""

    @pytest.fixture(autouse=True)
    def _cache(self, tmp_path, monkeypatch):
        monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / "cache" / name)
        (tmp_path / "source").mkdir()
        (tmp_path / "source" / "file").write_bytes(b"content")
        self.sources = [f"{tmp_path}/nowhere/", f"{tmp_path}/source/"]

        def copy(url, output_file, pooch):
            Path(output_file).write_bytes(Path(url).read_bytes())

        monkeypatch.setattr("pooch.core.choose_downloader", lambda *_, **__: copy)

    def test_the_first_source_that_has_it_is_taken(self, tmp_path):
        for _ in range(2):
            path = download("set", "file", f"md5:{md5(b'content')}", self.sources)
            assert path == tmp_path / "cache" / "fwnet" / "set" / "file"
            assert path.read_bytes() == b"content"
            (tmp_path / "source" / "file").unlink(missing_ok=True)  # it is in the cache

    def test_another_content_is_refused_in_one_line(self, tmp_path):
        with pytest.raises(DataError, match="could not be downloaded") as caught:
            download("set", "file", "md5:0", self.sources)
        assert "\n" not in str(caught.value)
        assert "set FWNET_DATA to the folder that has set/file" in str(caught.value)
        assert not (tmp_path / "cache" / "fwnet" / "set" / "file").exists()
