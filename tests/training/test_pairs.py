"""Learning from pairs of noisy and clean images."""

import numpy as np
import pytest
import torch
from PIL import Image

import fwnet
from fwnet.data import DataError, ImageSet
from fwnet.errors import FwnetError
from fwnet.models import ConvFWNet
from fwnet.restoration import Denoising, Upscaling
from fwnet.training import RestorationTask, TrainingConfig, TrainingRun, decibels
from fwnet.training.learning_images import read_learning_images
from fwnet.zoo import TrainedModel
from tests.trainings import about, save_pairs, train_on

SHORT = {"crop_size": 16, "steps_per_epoch": 4, "settings": {"num_epochs": 1, "batch_size": 3}}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return save_pairs(tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="module")
def some(tmp_path_factory):
    return save_pairs(tmp_path_factory.mktemp("some"), 20, 48)


def read(folders, color=True, crop_size=16):
    lines = []
    restoration = Denoising(pairs=True, color=color)
    run = TrainingRun(warn=lines.append)
    return read_learning_images(restoration, folders, run, crop_size), lines


class TestTask:
    def task(self, channels=3, tell_sigma=False):
        """The noisy image is the clean one, with 20 added at its first half of rows."""
        clean = np.random.default_rng(0).integers(0, 230, (3, 30, 24, channels), np.uint8)
        noisy = clean.copy()
        noisy[:, :15] += 20
        images = ImageSet.of([*np.concatenate([clean, noisy], 3)], "abc")
        restoration = Denoising(pairs=True, tell_sigma=tell_sigma, color=channels == 3)
        return RestorationTask(restoration, images, images, crop_size=10, crops_per_epoch=8)

    @pytest.mark.parametrize("channels", [1, 3])
    def test_both_crops_come_from_one_place_mirrored_and_turned_alike(self, channels):
        task = self.task(channels)
        config = TrainingConfig(batch_size=40)
        x, clean, sigma = task.batch(0, slice(None), config)
        assert x.shape == clean.shape == (40, channels, 10, 10)
        difference = (255 * (x - clean)).round()
        assert set(difference.unique().tolist()) == {0, 20}
        assert torch.equal(sigma, torch.full((40,), task.restoration.high))
        again = task.batch(0, slice(3, 5), config)
        assert torch.equal(again[0], x[3:5])

    def test_the_noise_level_is_the_root_of_the_mean_squared_difference(self):
        restoration = self.task().restoration
        assert 255 * restoration.high == pytest.approx(20 / 2**0.5)
        assert restoration.facts["sigma"] == pytest.approx(20 / 2**0.5, abs=1e-5)
        assert Denoising(pairs=True).facts == {"color": False, "pairs": True}

    def test_the_baseline_is_the_noisy_image(self):
        task = self.task()
        expected = 10 * np.log10(255**2 / 200)
        assert decibels(task.validate_baseline()) == pytest.approx(expected, abs=1e-3)
        assert task.validate(lambda x: x) == pytest.approx(task.validate_baseline())

    def test_a_told_network_gets_one_level_in_training_and_validation(self):
        task, told = self.task(tell_sigma=True), []

        def network(x, sigma):
            told.extend(torch.as_tensor(sigma).reshape(-1).tolist())
            return x

        task.loss(network, *task.batch(0, slice(None), TrainingConfig(batch_size=4)))
        task.validate(network)
        assert len(told) == 7
        assert told == pytest.approx([task.restoration.high] * 7)

    def test_both_images_count_as_data(self):
        one, other = self.task(), self.task()
        for column in (0, 5):  # of the clean image, and of the noisy one
            other.images.pixels[7, column] += 1
            assert one.fingerprint() != other.fingerprint()
            other.images.pixels[7, column] -= 1
        assert one.fingerprint() == other.fingerprint()

    def test_equal_images(self):
        same = ImageSet.of([np.ones((12, 12, 2), np.uint8)], "a")
        with pytest.raises(DataError, match="must differ, got the same pixels in all pairs"):
            RestorationTask(Denoising(pairs=True), same, crop_size=10)


class TestFolders:
    def test_what_is_read(self, folders):
        images, lines = read(folders)
        assert lines == []
        assert images.learn.channels == 6
        assert read(folders, color=False)[0].learn.channels == 2
        expected = f"6 pairs of images in {folders[0]} and {folders[1]}, 1 of them held out"
        assert images.description.startswith(expected)
        pixels = np.asarray(Image.open(folders[0] / "0.png"))
        noisy = images.learn[0][0, 3:].permute(1, 2, 0)
        assert np.array_equal((255 * noisy).round().byte().numpy(), pixels)

    def test_what_is_skipped(self, tmp_path):
        noisy, clean = save_pairs(tmp_path)
        with Image.open(noisy / "1.png") as image:
            pixels = np.asarray(image)
        Image.fromarray(np.roll(pixels, (0, 3), (0, 1))).save(noisy / "1.png")
        Image.fromarray(pixels[:20]).save(noisy / "2.png")
        (noisy / "3.png").write_text("no image")
        (noisy / "4.png").rename(noisy / "x.png")
        images, lines = read((noisy, clean))
        assert len(images.learn) + len(images.held) == 2
        alone, shift, size, unreadable = lines
        names = f"{clean / '4.png'}, {noisy / 'x.png'}"
        assert alone == f"Warning: 2 files have no partner and are skipped: {names}"
        assert shift.startswith(f"Warning: {noisy / '1.png'} seems shifted by (0, ")
        assert size.startswith(f"Warning: {noisy / '2.png'} must have the size of {clean}")
        assert size.endswith("40 × 40, got 40 × 20; it is skipped.")
        assert unreadable.startswith(f"Warning: {noisy / '3.png'} cannot be read as an image")

    def test_only_some_files_without_a_partner_are_named(self, tmp_path):
        noisy, clean = save_pairs(tmp_path, 15)
        for index in range(2, 15):
            (noisy / f"{index}.png").unlink()
        _, (line,) = read((noisy, clean))
        assert line.startswith("Warning: 13 files have no partner and are skipped: ")
        assert line.endswith(", …")
        assert line.count(".png") == 10

    @pytest.mark.parametrize(
        ("restoration", "data", "message"),
        [
            (Denoising(pairs=True), "photos", r"two folders, \(noisy, clean\), got 'photos'"),
            (Denoising(pairs=True), None, "two folders, .* got None"),
            (Denoising(0.1), ("a", "b"), "one folder, got "),
            (Upscaling(2), ("a", "b"), "one folder, got "),
        ],
    )
    def test_the_number_of_folders(self, tmp_path, restoration, data, message):
        network = restoration.make_network(num_layers=1, channels=2)
        with pytest.raises(FwnetError, match=f"data must be {message}"):
            train_on(restoration, network, data, tmp_path / "net")


class TestNetworks:
    def test_noise_that_is_not_white_is_removed_from_other_pairs(self, some, tmp_path):
        restoration = Denoising(pairs=True, color=True)
        network = restoration.make_network(num_layers=2, channels=8)
        assert not network.noise_level_input
        settings = {"num_epochs": 3, "batch_size": 8}
        report = train_on(
            restoration,
            network,
            some,
            tmp_path / "net",
            device="cpu",
            settings=settings,
            crop_size=24,
            steps_per_epoch=40,
        )
        assert len(report.images.held) == 2
        assert report.validation_psnr > report.baseline_psnr + 1
        held = report.images.held[0]
        clean, noisy = held.tensor_split(2, 1)
        errors = [
            (image - clean).square().mean()
            for image in (noisy, fwnet.denoise(noisy, model=report.model_path))
        ]
        assert errors[1] < 0.8 * errors[0]

    def test_a_start_that_is_told_the_noise_level(self, folders, tmp_path):
        start = ConvFWNet(1, 3, in_channels=3, noise_level_input=True)
        options = {"sigma": None, "max_sigma": None, "color": None, "noisy": folders[0]}
        trained = TrainedModel(start, "start", {"sigma": [0.0, 75.0]})
        restoration = Denoising.from_options(trained, **options)
        assert (restoration.tell_sigma, restoration.color, restoration.pairs) == (True, True, True)
        network = restoration.make_network(start=start)
        train_on(restoration, network, folders, tmp_path / "net", start=start, **SHORT)
        notes = about(tmp_path / "net")["notes"]
        assert notes["pairs"] is True
        assert 8 < notes["sigma"] < 20
        # The σ of the pairs is what the network is told later, not an estimate.
        image = np.random.default_rng(0).random((20, 20, 3))
        file = tmp_path / "net" / "model.safetensors"
        usual = fwnet.denoise(image, model=file)
        assert np.array_equal(usual, fwnet.denoise(image, sigma=notes["sigma"] / 255, model=file))
        assert not np.array_equal(usual, fwnet.denoise(image, sigma=0.01, model=file))

    @pytest.mark.parametrize(
        ("tell_sigma", "asked", "words"),
        [
            (False, None, "9 × 8, for the noise of the training pairs"),
            (True, None, "9 × 8, sigma 12.0 (that of the training pairs)"),
            (True, 25 / 255, "9 × 8, sigma 25.0 (given)"),
        ],
    )
    def test_what_is_said_of_a_result(self, tell_sigma, asked, words):
        network = ConvFWNet(1, 2, noise_level_input=tell_sigma)
        facts = {"task": "denoise", "sigma": 12.0, "color": False, "pairs": True}
        restoration = Denoising.for_network(TrainedModel(network, "mine", facts), sigma=asked)
        sigma = restoration.sigma if tell_sigma else None
        assert restoration.describe(9, 8, sigma) == words
