"""A network learns how much noise photos have."""

import numpy as np
import pytest
import torch
from PIL import Image
from skimage import data
from typer.testing import CliRunner

from fwnet.cli import app
from fwnet.data import ImageSet
from fwnet.models import NoiseLevelNet, load_model
from fwnet.restoration import Denoising
from fwnet.training import (
    ConfigError,
    NoiseLevelTask,
    TrainingConfig,
    TrainingRun,
    train_noise_level,
)


@pytest.fixture
def folder(tmp_path):
    for name in ("astronaut", "coffee", "chelsea"):
        Image.fromarray(getattr(data, name)()[:200, :200]).save(tmp_path / f"{name}.png")
    return tmp_path


def small(channels=3):
    return NoiseLevelNet(
        channels, filters=4, channels=8, heads=2, generator=torch.Generator().manual_seed(0)
    )


def test_learns(folder, tmp_path):
    run = TrainingRun(folder=tmp_path / "run", device="cpu")
    settings = {"num_epochs": 10, "batch_size": 8, "learning_rate": 5e-3}
    report = train_noise_level(
        small(), folder, run, settings=settings, crop_size=64, steps_per_epoch=8, validation=1
    )
    losses = [epoch["loss"] for epoch in report.training.history]
    assert losses[-1] < 0.8 * losses[0]
    assert report.training.history[-1]["validation"] > 0
    loaded = load_model(report.model_path)
    assert torch.equal(loaded.filters[0], report.network.filters[0])


def test_levels_that_are_too_small_count_more_for_the_noise_of_cameras():
    images = ImageSet.of([np.zeros((64, 64, 1), np.uint8)], ["black"])
    task = NoiseLevelTask(Denoising((0.0, 1.0)), images, crop_size=64)
    x = torch.zeros(2, 1, 64, 64)
    sigma = torch.full((2,), 10 / 255)
    for camera, below, above in ((True, 0.85, 0.15), (False, 0.5, 0.5)):
        of_camera = torch.full((2,), camera)
        for shift, wanted in ((-0.5, below), (0.5, above)):
            answer = (10.5 * torch.ones(2)).log() + shift
            loss = task.loss(lambda seen, answer=answer: answer, x, sigma, of_camera)
            assert loss.item() == pytest.approx(wanted, rel=1e-4)


def test_a_batch_depends_on_the_step_alone():
    images = ImageSet.of([data.astronaut()], ["astronaut"])
    task = NoiseLevelTask(Denoising((0.0, 1.0), color=True), images, crop_size=64)
    config = TrainingConfig(num_epochs=1, batch_size=4)
    first, again, other = (task.batch(step, slice(None), config) for step in (3, 3, 4))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    assert torch.equal(task.batch(3, slice(1, 3), config)[2], first[2][1:3])


def test_the_command(folder, tmp_path):
    output = tmp_path / "mine"
    arguments = ["train", "noise", "--data", str(folder), "-o", str(output), "--gray"]
    sizes = ["--num-epochs", "1", "--steps-per-epoch", "2", "--batch-size", "2"]
    sizes += ["--crop-size", "64", "--filters", "2", "--channels", "4", "--device", "cpu"]
    result = CliRunner().invoke(app, [*arguments, *sizes])
    assert result.exit_code == 0, result.output
    assert "mean error of the noise level" in result.output
    network = load_model(output / "model.safetensors")
    assert (network.in_channels, network.config["filters"]) == (1, 2)
    again = CliRunner().invoke(app, [*arguments, *sizes])
    assert again.exit_code == 2


def test_a_crop_that_is_too_small(folder, tmp_path):
    run = TrainingRun(folder=tmp_path / "run")
    with pytest.raises(ConfigError, match="crop_size must be at least 32, got 31"):
        train_noise_level(small(), folder, run, crop_size=31)
