"""`fwnet train upscale`, as its users run it, on a folder of small pictures."""

import pytest
import torch

from fwnet.models import SRCNN, VDSR, ConvFWNet, ConvLISTA
from fwnet.restoration import upscaling
from fwnet.training import TrainingConfig
from fwnet.zoo import list_models
from tests.image_trainings import (
    NETWORK,
    AnotherConformance,
    BadInput,
    FoldersConformance,
    ImageTraining,
    ResultConformance,
    SettingsConformance,
    StartConformance,
)
from tests.trainings import about, assert_same, save_stripes, weights


class Upscale(ImageTraining):
    command = "upscale"
    crop_size = 12
    margin = 6
    learning_rate = 2e-3  # of two layers
    clip_norm = 0.01
    num_epochs = 20

    def save_start(self, path):
        ConvFWNet(2, 4, scale=3).save(path)


class TestResult(Upscale, ResultConformance):
    given = ("--scale", 2)
    figures = r"validation PSNR \d\d\.\d\d dB after epoch 3; bicubic enlargement has \d\d\.\d\d dB"
    network = ConvFWNet(2, 4, scale=2, output_gain=0.1)
    notes = {"scale": 2, "smaller_copies": True, "shifts": True}
    scale = 2

    def test_a_network_that_sees_the_enlarged_image(self, photos, tmp_path):
        network = self.trained(photos, tmp_path / "net", "--enlarged", "--scale", "4")
        assert network.config == ConvFWNet(2, 4, output_gain=0.1).config
        assert about(tmp_path / "net")["notes"]["scale"] == 4
        model = tmp_path / "net" / "model.safetensors"
        self.check_use(photos / "1.png", tmp_path / "large.png", model, 4)

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (
                ("--fixed-p", "--p", "1.3", *NETWORK),
                ConvFWNet(2, 4, scale=3, p=1.3, learn_p=False, output_gain=0.1),
            ),
            (("--plain", *NETWORK), ConvFWNet(2, 4, scale=3, residual=False, eps=0.0)),
            (("--model", "VDSR", *NETWORK), VDSR(2, 4, output_gain=0.1)),
            (
                ("--model", "VDSR", "--batch-norm", "--enlarged", *NETWORK),
                VDSR(2, 4, batch_norm=True, output_gain=0.1),
            ),
            (("--model", "SRCNN"), SRCNN()),
        ],
    )
    def test_networks(self, photos, tmp_path, options, expected):
        network = self.trained(photos, tmp_path / "net", *options, network=())
        self.check_network(network, expected)
        assert about(tmp_path / "net")["notes"]["scale"] == 3

    @pytest.mark.parametrize("choice", ["smaller-copies", "shifts"])
    def test_what_can_be_left_out(self, photos, tmp_path, choice):
        """What is learned is another matter; the same option gives the same."""
        options = {"usual": (), "with": (f"--{choice}",), "without": (f"--no-{choice}",)}
        for name, option in options.items():
            self.trained(photos, tmp_path / name, *option)
            told = about(tmp_path / name)["notes"][choice.replace("-", "_")]
            assert told is (name != "without")
        assert_same(weights(tmp_path / "with"), weights(tmp_path / "usual"))
        one, other = (weights(tmp_path / name)["first.weight"] for name in ("with", "without"))
        assert not torch.equal(one, other)


class TestSettings(Upscale, SettingsConformance):
    help_words = ("[default: 64]", "VDSR: 0.003, but 0.01", "SRCNN: 0.002")
    help_words += ("ConvFWNet, VDSR: number of layers.", "fwnet upscale --model")
    help_words += ("fwnet train upscale --data photos --scale 3 -o mynet",)
    help_words += ("--smaller-copies", "--no-smaller-copies", "[default: smaller-copies]")
    help_words += ("--shifts", "--no-shifts", "[default: shifts]")

    @pytest.mark.parametrize(
        ("options", "usual"),
        [
            (("--model", "SRCNN"), 0.1),
            (("--plain", *NETWORK), 0.01),
        ],
    )
    def test_networks_with_settings_of_their_own(self, photos, tmp_path, options, usual):
        (tmp_path / "c.toml").write_text("clip_norm = 0.5\nseed = 4\n")
        said = {
            "nothing": ((), usual),
            "file": (("--config", tmp_path / "c.toml"), 0.5),
            "option": (("--config", tmp_path / "c.toml", "--clip-norm", "0.25"), 0.25),
        }
        for name, (more, expected) in said.items():
            short = ("--num-epochs", 1, "--steps-per-epoch", 1, *more)
            self.trained(photos, tmp_path / name, *short, network=options)
            assert TrainingConfig.read(tmp_path / name / "config.toml").clip_norm == expected


class TestFolders(Upscale, FoldersConformance):
    def test_what_is_skipped_is_told(self, tmp_path):
        others, _ = self.check_skipped(save_stripes(tmp_path), 8)
        assert others == []

    def test_without_a_folder_the_published_images(self, photos, tmp_path, monkeypatch):
        files = sorted(photos.rglob("*.png"))
        monkeypatch.setattr(upscaling, "t91_files", lambda: files[:1])
        monkeypatch.setattr(upscaling, "berkeley_training_files", lambda: files[1:3])
        monkeypatch.setattr(upscaling, "berkeley_validation_files", lambda count: files[3:][:count])
        result = self.train(None, tmp_path / "net")
        assert result.returncode == 0, result.stderr
        assert "3 images to learn from and 1 to validate\n" in result.stdout
        notes = about(tmp_path / "net")["notes"]
        assert notes["data"].startswith("3 images of T91 and of the Berkeley segmentation data")
        result = self.train(None, tmp_path / "all", "--validation", "0")
        assert result.returncode == 0, result.stderr
        assert "3 images to learn from\n" in result.stdout
        assert "validation" not in result.stdout

    def test_no_folder_and_no_published_images(self, tmp_path, monkeypatch):
        monkeypatch.setenv("FWNET_DATA", str(tmp_path))
        result = self.train(None, tmp_path / "net", network=())
        assert result.returncode == 2
        assert "expected the images of T91 in the folder t91" in result.stderr


class TestStopping(Upscale, AnotherConformance):
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--scale", "2"), "was started with scale 3, got scale 2"),
            (("--enlarged",), "was started with other data"),
            (
                ("--no-smaller-copies",),
                "was started with smaller_copies True, got smaller_copies False",
            ),
        ],
    )
    def test_another_enlargement(self, photos, begun, options, message):
        self.check_another(photos, begun, options, message)


class TestStart(Upscale, StartConformance):
    starts = {
        "UNTOLD": (ConvFWNet(2, 4), None),
        "COLOR": (ConvFWNet(2, 4, in_channels=3), None),
        "LEVELS": (ConvFWNet(2, 4, noise_level_input=True), None),
        "LISTA": (ConvLISTA(2, 4), None),
    }

    def started(self, photos, tmp_path, start, notes, *options):
        """The network after a training that changes next to nothing."""
        file = tmp_path / "start.safetensors"
        start.save(file, notes)
        options = ("--start", file, *self.STILL, *options)
        return self.trained(photos, tmp_path / "net", *options, network=())

    @pytest.mark.parametrize(
        ("start", "notes", "scale"),
        [
            (ConvFWNet(3, 5, scale=2, p=1.7), {}, 2),
            (ConvFWNet(2, 5, p=1.7), {"task": "upscale", "scale": 4}, 4),
            (VDSR(3, 4), {"scale": 2}, 2),
            (SRCNN((3, 1, 3), (4, 3)), {"scale": 3}, 3),
        ],
    )
    def test_form_and_scale_are_kept(self, photos, tmp_path, start, notes, scale):
        network = self.started(photos, tmp_path, start, notes)
        assert network.config == start.config
        assert about(tmp_path / "net")["notes"]["scale"] == scale
        for name, value in start.state_dict().items():
            torch.testing.assert_close(network.state_dict()[name], value)

    def test_another_scale(self, photos, tmp_path):
        start = ConvFWNet(3, 5, scale=3, p=1.7)
        network = self.started(photos, tmp_path, start, {"scale": 3}, "--scale", "2")
        assert network.config == {**start.config, "scale": 2}
        assert about(tmp_path / "net")["notes"]["scale"] == 2
        for name, value in start.state_dict().items():
            if name != "last.weight":
                torch.testing.assert_close(network.state_dict()[name], value)
        assert network.last.weight.shape == (4, 5, 3, 3)

    def test_an_enlarged_image_may_be_enlarged_more(self, photos, tmp_path):
        start = VDSR(3, 4)
        network = self.started(photos, tmp_path, start, {"scale": 3}, "--scale", "4")
        assert about(tmp_path / "net")["notes"]["scale"] == 4
        torch.testing.assert_close(network.last.weight, start.last.weight)

    def test_a_shipped_network_by_its_name(self, photos, tmp_path):
        names = [card.name for card in list_models("upscale")]
        options = ("--start", names[0], *self.STILL, "--steps-per-epoch", "1", "--batch-size", "1")
        scale = self.trained(photos, tmp_path / "net", *options, network=()).scale
        assert about(tmp_path / "net")["notes"]["scale"] == scale
        assert names[0].endswith(f"_x{scale}")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("GOOD", "--model", "VDSR"), "model must be 'ConvFWNet', that of the network"),
            (("GOOD", "--enlarged"), "must see enlarged images, got small ones"),
            (("UNTOLD",), "does not say what scale it was trained for: give --scale"),
            (("COLOR",), "must see one channel, got one for color"),
            (("LEVELS",), "must see one channel, got one for noise levels"),
            (("LISTA",), "must be one of ConvFWNet, VDSR, SRCNN, got 'ConvLISTA'"),
        ],
    )
    def test_starts_for_something_else(self, photos, tmp_path, options, message):
        self.check_bad_start(photos, tmp_path, options, message)


class TestInput(Upscale, BadInput):
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--scale", "1"), "scale must be an integer >= 2, got 1"),
            (("--scale", "2.5"), "--scale must be a whole number, got '2.5'"),
            (
                ("--scale", "5"),
                "multiple of the scale, 5, and at least 15, got 12",
            ),
            (("--crop-size", "13"), "multiple of the scale, 3, and at least 9, got 13"),
            (("--crop-size", "6"), "multiple of the scale, 3, and at least 9, got 6"),
            (("--crop-size", "0"), "crop_size must be an integer >= 1, got 0"),
            (("--model", "ResNet"), "model must be one of ConvFWNet, VDSR, SRCNN, got 'ResNet'"),
            (("--model", "SRCNN"), "num_layers applies to ConvFWNet and VDSR only, not to SRCNN"),
            (("--model", "VDSR", "--plain"), "plain applies to ConvFWNet only, not to VDSR"),
            (("--batch-norm",), "batch_norm applies to VDSR only, not to ConvFWNet"),
        ],
    )
    def test_bad_scales_and_networks(self, photos, tmp_path, options, message):
        self.check_bad_input(photos, tmp_path, options, message)
