"""One short test per room, through public names: what `make check` runs while you work."""

import numpy as np
import pytest
import torch
from PIL import Image
from skimage.io import imread
from typer.testing import CliRunner

import fwnet
from fwnet.cli import app


def command(*arguments):
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def picture(tmp_path):
    rows, columns = np.mgrid[:40, :56]
    noise = np.random.default_rng(0).normal(0, 20, (40, 56))
    clean = 128 + 60 * np.sin(rows / 9) * np.cos(columns / 7)
    Image.fromarray((clean + noise).clip(0, 255).astype(np.uint8)).save(tmp_path / "noisy.png")
    return tmp_path / "noisy.png"


@pytest.mark.parametrize("p", [1.0, 1.3, 2.0, 4.0, float("inf")])
def test_the_unit_is_optimal_and_codes_are_certified(p):
    u = torch.randn(6, 9, dtype=torch.float64)
    ball = fwnet.LpBall(p, radius=2.0)
    others = ball.project(torch.randn(50, 6, 9, dtype=torch.float64))
    assert ((others * u).sum(-1) >= (ball.lmo(u) * u).sum(-1) - 1e-9).all()
    dictionary = torch.nn.functional.normalize(torch.randn(9, 15, dtype=torch.float64), dim=0)
    solution = fwnet.solve(u, dictionary, ball)
    assert set(solution.status) == {"certified"}
    assert ball.contains(solution.code, tol=1e-9).all()


def test_an_untrained_network_is_the_algorithm():
    dictionary = torch.randn(9, 15, dtype=torch.float64)
    fixed = {"learn_p": False, "learn_step_sizes": False}
    network = fwnet.FWNet.from_dictionary(dictionary, 5, radius=2.0, p=1.3, **fixed)
    x = torch.randn(4, 9, dtype=torch.float64)
    ball = fwnet.LpBall(1.3, 2.0)
    steps = fwnet.solve(x, dictionary, ball, method="frank-wolfe", max_steps=5, tol=1e-15)
    torch.testing.assert_close(network.double()(x), steps.code)


def test_a_training_is_saved_and_loaded(tmp_path):
    data = fwnet.data.synthetic_codes(p=1.3, num_train=200, num_test=20).scaled()
    network = fwnet.FWNet.from_dictionary(data.dictionary, num_layers=2, radius=5.0)
    task = fwnet.training.CodeRegression(data.signals, data.codes)
    config = fwnet.training.TrainingConfig(num_epochs=2, batch_size=50)
    result = fwnet.training.train(network, task, config, fwnet.training.TrainingRun(tmp_path))
    assert result.history[1]["loss"] < result.history[0]["loss"]
    loaded = fwnet.load_model(tmp_path / "model.safetensors")
    assert torch.equal(loaded(data.test_signals), network(data.test_signals))


def test_estimators_fit():
    x = np.random.default_rng(0).normal(size=(60, 6))
    model = fwnet.LpDictionaryLearning(n_components=8, p=1.3, radius=2.0, max_iter=3).fit(x)
    assert fwnet.LpCoder(model.components_, p=1.3, radius=2.0).fit_transform(x).shape == (60, 8)


def test_a_picture_is_cleaned_and_enlarged(picture, tmp_path):
    command("denoise", picture, tmp_path / "clean.png", "--sigma", "20")
    command("upscale", picture, tmp_path / "large.png", "--scale", "2")
    before, after, large = map(imread, (picture, tmp_path / "clean.png", tmp_path / "large.png"))
    assert np.diff(after.astype(float)).std() < 0.7 * np.diff(before.astype(float)).std()
    assert large.shape == (80, 112)


def test_rows_of_a_file_are_coded(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(30, 6)))
    command("encode", tmp_path / "x.npy", "--p", 1.3, "--radius", 1, "-o", tmp_path / "z.npy")
    assert np.load(tmp_path / "z.npy").shape == (30, 6)


@pytest.mark.parametrize("name", ["reproduce", "bench", "models"])
def test_the_lists_of_the_command_line(name):
    assert len(command(name).splitlines()) > 5
