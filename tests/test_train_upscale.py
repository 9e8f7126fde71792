"""`fwnet train upscale`, as its users run it, on a folder of small pictures."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import torch
from PIL import Image

from fwnet.models import SRCNN, VDSR, ConvFWNet, ConvLISTA, load_model
from fwnet.training import SuperResolution, TrainingConfig, learning_images
from tests.trainings import about, assert_same, run, save_stripes, weights


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return save_stripes(tmp_path_factory.mktemp("photos"))


NETWORK = ("--num-layers", "2", "--channels", "4")
SHORT = ("--num-epochs", "2", "--steps-per-epoch", "4", "--batch-size", "3", "--crop-size", "12")
SHORT += ("--device", "cpu")


def upscaler(photos, output, *options, network=NETWORK):
    return ["train", "upscale", "--data", photos, "-o", output, *network, *SHORT, *options]


def test_a_trained_network_enlarges(photos, tmp_path, monkeypatch):
    net = tmp_path / "net"
    arguments = upscaler(photos, net, "--scale", "2", "--num-epochs", "3")
    monkeypatch.setattr(sys, "argv", ["/bin/fwnet", *map(str, arguments)])
    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    model = net / "model.safetensors"
    network = load_model(model)
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{network.num_parameters} parameters, ")
    assert lines[1] == "5 images to learn from and 1 to validate"
    psnr = r"\d\d\.\d\d dB"
    assert re.fullmatch(
        f"validation PSNR {psnr} after epoch 3; bicubic enlargement has {psnr}", lines[2]
    )
    assert lines[3].startswith(f"p {network.p.item():.4g}")
    assert lines[-2:] == [f"written to {model}; use it:", f"fwnet upscale IN OUT --model {model}"]
    assert {path.name for path in net.iterdir()} == {
        "model.safetensors",
        "checkpoint.safetensors",
        "history.jsonl",
        "history.png",
        "config.toml",
    }
    assert network.config == ConvFWNet(2, 4, scale=2, output_gain=0.1).config
    notes = about(net)["notes"]
    assert (notes["task"], notes["scale"]) == ("upscale", 2)
    assert (notes["crop_size"], notes["steps_per_epoch"]) == (12, 4)
    assert notes["data"] == f"6 images in {photos}, 1 of them held back to validate"
    assert notes["command"].startswith("fwnet train upscale --data ")
    assert notes["settings"]["num_epochs"] == 3
    history = [json.loads(line) for line in (net / "history.jsonl").read_text().splitlines()]
    assert [record["epoch"] for record in history] == [1, 2, 3]
    assert_used(photos / "1.png", tmp_path / "large.png", model, 2)


def assert_used(small, large, model, scale):
    used = run("upscale", small, large, "--model", model, "--device", "cpu")
    assert used.returncode == 0, used.stderr
    with Image.open(large) as ours, Image.open(small) as theirs:
        assert ours.size == (scale * theirs.width, scale * theirs.height)


def test_a_network_that_sees_the_enlarged_image(photos, tmp_path):
    result = run(*upscaler(photos, tmp_path / "net", "--enlarged", "--scale", "4"))
    assert result.returncode == 0, result.stderr
    model = tmp_path / "net" / "model.safetensors"
    assert load_model(model).config == ConvFWNet(2, 4, output_gain=0.1).config
    assert about(tmp_path / "net")["notes"]["scale"] == 4
    assert_used(photos / "1.png", tmp_path / "large.png", model, 4)


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
def test_networks(photos, tmp_path, options, expected):
    result = run(*upscaler(photos, tmp_path / "net", *options, network=()))
    assert result.returncode == 0, result.stderr
    network = load_model(tmp_path / "net" / "model.safetensors")
    assert type(network) is type(expected)
    assert network.config == expected.config
    assert about(tmp_path / "net")["notes"]["scale"] == 3


class TestSettings:
    def settings(self, photos, net, *options):
        result = run(*upscaler(photos, net, *options))
        assert result.returncode == 0, result.stderr
        return TrainingConfig.read(net / "config.toml")

    def test_the_recipe_unless_something_else_is_said(self, photos, tmp_path):
        config = self.settings(photos, tmp_path / "recipe")
        assert config.learning_rate == 2e-3  # of two layers
        assert (config.clip_norm, config.weight_decay, config.average) == (0.01, 0.0, 0.375)
        assert (config.precision, config.compile, config.seed) == ("float32", False, 0)
        (tmp_path / "c.toml").write_text("clip_norm = 0.5\naverage = 0.9\nseed = 4\n")
        file = ("--config", tmp_path / "c.toml", "--average", "0.5", "--learning-rate", "0.002")
        config = self.settings(photos, tmp_path / "file", *file)
        assert (config.clip_norm, config.average, config.seed) == (0.5, 0.5, 4)
        assert (config.learning_rate, config.weight_decay) == (0.002, 0.0)
        first = [weights(tmp_path / name)["first.weight"] for name in ("recipe", "file")]
        assert not torch.equal(*first)  # of another seed

    def test_help_shows_the_recipe(self):
        shown = run("train", "upscale", "--help").stdout
        for words in ("0.999; less", "(10)", "(64)", "(0.01)", "bf16 on a GPU", "SRCNN 0.001"):
            assert words in shown
        assert "fwnet train upscale --data photos --scale 3 -o mynet" in shown


class TestFolders:
    def test_without_a_folder_the_published_images(self, photos, tmp_path, monkeypatch):
        files = sorted(photos.rglob("*.png"))
        monkeypatch.setattr(learning_images, "t91_files", lambda: files[:1])
        monkeypatch.setattr(learning_images, "berkeley_training_files", lambda: files[1:3])
        monkeypatch.setattr(
            learning_images, "berkeley_validation_files", lambda count: files[3:][:count]
        )
        result = run("train", "upscale", "-o", tmp_path / "net", *NETWORK, *SHORT)
        assert result.returncode == 0, result.stderr
        assert "3 images to learn from and 1 to validate\n" in result.stdout
        notes = about(tmp_path / "net")["notes"]
        assert notes["data"].startswith("3 images of T91 and of the Berkeley segmentation data")
        result = run(
            "train", "upscale", "-o", tmp_path / "all", *NETWORK, *SHORT, "--validation", "0"
        )
        assert result.returncode == 0, result.stderr
        assert "3 images to learn from\n" in result.stdout
        assert "validation" not in result.stdout

    def test_no_folder_and_no_published_images(self, tmp_path, monkeypatch):
        monkeypatch.setenv("FWNET_DATA", str(tmp_path))
        result = run("train", "upscale", "-o", tmp_path / "net", *SHORT)
        assert result.returncode == 2
        assert "expected a folder t91 with the images of T91" in result.stderr

    def test_what_is_skipped_is_told(self, photos, tmp_path):
        save_stripes(tmp_path)
        Image.new("L", (40, 11)).save(tmp_path / "narrow.png")
        (tmp_path / "words.jpg").write_text("no image")
        result = run(*upscaler(tmp_path, tmp_path / "net"))
        assert result.returncode == 0, result.stderr
        lines = result.stderr.splitlines()
        assert len(lines) == 2
        assert lines[0].startswith(f"Warning: {tmp_path / 'words.jpg'} cannot be read as an image")
        assert lines[1].startswith("Warning: 1 of 8 images is smaller than a crop of 12 × 12")
        again = run(*upscaler(tmp_path, tmp_path / "net", "--resume"))  # with a history.png now
        assert again.returncode == 0, again.stderr


@pytest.fixture(scope="module")
def begun(photos, tmp_path_factory):
    """A training that there is already."""
    folder = tmp_path_factory.mktemp("begun")
    assert run(*upscaler(photos, folder)).returncode == 0
    return folder


class TestStopping:
    @pytest.mark.parametrize("form", [(), ("--enlarged",)])
    def test_ctrl_c_and_resume_give_the_same_weights(self, photos, tmp_path, monkeypatch, form):
        options = (*form, "--average", "0.9")
        assert run(*upscaler(photos, tmp_path / "whole", *options)).returncode == 0
        left = 6
        loss = SuperResolution.loss

        def interrupted(self, *arguments):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGINT)
            return loss(self, *arguments)

        monkeypatch.setattr(SuperResolution, "loss", interrupted)
        stopped = run(*upscaler(photos, tmp_path / "net", *options))
        assert stopped.returncode == 130
        assert "Stopped. The same command with --resume goes on from here." in stopped.stderr
        assert not (tmp_path / "net" / "model.safetensors").exists()
        again = run(*upscaler(photos, tmp_path / "net", *options))
        assert again.returncode == 2
        assert "go on with --resume, begin anew with --force" in again.stderr
        resumed = run(*upscaler(photos, tmp_path / "net", *options, "--resume"))
        assert resumed.returncode == 0, resumed.stderr
        assert_same(weights(tmp_path / "net"), weights(tmp_path / "whole"))

    def test_kill_9_and_resume_give_the_same_weights(self, photos, tmp_path):
        options = ("--num-epochs", "30", "--checkpoint-seconds", "0", "--resume")
        whole = run(*upscaler(photos, tmp_path / "whole", *options))
        assert whole.returncode == 0, whole.stderr
        arguments = [str(one) for one in upscaler(photos, tmp_path / "net", *options)]
        process = subprocess.Popen(
            [sys.executable, "-m", "fwnet", *arguments],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        state = tmp_path / "net" / "checkpoint.safetensors"
        begun = time.monotonic()
        while not state.exists() and process.poll() is None and time.monotonic() - begun < 60:
            time.sleep(0.005)
        process.kill()
        assert process.wait() == -signal.SIGKILL  # it was not done
        assert state.exists()
        resumed = run(*upscaler(photos, tmp_path / "net", *options))
        assert resumed.returncode == 0, resumed.stderr
        assert_same(weights(tmp_path / "net"), weights(tmp_path / "whole"))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--scale", "2"), "was begun with scale 3, got scale 2"),
            (("--crop-size", "15"), "was begun with crop_size 12, got crop_size 15"),
            (("--steps-per-epoch", "5"), "was begun with steps_per_epoch 4, got steps_per_epoch 5"),
            (("--channels", "5"), "was begun with channels 4, got channels 5"),
            (("--enlarged",), "was begun with other data"),
            (("--validation", "2"), "was begun with other data"),
            (("--start", "START"), "was begun with start None, got start '"),
        ],
    )
    def test_another_training_is_not_gone_on_with(self, photos, begun, tmp_path, options, message):
        ConvFWNet(2, 4, scale=3).save(tmp_path / "start.safetensors")
        options = [tmp_path / "start.safetensors" if one == "START" else one for one in options]
        other = run(*upscaler(photos, begun, *options, "--resume"))
        assert other.returncode == 2
        assert message in other.stderr
        assert "begin anew with --force" in other.stderr


class TestStart:
    STILL = ("--learning-rate", "1e-20", "--num-epochs", "1")

    def trained(self, photos, tmp_path, start, notes, *options):
        file = tmp_path / "start.safetensors"
        start.save(file, notes)
        arguments = ("--start", file, *self.STILL, *options)
        result = run(*upscaler(photos, tmp_path / "net", *arguments, network=()))
        assert result.returncode == 0, result.stderr
        return load_model(tmp_path / "net" / "model.safetensors")

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
        network = self.trained(photos, tmp_path, start, notes)
        assert network.config == start.config
        assert about(tmp_path / "net")["notes"]["scale"] == scale
        for name, value in start.state_dict().items():
            torch.testing.assert_close(network.state_dict()[name], value)

    def test_another_scale(self, photos, tmp_path):
        start = ConvFWNet(3, 5, scale=3, p=1.7)
        network = self.trained(photos, tmp_path, start, {"scale": 3}, "--scale", "2")
        assert network.config == {**start.config, "scale": 2}
        assert about(tmp_path / "net")["notes"]["scale"] == 2
        for name, value in start.state_dict().items():
            if name != "last.weight":
                torch.testing.assert_close(network.state_dict()[name], value)
        assert network.last.weight.shape == (4, 5, 3, 3)

    def test_an_enlarged_image_may_be_enlarged_more(self, photos, tmp_path):
        start = VDSR(3, 4)
        network = self.trained(photos, tmp_path, start, {"scale": 3}, "--scale", "4")
        assert about(tmp_path / "net")["notes"]["scale"] == 4
        torch.testing.assert_close(network.last.weight, start.last.weight)

    def test_a_shipped_network_by_its_name(self, photos, tmp_path):
        from fwnet.zoo import list_models

        names = [card.name for card in list_models("upscale")]
        options = ("--start", names[0], *self.STILL, "--steps-per-epoch", "1", "--batch-size", "1")
        result = run(*upscaler(photos, tmp_path / "net", *options, network=()))
        assert result.returncode == 0, result.stderr
        scale = load_model(tmp_path / "net" / "model.safetensors").scale
        assert about(tmp_path / "net")["notes"]["scale"] == scale
        assert names[0].endswith(f"_x{scale}")

    def test_half_the_learning_rate(self, photos, tmp_path):
        ConvFWNet(2, 4, scale=3).save(tmp_path / "start.safetensors")
        rates = []
        for name, options in {"new": (), "on": ("--start", tmp_path / "start.safetensors")}.items():
            assert run(*upscaler(photos, tmp_path / name, *options)).returncode == 0
            rates.append(TrainingConfig.read(tmp_path / name / "config.toml").learning_rate)
        assert rates[1] == rates[0] / 2

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--start", "nosuchnetwork"), "no model and no file is called 'nosuchnetwork'"),
            (("--start", "UNTOLD"), "does not say what scale it was trained for: expected --scale"),
            (("--start", "X3", "--num-layers", "5"), "num_layers must be 2, as the network to"),
            (("--start", "X3", "--model", "VDSR"), "model must be 'ConvFWNet', as the network"),
            (("--start", "X3", "--enlarged"), "enlarged must be False, as the network to start"),
            (("--start", "COLOR"), "must see one channel, got one for color"),
            (("--start", "LEVELS"), "must see one channel, got one for noise levels"),
            (("--start", "LISTA"), "must be a ConvFWNet, VDSR, SRCNN, got a ConvLISTA"),
        ],
    )
    def test_bad_starts(self, photos, tmp_path, options, message):
        networks = {
            "X3": ConvFWNet(2, 4, scale=3),
            "UNTOLD": ConvFWNet(2, 4),
            "COLOR": ConvFWNet(2, 4, in_channels=3),
            "LEVELS": ConvFWNet(2, 4, noise_level_input=True),
            "LISTA": ConvLISTA(2, 4),
        }
        for name, network in networks.items():
            network.save(tmp_path / f"{name}.safetensors")
        options = [tmp_path / f"{one}.safetensors" if one in networks else one for one in options]
        result = run(*upscaler(photos, tmp_path / "net", *options, network=()))
        assert result.returncode == 2
        assert message in result.stderr
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--scale", "1"), "scale must be an integer >= 2, got 1"),
        (("--scale", "-3"), "scale must be an integer >= 2, got -3"),
        (("--scale", "2.5"), "Invalid value for '--scale'"),
        (("--scale", "5"), "crop_size must be a multiple of 5, the scale, got 12"),
        (("--crop-size", "13"), "crop_size must be a multiple of 3, the scale, got 13"),
        (("--crop-size", "6"), "crop_size must be at least 9, got 6"),
        (("--crop-size", "0"), "crop_size must be at least 9, got 0"),
        (("--crop-size", "99"), "no image to learn from: of 6 files 0 cannot be read and 6 are"),
        (("--model", "ResNet"), "model must be one of ConvFWNet, VDSR, SRCNN, got 'ResNet'"),
        (("--model", "SRCNN"), "num_layers is for ConvFWNet and VDSR, got it for a SRCNN"),
        (("--model", "VDSR", "--plain"), "plain is for ConvFWNet, got it for a VDSR"),
        (("--batch-norm",), "batch_norm is for VDSR, got it for a ConvFWNet"),
        (("--num-layers", "0"), "num_layers must be an integer >= 1, got 0"),
        (("--steps-per-epoch", "0"), "steps_per_epoch must be an integer >= 1, got 0"),
        (("--validation", "6"), "cannot hold back 6 of 6 images"),
        (("--validation", "-1"), "validation must be an integer >= 0, got -1"),
        (("--p", "1", "--fixed-p"), "with p fixed at 1 no weight gets a gradient"),
        (("--config", "none.toml"), "cannot read none.toml"),
        (("--data", "nowhere"), "expected a folder of images, got nowhere"),
        (("--device", "tpu"), "expected auto, cpu or cuda, got 'tpu'"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(photos, tmp_path, options, message):
    result = run(*upscaler(photos, tmp_path / "net", *options))
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "net" / "model.safetensors").exists()


def test_memory_of_a_gpu_that_is_full(photos, tmp_path, monkeypatch):
    def full(self, *arguments):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\n…")

    monkeypatch.setattr(SuperResolution, "loss", full)
    result = run(*upscaler(photos, tmp_path / "net"))
    assert result.returncode == 2
    assert result.stderr == "Error: the GPU has too little memory: try a smaller --batch-size.\n"
