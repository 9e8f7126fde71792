import hashlib
import io
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fwnet.data import (
    BSD68,
    DataError,
    berkeley,
    berkeley_files,
    berkeley_training_files,
    berkeley_validation_files,
    without_bsd68,
)
from tests.real_data import DATA, needs


@needs("bsds500")
class TestRealImages:
    def test_432_to_learn_from_and_68_to_test_on(self, monkeypatch):
        learn, test = berkeley_files(DATA)
        assert (len(learn), len(test)) == (432, 68)
        assert not set(learn) & set(test)
        assert {path.stem for path in test} == BSD68
        assert {path.parent.name for path in test} == {"val"}
        monkeypatch.setenv("FWNET_DATA", str(DATA))
        assert berkeley_files() == (learn, test)
        assert berkeley_files(DATA / "bsds500") == (learn, test)

    def test_the_test_images_are_those_of_the_published_list(self):
        names = (DATA / "bsds500" / "bsd68.txt").read_text().split()
        assert len(names) == 68
        assert {Path(name).stem for name in names} == BSD68

    def test_images_of_super_resolution_are_none_that_others_test_on(self):
        learn, choose = berkeley_training_files(DATA), berkeley_validation_files(DATA)
        assert (len(learn), len(choose)) == (199, 12)
        assert {path.parent.name for path in learn} == {"train"}
        assert {path.parent.name for path in choose} == {"test"}
        # Which ones they are belongs to every figure that was chosen by them.
        assert [path.stem for path in choose[:3]] == ["103029", "118015", "141048"]
        # One of the folder, which woman of Set5 is a part of, is left out; denoising may have it.
        (left_out,) = {*(DATA / "bsds500" / "train").glob("*.jpg")} - {*learn}
        assert left_out.stem == "302003"
        assert left_out in berkeley_files(DATA)[0]


def fake_images():
    """Three pictures by their places; one is called like an image of BSD68."""
    names = {"train/1": 1, "val/101085": 2, "test/3": 3}
    content = {}
    for name, seed in names.items():
        pixels = np.random.default_rng(seed).integers(0, 256, (8, 9, 3), np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "JPEG")
        content[f"{name}.jpg"] = buffer.getvalue()
    return content


def write(folder, content):
    for name, data in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def content_md5(content):
    """Of names and bytes in the order of names."""
    parts = sorted((Path(name).stem.encode(), data) for name, data in content.items())
    return hashlib.md5(b"".join(stem + data for stem, data in parts)).hexdigest()


@pytest.mark.parametrize("place", berkeley.PLACES)
def test_the_folder_may_be_that_of_the_archive(tmp_path, monkeypatch, place):
    content = fake_images()
    write(tmp_path / place, content)
    monkeypatch.setattr(berkeley, "CONTENT", content_md5(content))
    learn, test = berkeley_files(tmp_path)
    found = [path.relative_to(tmp_path / place).as_posix() for path in learn]
    assert found == ["train/1.jpg", "test/3.jpg"]
    assert [path.stem for path in test] == ["101085"]


def test_files_by_their_folders(tmp_path, monkeypatch):
    content = {
        f"{part}/{index}{part}.jpg": bytes([index])
        for part in berkeley.PARTS
        for index in range(10, 30)
    }
    content["train/302003.jpg"] = b"has woman of Set5 in it"
    content["train/302003train.jpg"] = b"another"
    write(tmp_path, content)
    monkeypatch.setattr(berkeley, "CONTENT", content_md5(content))
    learn = [path.relative_to(tmp_path).as_posix() for path in berkeley_training_files(tmp_path)]
    names = [f"train/{index}train.jpg" for index in range(10, 30)]
    assert learn == sorted([*names, "train/302003train.jpg"])
    assert tmp_path / "train" / "302003.jpg" in berkeley_files(tmp_path)[0]
    for count, indices in ((1, [20]), (4, [12, 17, 22, 27]), (20, list(range(10, 30)))):
        chosen = berkeley_validation_files(tmp_path, count=count)
        names = [path.relative_to(tmp_path).as_posix() for path in chosen]
        assert names == [f"test/{index}test.jpg" for index in indices]
    for count in (0, 21):
        with pytest.raises(DataError, match=f"cannot choose {count} of 20 images"):
            berkeley_validation_files(tmp_path, count=count)


@pytest.mark.parametrize("files", [berkeley_training_files, berkeley_validation_files])
def test_parts_of_other_images_are_refused(tmp_path, files):
    write(tmp_path, fake_images())
    with pytest.raises(DataError, match=r"expected the MD5 b6ce7015.*, got .* of 3 images"):
        files(tmp_path)


def test_other_images_are_refused(tmp_path):
    with pytest.raises(DataError, match="expected a folder with the data set bsds500"):
        berkeley_files(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"expected the folders train, val and test .* got none"):
        berkeley_files(tmp_path)
    write(tmp_path, fake_images())
    with pytest.raises(DataError, match=r"expected the MD5 b6ce7015.*, got .* of 3 images"):
        berkeley_files(tmp_path)
    (tmp_path / "test" / "3.jpg").unlink()
    with pytest.raises(DataError, match=r"expected images .* in .*test, got none"):
        berkeley_files(tmp_path)


def test_the_test_images_are_left_out_where_they_are():
    others = [Path(f"photos/{index}.jpg") for index in range(10)]
    test = [Path(f"photos/{name}.png") for name in sorted(BSD68)]
    assert without_bsd68(others + test) == others
    assert without_bsd68(test[:60] + others) == others
    assert without_bsd68(others + test[:59]) == others + test[:59]
    assert without_bsd68([]) == []


class TestArchive:
    """A small archive, downloaded from a folder of this machine."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path, monkeypatch):
        monkeypatch.delenv("FWNET_DATA", raising=False)
        monkeypatch.setattr(berkeley, "CONTENT", content_md5(fake_images()))
        monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / name)
        self.cache, self.archive = tmp_path / "fwnet" / "bsds500", tmp_path / "archive"
        self.downloads = 0

        def copy(url, output_file, pooch):
            assert url.endswith("/BSR_bsds500.tgz")
            self.downloads += 1
            Path(output_file).write_bytes(self.archive.read_bytes())

        monkeypatch.setattr("pooch.core.choose_downloader", lambda *_, **__: copy)

    def pack(self, content, folder="BSR/BSDS500/data/images"):
        with tarfile.open(self.archive, "w:gz") as tar:
            for name, data in content.items():
                info = tarfile.TarInfo(f"{folder}/{name}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))

    def test_images_are_unpacked_and_nothing_else(self):
        self.pack({**fake_images(), "train/Thumbs.db": b"x", "../groundTruth/train/1.mat": b"x"})
        learn, _ = berkeley_files()
        assert [path.name for path in learn] == ["1.jpg", "3.jpg"]
        assert not list(self.cache.rglob("*.mat"))
        assert berkeley_files()[0] == learn
        assert self.downloads == 1

    def test_an_archive_cannot_write_outside_the_cache(self, tmp_path):
        with tarfile.open(self.archive, "w:gz") as tar:
            link = tarfile.TarInfo("BSR/BSDS500/data/images/train")
            link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "outside")
            tar.addfile(link)
        (tmp_path / "outside").mkdir()
        with pytest.raises(DataError, match=r"could not be downloaded .*LinkError"):
            berkeley_files()

    @pytest.mark.parametrize("damage", ["another file", "half", "flipped bits"])
    def test_a_broken_archive_leaves_nothing_behind(self, damage):
        self.pack(fake_images())
        whole = bytearray(self.archive.read_bytes())
        middle = slice(len(whole) // 2, len(whole) // 2 + 50)
        flipped = bytes(255 - byte for byte in whole[middle])
        broken = {
            "another file": b"<html>moved</html>",
            "half": whole[: len(whole) // 2],
            "flipped bits": whole[: middle.start] + flipped + whole[middle.stop :],
        }
        self.archive.write_bytes(broken[damage])
        with pytest.raises(DataError, match=r"tgz of bsds500 could not be downloaded"):
            berkeley_files()
        assert not list(self.cache.rglob("*.*"))

    def test_images_that_are_missing_are_reported(self):
        self.pack({k: v for k, v in fake_images().items() if not k.startswith("val")})
        with pytest.raises(DataError, match="expected the folders train, val and test"):
            berkeley_files()

    def test_an_interrupted_download_is_done_again(self):
        self.pack(fake_images())
        parts = {"train/1.jpg": b"half", "val/2.jpg": b"x", "test/3.jpg": b"x"}
        write(self.cache / "BSR_bsds500.tgz.untar" / "BSR/BSDS500/data/images", parts)
        with pytest.raises(DataError, match="as they are published"):
            berkeley_files()
        learn, test = berkeley_files()
        assert [path.name for path in (*learn, *test)] == ["1.jpg", "3.jpg", "101085.jpg"]
        shutil.rmtree(next(self.cache.rglob("val")))  # it was not unpacked yet
        assert berkeley_files() == (learn, test)
        assert self.downloads == 1

    def test_errors_of_the_disk_are_reported(self, monkeypatch):
        def full(*arguments, **options):
            raise OSError(28, "No space left on device")

        self.pack(fake_images())
        monkeypatch.setattr(tarfile.TarFile, "extractall", full)
        with pytest.raises(DataError, match=r"could not be downloaded .*No space left"):
            berkeley_files()
