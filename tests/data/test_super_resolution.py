import hashlib
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from fwnet.data import (
    DATA_SETS,
    DataError,
    read_luma_images,
    set5_files,
    set14_files,
    super_resolution,
    t91_files,
)
from fwnet.metrics import as_displayed, psnr, shave
from fwnet.resize import enlarge, shrink
from tests.real_data import DATA, needs

SET5_NAMES = "baby bird butterfly head woman"
SET14_NAMES = """
baboon barbara bridge coastguard comic face flowers foreman lenna man monarch pepper ppt3 zebra
"""
LOADERS = {"t91": t91_files, "set5": set5_files, "set14": set14_files}


@needs("t91", "set5", "set14")
class TestRealImages:
    @pytest.mark.parametrize("name", LOADERS)
    def test_they_are_whole(self, monkeypatch, name):
        load = LOADERS[name]
        published = getattr(super_resolution, name.upper())
        files = load(DATA)
        assert len(files) == published.count == {"t91": 91, "set5": 5, "set14": 14}[name]
        names = {"set5": SET5_NAMES, "set14": SET14_NAMES}
        if name in names:
            assert [path.stem for path in files] == names[name].split()
        assert load(DATA / name) == files
        monkeypatch.setenv("FWNET_DATA", str(DATA))
        assert load() == files

    def test_the_names_of_the_91(self):
        names = {f"t{index}" for index in range(1, 67)} | {f"tt{index}" for index in range(1, 28)}
        assert {path.stem for path in t91_files(DATA)} == names - {"t41", "tt11"}

    @pytest.mark.parametrize(
        ("load", "scale", "expected"),
        [
            (set5_files, 2, 33.66),
            (set5_files, 3, 30.39),
            (set5_files, 4, 28.42),
            (set14_files, 2, 30.23),
            (set14_files, 3, 27.54),
            (set14_files, 4, 26.00),
        ],
    )
    def test_bicubic_enlargement_has_the_published_figures(self, load, scale, expected):
        """So luma, resizing, rounding and the border are those of everyone."""
        images = read_luma_images(load(DATA))
        figures = []
        for index in range(len(images)):
            height, width = (images.sizes[index] // scale * scale).tolist()
            clean = images[index][..., :height, :width]
            bicubic = as_displayed(enlarge(shrink(clean, scale), scale))
            figures.append(psnr(shave(bicubic, scale), shave(clean, scale)).item())
        assert np.mean(figures) == pytest.approx(expected, abs=0.005)


def fake_images():
    """Three pictures by their names, the second in gray."""
    generator = np.random.default_rng(0)
    shapes = {"a": (8, 9, 3), "b": (6, 5), "c": (5, 6, 3)}
    return {name: generator.integers(0, 256, shape, np.uint8) for name, shape in shapes.items()}


def write(folder, images, suffix=".png"):
    folder.mkdir(parents=True, exist_ok=True)
    for name, pixels in images.items():
        Image.fromarray(pixels).save(folder / f"{name}{suffix}")


def content_md5(images):
    parts = [
        f"{name} {np.atleast_3d(images[name]).shape}".encode() + images[name].tobytes()
        for name in sorted(images)
    ]
    return hashlib.md5(b"".join(parts)).hexdigest()


@pytest.fixture(params=LOADERS)
def small(request, monkeypatch):
    """One of the loaders, its folder, and what it takes for published: the fake images."""
    monkeypatch.delenv("FWNET_DATA", raising=False)
    name, images = request.param, fake_images()
    published = getattr(super_resolution, name.upper())
    return replace(published, count=len(images), content=content_md5(images)).files, name


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif"])
def test_any_format_without_loss_will_do(small, tmp_path, monkeypatch, suffix):
    load, name = small
    write(tmp_path / name, fake_images(), suffix)
    files = [tmp_path / name / f"{stem}{suffix}" for stem in "abc"]
    assert load(tmp_path) == load(tmp_path / name) == load(str(tmp_path)) == files
    monkeypatch.setenv("FWNET_DATA", str(tmp_path))
    assert load() == files
    (tmp_path / name / "readme.txt").write_text("words")
    assert load() == files


def change_pixel(images):
    images["c"][2, 3, 1] ^= 1


def rename(images):
    images["z"] = images.pop("c")


def exchange(images):
    images["a"], images["c"] = images["c"], images["a"]


def turn(images):
    images["b"] = images["b"].reshape(5, 6)


def store_gray_as_color(images):
    """The figures on luma would be others."""
    images["b"] = np.atleast_3d(images["b"]).repeat(3, axis=2)


@pytest.mark.parametrize("change", [change_pixel, rename, exchange, turn, store_gray_as_color])
def test_other_images_are_refused(small, tmp_path, change):
    load, _ = small
    images = fake_images()
    change(images)
    write(tmp_path, images)
    message = rf"as they are published: expected the MD5 .* got {content_md5(images)}"
    with pytest.raises(DataError, match=message):
        load(tmp_path)


def test_other_numbers_of_images_are_refused_unread(small, tmp_path):
    load, _ = small
    write(tmp_path, fake_images())
    (tmp_path / "d.png").write_bytes(b"words")
    with pytest.raises(DataError, match=r"expected the 3 images of \w+ in .*, got 4; usually"):
        load(tmp_path)


def test_loss_and_broken_files(small, tmp_path):
    load, _ = small
    write(tmp_path / "jpeg", fake_images(), ".jpg")
    with pytest.raises(DataError, match="as they are published"):
        load(tmp_path / "jpeg")
    write(tmp_path / "broken", fake_images())
    (tmp_path / "broken" / "b.png").write_bytes(b"words")
    with pytest.raises(DataError, match=r"b\.png cannot be read as an image"):
        load(tmp_path / "broken")


def test_folders_that_are_not_there(small, tmp_path, monkeypatch):
    load, name = small
    with pytest.raises(DataError, match=f"expected a folder with the data set {name}, got"):
        load(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"expected images .* got none"):
        load(tmp_path)
    for variable in ("", str(tmp_path)):  # which has other data sets, perhaps
        monkeypatch.setenv("FWNET_DATA", variable)
        with pytest.raises(DataError) as caught:
            load()
        message = str(caught.value)
        assert f"expected the images of {name.capitalize()} in the folder {name} of" in message
        assert "FWNET_DATA" in message
        assert "usually they are taken from the archive SR_t" in message
        assert "\n" not in message


def test_the_real_ones_are_told_by_their_md5(tmp_path):
    images = {name: np.zeros((2, 2, 3), np.uint8) for name in SET5_NAMES.split()}
    write(tmp_path, images)
    with pytest.raises(DataError, match="expected the MD5 85ee0423"):
        set5_files(tmp_path)


def test_they_are_data_sets():
    assert set(LOADERS) < set(DATA_SETS)
