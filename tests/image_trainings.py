"""What every `fwnet train` of an image task must do; its test classes inherit it."""

import json
import os
import re
import signal
import sys

import pytest
import torch
from PIL import Image

from fwnet.models import load_model
from fwnet.training import RestorationTask, TrainingConfig
from tests.trainings import about, assert_same, run, save_stripes, weights

NETWORK = ("--num-layers", "2", "--channels", "4")


WORSE = (
    "Warning: the network makes images worse. Train longer (--num-epochs), or with a smaller "
    "--learning-rate."
)


class ImageTraining:
    """`fwnet train COMMAND` on a folder of small pictures; subclasses say which."""

    command = ""
    crop_size = 0
    margin = 0  # around a crop, on each side
    learning_rate = 0.0  # of the recipe, for NETWORK
    clip_norm = 0.0  # … as well
    num_epochs = 0  # … of all networks

    def save_start(self, path):
        """A network like NETWORK for what is learned unless something else is said."""
        raise NotImplementedError

    def arguments(self, photos, output, *options, network=NETWORK):
        """Those of a short training; without photos, on what is published."""
        images = () if photos is None else ("--data", photos)
        short = ("--num-epochs", 2, "--steps-per-epoch", 4, "--batch-size", 3, "--device", "cpu")
        short += ("--crop-size", self.crop_size)
        return ["train", self.command, *images, "-o", output, *network, *short, *options]

    def train(self, photos, output, *options, network=NETWORK):
        return run(*self.arguments(photos, output, *options, network=network))

    def trained(self, photos, output, *options, network=NETWORK):
        """What was learned, once the training has come to its end."""
        result = self.train(photos, output, *options, network=network)
        assert result.returncode == 0, result.stderr
        return load_model(output / "model.safetensors")

    @pytest.fixture(scope="class")
    @classmethod
    def photos(cls, tmp_path_factory):
        return save_stripes(tmp_path_factory.mktemp("photos"))


class ResultConformance(ImageTraining):
    """What a training ends with."""

    given = ()  # an option of the command's own
    figures = ""  # what it says of the validation after three epochs
    network = None  # what is trained with NETWORK
    notes = {}
    scale = 1  # how many times as high and wide the network makes images

    def test_a_trained_network_is_of_use(self, photos, tmp_path, monkeypatch):
        net = tmp_path / "net"
        arguments = self.arguments(photos, net, *self.given, "--num-epochs", 3)
        monkeypatch.setattr(sys, "argv", ["/bin/fwnet", *map(str, arguments)])
        result = run(*arguments)
        assert result.returncode == 0, result.stderr
        ours, input_ = map(float, re.findall(r"(\d+\.\d+) dB", result.stdout))
        assert result.stderr.splitlines() == ([WORSE] if ours < input_ else [])
        model = net / "model.safetensors"
        network = load_model(model)
        lines = result.stdout.splitlines()
        assert lines[0].startswith(f"{network.num_parameters} parameters, ")
        assert lines[1] == "5 images to learn from and 1 to validate"
        assert re.fullmatch(self.figures, lines[2])
        assert lines[3].startswith(f"p {network.p.item():.4g}")
        use = f"fwnet {self.command} IN OUT --model {model}"
        assert lines[-2:] == [f"written to {model}; use it:", use]
        assert {path.name for path in net.iterdir()} == {
            "model.safetensors",
            "checkpoint.safetensors",
            "history.jsonl",
            "history.png",
            "config.toml",
        }
        assert network.config == self.network.config
        notes = about(net)["notes"]
        assert notes["task"] == self.command
        assert {name: notes[name] for name in self.notes} == self.notes
        assert (notes["crop_size"], notes["steps_per_epoch"]) == (self.crop_size, 4)
        assert notes["data"] == f"6 images in {photos}, 1 of them held out to validate"
        assert notes["command"].startswith(f"fwnet train {self.command} --data ")
        assert "torch" in notes["hardware"]
        assert notes["settings"]["num_epochs"] == 3
        history = [json.loads(line) for line in (net / "history.jsonl").read_text().splitlines()]
        assert [record["epoch"] for record in history] == [1, 2, 3]
        self.check_use(photos / "1.png", tmp_path / "result.png", model, self.scale)

    def check_use(self, source, place, model, scale):
        used = run(self.command, source, place, "--model", model, "--device", "cpu")
        assert used.returncode == 0, used.stderr
        with Image.open(place) as ours, Image.open(source) as theirs:
            assert ours.size == (scale * theirs.width, scale * theirs.height)

    def check_network(self, trained, expected):
        assert type(trained) is type(expected)
        assert trained.config == expected.config
        assert [*trained.state_dict()] == [*expected.state_dict()]


class SettingsConformance(ImageTraining):
    """Numbers that may be set, and those of the recipe."""

    help_words = ()

    def settings(self, photos, net, *options):
        self.trained(photos, net, *options)
        return TrainingConfig.read(net / "config.toml")

    def test_the_recipe_unless_something_else_is_said(self, photos, tmp_path):
        config = self.settings(photos, tmp_path / "recipe")
        assert (config.learning_rate, config.clip_norm) == (self.learning_rate, self.clip_norm)
        assert (config.weight_decay, config.average) == (0.0, 0.375)
        assert (config.precision, config.compile, config.seed) == ("float32", False, 0)
        (tmp_path / "c.toml").write_text("clip_norm = 0.5\naverage = 0.9\nseed = 4\n")
        file = ("--config", tmp_path / "c.toml", "--average", "0.5", "--learning-rate", "0.003")
        config = self.settings(photos, tmp_path / "file", *file)
        assert (config.clip_norm, config.average, config.seed) == (0.5, 0.5, 4)
        assert (config.learning_rate, config.weight_decay) == (0.003, 0.0)

    def test_seeds_matter(self, photos, tmp_path):
        seeds = ("--num-epochs", 1, "--seed")
        one, other = (self.trained(photos, tmp_path / seed, *seeds, seed) for seed in "12")
        assert not torch.equal(one.first.weight, other.first.weight)

    def test_help_shows_the_recipe(self):
        shown = run("train", self.command, "--help").stdout
        words = (
            "0.999; with fewer",
            f"[default: {self.num_epochs}]",
            "bf16 on a GPU, else float32",
        )
        for part in (*words, *self.help_words):
            assert part in shown
        assert f"fwnet train {self.command} --data photos --" in shown


class FoldersConformance(ImageTraining):
    """Where images to learn from come from."""

    def check_skipped(self, folder, count):
        """Train where 1 of `count` images is too small; return what is said beside that."""
        Image.new("L", (40, self.crop_size + 2 * self.margin - 1)).save(folder / "narrow.png")
        (folder / "words.jpg").write_text("no image")
        result = self.train(folder, folder / "net")
        assert result.returncode == 0, result.stderr
        lines = result.stderr.splitlines()
        *others, unreadable, small = [line for line in lines if "images worse" not in line]
        side = self.crop_size + 2 * self.margin
        words, crop = folder / "words.jpg", f"{side} × {side}"
        assert unreadable.startswith(f"Warning: {words} cannot be read as an image")
        warning = f"Warning: 1 of {count} images is smaller than a crop of {crop}"
        assert small.startswith(warning)
        # The picture of the history, now in the folder, is not one to learn from.
        again = self.train(folder, folder / "net", "--resume")
        assert again.returncode == 0, again.stderr
        return others, result.stdout


class AnotherConformance(ImageTraining):
    """A training is not continued as another one."""

    @pytest.fixture(scope="class")
    @classmethod
    def begun(cls, photos, tmp_path_factory):
        """A training that there is already."""
        folder = tmp_path_factory.mktemp("begun")
        cls().trained(photos, folder)
        return folder

    def check_another(self, photos, begun, options, message):
        """A training that was begun is not gone on with when the options say another."""
        other = self.train(photos, begun, *options, "--resume")
        assert other.returncode == 2
        assert message in other.stderr
        assert "start over with --force" in other.stderr


class StoppingConformance(AnotherConformance):
    """A stopped training continues, as if nothing had happened, and no other one does."""

    other_form = ()  # options for a network of another kind

    @pytest.mark.parametrize("form", ["usual", "other"])
    def test_ctrl_c_and_resume_give_the_same_weights(self, photos, tmp_path, monkeypatch, form):
        options = (*(self.other_form if form == "other" else ()), "--average", "0.9")
        self.trained(photos, tmp_path / "whole", *options)
        left = 6
        loss = RestorationTask.loss

        def interrupted(self, *arguments):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGINT)
            return loss(self, *arguments)

        monkeypatch.setattr(RestorationTask, "loss", interrupted)
        stopped = self.train(photos, tmp_path / "net", *options)
        assert stopped.returncode == 130
        assert "Stopped. Continue with the same command and --resume." in stopped.stderr
        assert not (tmp_path / "net" / "model.safetensors").exists()
        again = self.train(photos, tmp_path / "net", *options)
        assert again.returncode == 2
        assert "continue with --resume, or start over with --force" in again.stderr
        resumed = self.train(photos, tmp_path / "net", *options, "--resume")
        assert resumed.returncode == 0, resumed.stderr
        assert_same(weights(tmp_path / "net"), weights(tmp_path / "whole"))
        whole = self.train(photos, tmp_path / "whole", *options, "--resume")
        figures = [
            [line for line in result.stdout.splitlines() if "PSNR" in line]
            for result in (resumed, whole)
        ]
        assert figures[0] == figures[1]

    @pytest.mark.parametrize(
        ("name", "value"), [("steps_per_epoch", 5), ("channels", 5), ("crop_size", 15)]
    )
    def test_another_number(self, photos, begun, name, value):
        mine = {"steps_per_epoch": 4, "channels": 4, "crop_size": self.crop_size}[name]
        message = f"was started with {name} {mine}, got {name} {value}"
        self.check_another(photos, begun, (f"--{name.replace('_', '-')}", value), message)

    def test_another_learning_rate(self, photos, begun):
        message = f"was started with learning_rate {self.learning_rate}, got learning_rate 1.0"
        self.check_another(photos, begun, ("--learning-rate", 1), message)

    def test_other_images(self, photos, begun):
        self.check_another(photos, begun, ("--validation", 2), "was started with other data")

    def test_another_start(self, photos, begun, tmp_path):
        self.save_start(tmp_path / "start.safetensors")
        options = ("--start", tmp_path / "start.safetensors")
        self.check_another(photos, begun, options, "was started with start None, got start '")


class StartConformance(ImageTraining):
    """A network that there is goes on learning."""

    STILL = ("--learning-rate", "1e-20", "--num-epochs", "1")
    starts = {}  # networks and notes, by the names that stand for their files in options

    def test_half_the_learning_rate(self, photos, tmp_path):
        self.save_start(tmp_path / "start.safetensors")
        options = ("--start", tmp_path / "start.safetensors")
        self.trained(photos, tmp_path / "net", *options)
        rate = TrainingConfig.read(tmp_path / "net" / "config.toml").learning_rate
        assert rate == self.learning_rate / 2
        # … and what it goes on from is a part of what a run is.
        self.save_start(tmp_path / "start.safetensors")
        other = self.train(photos, tmp_path / "net", *options, "--resume")
        assert other.returncode == 2
        assert "was started with start '" in other.stderr

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("nosuchnetwork",), "no model and no file is called 'nosuchnetwork'"),
            (("none.safetensors",), "none.safetensors does not exist"),
            (("GOOD", "--num-layers", "5"), "num_layers must be 2, that of the network"),
        ],
    )
    def test_bad_starts(self, photos, tmp_path, options, message):
        self.check_bad_start(photos, tmp_path, options, message)

    def check_bad_start(self, photos, tmp_path, options, message):
        """What cannot be gone on from gets a line. GOOD stands for what could."""
        files = {name: tmp_path / f"{name}.safetensors" for name in ("GOOD", *self.starts)}
        self.save_start(files["GOOD"])
        for name, (network, notes) in self.starts.items():
            network.save(files[name], notes)
        options = ("--start", *(files.get(one, one) for one in options))
        result = self.train(photos, tmp_path / "net", *options, network=())
        assert result.returncode == 2
        assert message in result.stderr
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1


class BadInput(ImageTraining):
    """Input that is refused."""

    def check_bad_input(self, photos, tmp_path, options, message):
        result = self.train(photos, tmp_path / "net", *options)
        assert result.returncode == 2
        assert message in result.stderr
        assert "Traceback" not in result.stderr
        assert not (tmp_path / "net" / "model.safetensors").exists()


class InputConformance(BadInput):
    """What cannot be done is said in a line."""

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--num-layers", "0"), "num_layers must be an integer >= 1, got 0"),
            (("--channels", "0"), "channels must be an integer >= 1, got 0"),
            (("--crop-size", "99"), "no image to learn from: of 6 files 0 cannot be used and 6 "),
            (("--steps-per-epoch", "0"), "steps_per_epoch must be an integer >= 1, got 0"),
            (("--validation", "6"), "cannot hold out 6 of 6 images"),
            (("--validation", "-1"), "validation must be an integer >= 0, got -1"),
            (("--p", "0.5"), "p must be in"),
            (("--p", "1", "--fixed-p"), "p must be > 1 and finite"),
            (("--learning-rate", "-1"), "learning_rate must be a number > 0, got -1.0"),
            (("--batch-size", "0"), "batch_size must be an integer >= 1, got 0"),
            (("--config", "none.toml"), "none.toml does not exist"),
            (("--data", "nowhere"), "expected a folder of images, got nowhere"),
            (("--precision", "fp8"), "Invalid value for '--precision'"),
            (("--device", "tpu"), "unknown device 'tpu': expected auto"),
        ],
    )
    def test_bad_input(self, photos, tmp_path, options, message):
        self.check_bad_input(photos, tmp_path, options, message)

    def test_memory_of_a_gpu_that_is_full(self, photos, tmp_path, monkeypatch):
        def full(self, *arguments):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\n…")

        monkeypatch.setattr(RestorationTask, "loss", full)
        result = self.train(photos, tmp_path / "net")
        assert result.returncode == 2
        assert result.stderr == ("Error: there is not enough memory: try a smaller --batch-size.\n")
