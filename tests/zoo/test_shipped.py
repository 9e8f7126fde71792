"""Every model that comes with the package: its card, its file, and what it does."""

import hashlib
import shlex

import pytest
import torch
from typer.testing import CliRunner

import fwnet
from fwnet.cli import app, train_images, train_noise
from fwnet.errors import FwnetError
from fwnet.models import ImageModel, NoiseLevelNet, read_model
from fwnet.zoo import list_models
from fwnet.zoo.shelf import SHIPPED, weights_path
from fwnet.zoo.shipping import KEPT, NAME, TEXTS, sample_output

CARDS = list_models()
LARGEST_SUM = 12_000_000  # bytes: a package should stay quick to install

each = pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)


def test_every_card_has_weights_and_every_file_a_card():
    weights = {path.name for path in (SHIPPED / "weights").glob("*")}
    assert weights == {f"{card.name}.safetensors" for card in CARDS}


def test_all_weights_together_are_small():
    assert sum(card.num_bytes for card in CARDS) <= LARGEST_SUM


@each
def test_its_card_is_complete(card):
    assert NAME.fullmatch(card.name)
    assert card.name.partition(".")[2].startswith(card.task)
    for name in TEXTS:
        assert getattr(card, name).strip()
        assert "\n" not in getattr(card, name)
    assert card.seconds > 0
    assert all(0 < figure < 100 for figure in card.figures.values())
    assert card.dtype in ("float16", "float32")


@each
def test_the_file_is_the_one_that_the_card_describes(card):
    data = weights_path(card.name).read_bytes()
    assert len(data) == card.num_bytes
    assert hashlib.sha256(data).hexdigest() == card.sha256
    about, _ = read_model(weights_path(card.name))
    assert set(about["notes"]) <= set(KEPT)  # no command with paths of the machine that trained it


@each
def test_it_loads_ready_for_use(card):
    model = fwnet.load_model(card.name)
    assert isinstance(model, NoiseLevelNet if card.task == "noise" else ImageModel)
    assert type(model).__name__ == card.model
    assert not model.training
    assert {w.dtype for w in model.parameters()} == {torch.float32}
    assert all(w.isfinite().all() for w in model.state_dict().values())
    assert model.num_parameters == card.num_parameters
    assert model.multiply_adds == card.multiply_adds
    assert model.in_channels == (3 if "color" in card.name else 1)
    if card.task == "noise":
        assert card.trained_for == {"color": model.in_channels == 3}
        return
    _, _, variant = card.name.partition("_x" if card.task == "upscale" else "_s")
    assert model.scale == (int(variant[0]) if card.task == "upscale" else 1)
    if card.task == "upscale":
        compressed = {"jpeg_quality": 30} if "jpeg" in card.name else {}
        assert card.trained_for == {"scale": model.scale, **compressed}
    else:
        sigma = int(variant) if variant else [0, 75]
        assert card.trained_for == {"sigma": sigma, "color": model.in_channels == 3}
        assert model.noise_level_input == (not variant)
    assert card.figures


@each
def test_its_command_trains_such_a_network(card, monkeypatch):
    """All but the training itself runs; of two commands, the second starts from the first."""
    trained = []

    def stop(restoration, network, data, run, *, settings, **options):
        trained.append((restoration.facts, network, settings))
        raise FwnetError("stopped")

    def stop_noise(network, data, run, *, settings, **options):
        trained.append(({"color": network.in_channels == 3}, network, settings))
        raise FwnetError("stopped")

    monkeypatch.setattr(train_images, "train_restoration", stop)
    monkeypatch.setattr(train_noise, "train_noise_level", stop_noise)
    command, *_ = card.command.split(" && ")
    assert CliRunner().invoke(app, shlex.split(command)[1:]).exit_code == 2
    ((facts, network, settings),) = trained
    model = fwnet.load_model(card.name)
    assert type(network) is type(model)
    assert network.config == model.config
    assert facts.items() >= card.trained_for.items()
    assert {"num_epochs", "seed"} <= settings.keys()


@each
def test_it_does_what_it_did_when_it_was_shipped(card):
    output = sample_output(fwnet.load_model(card.name))
    assert output.isfinite().all()
    for (channel, row, column), value in zip(card.sample.places, card.sample.values, strict=True):
        assert output[channel, row, column].item() == pytest.approx(value, abs=1e-4)
