"""The zoo as a mechanism, on untrained networks in a folder of their own."""

import functools
import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

import fwnet
from fwnet import zoo
from fwnet.cli import app
from fwnet.models import ConvFWNet, ConvLISTA, DnCNN, FWNet, ModelFileError
from fwnet.zoo import Card, Sample, find_card, list_models, load_model, load_trained, ship
from fwnet.zoo.__main__ import main
from fwnet.zoo.shipping import sample_image, sample_output

NAME = "conv_fwnet_t3.denoise_gray_s25"
FACTS = {
    "summary": "Gray images with noise of σ = 25",
    "data": "a formula",
    "data_license": "none needed",
    "command": "fwnet train denoiser",
    "seconds": 12.5,
    "hardware": "an abacus",
    "figures": {"BSD68 σ=25 PSNR": 28.7},
}
NOTES = {**FACTS, "task": "denoise", "sigma": 25.0, "color": False}


def make(**options):
    generator = torch.Generator().manual_seed(0)
    return ConvFWNet(**{"num_layers": 3, "channels": 6, **options}, generator=generator).eval()


@pytest.fixture
def trained(tmp_path):
    path = tmp_path / "model.safetensors"
    make().save(path, NOTES)
    return path


@pytest.fixture
def folder(tmp_path, trained):
    """A zoo of four."""
    shelf = tmp_path / "zoo"
    for name in (NAME, "conv_fwnet_t16.denoise_color", "conv_fwnet_t4.upscale_x3"):
        ship(trained, name, folder=shelf)
    ship(trained, "conv_fwnet_t3.denoise_gray_s50", folder=shelf, half=False)
    return shelf


# Shipping


def test_what_is_shipped_is_what_is_loaded(trained, folder):
    card, model = find_card(NAME, folder), load_model(NAME, folder=folder)
    assert card == ship(trained, NAME, folder=folder)
    assert card == Card.read(folder / "cards" / f"{NAME}.json")
    assert (card.name, card.task, card.model, card.dtype) == (
        NAME,
        "denoise",
        "ConvFWNet",
        "float16",
    )
    assert (card.num_parameters, card.multiply_adds) == (model.num_parameters, model.multiply_adds)
    assert {name: getattr(card, name) for name in FACTS} == FACTS
    assert card.num_bytes == (folder / "weights" / f"{NAME}.safetensors").stat().st_size
    assert isinstance(model, ConvFWNet)
    assert not model.training
    assert model.config == make().config


def test_kernels_are_halved_and_a_float32_model_comes_back(folder):
    kept = load_file(folder / "weights" / f"{NAME}.safetensors")
    model, original = load_model(NAME, folder=folder), make()
    for name, weight in original.state_dict().items():
        loaded = model.state_dict()[name]
        assert loaded.dtype == torch.float32
        assert kept[name].dtype == (torch.float16 if weight.ndim >= 2 else torch.float32)
        torch.testing.assert_close(loaded, weight, rtol=2**-11, atol=2**-25)
        if weight.ndim < 2:  # p and γ, to the last digit
            assert torch.equal(loaded, weight)
    x = sample_image(1)
    torch.testing.assert_close(model(x), original(x), rtol=0, atol=0.02)
    whole = load_model("conv_fwnet_t3.denoise_gray_s50", folder=folder)
    assert torch.equal(whole(x), original(x))
    sizes = [card.num_bytes for card in list_models("denoise", folder)][:2]
    assert sizes[0] < 0.7 * sizes[1]


def test_what_is_fixed_keeps_all_its_digits(tmp_path):
    make(p=1.3, learn_p=False, learn_step_sizes=False).save(tmp_path / "m.safetensors", NOTES)
    ship(tmp_path / "m.safetensors", NAME, folder=tmp_path)
    model = load_model(NAME, folder=tmp_path)
    assert model.p.item() == 1 + (1.3 - 1)
    assert model.step_sizes.tolist() == [1, 2 / 3, 1 / 2]


@pytest.mark.parametrize(
    "network",
    [DnCNN(3, 4), DnCNN(3, 4, batch_norm=False, in_channels=3), ConvLISTA(2, 5)],
    ids=lambda network: type(network).__name__,
)
def test_other_image_models_can_be_shipped(network, tmp_path):
    network.double().save(tmp_path / "m.safetensors", NOTES)
    card = ship(tmp_path / "m.safetensors", "dncnn_t3.denoise_any", folder=tmp_path)
    model = load_model("dncnn_t3.denoise_any", folder=tmp_path)
    floats = {w.dtype for w in model.state_dict().values() if w.is_floating_point()}
    assert floats == {torch.float32}
    assert len(card.sample.values) == 8 * network.in_channels


def test_facts_that_are_given_go_before_notes(trained, tmp_path):
    card = ship(trained, NAME, folder=tmp_path, hardware="two hands", figures={"Set12": 30})
    assert (card.hardware, card.figures) == ("two hands", {"Set12": 30})


def test_what_cannot_be_shipped_leaves_nothing_behind(tmp_path, trained):
    shelf = tmp_path / "zoo"
    plain, signals, large = (tmp_path / f"{name}.safetensors" for name in "abc")
    make().save(plain, {"data": "none"})
    FWNet(3, 4, 2).save(signals, NOTES)
    big = make()
    with torch.no_grad():
        big.first.weight[0, 0, 0, 0] = 1e6
    big.save(large, NOTES)
    for path, name, facts, message in (
        (
            plain,
            NAME,
            {},
            "not in the notes of .*: command, data_license, figures, hardware",
        ),
        (signals, NAME, {}, "must hold an image model, got a FWNet"),
        (large, NAME, {}, "first.weight must be finite in torch.float16, got up to 1000000"),
        (trained, NAME, {"licence": "MIT"}, "a card has no field for licence"),
        (trained, "Denoiser", {}, "name must be architecture_tT.task_variant, got 'Denoiser'"),
        (trained, NAME, {"summary": "two\nlines"}, "summary must be a line of text"),
        (trained, NAME, {"figures": {"PSNR": float("nan")}}, "figures must be finite"),
        (trained, NAME, {"seconds": -1}, "seconds must be a number >= 0, got -1"),
        (tmp_path / "no", NAME, {}, "does not exist"),
    ):
        with pytest.raises(ModelFileError, match=message):
            ship(path, name, folder=shelf, **facts)
    assert not shelf.exists()


def test_the_command_of_maintainers(trained, tmp_path, capsys):
    shelf = tmp_path / "zoo"
    arguments = ["ship", str(trained), NAME, "--folder", str(shelf), "--hardware", "two hands"]
    main([*arguments, "--float32", "--figure", "BSD68 σ=25 PSNR=29.0", "--figure", "Set12=30.5"])
    card = find_card(NAME, shelf)
    assert card.figures == {"BSD68 σ=25 PSNR": 29.0, "Set12": 30.5}
    assert (card.dtype, card.hardware, card.seconds) == ("float32", "two hands", 12.5)
    for wrong in (["--figure", "Set12"], ["--summary", " "]):
        with pytest.raises(SystemExit, match="2"):
            main([*arguments, *wrong])
    assert "summary must be a line of text, got ' '" in capsys.readouterr().err


# Cards


def test_cards_are_listed_by_task_and_in_order(folder):
    assert [card.name for card in list_models(folder=folder)] == [
        "conv_fwnet_t3.denoise_gray_s25",
        "conv_fwnet_t3.denoise_gray_s50",
        "conv_fwnet_t4.upscale_x3",
        "conv_fwnet_t16.denoise_color",
    ]
    assert [card.task for card in list_models("upscale", folder)] == ["upscale"]
    with pytest.raises(ValueError, match="task must be one of denoise, upscale, got 'paint'"):
        list_models("paint", folder)


def test_what_a_network_was_trained_for(folder, trained, tmp_path):
    """The card of a shipped network says it, the notes of a file of one's own."""
    assert find_card(NAME, folder).trained_for == {"sigma": 25.0, "color": False}
    facts = load_trained(NAME, folder=folder).facts
    assert facts == {"sigma": 25.0, "color": False, "task": "denoise"}
    card = ship(trained, NAME, folder=tmp_path, trained_for={"sigma": [0, 9]})
    assert card.trained_for == {"sigma": [0, 9]}
    assert load_trained(trained).facts["sigma"] == 25.0
    make().save(trained)
    assert load_trained(trained).facts == {}


def test_a_file_is_read_once(folder, trained, monkeypatch):
    read = []
    working = Path.read_bytes

    def count(path):
        read.append(path.name)
        return working(path)

    monkeypatch.setattr(Path, "read_bytes", count)
    load_trained(NAME, folder=folder)
    assert read == [f"{NAME}.safetensors"]
    load_trained(trained)
    assert read == [f"{NAME}.safetensors", trained.name]


def test_an_empty_zoo(tmp_path):
    assert list_models(folder=tmp_path) == []
    with pytest.raises(ModelFileError, match="no model and no file is called"):
        load_model(NAME, folder=tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda card: card.pop("data"), "not a card.*'data'"),
        (lambda card: card.update(stars=5), "not a card.*'stars'"),
        (lambda card: card.update(sample=None), "not a card"),
        (lambda card: card["sample"].pop("values"), "not a card.*'values'"),
        (
            lambda card: card.update(name="conv_fwnet_t4.denoise"),
            "must be the card of conv_fwnet_t3",
        ),
    ],
)
def test_wrong_cards_are_refused(change, message, folder):
    path = folder / "cards" / f"{NAME}.json"
    card = json.loads(path.read_text(encoding="utf-8"))
    change(card)
    path.write_text(json.dumps(card), encoding="utf-8")
    with pytest.raises(ModelFileError, match=message):
        list_models(folder=folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "7"])
def test_files_that_are_no_cards_are_refused(text, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ModelFileError, match=r"a\.json is not a card"):
        Card.read(path)


# Loading


def test_damaged_weights_are_not_loaded(folder):
    path = folder / "weights" / f"{NAME}.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        ModelFileError, match=f"of {NAME} are damaged: expected the sha256 [0-9a-f]"
    ):
        load_model(NAME, folder=folder)
    path.unlink()
    with pytest.raises(ModelFileError, match=f"weights of {NAME} cannot be read .*install fwnet"):
        load_model(NAME, folder=folder)


def test_an_unknown_name_suggests_similar_ones(folder):
    near = r"conv_fwnet_t3\.denoise_gray_s[25][05] or conv_fwnet_t3\.denoise_gray_s[25][05]"
    with pytest.raises(ModelFileError, match=f"_s20'; did you mean {near}.*lists all"):
        load_model("conv_fwnet_t3.denoise_gray_s20", folder=folder)
    with pytest.raises(ModelFileError, match=r"did you mean conv_fwnet_t3\.denoise_gray_s25\?"):
        load_model("gray_s25", folder=folder)
    with pytest.raises(ModelFileError, match=r"'x'; fwnet.list_models\(\), or fwnet models"):
        load_model("x", folder=folder)
    with pytest.raises(ModelFileError, match="no model is called 'x'"):
        find_card("x", folder)


def test_a_path_is_a_file_of_ones_own(tmp_path, monkeypatch):
    network = make().double()
    network.save(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    x = sample_image(1).double()
    for path in (tmp_path / "mine", str(tmp_path / "mine"), "mine", "./mine"):
        assert torch.equal(fwnet.load_model(path)(x), network(x))
    for path in ("other.safetensors", "folder/other", tmp_path / "other"):
        with pytest.raises(ModelFileError, match=r"other.* does not exist"):
            fwnet.load_model(path)


def test_names_go_before_files_and_paths_before_names(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(channels=3).save(tmp_path / NAME)
    assert load_model(NAME, folder=folder).channels == 6
    assert load_model(tmp_path / NAME, folder=folder).channels == 3
    assert load_model(f"./{NAME}", folder=folder).channels == 3


# The sample


def test_the_sample_is_exact_everywhere():
    image = sample_image(3)
    assert image.shape == (1, 3, 24, 24)
    assert image.dtype == torch.float32
    assert torch.equal(image * 128, (image * 128).round())
    assert image.min() == 0
    assert 0.9 < image.max() < 1
    assert torch.equal(image[:, :1], sample_image(1))
    assert not torch.equal(image[:, 0], image[:, 1])
    assert (128 * image[0, 0, 3, :5]).tolist() == [11, 19, 25, 13, 15]


def test_the_sample_of_a_network_that_is_told_its_noise_level():
    told = make(noise_level_input=True)
    torch.testing.assert_close(sample_output(told), told(sample_image(1), 25 / 255)[0])


def test_a_card_keeps_what_its_model_does(folder):
    sample = find_card(NAME, folder).sample
    assert isinstance(sample, Sample)
    output = load_model(NAME, folder=folder)(sample_image(1))[0]
    for (channel, row, column), value in zip(sample.places, sample.values, strict=True):
        assert output[channel, row, column].item() == pytest.approx(value, abs=1e-6)


# The command line


@pytest.fixture
def command(folder, monkeypatch):
    for name in ("list_models", "find_card"):
        monkeypatch.setattr(zoo, name, functools.partial(getattr(zoo, name), folder=folder))
    return lambda *arguments: CliRunner().invoke(app, ["models", *arguments])


def test_models_are_listed(command, folder):
    result = command()
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines() if "conv_fwnet" in line]
    assert [row[0] for row in rows] == [
        "conv_fwnet_t3.denoise_gray_s25",
        "conv_fwnet_t3.denoise_gray_s50",
        "conv_fwnet_t16.denoise_color",
        "conv_fwnet_t4.upscale_x3",
    ]
    assert f"{make().num_parameters}" in rows[0]
    assert "28.70" in rows[0]
    assert json.loads(command("--json").stdout)[0]["name"] == NAME


def test_models_that_the_commands_choose_are_marked():
    shown = re.sub(r"\s+", " ", CliRunner().invoke(app, ["models"]).stdout)
    for when in ("default ", "default with --fast", "default for JPEG files"):
        assert shown.count(when) >= 2
    assert fwnet.cli.models._default_models().keys() <= {card.name for card in list_models()}


def test_a_card_is_shown_in_full(command, folder):
    result = command(NAME)
    assert result.exit_code == 0
    card = find_card(NAME, folder)
    for part in (NAME, *FACTS["figures"], "28.70", card.sha256, card.summary, card.command):
        assert part in result.stdout
    shown = json.loads(command(NAME, "--json").stdout)
    assert shown["sha256"] == card.sha256
    assert shown["figures"] == FACTS["figures"]


def test_an_unknown_model_is_one_line_and_exit_code_2(command):
    result = command("conv_fwnet_t3.denoise_gray_s20")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("Error: no model is called 'conv_fwnet_t3.denoise_gray_s20'")


def test_without_models_it_says_so(monkeypatch):
    monkeypatch.setattr(zoo, "list_models", list)
    result = CliRunner().invoke(app, ["models"])
    assert (result.exit_code, result.stdout) == (0, "No trained models come with this version.\n")
