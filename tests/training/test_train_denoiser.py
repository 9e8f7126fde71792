"""What `fwnet train denoise` is made of: networks, the recipe, folders of images."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fwnet.data import BSD68, DataError
from fwnet.models import ConvFWNet, ConvLISTA, DnCNN, PatchDenoiser
from fwnet.training import (
    Denoising,
    TrainingConfig,
    TrainingError,
    denoiser_settings,
    learning_images,
    make_denoiser,
    train,
)
from fwnet.training import train_denoiser as train_on_folder
from fwnet.training.denoiser_recipe import DENOISERS, RECIPE, RECIPE_IN_WORDS
from fwnet.training.learning_images import ReadingProgress, read_learning_images
from fwnet.training.train_denoiser import weights_digest

CPU = torch.device("cpu")


class TestNetworks:
    def test_usual_ones(self):
        network = make_denoiser()
        assert isinstance(network, ConvFWNet)
        assert network.config == ConvFWNet(4).config
        assert make_denoiser("ConvLISTA").config == ConvLISTA(4, threshold=0.1).config
        assert make_denoiser("DnCNN").config == DnCNN(17).config

    def test_what_is_asked_for(self):
        network = make_denoiser(
            num_layers=3, channels=5, color=True, noise_level_input=True, p=1.3, learn_p=False
        )
        expected = ConvFWNet(
            3, 5, in_channels=3, noise_level_input=True, p=1.3, learn_p=False
        ).config
        assert network.config == expected
        plain = make_denoiser(plain=True)
        assert not plain.residual
        assert plain.config["eps"] == 0.0  # the authors' own
        assert not make_denoiser("ConvLISTA", plain=True).residual
        assert not make_denoiser("DnCNN", batch_norm=False, num_layers=3).norms

    def test_weights_are_those_of_the_seed(self):
        one, same, other = (make_denoiser(channels=4, seed=seed) for seed in (1, 1, 2))
        assert torch.equal(one.first.weight, same.first.weight)
        assert not torch.equal(one.first.weight, other.first.weight)

    @pytest.mark.parametrize(
        "start",
        [
            ConvFWNet(3, 5, p=1.3),
            ConvFWNet(2, 4, residual=False, eps=0.0),
            ConvLISTA(3, 4, share_weights=True),
            DnCNN(4, 3, batch_norm=False),
        ],
    )
    def test_one_to_go_on_with_has_the_form_of_the_other(self, start):
        network = make_denoiser(start=start)
        assert type(network) is type(start)
        assert network.config == start.config
        layers = start.config["num_layers"]
        assert make_denoiser(start=start, num_layers=layers).config == start.config
        wide = make_denoiser(start=start, color=True, noise_level_input=True)
        changed = {"in_channels": 3, "noise_level_input": True}
        assert wide.config == {**start.config, **changed}

    def test_color_stays_color(self):
        start = ConvFWNet(2, 4, in_channels=3)
        assert make_denoiser(start=start).in_channels == 3
        assert make_denoiser(start=start, color=True).in_channels == 3

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"model": "FWNet"}, "model must be one of ConvFWNet, ConvLISTA, DnCNN, got 'FWNet'"),
            ({"num_layers": 0}, "num_layers must be an integer >= 1, got 0"),
            ({"model": "DnCNN", "num_layers": 1}, "num_layers must be an integer >= 2, got 1"),
            ({"channels": -1}, "channels must be an integer >= 1, got -1"),
            ({"p": 0.5}, "p must be in"),
            ({"p": 1.0, "learn_p": False}, "with p fixed at 1 no weight gets a gradient"),
            ({"p": math.inf, "learn_p": False}, "with p fixed at inf no weight gets a gradient"),
            ({"model": "DnCNN", "p": 1.3}, "p is for ConvFWNet, got it for a DnCNN"),
            ({"model": "ConvLISTA", "learn_p": False}, "learn_p is for ConvFWNet, got it for a"),
            ({"model": "DnCNN", "plain": True}, "plain is for ConvFWNet and ConvLISTA, got it for"),
            ({"batch_norm": True}, "batch_norm is for DnCNN, got it for a ConvFWNet"),
        ],
    )
    def test_bad_ones(self, options, message):
        with pytest.raises(ValueError, match=message):
            make_denoiser(**options)

    @pytest.mark.parametrize(
        ("start", "options", "message"),
        [
            (ConvFWNet(2, 4), {"num_layers": 4}, "num_layers must be 2, as the network to start"),
            (ConvFWNet(2, 4), {"model": "DnCNN"}, "model must be 'ConvFWNet', as the network"),
            (ConvFWNet(2, 4), {"plain": True}, "residual must be True, as the network to start"),
            (ConvFWNet(2, 4), {"learn_p": False}, "learn_p must be True, as the network to"),
            (ConvFWNet(2, 4, in_channels=3), {"color": False}, "is for color, got gray"),
            (ConvFWNet(2, 4, noise_level_input=True), {}, "is told the noise level, got one level"),
        ],
    )
    def test_ones_that_cannot_go_on(self, start, options, message):
        with pytest.raises(ValueError, match=message):
            make_denoiser(start=start, **options)

    def test_only_those_that_learn_it(self):
        coder = {"model": "FWNet", "num_features": 9, "num_atoms": 5, "num_layers": 2}
        patches = PatchDenoiser({**coder, "reconstruct": True}, patch_size=3)
        with pytest.raises(ValueError, match=r"start from must be a ConvFWNet, .* PatchDenoiser"):
            make_denoiser(start=patches)


class TestRecipe:
    @pytest.mark.parametrize(
        ("network", "rate"),
        [
            (ConvFWNet(2, 2), 8e-3),
            (ConvFWNet(4, 2), 8e-3),
            (ConvFWNet(5, 2), 4e-3),
            (ConvFWNet(16, 2), 4e-3),
            (ConvFWNet(4, 2, residual=False, eps=0.0), 16e-3),
            (ConvFWNet(8, 2, residual=False, eps=0.0), 4e-3),
            (ConvLISTA(4, 2), 8e-3),
            (ConvLISTA(4, 2, residual=False), 8e-3),
            (DnCNN(5, 2), 16e-3),
            (DnCNN(6, 2), 1e-3),
            (DnCNN(17, 2), 1e-3),
            (DnCNN(5, 2, batch_norm=False), 1e-3),
            (DnCNN(17, 2, batch_norm=False), 1e-3),
        ],
    )
    def test_learning_rates(self, network, rate):
        assert denoiser_settings(network, CPU)["learning_rate"] == rate
        assert denoiser_settings(network, CPU, goes_on=True)["learning_rate"] == rate / 2

    @pytest.mark.parametrize(
        ("network", "experiment", "method"),
        [
            (ConvFWNet(4, 2), "table", "Conv F-W Net (4 layers)"),
            (ConvFWNet(16, 2), "depth", "Conv F-W Net (16 layers)"),
            (make_denoiser(plain=True), "table", "Conv F-W Net (4 layers), authors' form"),
            (ConvLISTA(4, 2), "table", "Conv LISTA (4 layers)"),
            (DnCNN(5, 2), "table", "DnCNN (5 layers)"),
            (DnCNN(5, 2, batch_norm=False), "table", "DnCNN (5 layers, w/o BN)"),
            (DnCNN(17, 2), "depth", "DnCNN (17 layers)"),
        ],
    )
    def test_learning_rates_are_those_that_were_chosen(self, network, experiment, method):
        path = Path(__file__).parents[2] / "results" / f"denoise-{experiment}.json"
        choices = json.loads(path.read_text())["choices"]
        (rate,) = [one["learning_rate"] for one in choices if one["method"] == method]
        assert denoiser_settings(network, CPU)["learning_rate"] == rate

    def test_precision_is_by_the_machine(self):
        network = ConvFWNet(2, 2)
        assert denoiser_settings(network, CPU)["precision"] == "float32"
        assert denoiser_settings(network, torch.device("cuda"))["precision"] == "bf16"

    @pytest.mark.parametrize(
        ("num_steps", "average"),
        [(10_000, 0.999), (6000, 0.999), (5000, 0.999), (2000, 0.9975), (10, 0.5), (3, 0.0)],
    )
    def test_the_mean_of_a_short_training_is_short(self, num_steps, average):
        assert denoiser_settings(ConvFWNet(2, 2), CPU, num_steps)["average"] == average

    def test_settings_are_settings(self):
        config = TrainingConfig(**denoiser_settings(ConvFWNet(2, 2), CPU))
        assert config.num_epochs == 10
        assert config.batch_size == 128
        assert config.average == 0.999
        fields = {field.name for field in dataclasses.fields(TrainingConfig)}
        assert set(RECIPE) | set(RECIPE_IN_WORDS) <= fields
        assert not set(RECIPE) & set(RECIPE_IN_WORDS)
        assert all(name in RECIPE_IN_WORDS["learning_rate"] for name in ("ConvFWNet", "DnCNN"))
        assert set(DENOISERS) == {"ConvFWNet", "ConvLISTA", "DnCNN"}


def save(path, height=20, width=24, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(path)


def read(folder, **options):
    lines, steps = [], []
    options = {"color": False, "crop_size": 12, "tell": lines.append, **options}
    found = read_learning_images(folder, progress=steps.append, **options)
    return found, lines, steps


class TestFolders:
    def test_all_images_below_a_folder(self, tmp_path):
        for index, name in enumerate(["a.png", "b/c.jpg", "b/d/e.bmp"]):
            save(tmp_path / name, seed=index)
        found, lines, steps = read(tmp_path)
        assert lines == []
        assert steps == [ReadingProgress(done, 3) for done in (1, 2, 3)]
        assert len(found.learn) == 2
        assert len(found.held) == 1
        assert found.learn.channels == 1
        assert read(tmp_path, color=True)[0].learn.channels == 3
        expected = f"3 images in {tmp_path}, 1 of them held back to validate"
        assert found.description == expected

    @pytest.mark.parametrize(
        ("count", "asked", "held"),
        [(1, None, 0), (2, None, 1), (19, None, 1), (20, None, 2), (5, 0, 0), (5, 4, 4), (1, 0, 0)],
    )
    def test_some_are_held_back(self, tmp_path, count, asked, held):
        for index in range(count):
            save(tmp_path / f"{index}.png", 12, 12, seed=index)
        found, _, _ = read(tmp_path, num_held=asked)
        assert (0 if found.held is None else len(found.held)) == held
        assert len(found.learn) == count - held

    def test_a_dozen_of_many(self, tmp_path):
        for index in range(140):
            save(tmp_path / f"{index}.bmp", 12, 12)
        assert len(read(tmp_path)[0].held) == 12

    @pytest.mark.parametrize("asked", [3, 4, -1])
    def test_too_many_to_hold_back(self, tmp_path, asked):
        for index in range(3):
            save(tmp_path / f"{index}.png")
        with pytest.raises(DataError, match=r"cannot hold back|must be an integer >= 0, got -1"):
            read(tmp_path, num_held=asked)

    def test_what_cannot_be_read_is_skipped(self, tmp_path):
        save(tmp_path / "good.png")
        save(tmp_path / "small.png", 11, 40)
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
        assert "deep.png has more than 8 bits a channel; it is skipped." in lines[0]
        assert "words.png cannot be read as an image" in lines[1]
        assert "words.ppm cannot be read as an image" in lines[2]
        assert "1 of 5 images is smaller than a crop of 12 × 12 and skipped." in lines[-1]

    def test_many_that_cannot_be_read_are_counted(self, tmp_path):
        save(tmp_path / "good.png")
        for index in range(15):
            (tmp_path / f"{index}.jpg").touch()
        _, lines, _ = read(tmp_path)
        assert len(lines) == learning_images.NUM_TOLD + 1
        assert lines[-1] == "Warning: 15 of 16 files cannot be read and are skipped."

    def test_nothing_left_is_an_error(self, tmp_path):
        save(tmp_path / "small.png", 5, 40)
        (tmp_path / "words.png").touch()
        with pytest.raises(DataError, match="of 2 files 1 cannot be read and 1 are smaller than a"):
            read(tmp_path)
        with pytest.raises(DataError, match="expected a folder of images, got "):
            read(tmp_path / "small.png")

    def test_the_test_images_are_left_out(self, tmp_path):
        for name in [*sorted(BSD68), "1", "2"]:
            save(tmp_path / "val" / f"{name}.png", 12, 12)
        found, lines, _ = read(tmp_path)
        assert len(found.learn) + len(found.held) == 2
        (line,) = lines
        assert line.startswith("68 of 70 images are those of BSD68, which denoisers are tested on")
        assert found.description.startswith(f"2 images in {tmp_path} outside BSD68, 1 of them held")

    def test_without_a_folder_the_berkeley_images(self, tmp_path, monkeypatch):
        for name in ("a", "b", "c"):
            save(tmp_path / f"{name}.png")
        files = [tmp_path / f"{name}.png" for name in "abc"]
        monkeypatch.setattr(learning_images, "berkeley_files", lambda: (files[:2], files[2:]))
        found, lines, _ = read(None)
        assert found.learn.names + found.held.names == (str(files[0]), str(files[1]))
        assert lines[0].startswith("1 of 3 images are those of BSD68")
        assert found.description.startswith(
            "2 images of the Berkeley segmentation data set (BSDS500) outside BSD68, 1 of them"
        )

    def test_the_picture_of_a_training_is_none_of_them(self, tmp_path, monkeypatch):
        save(tmp_path / "a.png")
        save(tmp_path / "net" / "history.png")
        trainings = ("checkpoint.safetensors", "model.safetensors", "history.jsonl", "config.toml")
        for name in trainings:
            save(tmp_path / name / "history.png")
            save(tmp_path / name / "photo.png")
            (tmp_path / name / name).touch()
        save(tmp_path / "school" / "history.png")
        monkeypatch.chdir(tmp_path)
        expected = ["a.png", "school/history.png", *(f"{name}/photo.png" for name in trainings)]
        for folder in (tmp_path, Path()):
            found, _, _ = read(folder, output=Path("net"), num_held=0)
            names = [Path(name).resolve().relative_to(tmp_path) for name in found.learn.names]
            assert sorted(names) == sorted(map(Path, expected))


class TestTraining:
    OPTIONS = {"sigma": 25 / 255, "crop_size": 12, "steps_per_epoch": 3}
    SHORT = {"num_epochs": 2, "batch_size": 2}

    @pytest.fixture
    def photos(self, tmp_path):
        for index in range(4):
            save(tmp_path / "photos" / f"{index}.png", seed=index)
        return tmp_path / "photos"

    def test_a_network_of_ones_own(self, photos, tmp_path):
        network = ConvFWNet(2, 3, kernel_size=5)
        told = []
        report = train_on_folder(
            network,
            photos,
            tmp_path / "net",
            settings=self.SHORT,
            validation=2,
            progress=told.append,
            **self.OPTIONS,
        )
        assert report.network is network
        assert report.model_path == tmp_path / "net" / "model.safetensors"
        assert len(report.images.learn) == len(report.images.held) == 2
        last = report.training.history[-1]["validation"]
        assert report.training.best_epoch == 2
        assert report.validation_psnr == pytest.approx(20 * math.log10(255 / last))
        assert report.noisy_psnr == pytest.approx(20.2, abs=0.3)
        kinds = [type(one).__name__ for one in told]
        assert kinds[:4] == ["ReadingProgress"] * 4
        assert kinds[4] == "TrainingProgress"
        assert told[-1].shown_validation.endswith(" dB")

    @pytest.mark.parametrize(
        ("file", "message"),
        [
            ("checkpoint.safetensors", "already has a checkpoint.safetensors: go on with --resume"),
            ("model.safetensors", "already has a model.safetensors: begin anew with --force"),
        ],
    )
    def test_an_earlier_run_is_told_before_images_are_read(self, photos, tmp_path, file, message):
        (tmp_path / "net").mkdir()
        (tmp_path / "net" / file).touch()
        told = []
        with pytest.raises(TrainingError, match=message):
            train_on_folder(
                ConvFWNet(2, 3), photos, tmp_path / "net", progress=told.append, **self.OPTIONS
            )
        assert told == []

    def test_the_last_epoch_is_kept(self, photos, tmp_path, monkeypatch):
        figures = iter([1.0, 2.0, 3.0])  # worse and worse
        monkeypatch.setattr(Denoising, "validate", lambda self, model: next(figures))
        options = {**self.OPTIONS, "settings": {**self.SHORT, "num_epochs": 3}}
        networks = [make_denoiser(num_layers=2, channels=3) for _ in range(2)]
        report = train_on_folder(networks[0], photos, tmp_path / "net", validation=1, **options)
        assert report.training.best_epoch == 3
        assert report.validation_psnr == pytest.approx(20 * math.log10(255 / 3))
        monkeypatch.undo()
        task = Denoising(report.images.learn, sigma=25 / 255, crop_size=12, crops_per_epoch=6)
        train(networks[1], task, TrainingConfig.read(tmp_path / "net" / "config.toml"))
        for name, value in networks[1].state_dict().items():
            assert torch.equal(networks[0].state_dict()[name], value)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"sigma": 25.0}, "sigma must be in"),
            ({"steps_per_epoch": 0}, "steps_per_epoch must be an integer >= 1, got 0"),
            ({"crop_size": 0}, "crop_size must be an integer >= 1, got 0"),
            ({"crop_size": 99}, "4 are smaller than a crop of 99 × 99"),
            ({"settings": {"batch_size": 0}}, "batch_size must be an integer >= 1, got 0"),
            ({"start": ConvFWNet(3, 3)}, "networks do not fit each other"),
            ({"start": DnCNN(3, 3)}, "must have model 'ConvFWNet', got 'DnCNN'"),
        ],
    )
    def test_errors(self, photos, tmp_path, changes, message):
        options = {**self.OPTIONS, "settings": self.SHORT, **changes}
        with pytest.raises(ValueError, match=message):
            train_on_folder(ConvFWNet(2, 3), photos, tmp_path / "net", **options)
        assert not (tmp_path / "net").exists()

    def test_channels_are_gray_or_rgb(self, photos, tmp_path):
        with pytest.raises(ValueError, match="in_channels must be 1 or 3, gray or RGB, got 2"):
            train_on_folder(ConvFWNet(2, 3, in_channels=2), photos, tmp_path, **self.OPTIONS)

    def test_a_dncnn_goes_on_as_it_is(self, photos, tmp_path):
        start, still = DnCNN(3, 3), {**self.SHORT, "learning_rate": 1e-20}
        network = make_denoiser(start=start)
        options = {**self.OPTIONS, "settings": still, "start": start}
        train_on_folder(network, photos, tmp_path / "net", **options)
        for name, weight in start.named_parameters():
            torch.testing.assert_close(network.get_parameter(name), weight)
        wide = make_denoiser(start=start, color=True)
        with pytest.raises(ValueError, match="must have in_channels 3, got 1"):
            train_on_folder(wide, photos, tmp_path / "wide", **options)


def test_digests_tell_weights_apart():
    state = ConvFWNet(2, 3).state_dict()
    changed = {name: value.clone() for name, value in state.items()}
    changed["first.weight"][0, 0, 0, 0] += 1e-3
    assert weights_digest(state) == weights_digest(dict(reversed(state.items())))
    assert weights_digest(state) != weights_digest(changed)
    assert len(weights_digest(DnCNN(4, 3).state_dict())) == 16
