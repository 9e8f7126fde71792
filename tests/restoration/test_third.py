"""A third restoration costs one class and one line in the registry.

This one removes the artifacts of JPEG. It is trained and applied through the same code, the
command line included, as those of the package.
"""

import io
import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import typer
from PIL import Image
from typer.testing import CliRunner

from fwnet.cli import train_images
from fwnet.cli.images import restoration_command
from fwnet.errors import FwnetError
from fwnet.imaging import RestoredFile, Restorer, restore, restore_files
from fwnet.models import ConvFWNet
from fwnet.restoration import RESTORATIONS, Denoising, Recipe, Restoration, Settings, option
from fwnet.restoration.restoration import check_task
from fwnet.training import RestorationTask, TrainingRun, train_restoration
from fwnet.zoo import TrainedModel
from tests.trainings import about, save_stripes


@dataclass(frozen=True)
class QualityOptions:
    quality: int = option(20, "Quality of the JPEG files to learn from, 1 to 95.")


@dataclass(frozen=True)
class JpegRepair(Restoration):
    """Remove the artifacts of JPEG files of one quality."""

    quality: int = 20

    name = "dejpeg"
    does = "removes artifacts of JPEG"
    help = "Remove artifacts of JPEG from images."
    train_options = QualityOptions
    recipe = Recipe(
        networks={"ConvFWNet": {"num_layers": 3}},
        rows=[Settings("ConvFWNet", 4e-3, arguments={"output_gain": 0.1})],
        num_epochs=2,
        batch_size=4,
        clip_norm=0.1,
    )

    @classmethod
    def for_network(cls, trained, **asked):
        check_task(cls, trained.name, trained.facts)
        return cls(trained.facts.get("quality", 20))

    @classmethod
    def from_options(cls, start, model=None, *, quality):
        return cls(quality)

    @classmethod
    def default_models(cls, **asked):
        raise FwnetError("model must be given: none for JPEG is shipped")

    @property
    def facts(self):
        return {"quality": self.quality}

    def degrade(self, image):
        """A whole gray image, written as JPEG and read again."""
        levels = (255 * image[0, 0]).round().byte().numpy()
        file = io.BytesIO()
        Image.fromarray(levels).save(file, "JPEG", quality=self.quality)
        return torch.from_numpy(np.asarray(Image.open(file)) / 255)[None, None]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return save_stripes(tmp_path_factory.mktemp("photos"))


def commands():
    """`dejpeg` and `train`, as the command line makes them for those in the registry."""
    app = typer.Typer()
    app.command("dejpeg", help=JpegRepair.help)(restoration_command(JpegRepair))
    app.command("train")(train_images.training_command_for(JpegRepair))
    return app


def run(*arguments):
    return CliRunner().invoke(commands(), [str(one) for one in arguments], env={"COLUMNS": "200"})


def test_from_the_command_line_to_a_better_image(photos, tmp_path):
    net = tmp_path / "net"
    size = ("--channels", 6, "--crop-size", 16, "--steps-per-epoch", 20, "--num-epochs", 3)
    trained = run("train", "--data", photos, "-o", net, "--quality", 10, *size, "--device", "cpu")
    assert trained.exit_code == 0, trained.stderr
    assert "the degraded images have" in trained.stdout
    assert f"fwnet dejpeg IN OUT --model {net}/model.safetensors" in trained.stdout
    notes = about(net)["notes"]
    assert (notes["task"], notes["quality"], notes["crop_size"]) == ("dejpeg", 10, 16)
    epochs = [json.loads(line) for line in (net / "history.jsonl").read_text().splitlines()]
    assert epochs[-1]["loss"] < epochs[0]["loss"]

    clean = Image.open(photos / "1.png").convert("L")
    clean.save(tmp_path / "bad.jpg", quality=10)
    model = ("--model", net / "model.safetensors", "--device", "cpu", "--compare")
    used = run("dejpeg", tmp_path / "bad.jpg", tmp_path / "good.png", *model)
    assert used.exit_code == 0, used.stderr
    assert f"{clean.width} × {clean.height}, " in used.stdout
    assert (tmp_path / "good-compare.png").exists()
    bad, good = (
        np.asarray(Image.open(tmp_path / name)).astype(float) for name in ("bad.jpg", "good.png")
    )
    assert bad.shape == good.shape
    assert not np.array_equal(bad, good)
    assert run("train", "--help").stdout.count("--quality") == 1
    assert run("dejpeg", "a.png", "b.png").exit_code == 2


def test_in_python(photos, tmp_path):
    restoration = JpegRepair(10)
    network = restoration.make_network(channels=4)
    assert type(network) is ConvFWNet
    assert network.config["num_layers"] == 3
    assert network.config["output_gain"] == 0.1
    report = train_restoration(
        restoration,
        network,
        photos,
        TrainingRun(folder=tmp_path / "net"),
        settings={"num_epochs": 1},
        crop_size=16,
        steps_per_epoch=2,
    )
    assert report.validation_psnr > 0
    assert report.baseline_psnr > 20
    image = np.random.default_rng(0).random((20, 24))
    assert restore(JpegRepair, image, network).shape == (20, 24)
    Image.fromarray((255 * image).astype(np.uint8)).save(tmp_path / "a.png")
    inputs = [str(tmp_path / "a.png")]
    (file,) = restore_files(JpegRepair, inputs, str(tmp_path / "b.png"), model=report.model_path)
    assert isinstance(file, RestoredFile)
    assert file.description == "24 × 20"
    with pytest.raises(FwnetError, match=r"removes noise, got .*, trained to dejpeg"):
        restore(Denoising, image, report.model_path)
    with pytest.raises(FwnetError, match="trained to denoise"):
        JpegRepair.for_network(TrainedModel(network, "x", {"task": "denoise"}))


def test_its_own_default_networks_scale_and_baseline(tmp_path):
    names = {}
    for channels in (1, 3):
        names[channels] = str(tmp_path / f"{channels}.safetensors")
        ConvFWNet(2, 4, in_channels=channels, scale=2).save(names[channels])

    class Enlarged(JpegRepair):
        scale = 2
        defaults = names

        @classmethod
        def default_models(cls, **asked):
            return cls.defaults

        def baseline(self, image):
            return 1 - image.repeat_interleave(2, 2).repeat_interleave(2, 3)

    class OnlyColor(Enlarged):
        defaults = {3: names[3]}

    class Negative(JpegRepair):
        def baseline(self, image):
            return 1 - image

    image = np.random.default_rng(0).integers(0, 256, (9, 7, 3), np.uint8)
    for kind in (Enlarged, OnlyColor):
        restorer = Restorer(kind, device="cpu", tile=4)
        assert restorer.scale == 2
        expected = 255 - image.repeat(2, 0).repeat(2, 1)
        assert np.array_equal(restorer.baseline(image), expected)
        assert np.array_equal(restore(kind, image), restore(kind, image, names[3]))
    assert restore(Enlarged, torch.zeros(0, 1, 9, 7)).shape == (0, 1, 18, 14)
    restorer = Restorer(Negative, ConvFWNet(2, 4, in_channels=3))
    assert np.array_equal(restorer.baseline(image), 255 - image)


def test_default_images_are_not_a_must(tmp_path):
    with pytest.raises(FwnetError, match="folder of images: dejpeg has no default"):
        train_restoration(
            JpegRepair(), ConvFWNet(2, 3), None, TrainingRun(folder=tmp_path), crop_size=8
        )


def test_what_is_learned_from_are_crops_of_degraded_images(photos):
    from fwnet.data import read_images
    from fwnet.training import TrainingConfig

    images = read_images(sorted(photos.glob("*.png")), color=False)
    restoration = JpegRepair(10)
    task = RestorationTask(restoration, images, images, crop_size=16, crops_per_epoch=8)
    x, clean = task.batch(0, slice(None), TrainingConfig(batch_size=4))
    assert x.shape == clean.shape == (4, 1, 16, 16)
    error = (x - clean).square().mean()
    assert 0 < error < 0.02
    found = task.validate(lambda x: x)
    assert found == pytest.approx(task.validate_baseline())


def test_the_registry():
    assert list(RESTORATIONS) == ["denoise", "upscale"]
    assert all(kind.name == name for name, kind in RESTORATIONS.items())
