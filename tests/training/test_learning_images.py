"""Folders of images to learn from."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fwnet.data import BSD68, DataError
from fwnet.progress import Progress
from fwnet.restoration import Denoising, Upscaling, denoising, upscaling
from fwnet.training import TrainingRun, learning_images
from fwnet.training.learning_images import read_learning_images
from tests.real_data import DATA, needs
from tests.trainings import save_noise

OUTPUT = Path("net")


def read(folder, color=False, output=OUTPUT, num_held=None, restoration=None):
    """As for denoising, unless another restoration is given."""
    lines, steps = [], []
    run = TrainingRun(folder=output, progress=steps.append, warn=lines.append)
    restoration = restoration or Denoising(0.1, color=color)
    return read_learning_images(restoration, folder, run, 12, num_held), lines, steps


class TestFolders:
    def test_all_images_below_a_folder(self, tmp_path):
        for index, name in enumerate(["a.png", "b/c.jpg", "b/d/e.bmp"]):
            save_noise(tmp_path / name, seed=index)
        found, lines, steps = read(tmp_path)
        assert lines == []
        assert steps == [Progress("reading images", done, 3, "files") for done in (1, 2, 3)]
        assert len(found.learn) == 2
        assert len(found.held) == 1
        assert found.learn.channels == 1
        assert read(tmp_path, color=True)[0].learn.channels == 3
        expected = f"3 images in {tmp_path}, 1 of them held out to validate"
        assert found.description == expected

    @pytest.mark.parametrize(
        ("count", "asked", "held"),
        [(1, None, 0), (2, None, 1), (19, None, 1), (20, None, 2), (5, 0, 0), (5, 4, 4), (1, 0, 0)],
    )
    def test_some_are_held_back(self, tmp_path, count, asked, held):
        for index in range(count):
            save_noise(tmp_path / f"{index}.png", 12, 12, seed=index)
        found, _, _ = read(tmp_path, num_held=asked)
        assert (0 if found.held is None else len(found.held)) == held
        assert len(found.learn) == count - held

    def test_a_dozen_of_many(self, tmp_path):
        for index in range(140):
            save_noise(tmp_path / f"{index}.bmp", 12, 12)
        assert len(read(tmp_path)[0].held) == 12

    @pytest.mark.parametrize("asked", [3, 4])
    def test_too_many_to_hold_back(self, tmp_path, asked):
        for index in range(3):
            save_noise(tmp_path / f"{index}.png")
        with pytest.raises(DataError, match=f"cannot hold out {asked} of 3 images"):
            read(tmp_path, num_held=asked)

    def test_what_cannot_be_read_is_skipped(self, tmp_path):
        save_noise(tmp_path / "good.png")
        save_noise(tmp_path / "small.png", 11, 40)
        (tmp_path / "words.png").write_text("no image")
        (tmp_path / "words.ppm").write_text("P6 x")
        deep = np.full((20, 20), 3000, np.uint16)
        Image.fromarray(deep).save(tmp_path / "deep.png")
        found, lines, steps = read(tmp_path)
        assert found.learn.names == (str(tmp_path / "good.png"),)
        assert found.held is None
        assert found.description == f"1 image in {tmp_path}"
        assert len(steps) == 5
        assert len(lines) == 4
        assert all(line.startswith("Warning: ") and "\n" not in line for line in lines)
        assert "deep.png has more than 8 bits per channel; it is skipped." in lines[0]
        assert "words.png cannot be read as an image" in lines[1]
        assert "words.ppm cannot be read as an image" in lines[2]
        assert "1 of 5 images is smaller than a crop of 12 × 12 and skipped." in lines[-1]

    def test_many_that_cannot_be_read_are_counted(self, tmp_path):
        save_noise(tmp_path / "good.png")
        for index in range(15):
            (tmp_path / f"{index}.jpg").touch()
        _, lines, _ = read(tmp_path)
        assert len(lines) == learning_images.NUM_NAMED + 1
        assert lines[-1] == "Warning: 15 of 16 files cannot be used and are skipped."

    def test_nothing_left_is_an_error(self, tmp_path):
        save_noise(tmp_path / "small.png", 5, 40)
        (tmp_path / "words.png").touch()
        with pytest.raises(DataError, match="of 2 files 1 cannot be used and 1 are smaller than a"):
            read(tmp_path)
        with pytest.raises(DataError, match="expected a folder of images, got "):
            read(tmp_path / "small.png")

    def test_the_test_images_are_left_out(self, tmp_path):
        for name in [*sorted(BSD68), "1", "2"]:
            save_noise(tmp_path / "val" / f"{name}.png", 12, 12)
        found, lines, _ = read(tmp_path)
        assert len(found.learn) + len(found.held) == 2
        (line,) = lines
        assert line.startswith("68 of 70 images are left out: they belong to BSD68")
        assert found.description.startswith(f"2 images in {tmp_path} outside BSD68, 1 of them held")

    def test_without_a_folder_the_berkeley_images(self, tmp_path, monkeypatch):
        for name in ("a", "b", "c"):
            save_noise(tmp_path / f"{name}.png")
        files = [tmp_path / f"{name}.png" for name in "abc"]
        monkeypatch.setattr(denoising, "berkeley_files", lambda: (files[:2], files[2:]))
        found, lines, _ = read(None)
        assert found.learn.names + found.held.names == (str(files[0]), str(files[1]))
        assert lines[0].startswith("1 of 3 images are left out: they belong to BSD68")
        assert found.description.startswith(
            "2 images of the Berkeley segmentation data set (BSDS500) outside BSD68, 1 of them"
        )

    def test_the_picture_of_a_training_is_none_of_them(self, tmp_path, monkeypatch):
        save_noise(tmp_path / "a.png")
        save_noise(tmp_path / "net" / "history.png")
        trainings = ("checkpoint.safetensors", "model.safetensors", "history.jsonl", "config.toml")
        for name in trainings:
            save_noise(tmp_path / name / "history.png")
            save_noise(tmp_path / name / "photo.png")
            (tmp_path / name / name).touch()
        save_noise(tmp_path / "school" / "history.png")
        monkeypatch.chdir(tmp_path)
        expected = ["a.png", "school/history.png", *(f"{name}/photo.png" for name in trainings)]
        for folder in (tmp_path, Path()):
            found, _, _ = read(folder, output=Path("net"), num_held=0)
            names = [Path(name).resolve().relative_to(tmp_path) for name in found.learn.names]
            assert sorted(names) == sorted(map(Path, expected))


class TestUpscaling:
    @pytest.fixture
    def published(self, tmp_path, monkeypatch):
        """Small images in the places of those that are published."""
        names = {"t91_files": "t", "berkeley_training_files": "b", "berkeley_validation_files": "v"}
        counts = {"t91_files": 2, "berkeley_training_files": 3, "berkeley_validation_files": 4}
        for function, name in names.items():
            files = [tmp_path / f"{name}{index}.png" for index in range(counts[function])]
            for index, path in enumerate(files):
                save_noise(path, seed=index)
            monkeypatch.setattr(upscaling, function, lambda count=None, files=files: files[:count])
        return tmp_path

    @pytest.mark.parametrize(("asked", "held"), [(None, 4), (2, 2), (0, 0)])
    def test_without_a_folder_the_published_ones(self, published, asked, held):
        found, _, steps = read(None, num_held=asked, restoration=Upscaling(3))
        assert [Path(name).stem for name in found.learn.names] == ["t0", "t1", "b0", "b1", "b2"]
        names = () if found.held is None else found.held.names
        assert [Path(name).stem for name in names] == [f"v{index}" for index in range(held)]
        expected = "5 images of T91 and of the Berkeley segmentation data set (BSDS500)"
        assert found.description == expected + (f", {held} others to validate" if held else "")
        assert steps[-1] == Progress("reading images", 5 + held, 5 + held, "files")

    @needs("t91", "bsds500")
    def test_the_published_ones_as_they_are(self, monkeypatch):
        monkeypatch.setenv("FWNET_DATA", str(DATA))
        source = Upscaling(3).source(None, "of them", 12, print)
        assert (len(source.files), len(source.held_files)) == (91 + 199, 12)
        assert len({*source.files, *source.held_files}) == 302
        assert "302003" not in {path.stem for path in source.files}  # woman of Set5

    def test_a_folder_is_one_as_for_denoising_but_no_image_is_left_out(self, tmp_path):
        for name in [*sorted(BSD68), "1", "2"]:
            save_noise(tmp_path / f"{name}.png", 12, 12)
        save_noise(tmp_path / "net" / "history.png")
        found, lines, _ = read(tmp_path, output=tmp_path / "net", restoration=Upscaling(3))
        assert len(found.learn) + len(found.held) == 70
        assert found.description == f"70 images in {tmp_path}, 7 of them held out to validate"
        assert lines == []

    def test_they_are_lumas(self, tmp_path):
        Image.new("RGB", (12, 12), "white").save(tmp_path / "color.png")
        Image.new("L", (12, 12), 255).save(tmp_path / "gray.png")
        found, _, _ = read(tmp_path, num_held=0, restoration=Upscaling(3))
        assert found.learn[0].max().item() == pytest.approx(235 / 255)
        assert found.learn[1].max().item() == 1.0
