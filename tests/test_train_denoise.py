"""`fwnet train denoise`, as its users run it, on a folder of small pictures."""

import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from fwnet.data import BSD68
from fwnet.models import ConvFWNet, ConvLISTA, DnCNN, FWNet
from fwnet.restoration import denoising
from fwnet.zoo import list_models, load_model
from tests.image_trainings import (
    WORSE,
    FoldersConformance,
    ImageTraining,
    InputConformance,
    ResultConformance,
    SettingsConformance,
    StartConformance,
    StoppingConformance,
)
from tests.trainings import about, assert_same, run, save_pairs, weights


class Denoise(ImageTraining):
    command = "denoise"
    crop_size = 16
    learning_rate = 8e-3
    clip_norm = 0.1
    num_epochs = 10

    def save_start(self, path):
        ConvFWNet(2, 4).save(path, {"sigma": 25.0})


class TestResult(Denoise, ResultConformance):
    given = ("--sigma", 30)
    figures = r"validation PSNR 1\d\.\d\d dB after epoch 3; the noisy images have 18\.\d\d dB"
    network = ConvFWNet(2, 4)
    notes = {"sigma": 30.0, "color": False}

    def test_one_network_for_all_levels_in_color(self, photos, tmp_path):
        network = self.trained(photos, tmp_path / "net", "--max-sigma", "55", "--color")
        assert network.noise_level_input
        assert network.in_channels == 3
        notes = about(tmp_path / "net")["notes"]
        assert notes["sigma"] == [0.0, 55.0]
        assert notes["color"] is True
        options = ("--sigma", "10", "--max-sigma", "20", "--validation", "0")
        result = self.train(photos, tmp_path / "few", *options)
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
    def test_networks(self, photos, tmp_path, options, expected):
        self.check_network(self.trained(photos, tmp_path / "net", *options), expected)


class TestSettings(Denoise, SettingsConformance):
    help_words = ("[default: 128]", "DnCNN: 0.002", "train denoise --data photos --sigma 25 -o")

    def test_help_for_coders_shows_another_recipe(self):
        coder = run("train", "coder", "--help").stdout
        assert "0.999; with fewer" not in coder
        assert "[default: 100]" in coder


class TestFolders(Denoise, FoldersConformance):
    def test_what_is_skipped_is_told(self, tmp_path):
        generator = np.random.default_rng(0)
        for name in [*BSD68, "mine", "other"]:
            pixels = generator.integers(0, 256, (20, 20), np.uint8)
            Image.fromarray(pixels).save(tmp_path / f"{name}.png")
        (line,), stdout = self.check_skipped(tmp_path, 4)
        assert line.startswith("68 of 72 images are left out: they belong to BSD68")
        assert "1 image to learn from and 1 to validate" in stdout

    @pytest.mark.parametrize("names", [("below", "net")])
    def test_trainings_among_the_photos(self, photos, tmp_path, names):
        shutil.copytree(photos, tmp_path / "photos")
        one, other = (tmp_path / "photos" / name for name in names)
        for net in (one, other):
            result = self.train(tmp_path / "photos", net)
            assert result.returncode == 0, result.stderr
            assert "5 images to learn from and 1 to validate" in result.stdout
        assert (other / "history.png").exists()
        again = self.train(tmp_path / "photos", one, "--resume")
        assert again.returncode == 0, again.stderr

    def test_without_a_folder_the_berkeley_images(self, photos, tmp_path, monkeypatch):
        files = sorted(photos.rglob("*.png"))
        monkeypatch.setattr(denoising, "berkeley_files", lambda: (files[:3], files[3:]))
        result = self.train(None, tmp_path / "net")
        assert result.returncode == 0, result.stderr
        assert "belong to BSD68" in result.stderr
        notes = about(tmp_path / "net")["notes"]
        assert notes["data"].startswith("3 images of the Berkeley segmentation data set (BSDS500)")
        assert notes["sigma"] == 25.0

    def test_no_folder_and_no_download(self, tmp_path, monkeypatch):
        monkeypatch.setenv("FWNET_DATA", str(tmp_path))
        (tmp_path / "bsds500").mkdir()
        result = self.train(None, tmp_path / "net", network=())
        assert result.returncode == 2
        assert "expected the folders train, val and test of the Berkeley images" in result.stderr


class TestStopping(Denoise, StoppingConformance):
    other_form = ("--model", "DnCNN", "--num-layers", "3")

    @pytest.mark.parametrize(
        ("option", "message"),
        [
            (("--sigma", "50"), "was started with sigma 25.0, got sigma 50.0"),
            (("--max-sigma", "50"), "was started with sigma 25.0, got sigma [0.0, 50.0]"),
        ],
    )
    def test_another_noise(self, photos, begun, option, message):
        self.check_another(photos, begun, option, message)


class TestPairs(Denoise):
    """Noisy images beside clean ones."""

    @pytest.fixture(scope="class")
    @classmethod
    def photos(cls, tmp_path_factory):
        """The options of two folders."""
        noisy, clean = save_pairs(tmp_path_factory.mktemp("pairs"))
        return "--noisy", noisy, "--clean", clean

    def learn(self, pairs, output, *options):
        return self.train(None, output, *pairs, *options)

    def test_a_trained_network_is_of_use(self, photos, tmp_path):
        result = self.learn(photos, tmp_path / "net", "--color")
        assert result.returncode == 0, result.stderr
        assert set(result.stderr.splitlines()) <= {WORSE}  # after two epochs
        assert "5 pairs to learn from and 1 to validate\n" in result.stdout
        assert "dB after epoch 2; the noisy images have 2" in result.stdout
        notes = about(tmp_path / "net")["notes"]
        assert (notes["task"], notes["pairs"], notes["color"]) == ("denoise", True, True)
        assert notes["data"].startswith(f"6 pairs of images in {photos[1]} and {photos[3]}, 1 of")
        model = tmp_path / "net" / "model.safetensors"
        assert not load_model(model).noise_level_input
        options = ("--model", model, "--device", "cpu", "--sigma", 9)
        used = run("denoise", photos[1] / "1.png", tmp_path / "1.png", *options)
        assert used.returncode == 0, used.stderr
        assert "40 × 40, for the noise of the training pairs" in used.stdout
        assert "this network has no input for the noise level: sigma is not used" in used.stderr

    def test_a_shipped_network_goes_on_with_one_noise_level(self, photos, tmp_path):
        start = ("--start", "conv_fwnet_t8.denoise_gray_fast", "--steps-per-epoch", 1)
        result = self.train(None, tmp_path / "net", *photos, *start, network=())
        assert result.returncode == 0, result.stderr
        sigma = about(tmp_path / "net")["notes"]["sigma"]
        assert 5 < sigma < 20
        options = ("--model", tmp_path / "net" / "model.safetensors", "--device", "cpu")
        used = run("denoise", photos[1] / "1.png", tmp_path / "1.png", *options)
        assert f"sigma {sigma:.1f} (that of the training pairs)" in used.stdout

    def test_resume_gives_the_same_weights_and_notices_changes(self, tmp_path):
        noisy, clean = save_pairs(tmp_path)
        pairs, net = ("--noisy", noisy, "--clean", clean), tmp_path / "net"
        assert self.learn(pairs, net).returncode == 0
        before = weights(net)
        assert self.learn(pairs, net, "--resume").returncode == 0
        assert_same(weights(net), before)
        other = self.train(clean, net, "--resume")
        assert "was started with sigma None, got sigma 25.0" in other.stderr
        for folder in (noisy, clean):
            path = folder / "1.png"
            kept = path.read_bytes()
            with Image.open(path) as image:
                pixels = np.array(image)
            pixels[0, 0] = 255 - pixels[0, 0]
            Image.fromarray(pixels).save(path)
            other = self.learn(pairs, net, "--resume")
            assert other.returncode == 2
            assert "was started with other data" in other.stderr
            path.write_bytes(kept)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--noisy", "N"), "--noisy and --clean must be given together, got only --noisy"),
            (("--clean", "C"), "--noisy and --clean must be given together, got only --clean"),
            (
                ("--noisy", "N", "--clean", "C", "--data", "C"),
                "expected either --data or --noisy and --clean, got all of them",
            ),
            (("--noisy", "N", "--clean", "C", "--sigma", 9), "--sigma is for --data: pairs have"),
            (("--noisy", "N", "--clean", "C", "--max-sigma", 9), "--max-sigma is for --data: "),
            (("--noisy", "N", "--clean", "nowhere"), "expected a folder of images, got nowhere"),
        ],
    )
    def test_options_that_do_not_fit(self, photos, tmp_path, options, message):
        folders = {"N": photos[1], "C": photos[3]}
        given = [folders.get(one, one) for one in options]
        result = self.train(None, tmp_path / "net", *given)
        assert result.returncode == 2
        assert result.stderr.startswith(f"Error: {message}")
        assert result.stderr.count("\n") == 1

    def test_no_pair(self, photos, tmp_path):
        shutil.copy(photos[3] / "1.png", tmp_path / "other.png")
        result = self.learn(("--noisy", photos[1], "--clean", tmp_path), tmp_path / "net")
        assert result.returncode == 2
        assert f"got {photos[1] / '0.png'} and {tmp_path / 'other.png'}, for" in result.stderr


class TestStart(Denoise, StartConformance):
    starts = {
        "UNTOLD": (ConvFWNet(2, 4), None),
        "COLOR": (ConvFWNet(2, 4, in_channels=3), {"sigma": 50.0}),
        "LEVELS": (ConvFWNet(2, 4, noise_level_input=True), None),
        "CODER": (FWNet(4, 5, 2), None),
        "LARGE": (ConvFWNet(2, 4, scale=3), None),
    }

    def test_a_gray_network_for_one_level_becomes_one_for_color_and_all(self, photos, tmp_path):
        start = ConvFWNet(3, 5, p=1.7)
        start.save(tmp_path / "start.safetensors")
        options = ("--start", tmp_path / "start.safetensors", *self.STILL, "--color")
        options += ("--max-sigma", "55")
        network = self.trained(photos, tmp_path / "net", *options, network=())
        assert (network.num_layers, network.channels, network.in_channels) == (3, 5, 3)
        x = torch.rand(2, 1, 9, 9)
        y = network(x.expand(-1, 3, -1, -1), 0.1)
        torch.testing.assert_close(y, start(x).expand_as(y), atol=1e-5, rtol=1e-5)

    def test_a_shipped_network_by_its_name(self, photos, tmp_path):
        names = [card.name for card in list_models("denoise") if "gray_s50" in card.name]
        options = ("--start", names[0], *self.STILL, "--steps-per-epoch", "1", "--batch-size", "1")
        network = self.trained(photos, tmp_path / "net", *options, network=())
        assert about(tmp_path / "net")["notes"]["sigma"] == 50.0
        shipped = load_model(names[0])
        for name, value in network.state_dict().items():
            torch.testing.assert_close(value, shipped.state_dict()[name])

    def test_a_shipped_network_for_all_levels(self, photos, tmp_path):
        names = [card.name for card in list_models("denoise") if card.name.endswith("denoise_gray")]
        options = ("--start", names[0], *self.STILL, "--steps-per-epoch", "1", "--batch-size", "1")
        network = self.trained(photos, tmp_path / "net", *options, network=())
        assert about(tmp_path / "net")["notes"]["sigma"] == [0.0, 75.0]
        assert network.noise_level_input

    @pytest.mark.parametrize(
        ("told", "notes", "options", "sigma"),
        [
            (False, 50.0, (), 50.0),
            (False, 50.0, ("--max-sigma", "55"), [0.0, 55.0]),
            (True, [5.0, 40.0], (), [5.0, 40.0]),
            (True, 30.0, (), 30.0),
        ],
    )
    def test_the_noise_is_that_of_the_start(self, photos, tmp_path, told, notes, options, sigma):
        file = tmp_path / "start.safetensors"
        ConvFWNet(2, 4, noise_level_input=told).save(file, {"sigma": notes})
        options = ("--start", file, *self.STILL, *options)
        network = self.trained(photos, tmp_path / "net", *options, network=())
        assert about(tmp_path / "net")["notes"]["sigma"] == sigma
        assert network.noise_level_input == (told or isinstance(sigma, list))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("GOOD", "--model", "DnCNN"), "model must be 'ConvFWNet', that of the network"),
            (("COLOR", "--gray"), "the network to start from is for color, got gray"),
            (("LEVELS", "--sigma", "9"), "has a noise-level input, got one level"),
            (("LEVELS",), "does not say what noise it was trained for: give --max-"),
            (("UNTOLD",), "does not say what noise it was trained for: give --sigma"),
            (("CODER",), "the network to start from must be a ConvFWNet, ConvLISTA"),
            (("LARGE",), "must keep the size of images, got one with a scale of 3"),
        ],
    )
    def test_starts_for_something_else(self, photos, tmp_path, options, message):
        self.check_bad_start(photos, tmp_path, options, message)


class TestInput(Denoise, InputConformance):
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--sigma", "0"), "--sigma must be in (0, 255], got 0"),
            (("--sigma", "300"), "--sigma must be in (0, 255], got 300"),
            (("--sigma", "nan"), "--sigma must be in (0, 255], got nan"),
            (("--sigma", "25", "--max-sigma", "15"), "sigma <= max-sigma <= 255"),
            (("--max-sigma", "0"), "max-sigma > 0, got 0 and 0"),
            (("--max-sigma", "256"), "got 0 and 256"),
            (("--crop-size", "0"), "crop_size must be an integer >= 1, got 0"),
            (("--model", "ResNet"), "must be one of ConvFWNet, ConvLISTA, DnCNN, got 'ResNet'"),
            (
                ("--model", "DnCNN", "--plain"),
                "plain applies to ConvFWNet and ConvLISTA only",
            ),
            (("--batch-norm",), "batch_norm applies to DnCNN only, not to ConvFWNet"),
        ],
    )
    def test_bad_noise_and_networks(self, photos, tmp_path, options, message):
        self.check_bad_input(photos, tmp_path, options, message)

    def test_a_small_sigma_gets_a_hint(self, photos, tmp_path):
        result = self.train(photos, tmp_path / "net", "--sigma", "0.1")
        assert result.returncode == 0
        assert result.stderr.startswith("Hint: --sigma is on the scale 0 to 255, where 0.1 is")
