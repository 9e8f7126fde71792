"""What `fwnet train upscale` is made of: networks, the recipe, the training."""

import math

import pytest
import torch

from fwnet.experiments.super_resolution import DEEP
from fwnet.experiments.upscale_table import CASES
from fwnet.models import SRCNN, VDSR, ConvFWNet, ConvLISTA, create_model
from fwnet.restoration import Upscaling
from fwnet.training import TrainingConfig, TrainingError, train
from fwnet.zoo import TrainedModel
from tests.trainings import (
    about,
    assert_same,
    chosen_rate,
    make_upscaler,
    save_noise,
    train_on,
    upscaling,
)

CPU = torch.device("cpu")
RECIPE = Upscaling.recipe
MEASURED = {case.name: case for case in (*CASES, DEEP)}


def train_upscaler(network, data, output, *, scale, smaller_copies=True, **options):
    restoration = Upscaling(scale, network.scale > 1, smaller_copies)
    return train_on(restoration, network, data, output, **options)


class TestNetworks:
    @pytest.mark.parametrize("scale", [2, 3, 4, 5])
    def test_usual_ones(self, scale):
        network = make_upscaler(scale=scale)
        assert isinstance(network, ConvFWNet)
        small = {"output_gain": 0.1}  # near bicubic enlargement
        assert network.config == ConvFWNet(19, scale=scale, **small).config
        assert make_upscaler(scale=scale, enlarged=True).config == ConvFWNet(19, **small).config
        assert make_upscaler("VDSR", scale=scale).config == VDSR(**small).config
        assert make_upscaler("SRCNN", scale=scale).config == SRCNN().config

    def test_what_is_asked_for(self):
        network = make_upscaler(scale=2, num_layers=3, channels=5, p=1.3, learn_p=False)
        expected = ConvFWNet(3, 5, scale=2, p=1.3, learn_p=False, output_gain=0.1)
        assert network.config == expected.config
        plain = make_upscaler(scale=2, plain=True)
        assert not plain.residual
        assert (plain.config["eps"], plain.config["output_gain"]) == (0.0, 1.0)  # the authors' own
        assert make_upscaler("VDSR", scale=3, batch_norm=True, num_layers=4).norms

    def test_weights_are_those_of_the_seed(self):
        one, same, other = (
            make_upscaler(scale=3, num_layers=2, channels=4, seed=seed) for seed in (1, 1, 2)
        )
        assert torch.equal(one.last.weight, same.last.weight)
        assert not torch.equal(one.last.weight, other.last.weight)

    @pytest.mark.parametrize(
        "start",
        [ConvFWNet(3, 5, p=1.3), ConvFWNet(2, 4, scale=3), VDSR(4, 3, output_gain=0.5), SRCNN()],
    )
    @pytest.mark.parametrize("scale", [2, 3])
    def test_one_to_go_on_with_has_the_form_of_the_other(self, start, scale):
        network = make_upscaler(scale=scale, start=start)
        assert type(network) is type(start)
        expected = {**start.config, "scale": scale} if start.scale > 1 else start.config
        assert network.config == expected

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"scale": 1}, "scale must be an integer >= 2, got 1"),
            ({"scale": 1.5}, "scale must be an integer >= 2, got 1.5"),
            ({"model": "DnCNN"}, "model must be one of ConvFWNet, VDSR, SRCNN, got 'DnCNN'"),
            (
                {"model": "SRCNN", "channels": 3},
                "channels applies to ConvFWNet and VDSR only",
            ),
            ({"model": "VDSR", "p": 1.3}, "p applies to ConvFWNet only, not to VDSR"),
            ({"p": math.inf, "learn_p": False}, "p must be > 1 and finite .* got inf"),
            (
                {"start": ConvFWNet(2, 4, scale=2), "enlarged": True},
                "must see enlarged images, got small ones",
            ),
            (
                {"start": ConvFWNet(2, 4), "model": "SRCNN"},
                "model must be 'ConvFWNet', that",
            ),
            (
                {"start": ConvFWNet(2, 4), "learn_p": False},
                "learn_p must be True, that",
            ),
            ({"start": ConvFWNet(2, 4, in_channels=3)}, "must see one channel, got one for color"),
            ({"start": ConvLISTA(2, 4)}, "must be one of ConvFWNet, VDSR, SRCNN, got 'ConvLISTA'"),
        ],
    )
    def test_bad_ones(self, options, message):
        with pytest.raises(ValueError, match=message):
            make_upscaler(**{"scale": 3, **options})

    def test_the_scale_of_a_trained_one(self):
        def scale_of(network, **facts):
            trained = TrainedModel(network, "start", facts)
            options = {"scale": None, "enlarged": False}
            return Upscaling.from_options(trained, **options).scale

        assert scale_of(ConvFWNet(2, 4, scale=4)) == 4
        assert scale_of(VDSR(2, 4), scale=3) == 3
        for facts in ({}, {"scale": "3"}):
            with pytest.raises(ValueError, match=r"does not say what scale .*: give --scale"):
                scale_of(VDSR(2, 4), **facts)


class TestRecipe:
    @pytest.mark.parametrize(
        ("network", "rate"),
        [
            (ConvFWNet(4, 2), 2e-3),
            (ConvFWNet(5, 2), 4e-3),
            (ConvFWNet(1, 2, scale=3), 2e-3),
            (ConvFWNet(19, 2, scale=3), 4e-3),
            (ConvFWNet(4, 2, residual=False, eps=0.0), 16e-3),
            (ConvFWNet(4, 2, residual=False, eps=0.0, scale=2), 16e-3),
            (ConvFWNet(19, 2, residual=False, eps=0.0), 4e-3),
            (ConvFWNet(19, 2, residual=False, eps=0.0, scale=2), 4e-3),
            (VDSR(5, 2), 1e-3),
            (VDSR(20, 2), 1e-3),
            (VDSR(20, 2, batch_norm=True), 1e-3),
            (SRCNN(), 2e-3),
        ],
    )
    def test_learning_rates(self, network, rate):
        assert RECIPE.settings(network, CPU)["learning_rate"] == rate
        assert RECIPE.settings(network, CPU, has_start=True)["learning_rate"] == rate / 2

    @pytest.mark.parametrize(
        ("method", "experiment", "options"),
        [
            ("Conv F-W Net (4 layers)", "table", {"num_layers": 4, "enlarged": True}),
            ("Conv F-W Net (4 layers)", "ablation", {"num_layers": 4, "enlarged": True}),
            (
                "Conv F-W Net (4 layers), authors' form",
                "table",
                {"num_layers": 4, "enlarged": True, "plain": True},
            ),
            ("Conv F-W Net (4 layers), sub-pixel", "table", {"num_layers": 4}),
            ("Conv F-W Net (4 layers), sub-pixel", "trials", {"num_layers": 4}),
            ("Conv F-W Net (19 layers), sub-pixel", "trials", {}),
            ("VDSR (5 layers)", "table", {"num_layers": 5}),
            ("VDSR (5 layers)", "ablation", {"num_layers": 5}),
            ("VDSR (5 layers) + BN", "table", {"num_layers": 5, "batch_norm": True}),
            ("SRCNN (9-1-5)", "table", {}),
        ],
    )
    def test_it_is_what_was_measured(self, method, experiment, options):
        measured = MEASURED[method]
        network = make_upscaler(measured.model, scale=3, **options)
        assert network.config == create_model(measured.model, **measured.options).config
        rate = RECIPE.settings(network, CPU)["learning_rate"]
        assert rate == chosen_rate(f"upscale-{experiment}", method)

    @pytest.mark.parametrize(
        ("network", "clip_norm"),
        [
            (ConvFWNet(4, 2), 0.01),
            (ConvFWNet(19, 2, scale=3), 0.01),
            (ConvFWNet(4, 2, residual=False, eps=0.0), 0.01),
            (VDSR(5, 2), 0.003),
            (VDSR(20, 2, output_gain=0.1), 0.003),
            (VDSR(5, 2, batch_norm=True), 0.01),
            (SRCNN(), 0.1),
            (SRCNN((9, 5, 5)), 0.1),
        ],
    )
    def test_forms_have_settings_of_their_own(self, network, clip_norm):
        for goes_on in (False, True):
            settings = RECIPE.settings(network, CPU, has_start=goes_on)
            assert settings["clip_norm"] == clip_norm
            assert (settings["num_epochs"], settings["batch_size"]) == (20, 64)

    def test_what_help_shows(self):
        shown = RECIPE.shown
        norms = "ConvFWNet: 0.01; VDSR: 0.003, but 0.01 with --batch-norm; SRCNN: 0.1"
        assert (shown["clip_norm"], shown["batch_norm"]) == (norms, "off")
        assert shown["num_layers"] == "ConvFWNet: 19; VDSR: 20"
        assert [shown[name] for name in ("num_epochs", "batch_size", "weight_decay")] == [
            20,
            64,
            0.0,
        ]
        assert shown["learning_rate"].endswith("VDSR: 0.001; SRCNN: 0.002; half with --start")

    def test_settings_are_settings(self):
        network = make_upscaler(scale=3, channels=2, num_layers=2)
        config = TrainingConfig(**RECIPE.settings(network, CPU))
        assert (config.num_epochs, config.batch_size, config.average) == (20, 64, 0.999)
        assert (config.clip_norm, config.weight_decay) == (0.01, 0.0)
        assert RECIPE.settings(network, torch.device("cuda"))["precision"] == "bf16"
        assert RECIPE.settings(network, CPU, 10)["average"] == 0.5


class TestTraining:
    OPTIONS = {"scale": 3, "crop_size": 12, "steps_per_epoch": 3}
    SHORT = {"num_epochs": 2, "batch_size": 2}

    @pytest.mark.parametrize("network", [ConvFWNet(2, 3, kernel_size=5, scale=3), VDSR(2, 3)])
    def test_a_network_of_ones_own(self, photos, tmp_path, network):
        told = []
        report = train_upscaler(
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
        assert report.training.best_epoch == 2
        # Again, with a task of its own.
        task = upscaling(
            report.images.learn,
            report.images.held,
            scale=3,
            low_resolution=network.scale == 3,
            crop_size=12,
        )
        with torch.no_grad():
            error = task.validate(network)
        assert report.validation_psnr == pytest.approx(20 * math.log10(255 / error), abs=1e-3)
        bicubic = task.validate_baseline()
        assert report.baseline_psnr == pytest.approx(20 * math.log10(255 / bicubic), abs=1e-3)
        assert told[-1].figures["validation"].endswith(" dB")

    @pytest.mark.parametrize(
        ("network", "asked", "copies"),
        [
            (ConvFWNet(2, 3, scale=3), {}, True),
            (VDSR(2, 3), {"smaller_copies": False}, False),
        ],
    )
    def test_smaller_copies_unless_nobody_wants_them(
        self, photos, tmp_path, network, asked, copies
    ):
        """Again, with a task of its own: the weights are those of that, to the last digit."""
        again = create_model(type(network).__name__, **network.config)
        again.load_state_dict(network.state_dict())
        options = {"settings": self.SHORT, **asked, **self.OPTIONS}
        report = train_upscaler(network, photos, tmp_path / "net", **options)
        task = upscaling(
            report.images.learn,
            report.images.held,
            scale=3,
            low_resolution=network.scale == 3,
            crop_size=12,
            crops_per_epoch=6,
            copies=copies,
        )
        assert len(task.images) == len(report.images.learn) * (5 if copies else 1) > 1
        train(again, task, TrainingConfig.read(tmp_path / "net" / "config.toml"))
        assert_same(again.state_dict(), network.state_dict())
        assert about(tmp_path / "net")["notes"]["smaller_copies"] is copies

    @pytest.mark.parametrize(("begun", "side"), [(False, 20), (True, 12)])
    def test_a_run_is_not_continued_with_or_without_them(self, tmp_path, begun, side):
        """Not even if no image is large enough for copies: what is asked for counts."""
        save_noise(tmp_path / "photos" / "one.png", side, side)
        options = {"settings": self.SHORT, "smaller_copies": begun, **self.OPTIONS}
        places = tmp_path / "photos", tmp_path / "net"
        train_upscaler(ConvFWNet(1, 2, scale=3), *places, **options)
        other = {**options, "smaller_copies": not begun, "resume": True}
        message = f"was started with smaller_copies {begun}, got smaller_copies {not begun}: cont"
        with pytest.raises(TrainingError, match=message):
            train_upscaler(ConvFWNet(1, 2, scale=3), *places, **other)
        train_upscaler(ConvFWNet(1, 2, scale=3), *places, **{**options, "resume": True})

    @pytest.mark.parametrize(
        ("make", "usual"),
        [
            (lambda: SRCNN((3, 1, 3), (2, 2)), 0.1),
            (lambda: ConvFWNet(2, 3, scale=3), 0.01),
        ],
    )
    def test_the_users_settings_go_before_those_of_the_form(self, photos, tmp_path, make, usual):
        for given, expected in (
            ({}, usual),
            ({"clip_norm": 0.5}, 0.5),
            ({"clip_norm": 0.01}, 0.01),  # that of all
            ({"clip_norm": None}, None),  # nothing is cut
        ):
            place = tmp_path / str(given.get("clip_norm", "net"))
            settings = {"num_epochs": 1, "batch_size": 1, **given}
            train_upscaler(make(), photos, place, settings=settings, **self.OPTIONS)
            config = TrainingConfig.read(place / "config.toml")
            assert config.clip_norm == expected
            assert (config.num_epochs, config.batch_size, config.weight_decay) == (1, 1, 0.0)

    @pytest.mark.parametrize(("scale", "size"), [(3, 48), (5, 45), (17, 51)])
    def test_crops_by_the_scale(self, tmp_path, scale, size):
        save_noise(tmp_path / "photos" / "one.png", 60, 60)
        network = ConvFWNet(1, 2, scale=scale)
        settings = {"num_epochs": 1, "batch_size": 1}
        options = {"scale": scale, "settings": settings, "steps_per_epoch": 1}
        train_upscaler(network, tmp_path / "photos", tmp_path / "net", **options)
        assert about(tmp_path / "net")["notes"]["crop_size"] == size

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"scale": 1}, "scale must be an integer >= 2, got 1"),
            ({"scale": 2}, "scale of the network must be 2, got 3"),
            (
                {"crop_size": 10},
                "multiple of the scale, 3, and at least 9, got 10",
            ),
            (
                {"crop_size": 6},
                "multiple of the scale, 3, and at least 9, got 6",
            ),
            ({"crop_size": 99}, "4 are smaller than a crop of 99 × 99"),
            ({"steps_per_epoch": 0}, "steps_per_epoch must be an integer >= 1, got 0"),
            ({"validation": -1}, "validation must be an integer >= 0, got -1"),
            ({"settings": {"batch_size": 0}}, "batch_size must be an integer >= 1, got 0"),
            ({"start": ConvFWNet(3, 3, scale=3)}, "networks do not fit each other"),
            ({"start": VDSR(3, 3)}, "must have model 'ConvFWNet', got 'VDSR'"),
        ],
    )
    def test_errors(self, photos, tmp_path, changes, message):
        options = {**self.OPTIONS, "settings": self.SHORT, **changes}
        with pytest.raises(ValueError, match=message):
            train_upscaler(ConvFWNet(2, 3, scale=3), photos, tmp_path / "net", **options)
        assert not (tmp_path / "net").exists()

    def test_one_channel(self, photos, tmp_path):
        with pytest.raises(ValueError, match="in_channels of the network must be 1, got 3"):
            train_upscaler(VDSR(2, 3, in_channels=3), photos, tmp_path, **self.OPTIONS)

    def test_what_is_wrong_is_told_before_images_are_read(self, photos, tmp_path):
        (tmp_path / "net").mkdir()
        (tmp_path / "net" / "model.safetensors").touch()
        told = []
        with pytest.raises(TrainingError, match="already has a model"):
            train_upscaler(
                ConvFWNet(2, 3, scale=3),
                photos,
                tmp_path / "net",
                progress=told.append,
                **self.OPTIONS,
            )
        assert told == []
