"""What the tests of `fwnet train` share."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from PIL import Image
from scipy.ndimage import gaussian_filter
from typer.testing import CliRunner

from fwnet.cli import app
from fwnet.models import load_model, read_model
from fwnet.restoration import Denoising, Upscaling
from fwnet.training import RestorationTask, TrainingRun, train_restoration
from fwnet.zoo import TrainedModel


def run(*arguments):
    """The command in this process, which spares the imports of one of its own."""
    result = CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "300"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return SimpleNamespace(returncode=result.exit_code, stdout=result.stdout, stderr=result.stderr)


def save_stripes(folder):
    """Soft stripes in several colors and sizes, one folder below the other."""
    generator = np.random.default_rng(0)
    for index in range(6):
        height, width = generator.integers(44, 60, 2)
        y, x = np.mgrid[:height, :width]
        angles = generator.normal(0, 0.2, (2, 3))
        waves = np.sin(x[..., None] * angles[0] + y[..., None] * angles[1])
        path = folder / ("" if index % 2 else "below") / f"{index}.{'png' if index < 4 else 'jpg'}"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray((128 + 100 * waves).astype(np.uint8)).save(path)
    return folder


def save_noise(path, height=20, width=24, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(path)


def save_pairs(folder, count=6, side=40, sigma=12):
    """Folders noisy and clean: waves, and short streaks that are stronger in bright pixels."""
    generator = np.random.default_rng(1)
    y, x = np.mgrid[:side, :side]
    for index in range(count):
        angle, phases = generator.uniform(0, np.pi), generator.uniform(0, 6, 3)
        across, down = (x * np.cos(angle + turn) + y * np.sin(angle + turn) for turn in (0, 1.6))
        clean = 128 + 90 * np.sin(across[..., None] / 5 + phases) * np.sin(down / 4)[..., None]
        noise = gaussian_filter(generator.standard_normal(clean.shape), (0, 1, 0)) * 1.9
        noisy = clean + sigma * noise * (0.5 + clean / 255)
        for name, pixels in (("clean", clean), ("noisy", noisy)):
            (folder / name).mkdir(exist_ok=True)
            pixels = pixels.round().clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{index}.png")
    return folder / "noisy", folder / "clean"


def about(folder):
    """What the file of a training says."""
    return read_model(folder / "model.safetensors")[0]


def weights(folder):
    """What was learned."""
    return load_model(folder / "model.safetensors").state_dict()


def chosen_rate(experiment, method):
    """The learning rate that an experiment found best for a network on held-out images."""
    path = Path(__file__).parents[1] / "results" / f"{experiment}.json"
    choices = json.loads(path.read_text())["choices"]
    (rate,) = [one["learning_rate"] for one in choices if one["method"] == method]
    return rate


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


def denoising(learn, held=None, *, sigma, tell_sigma=False, kind=RestorationTask, **options):
    """The task of learning to remove noise."""
    return kind(Denoising(sigma, tell_sigma, learn.channels == 3), learn, held, **options)


def upscaling(
    learn,
    held=None,
    *,
    scale,
    low_resolution,
    copies=False,
    jpeg_quality=None,
    shifts=False,
    kind=RestorationTask,
    **options,
):
    """The task of learning to enlarge."""
    restoration = Upscaling(scale, low_resolution, copies, jpeg_quality, shifts)
    return kind(restoration, learn, held, **options)


def make_denoiser(model=None, *, color=None, noise_level_input=False, start=None, **asked):
    """A network for noise of one level, or of an interval."""
    trained = None if start is None else TrainedModel(start, "start")
    options = {"sigma": 25.0, "max_sigma": 25.0 if noise_level_input else None, "color": color}
    made = Denoising.from_options(trained, model, **options)
    return made.make_network(model, start=start, **asked)


def make_upscaler(model=None, *, scale, enlarged=False, start=None, **asked):
    """A network for a scale."""
    trained = None if start is None else TrainedModel(start, "start")
    made = Upscaling.from_options(trained, model, scale=scale, enlarged=enlarged)
    return made.make_network(model, start=start, **asked)


def train_on(restoration, network, data, output, **options):
    """`train_restoration`, with the fields of its run among the options."""
    names = ("device", "resume", "force", "progress", "warn")
    run = {name: options.pop(name) for name in names if name in options}
    return train_restoration(
        restoration, network, data, TrainingRun(folder=output, **run), **options
    )
