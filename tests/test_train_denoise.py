"""`fwnet train denoise`, as its users run it, on a folder of small pictures."""

import json
import os
import re
import shutil
import signal
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from fwnet.data import BSD68
from fwnet.models import ConvFWNet, ConvLISTA, DnCNN, FWNet, load_model
from fwnet.training import Denoising, TrainingConfig, learning_images
from tests.trainings import about, assert_same, run, save_stripes, weights


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return save_stripes(tmp_path_factory.mktemp("photos"))


NETWORK = ("--num-layers", "2", "--channels", "4")
SHORT = ("--num-epochs", "2", "--steps-per-epoch", "4", "--batch-size", "3", "--crop-size", "16")
SHORT += ("--device", "cpu")


def denoiser(photos, output, *options, network=NETWORK):
    return ["train", "denoise", "--data", photos, "-o", output, *network, *SHORT, *options]


def test_a_trained_network_denoises(photos, tmp_path, monkeypatch):
    net = tmp_path / "net"
    arguments = denoiser(photos, net, "--sigma", "30", "--num-epochs", "3")
    monkeypatch.setattr(sys, "argv", ["/bin/fwnet", *map(str, arguments)])
    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    model = net / "model.safetensors"
    network = load_model(model)
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{network.num_parameters} parameters, ")
    assert lines[1] == "5 images to learn from and 1 to validate"
    figures = r"validation PSNR 1\d\.\d\d dB after epoch 3; the noisy images have 18\.\d\d dB"
    assert re.fullmatch(figures, lines[2])
    assert lines[3].startswith(f"p {network.p.item():.4g}")
    assert lines[-2:] == [f"written to {model}; use it:", f"fwnet denoise IN OUT --model {model}"]
    assert {path.name for path in net.iterdir()} == {
        "model.safetensors",
        "checkpoint.safetensors",
        "history.jsonl",
        "history.png",
        "config.toml",
    }
    assert network.config == ConvFWNet(2, 4).config
    notes = about(net)["notes"]
    assert notes["task"] == "denoise"
    assert notes["sigma"] == 30.0
    assert notes["color"] is False
    assert notes["data"] == f"6 images in {photos}, 1 of them held back to validate"
    assert notes["command"].startswith("fwnet train denoise --data ")
    assert "torch" in notes["hardware"]
    assert notes["settings"]["num_epochs"] == 3
    history = [json.loads(line) for line in (net / "history.jsonl").read_text().splitlines()]
    assert [record["epoch"] for record in history] == [1, 2, 3]

    clean = tmp_path / "clean.png"
    used = run("denoise", photos / "1.png", clean, "--model", model, "--device", "cpu")
    assert used.returncode == 0, used.stderr
    with Image.open(clean) as ours, Image.open(photos / "1.png") as theirs:
        assert ours.size == theirs.size


def test_one_network_for_all_levels_in_color(photos, tmp_path):
    result = run(*denoiser(photos, tmp_path / "net", "--max-sigma", "55", "--color"))
    assert result.returncode == 0, result.stderr
    network = load_model(tmp_path / "net" / "model.safetensors")
    assert network.noise_level_input
    assert network.in_channels == 3
    notes = about(tmp_path / "net")["notes"]
    assert notes["sigma"] == [0.0, 55.0]
    assert notes["color"] is True
    options = ("--sigma", "10", "--max-sigma", "20", "--validation", "0")
    result = run(*denoiser(photos, tmp_path / "few", *options))
    assert result.returncode == 0, result.stderr
    assert "6 images to learn from\n" in result.stdout
    assert "validation" not in result.stdout
    assert about(tmp_path / "few")["notes"]["sigma"] == [10.0, 20.0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--fixed-p", "--p", "1.3"), ConvFWNet(2, 4, p=1.3, learn_p=False)),
        (("--plain",), ConvFWNet(2, 4, residual=False, eps=0.0)),
        (("--model", "ConvLISTA", "--plain"), ConvLISTA(2, 4, threshold=0.1, residual=False)),
        (("--model", "DnCNN", "--num-layers", "3"), DnCNN(3, 4, output_gain=0.1)),
        (("--model", "DnCNN", "--no-batch-norm"), DnCNN(2, 4, batch_norm=False)),
    ],
)
def test_networks(photos, tmp_path, options, expected):
    result = run(*denoiser(photos, tmp_path / "net", *options))
    assert result.returncode == 0, result.stderr
    network = load_model(tmp_path / "net" / "model.safetensors")
    assert type(network) is type(expected)
    assert network.config == expected.config
    assert [*network.state_dict()] == [*expected.state_dict()]


class TestSettings:
    def settings(self, photos, net, *options):
        result = run(*denoiser(photos, net, *options))
        assert result.returncode == 0, result.stderr
        return TrainingConfig.read(net / "config.toml")

    def test_the_recipe_unless_something_else_is_said(self, photos, tmp_path):
        config = self.settings(photos, tmp_path / "recipe")
        assert config.learning_rate == 8e-3
        assert (config.clip_norm, config.weight_decay, config.average) == (0.1, 0.0, 0.375)
        assert (config.precision, config.compile, config.seed) == ("float32", False, 0)
        (tmp_path / "c.toml").write_text("clip_norm = 0.5\naverage = 0.9\nseed = 4\n")
        file = ("--config", tmp_path / "c.toml", "--average", "0.5", "--learning-rate", "0.002")
        config = self.settings(photos, tmp_path / "file", *file)
        assert (config.clip_norm, config.average, config.seed) == (0.5, 0.5, 4)
        assert (config.learning_rate, config.weight_decay) == (0.002, 0.0)

    def test_help_shows_the_recipe(self):
        shown = run("train", "denoise", "--help").stdout
        for words in ("0.999; less", "(10)", "(128)", "bf16 on a GPU, else float32", "DnCNN 0.002"):
            assert words in shown
        assert "fwnet train denoise --data photos --sigma 25 -o mynet" in shown
        coder = run("train", "coder", "--help").stdout
        assert "0.999; less" not in coder
        assert "(100)" in coder

    def test_seeds_matter(self, photos, tmp_path):
        for seed in ("1", "2"):
            assert run(*denoiser(photos, tmp_path / seed, "--seed", seed)).returncode == 0
        assert not torch.equal(
            weights(tmp_path / "1")["first.weight"], weights(tmp_path / "2")["first.weight"]
        )


class TestFolders:
    def test_what_is_skipped_is_told(self, tmp_path):
        generator = np.random.default_rng(0)
        for name in [*BSD68, "mine", "other"]:
            pixels = generator.integers(0, 256, (20, 20), np.uint8)
            Image.fromarray(pixels).save(tmp_path / f"{name}.png")
        Image.new("L", (40, 15)).save(tmp_path / "narrow.png")
        (tmp_path / "words.jpg").write_text("no image")
        result = run(*denoiser(tmp_path, tmp_path / "net"))
        assert result.returncode == 0, result.stderr
        lines = result.stderr.splitlines()
        assert len(lines) == 3
        assert lines[0].startswith("68 of 72 images are those of BSD68")
        assert lines[1].startswith(f"Warning: {tmp_path / 'words.jpg'} cannot be read as an image")
        assert lines[2].startswith("Warning: 1 of 4 images is smaller than a crop of 16 × 16")
        assert "1 images to learn from and 1 to validate" in result.stdout
        # The picture of the history, now in the folder, is not one to learn from.
        again = run(*denoiser(tmp_path, tmp_path / "net", "--resume"))
        assert again.returncode == 0, again.stderr

    @pytest.mark.parametrize("names", [("net", "net0"), ("below", "net"), ("", "net")])
    def test_trainings_among_the_photos(self, photos, tmp_path, names):
        shutil.copytree(photos, tmp_path / "photos")
        one, other = (tmp_path / "photos" / name for name in names)
        for net in (one, other):
            result = run(*denoiser(tmp_path / "photos", net))
            assert result.returncode == 0, result.stderr
            assert "5 images to learn from and 1 to validate" in result.stdout
        assert (other / "history.png").exists()
        again = run(*denoiser(tmp_path / "photos", one, "--resume"))
        assert again.returncode == 0, again.stderr

    def test_without_a_folder_the_berkeley_images(self, photos, tmp_path, monkeypatch):
        files = sorted(photos.rglob("*.png"))
        monkeypatch.setattr(learning_images, "berkeley_files", lambda: (files[:3], files[3:]))
        arguments = ["train", "denoise", "-o", tmp_path / "net", *NETWORK, *SHORT]
        result = run(*arguments)
        assert result.returncode == 0, result.stderr
        assert "those of BSD68" in result.stderr
        notes = about(tmp_path / "net")["notes"]
        assert notes["data"].startswith("3 images of the Berkeley segmentation data set (BSDS500)")
        assert notes["sigma"] == 25.0

    def test_no_folder_and_no_download(self, tmp_path, monkeypatch):
        monkeypatch.setenv("FWNET_DATA", str(tmp_path))
        (tmp_path / "bsds500").mkdir()
        result = run("train", "denoise", "-o", tmp_path / "net", *SHORT)
        assert result.returncode == 2
        assert "expected the folders train, val and test of the Berkeley images" in result.stderr

    def test_a_small_sigma_gets_a_hint(self, photos, tmp_path):
        result = run(*denoiser(photos, tmp_path / "net", "--sigma", "0.1"))
        assert result.returncode == 0
        assert result.stderr.startswith("Hint: --sigma is on the scale 0 to 255, where 0.1 is")


@pytest.fixture(scope="module")
def begun(photos, tmp_path_factory):
    """A training that there is already."""
    folder = tmp_path_factory.mktemp("begun")
    assert run(*denoiser(photos, folder)).returncode == 0
    return folder


class TestStopping:
    @pytest.mark.parametrize("model", [(), ("--model", "DnCNN", "--num-layers", "3")])
    def test_ctrl_c_and_resume_give_the_same_weights(self, photos, tmp_path, monkeypatch, model):
        options = (*model, "--average", "0.9")
        assert run(*denoiser(photos, tmp_path / "whole", *options)).returncode == 0
        left = 6
        loss = Denoising.loss

        def interrupted(self, *arguments):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGINT)
            return loss(self, *arguments)

        monkeypatch.setattr(Denoising, "loss", interrupted)
        stopped = run(*denoiser(photos, tmp_path / "net", *options))
        assert stopped.returncode == 130
        assert "Stopped. The same command with --resume goes on from here." in stopped.stderr
        assert not (tmp_path / "net" / "model.safetensors").exists()
        again = run(*denoiser(photos, tmp_path / "net", *options))
        assert again.returncode == 2
        assert "go on with --resume, begin anew with --force" in again.stderr
        resumed = run(*denoiser(photos, tmp_path / "net", *options, "--resume"))
        assert resumed.returncode == 0, resumed.stderr
        assert_same(weights(tmp_path / "net"), weights(tmp_path / "whole"))
        figure = [line for line in resumed.stdout.splitlines() if "PSNR" in line]
        whole = run(*denoiser(photos, tmp_path / "whole", *options, "--resume"))
        assert figure == [line for line in whole.stdout.splitlines() if "PSNR" in line]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--sigma", "50"), "was begun with sigma 25.0, got sigma 50.0"),
            (("--max-sigma", "50"), "was begun with sigma 25.0, got sigma [0.0, 50.0]"),
            (("--crop-size", "12"), "was begun with crop_size 16, got crop_size 12"),
            (("--steps-per-epoch", "5"), "was begun with steps_per_epoch 4, got steps_per_epoch 5"),
            (("--channels", "5"), "was begun with channels 4, got channels 5"),
            (("--validation", "2"), "was begun with other data"),
            (("--learning-rate", "1"), "was begun with learning_rate 0.008, got learning_rate 1.0"),
            (("--start", "START", "--sigma", "25"), "was begun with start None, got start '"),
        ],
    )
    def test_another_training_is_not_gone_on_with(self, photos, begun, tmp_path, options, message):
        ConvFWNet(2, 4).save(tmp_path / "start.safetensors")
        options = [tmp_path / "start.safetensors" if one == "START" else one for one in options]
        other = run(*denoiser(photos, begun, *options, "--resume"))
        assert other.returncode == 2
        assert message in other.stderr
        assert "begin anew with --force" in other.stderr


class TestStart:
    STILL = ("--learning-rate", "1e-20", "--num-epochs", "1")

    def test_a_gray_network_for_one_level_becomes_one_for_color_and_all(self, photos, tmp_path):
        start = ConvFWNet(3, 5, p=1.7)
        start.save(tmp_path / "start.safetensors")
        options = ("--start", tmp_path / "start.safetensors", *self.STILL, "--color")
        options += ("--max-sigma", "55")
        result = run(*denoiser(photos, tmp_path / "net", *options, network=()))
        assert result.returncode == 0, result.stderr
        network = load_model(tmp_path / "net" / "model.safetensors")
        assert (network.num_layers, network.channels, network.in_channels) == (3, 5, 3)
        x = torch.rand(2, 1, 9, 9)
        y = network(x.expand(-1, 3, -1, -1), 0.1)
        torch.testing.assert_close(y, start(x).expand_as(y), atol=1e-5, rtol=1e-5)

    def test_a_shipped_network_by_its_name(self, photos, tmp_path):
        from fwnet.zoo import list_models
        from fwnet.zoo import load_model as load_shipped

        names = [card.name for card in list_models("denoise") if "gray_s50" in card.name]
        options = ("--start", names[0], *self.STILL, "--steps-per-epoch", "1", "--batch-size", "1")
        result = run(*denoiser(photos, tmp_path / "net", *options, network=()))
        assert result.returncode == 0, result.stderr
        assert about(tmp_path / "net")["notes"]["sigma"] == 50.0
        shipped = load_shipped(names[0])
        for name, value in weights(tmp_path / "net").items():
            torch.testing.assert_close(value, shipped.state_dict()[name])

    @pytest.mark.parametrize(
        ("told", "notes", "options", "sigma"),
        [
            (False, 50.0, (), 50.0),
            (False, 50, ("--sigma", "20"), 20.0),
            (False, 50.0, ("--max-sigma", "55"), [0.0, 55.0]),
            (True, [5.0, 40.0], (), [5.0, 40.0]),
            (True, [5.0, 40.0], ("--max-sigma", "70"), [0.0, 70.0]),
            (True, 30.0, (), 30.0),
        ],
    )
    def test_the_noise_is_that_of_the_start(self, photos, tmp_path, told, notes, options, sigma):
        file = tmp_path / "start.safetensors"
        ConvFWNet(2, 4, noise_level_input=told).save(file, {"sigma": notes})
        options = ("--start", file, *self.STILL, *options)
        result = run(*denoiser(photos, tmp_path / "net", *options, network=()))
        assert result.returncode == 0, result.stderr
        assert about(tmp_path / "net")["notes"]["sigma"] == sigma
        network = load_model(tmp_path / "net" / "model.safetensors")
        assert network.noise_level_input == (told or isinstance(sigma, list))

    def test_a_shipped_network_for_all_levels(self, photos, tmp_path):
        from fwnet.zoo import list_models

        names = [card.name for card in list_models("denoise") if card.name.endswith("denoise_gray")]
        options = ("--start", names[0], *self.STILL, "--steps-per-epoch", "1", "--batch-size", "1")
        result = run(*denoiser(photos, tmp_path / "net", *options, network=()))
        assert result.returncode == 2
        expected = f"{names[0]} does not say what noise it was trained for: expected --max-sigma"
        assert result.stderr == f"Error: {expected}\n"

    def test_half_the_learning_rate(self, photos, tmp_path):
        ConvFWNet(2, 4).save(tmp_path / "start.safetensors")
        options = ("--start", tmp_path / "start.safetensors", "--sigma", "25")
        assert run(*denoiser(photos, tmp_path / "net", *options)).returncode == 0
        assert TrainingConfig.read(tmp_path / "net" / "config.toml").learning_rate == 4e-3
        # … and what it goes on from is a part of what a run is.
        ConvFWNet(2, 4).save(tmp_path / "start.safetensors")
        other = run(*denoiser(photos, tmp_path / "net", *options, "--resume"))
        assert other.returncode == 2
        assert "was begun with start '" in other.stderr

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--start", "nosuchnetwork"), "no model and no file is called 'nosuchnetwork'"),
            (("--start", "none.safetensors"), "none.safetensors does not exist"),
            (("--start", "COLOR50", "--gray"), "the network to start from is for color, got gray"),
            (("--start", "LEVELS", "--sigma", "9"), "is told the noise level, got one level"),
            (("--start", "LEVELS"), "does not say what noise it was trained for: expected --max-"),
            (("--start", "GRAY"), "does not say what noise it was trained for: expected --sigma"),
            (("--start", "GRAY50", "--num-layers", "5"), "num_layers must be 2, as the network to"),
            (
                ("--start", "GRAY50", "--model", "DnCNN"),
                "model must be 'ConvFWNet', as the network",
            ),
            (("--start", "CODER"), "the network to start from must be a ConvFWNet, ConvLISTA"),
            (("--start", "LARGE"), "must keep the size of images, got one that makes them 3 times"),
        ],
    )
    def test_bad_starts(self, photos, tmp_path, options, message):
        networks = {
            "GRAY": ConvFWNet(2, 4),
            "GRAY50": ConvFWNet(2, 4),
            "COLOR50": ConvFWNet(2, 4, in_channels=3),
            "LEVELS": ConvFWNet(2, 4, noise_level_input=True),
            "CODER": FWNet(4, 5, 2),
            "LARGE": ConvFWNet(2, 4, scale=3),
        }
        for name, network in networks.items():
            notes = {"sigma": 50.0} if "50" in name else None
            network.save(tmp_path / f"{name}.safetensors", notes)
        options = [tmp_path / f"{one}.safetensors" if one in networks else one for one in options]
        result = run(*denoiser(photos, tmp_path / "net", *options, network=()))
        assert result.returncode == 2
        assert message in result.stderr
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sigma", "0"), "--sigma must be in (0, 255], got 0"),
        (("--sigma", "-5"), "--sigma must be in (0, 255], got -5"),
        (("--sigma", "300"), "--sigma must be in (0, 255], got 300"),
        (("--sigma", "nan"), "--sigma must be in (0, 255], got nan"),
        (("--sigma", "25", "--max-sigma", "15"), "sigma <= max-sigma <= 255"),
        (("--max-sigma", "0"), "max-sigma > 0, got 0 and 0"),
        (("--max-sigma", "256"), "got 0 and 256"),
        (("--model", "ResNet"), "model must be one of ConvFWNet, ConvLISTA, DnCNN, got 'ResNet'"),
        (("--num-layers", "0"), "num_layers must be an integer >= 1, got 0"),
        (("--channels", "0"), "channels must be an integer >= 1, got 0"),
        (("--crop-size", "0"), "crop_size must be an integer >= 1, got 0"),
        (("--crop-size", "100"), "no image to learn from: of 6 files 0 cannot be read and 6 are"),
        (("--steps-per-epoch", "0"), "steps_per_epoch must be an integer >= 1, got 0"),
        (("--validation", "6"), "cannot hold back 6 of 6 images"),
        (("--validation", "-1"), "validation must be an integer >= 0, got -1"),
        (("--p", "0.5"), "p must be in"),
        (("--p", "1", "--fixed-p"), "with p fixed at 1 no weight gets a gradient"),
        (("--model", "DnCNN", "--plain"), "plain is for ConvFWNet and ConvLISTA, got it for a"),
        (("--batch-norm",), "batch_norm is for DnCNN, got it for a ConvFWNet"),
        (("--learning-rate", "-1"), "learning_rate must be a number > 0, got -1.0"),
        (("--batch-size", "0"), "batch_size must be an integer >= 1, got 0"),
        (("--config", "none.toml"), "cannot read none.toml"),
        (("--data", "nowhere"), "expected a folder of images, got nowhere"),
        (("--precision", "fp8"), "Invalid value for '--precision'"),
        (("--device", "tpu"), "expected auto, cpu or cuda, got 'tpu'"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(photos, tmp_path, options, message):
    result = run(*denoiser(photos, tmp_path / "net", *options))
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "net" / "model.safetensors").exists()


def test_memory_of_a_gpu_that_is_full(photos, tmp_path, monkeypatch):
    def full(self, *arguments):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\n…")

    monkeypatch.setattr(Denoising, "loss", full)
    result = run(*denoiser(photos, tmp_path / "net"))
    assert result.returncode == 2
    assert result.stderr == "Error: the GPU has too little memory: try a smaller --batch-size.\n"
