"""What `fwnet train denoise` is made of: networks, the recipe, the training."""

import dataclasses
import math

import pytest
import torch

from fwnet.experiments import denoise_depth, denoise_table
from fwnet.experiments.patches import PatchDenoiser
from fwnet.models import ConvFWNet, ConvLISTA, DnCNN, create_model
from fwnet.restoration import Denoising
from fwnet.training import RestorationTask, TrainingConfig, TrainingError, train
from fwnet.training.restoration_training import weights_digest
from tests.trainings import assert_same, chosen_rate, denoising, make_denoiser, train_on

CPU = torch.device("cpu")
RECIPE = Denoising.recipe
MEASURED = {case.name: case for case in (*denoise_table.CASES, *denoise_depth.CASES)}


def train_on_folder(network, data, output, *, sigma, **options):
    color = network.in_channels == 3
    restoration = Denoising(sigma, network.noise_level_input, color)
    return train_on(restoration, network, data, output, **options)


class TestNetworks:
    def test_usual_ones(self):
        network = make_denoiser()
        assert isinstance(network, ConvFWNet)
        assert network.config == ConvFWNet(4).config
        assert make_denoiser("ConvLISTA").config == ConvLISTA(4, threshold=0.1).config
        assert make_denoiser("DnCNN").config == DnCNN(17, output_gain=0.1).config

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
            ({"p": 1.0, "learn_p": False}, "p must be > 1 and finite .* got 1"),
            ({"p": math.inf, "learn_p": False}, "p must be > 1 and finite .* got inf"),
            ({"model": "DnCNN", "p": 1.3}, "p applies to ConvFWNet only, not to DnCNN"),
            (
                {"model": "ConvLISTA", "learn_p": False},
                "learn_p applies to ConvFWNet only",
            ),
            (
                {"model": "DnCNN", "plain": True},
                "plain applies to ConvFWNet and ConvLISTA only",
            ),
            ({"batch_norm": True}, "batch_norm applies to DnCNN only, not to ConvFWNet"),
        ],
    )
    def test_bad_ones(self, options, message):
        with pytest.raises(ValueError, match=message):
            make_denoiser(**options)

    @pytest.mark.parametrize(
        ("start", "options", "message"),
        [
            (
                ConvFWNet(2, 4),
                {"num_layers": 4},
                "num_layers must be 2, that of the network",
            ),
            (ConvFWNet(2, 4), {"model": "DnCNN"}, "model must be 'ConvFWNet', that of the network"),
            (ConvFWNet(2, 4), {"plain": True}, "residual must be True, that of the network"),
            (ConvFWNet(2, 4), {"learn_p": False}, "learn_p must be True, that of the network"),
            (ConvFWNet(2, 4, in_channels=3), {"color": False}, "is for color, got gray"),
            (ConvFWNet(2, 4, noise_level_input=True), {}, "has a noise-level input, got one level"),
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
            (ConvFWNet(4, 2), 8e-3),
            (ConvFWNet(5, 2), 4e-3),
            (ConvFWNet(4, 2, residual=False, eps=0.0), 16e-3),
            (ConvFWNet(8, 2, residual=False, eps=0.0), 4e-3),
            (ConvLISTA(4, 2), 8e-3),
            (ConvLISTA(4, 2, residual=False), 8e-3),
            (DnCNN(5, 2), 4e-3),
            (DnCNN(6, 2), 2e-3),
            (DnCNN(5, 2, batch_norm=False), 1e-3),
        ],
    )
    def test_learning_rates(self, network, rate):
        assert RECIPE.settings(network, CPU)["learning_rate"] == rate
        assert RECIPE.settings(network, CPU, has_start=True)["learning_rate"] == rate / 2

    @pytest.mark.parametrize(
        ("method", "experiment", "options"),
        [
            ("Conv F-W Net (4 layers)", "table", {}),
            ("Conv F-W Net (16 layers)", "depth", {"num_layers": 16}),
            ("Conv F-W Net (4 layers), authors' form", "table", {"plain": True}),
            ("Conv LISTA (4 layers)", "table", {}),
            ("DnCNN (5 layers)", "table", {"num_layers": 5}),
            ("DnCNN (5 layers, w/o BN)", "table", {"num_layers": 5, "batch_norm": False}),
            ("DnCNN (17 layers)", "depth", {}),
        ],
    )
    def test_it_is_what_was_measured(self, method, experiment, options):
        measured = MEASURED[method]
        network = make_denoiser(measured.model, **options)
        assert network.config == create_model(measured.model, **measured.options).config
        rate = RECIPE.settings(network, CPU)["learning_rate"]
        assert rate == chosen_rate(f"denoise-{experiment}", method)

    def test_precision_is_by_the_machine(self):
        network = ConvFWNet(2, 2)
        assert RECIPE.settings(network, CPU)["precision"] == "float32"
        assert RECIPE.settings(network, torch.device("cuda"))["precision"] == "bf16"

    @pytest.mark.parametrize(
        ("num_steps", "average"),
        [(10_000, 0.999), (6000, 0.999), (5000, 0.999), (2000, 0.9975), (10, 0.5), (3, 0.0)],
    )
    def test_the_mean_of_a_short_training_is_short(self, num_steps, average):
        assert RECIPE.settings(ConvFWNet(2, 2), CPU, num_steps)["average"] == average

    @pytest.mark.parametrize(
        "network",
        [
            ConvFWNet(2, 2),
            ConvFWNet(2, 2, residual=False, eps=0.0),
            ConvLISTA(2, 2),
            DnCNN(3, 2),
            DnCNN(3, 2, batch_norm=False),
        ],
    )
    def test_no_form_has_settings_of_its_own(self, network):
        assert RECIPE.fixed_settings(type(network).__name__, network.config) == {
            "num_epochs": 10,
            "batch_size": 128,
            "clip_norm": 0.1,
            "weight_decay": 0.0,
        }

    def test_settings_are_settings(self):
        config = TrainingConfig(**RECIPE.settings(ConvFWNet(2, 2), CPU))
        assert config.num_epochs == 10
        assert config.batch_size == 128
        assert config.average == 0.999

    def test_what_help_shows(self):
        fields = {field.name for field in dataclasses.fields(TrainingConfig)}
        shown = RECIPE.shown
        assert set(shown) <= fields | {"model", "num_layers", "batch_norm"}
        assert (shown["num_epochs"], shown["batch_size"], shown["clip_norm"]) == (10, 128, "0.1")
        assert (shown["model"], shown["batch_norm"]) == ("ConvFWNet", "on")
        assert shown["num_layers"] == "ConvFWNet: 4; ConvLISTA: 4; DnCNN: 17"
        assert shown["learning_rate"] == (
            "ConvFWNet: 0.004, but 0.008 with up to 4 layers, 0.016 with --plain and up to 4 "
            "layers, 0.008 with --reduction 2; ConvLISTA: 0.008; DnCNN: 0.002, but 0.004 with up "
            "to 5 layers, 0.001 with --no-batch-norm; half with --start"
        )

    def test_a_network_that_no_row_is_for(self):
        coder = {"model": "FWNet", "num_features": 9, "num_atoms": 5, "num_layers": 2}
        patches = PatchDenoiser({**coder, "reconstruct": True}, patch_size=3)
        assert RECIPE.settings(patches, CPU)["learning_rate"] == 1e-3


class TestTraining:
    OPTIONS = {"sigma": 25 / 255, "crop_size": 12, "steps_per_epoch": 3}
    SHORT = {"num_epochs": 2, "batch_size": 2}

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
        assert report.baseline_psnr == pytest.approx(20.2, abs=0.3)
        assert [one.stage for one in told[:4]] == ["reading images"] * 4
        assert told[4].stage.startswith("epoch 1 of")
        assert told[-1].figures["validation"].endswith(" dB")

    @pytest.mark.parametrize(
        ("file", "message"),
        [
            ("checkpoint.safetensors", "already has a checkpoint.safetensors: continue with"),
            ("model.safetensors", "already has a model.safetensors: start over with"),
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
        monkeypatch.setattr(RestorationTask, "validate", lambda self, model: next(figures))
        options = {**self.OPTIONS, "settings": {**self.SHORT, "num_epochs": 3}}
        networks = [make_denoiser(num_layers=2, channels=3) for _ in range(2)]
        report = train_on_folder(networks[0], photos, tmp_path / "net", validation=1, **options)
        assert report.training.best_epoch == 3
        assert report.validation_psnr == pytest.approx(20 * math.log10(255 / 3))
        monkeypatch.undo()
        task = denoising(report.images.learn, sigma=25 / 255, crop_size=12, crops_per_epoch=6)
        train(networks[1], task, TrainingConfig.read(tmp_path / "net" / "config.toml"))
        assert_same(networks[0].state_dict(), networks[1].state_dict())

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
        with pytest.raises(ValueError, match="in_channels of the network must be 1, got 2"):
            train_on_folder(ConvFWNet(2, 3, in_channels=2), photos, tmp_path, **self.OPTIONS)

    def test_sizes_stay(self, photos, tmp_path):
        with pytest.raises(ValueError, match="scale of the network must be 1, got 2"):
            train_on_folder(ConvFWNet(2, 3, scale=2), photos, tmp_path, **self.OPTIONS)
        with pytest.raises(ValueError, match="must keep the size of images, got one with a scale"):
            make_denoiser(start=ConvFWNet(2, 3, scale=2))

    def test_a_dncnn_goes_on_as_it_is(self, photos, tmp_path):
        start, still = DnCNN(3, 3), {**self.SHORT, "learning_rate": 1e-20}
        network = make_denoiser(start=start)
        options = {**self.OPTIONS, "settings": still, "start": start}
        train_on_folder(network, photos, tmp_path / "net", **options)
        for name, weight in start.named_parameters():
            torch.testing.assert_close(network.get_parameter(name), weight)
        own = DnCNN(3, 3, output_gain=0.5)  # of weights that are not kept
        train_on_folder(own, photos, tmp_path / "own", **options)
        assert torch.equal(own.last.weight, network.last.weight)
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
