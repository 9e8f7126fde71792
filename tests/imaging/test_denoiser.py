"""`fwnet.denoise`: every kind of image comes back as what it was."""

import math
import warnings

import numpy as np
import pytest
import torch
from PIL import Image, ImageCms
from scipy.ndimage import gaussian_filter
from skimage import data

import fwnet
from fwnet import ConvFWNet, DnCNN, FWNet
from fwnet.errors import FwnetError
from fwnet.imaging import ImageError, Restorer, denoise
from fwnet.imaging.pixels import Pixels
from fwnet.metrics import psnr
from fwnet.models import MODELS, ModelFileError
from fwnet.progress import Progress
from fwnet.restoration import Denoising
from fwnet.zoo import TrainedModel
from tests.imaging.samples import (
    ARRAY_DTYPES,
    ARRAY_SHAPES,
    PILLOW_MODES,
    TENSOR_DTYPES,
    TENSOR_SHAPES,
    pillow_image,
    values,
)

DEFAULT_MODELS = Denoising.default_models()


def restorer(model, **options):
    return Restorer(Denoising, model, **options)


class Halved(ConvFWNet):
    """y = x/2, whatever σ is: what comes out is known."""

    def _transform(self, x):
        self.seen = x[:, -1].unique().tolist()
        return -x[:, : self.in_channels] / 2


del MODELS["Halved"]  # which lists what is published


def halved():
    return Halved(1, 2, noise_level_input=True)


@pytest.fixture(scope="module")
def network():
    generator = torch.Generator().manual_seed(0)
    return ConvFWNet(2, 6, noise_level_input=True, generator=generator)


@pytest.fixture(scope="module")
def color_network():
    generator = torch.Generator().manual_seed(0)
    return ConvFWNet(2, 6, in_channels=3, noise_level_input=True, generator=generator)


@pytest.mark.parametrize("dtype", ARRAY_DTYPES)
@pytest.mark.parametrize("shape", ARRAY_SHAPES)
def test_arrays(shape, dtype):
    image = values(shape, dtype)
    before = image.copy()
    result = denoise(image, 0.1, halved())
    assert isinstance(result, np.ndarray)
    assert (result.shape, result.dtype) == (image.shape, image.dtype)
    assert np.array_equal(image, before)
    tolerance = 0.5 if image.dtype.kind == "u" else 1e-3
    num_colors = 1 if len(shape) == 2 else {1: 1, 2: 1, 3: 3, 4: 3}[shape[2]]
    colors = image.reshape(9, 7, -1)[..., :num_colors]
    half = result.reshape(9, 7, -1)
    np.testing.assert_allclose(
        half[..., :num_colors].astype(float), colors.astype(float) / 2, rtol=0, atol=tolerance
    )
    assert np.array_equal(half[..., num_colors:], image.reshape(9, 7, -1)[..., num_colors:])


@pytest.mark.parametrize("dtype", TENSOR_DTYPES)
@pytest.mark.parametrize("shape", TENSOR_SHAPES)
def test_tensors(shape, dtype):
    image = torch.rand(shape, dtype=torch.float64)
    if not dtype.is_floating_point:
        image = image * torch.iinfo(dtype).max
    image = image.to(dtype)
    result = denoise(image, 0.1, halved())
    assert isinstance(result, torch.Tensor)
    assert (result.shape, result.dtype) == (image.shape, image.dtype)
    channels = shape[-3] if len(shape) > 2 else 1
    both = [one.double().reshape(-1, channels, 9, 7) for one in (image, result)]
    num_colors = channels - (channels in (2, 4))
    tolerance = 1e-2 if dtype.is_floating_point else 0.5
    torch.testing.assert_close(
        both[1][:, :num_colors], both[0][:, :num_colors] / 2, rtol=0, atol=tolerance
    )
    assert torch.equal(both[1][:, num_colors:], both[0][:, num_colors:])


def test_a_result_can_be_trained_through(network):
    image = torch.rand(1, 1, 8, 8, requires_grad=True)
    result = denoise(image, 0.1, network)
    assert not result.requires_grad
    assert not result.is_inference()


@pytest.mark.parametrize(("mode", "expected"), PILLOW_MODES)
def test_pillow(mode, expected):
    image = pillow_image(mode)
    image.info["dpi"] = (72, 72)
    result = denoise(image, 0.1, halved())
    assert isinstance(result, Image.Image)
    assert (result.mode, result.size, result.info["dpi"]) == (expected, (7, 9), (72, 72))
    if mode in ("L", "RGB", "I", "I;16", "F"):
        half = np.asarray(result).astype(float)
        np.testing.assert_allclose(half, np.asarray(image) / 2, rtol=0, atol=0.5)


@pytest.mark.parametrize("profile", [b"", b"of inks"])
def test_the_profile_of_inks_does_not_stay_beside_rgb(profile):
    rgb = Image.fromarray(values((9, 7, 3), np.uint8))
    rgb.info["icc_profile"] = b"of RGB"
    assert denoise(rgb, 0.1, halved()).info["icc_profile"] == b"of RGB"
    inks = rgb.convert("CMYK")
    inks.info |= {"icc_profile": profile, "dpi": (72, 72)}
    assert denoise(inks, 0.1, halved()).info == {"dpi": (72, 72)}


def test_colors_are_those_of_the_profile():
    rgb = Image.fromarray(data.chelsea()[:40, :50])
    profiles = [ImageCms.createProfile(name) for name in ("sRGB", "LAB")]
    lab = ImageCms.profileToProfile(rgb, *profiles, outputMode="LAB")
    lab.info["icc_profile"] = ImageCms.ImageCmsProfile(profiles[1]).tobytes()
    result = np.asarray(denoise(lab, 0.1, halved()))
    np.testing.assert_allclose(result, np.asarray(rgb) / 2, rtol=0, atol=3)


@pytest.mark.parametrize("mode", ["L", "RGB", "P"])
def test_a_transparent_color_becomes_alpha(mode):
    image = Image.fromarray(values((9, 7, 3), np.uint8)).convert(mode)
    image.info["transparency"] = image.getpixel((3, 4))
    result = denoise(image, 0.1, halved())
    assert result.mode == ("LA" if mode == "L" else "RGBA")
    assert result.getpixel((3, 4))[-1] == 0
    assert np.asarray(result)[..., -1].max() == 255
    assert "transparency" not in result.info


BAD = {
    "path": ("photo.jpg", TypeError, "got str: open the file with PIL.Image.open"),
    "list": ([[0.5]], TypeError, "NumPy array, a tensor or a PIL image, got list"),
    "batch": (np.zeros((2, 9, 7, 3)), ImageError, "got (2, 9, 7, 3): give one image at a time"),
    "one axis": (np.zeros(9), ImageError, "got (9,)"),
    "channels": (np.zeros((9, 7, 5)), ImageError, "1 to 4 channels, got (9, 7, 5)"),
    "channels first": (np.zeros((3, 9, 7)), ImageError, "np.moveaxis(image, 0, -1)"),
    "channels last": (torch.zeros(9, 7, 3), ImageError, "image.permute(2, 0, 1)"),
    "int64": (np.zeros((9, 7), int), ImageError, "values, got int64: convert it to uint8"),
    "large int64": (np.full((9, 7), 256), ImageError, "uint8, uint16 or floating-point values"),
    "bool": (np.zeros((9, 7), bool), ImageError, "got bool"),
    "int tensor": (torch.zeros(9, 7, dtype=int), ImageError, "got int64"),
    "complex": (np.zeros((9, 7), complex), ImageError, "got complex128"),
    "0 to 255": (np.full((9, 7), 255.0), ImageError, "got 255 to 255: divide by 255"),
    "white is 2": (data.camera()[:64, :64] / 127.5, ImageError, "divide by the value of white"),
    "black is -1": (data.camera() / 127.5 - 1, ImageError, "if -1 is black, pass (image + 1) / 2"),
    "16 bits": (torch.full((9, 7), 6e4), ImageError, "in [0, 1], a little more where"),
    "nan": (np.full((9, 7), np.nan), ImageError, "must be finite"),
    "infinity": (torch.full((9, 7), math.inf), ImageError, "must be finite"),
    "empty tensor": (torch.zeros(0, 5), ImageError, "at least 1 × 1 pixels, got 5 × 0"),
    "empty batch of nothing": (torch.zeros(0, 1, 9, 0), ImageError, "got 0 × 9"),
    "empty": (np.zeros((0, 7)), ImageError, "at least 1 × 1 pixels, got 7 × 0"),
    "integers": (
        Image.fromarray(np.full((9, 7), 70000, np.int32)),
        ImageError,
        "[0, 65535], got 70000 to 70000",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_image_is_told(case, network):
    image, kind, line = BAD[case]
    with pytest.raises(kind) as caught:
        denoise(image, 0.1, network)
    assert line in str(caught.value)


def test_noise_may_lead_out_of_the_range_of_floats(network):
    result = denoise(np.random.default_rng(0).normal(0.5, 1, (9, 7)), 1.0, network)
    assert 0 <= result.min() <= result.max() <= 1
    white_page = np.random.default_rng(0).normal(1, 1, (64, 64))
    assert denoise(white_page, 1.0, network).max() <= 1


def test_an_empty_batch(network):
    assert denoise(torch.zeros(0, 1, 9, 7), 0.1, network).shape == (0, 1, 9, 7)


@pytest.mark.parametrize(
    ("sigma", "hint"),
    [(25, ": write sigma=25/255"), (-0.1, ""), (math.nan, ""), (300, ""), (np.float32(1.5), "255")],
)
def test_sigma_out_of_range_is_refused(sigma, hint, network):
    with pytest.raises(FwnetError, match=r"sigma must be in \[0, 1\]") as caught:
        denoise(np.zeros((9, 7)), sigma, network)
    assert str(caught.value).endswith(hint)


def test_sigma_is_what_the_network_sees():
    image = np.random.default_rng(0).random((9, 7))
    for sigma in (0.01, 0.2, 1, torch.tensor(0.5), np.float64(0.125)):
        denoiser = restorer(halved(), sigma=float(sigma))
        denoiser.run(Pixels(image[..., None]))
        assert denoiser._only.model.seen == pytest.approx([min(float(sigma), 55 / 255)])


@pytest.mark.parametrize(
    ("notes", "largest"),
    [
        ({"sigma": [0.0, 30.0]}, 30), ({"sigma": 20.0}, 20), ({"sigma": [10, 100]}, 100),
        ({}, 55), (None, 55), ({"sigma": "strong"}, 55), ({"sigma": []}, 55), ({"sigma": 0}, 55),
    ],
)  # fmt: skip
def test_a_file_says_what_noise_its_network_knows(network, tmp_path, notes, largest):
    network.save(tmp_path / "mine.safetensors", notes)
    image = Pixels(values((9, 7, 1), np.float32))
    for sigma in (0.05, 0.2, 0.9):
        denoiser, seen = restorer(tmp_path / "mine.safetensors", sigma=sigma), []
        hook = denoiser._only.model.register_forward_pre_hook
        hook(lambda _, given, seen=seen: seen.append(given))
        denoiser.run(image)
        ((x, told),) = seen
        assert told == pytest.approx(min(sigma, largest / 255))
        pulled = 0.5 + min(1, largest / 255 / sigma) * (image.colors[..., 0] - 0.5)
        np.testing.assert_allclose(x[0, 0].numpy(), pulled, rtol=0, atol=1e-6)


def test_sigma_is_estimated_once_for_all_tiles():
    image = 0.5 + 0.1 * np.random.default_rng(0).standard_normal((80, 90, 1))
    image[:, :40] = 0.5 + (image[:, :40] - 0.5) / 2
    seen = []

    denoiser = restorer(halved(), tile=20)
    denoiser._only.model.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[1]))
    found = denoiser.run(Pixels(image))
    assert len(seen) == 4 * 5
    assert set(seen) == {found.sigma}
    assert 0.04 < found.sigma < 0.11


def test_the_level_of_jpeg_files_is_raised_unless_it_is_given():
    """By 0.28·√(step/σ), and no more than where the steps of the file are as large as the noise."""
    image = 0.5 + 0.1 * np.random.default_rng(0).standard_normal((80, 90, 1)).clip(-4, 4)
    plain, fine, coarse = (Pixels(image, jpeg_step=step) for step in (0, 4, 60))
    estimating, told = restorer(halved()), restorer(halved(), sigma=0.1)
    level = estimating.noise_level(plain)
    assert estimating.noise_level(fine) == pytest.approx(level + 0.28 * (level * 4 / 255) ** 0.5)
    assert estimating.noise_level(coarse) == pytest.approx(1.28 * level)
    assert told.noise_level(fine) == told.noise_level(plain) == 0.1


def test_results_of_8_bits_need_no_gray_for_black():
    """A network that learned from noise that nothing cuts off; the noise of a file is cut off."""
    noise = np.random.default_rng(0).normal(0, 50, (96, 96))
    noisy = noise.round().clip(0, 255).astype(np.uint8)
    assert noisy.mean() > 15
    assert denoise(noisy, sigma=50 / 255)[16:-16, 16:-16].mean() < 6
    # where values go below 0, nothing was cut off, and there is nothing to correct
    assert abs(denoise(noise / 255, sigma=50 / 255)[16:-16, 16:-16].mean()) < 6 / 255


def test_every_image_of_a_batch_has_a_sigma_of_its_own(network):
    noise = torch.randn(2, 1, 60, 60)
    batch = 0.5 + noise * torch.tensor([0.02, 0.2]).reshape(2, 1, 1, 1)
    results = denoise(batch, model=network)
    for one, result in zip(batch, results, strict=True):
        assert torch.equal(denoise(one, model=network), result)


def test_a_network_for_one_noise_level_uses_no_sigma():
    network = DnCNN(2, 4)
    image = np.random.default_rng(0).random((9, 7))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = denoise(image, model=network)
    with pytest.warns(UserWarning, match="no input for the noise level: sigma is not used"):
        assert np.array_equal(denoise(image, 0.1, network), expected)
    assert restorer(network).run(Pixels(image[..., None])).sigma is None


def test_a_network_for_gray_sees_each_channel_of_color(network):
    image = values((20, 30, 3), np.float32)
    result = denoise(image, 0.1, network)
    for channel in range(3):
        np.testing.assert_array_equal(
            result[..., channel], denoise(image[..., channel], 0.1, network)
        )


def test_a_network_for_color_refuses_gray(color_network):
    with pytest.raises(ImageError, match="for color images"):
        denoise(np.zeros((9, 7)), 0.1, color_network)
    assert denoise(np.zeros((9, 7, 3)), 0.1, color_network).shape == (9, 7, 3)


def test_by_default_the_image_decides(network, color_network, monkeypatch):
    loaded = []

    def load(name):
        loaded.append(name)
        return TrainedModel(network if name == DEFAULT_MODELS[1] else color_network, name)

    monkeypatch.setattr("fwnet.imaging.restorer.load_trained", load)
    color, gray = values((20, 30, 3), np.uint8), values((20, 30), np.uint8)
    assert np.array_equal(denoise(color, 0.1), denoise(color, 0.1, color_network))
    assert np.array_equal(denoise(gray, 0.1), denoise(gray, 0.1, network))
    stored_as_color = np.repeat(gray[..., None], 3, axis=2)
    result = denoise(stored_as_color, 0.1)
    assert np.array_equal(result, np.repeat(denoise(gray, 0.1)[..., None], 3, axis=2))
    assert loaded == [DEFAULT_MODELS[3], *[DEFAULT_MODELS[1]] * 3]


def test_models_come_from_files(network, tmp_path):
    network.save(tmp_path / "mine.safetensors")
    image = values((20, 30), np.float32)
    expected = denoise(image, 0.1, network)
    for path in (tmp_path / "mine.safetensors", str(tmp_path / "mine.safetensors")):
        assert np.array_equal(denoise(image, 0.1, path), expected)
    with pytest.raises(ValueError, match=r"nosuch.safetensors does not exist"):
        denoise(image, 0.1, tmp_path / "nosuch.safetensors")
    with pytest.raises(ValueError, match="no model and no file is called 'nosuch'"):
        denoise(image, 0.1, "nosuch")


def test_what_keeps_a_model_from_being_loaded_is_told(network, tmp_path):
    network.save(tmp_path / "mine.safetensors")
    for name in (DEFAULT_MODELS[1], tmp_path / "mine.safetensors"):
        with pytest.raises(ValueError, match="unknown device 'nosuch': expected auto, cpu, cuda"):
            fwnet.load_model(name, device="nosuch")
        with pytest.raises(ValueError, match="device cuda:99 is not available on this machine"):
            fwnet.load_model(name, device="cuda:99")
    with pytest.raises(ModelFileError, match="no model and no file is called 'xxx"):
        fwnet.load_model("x" * 400)
    for path in (tmp_path / ("x" * 400), f"{tmp_path}/{'x' * 400}.safetensors"):
        with pytest.raises(ModelFileError, match="cannot be read: File name too long"):
            fwnet.load_model(path)


def test_other_models_are_refused(tmp_path):
    FWNet(4, 6, 2, radius=1.0).save(tmp_path / "coder.safetensors")
    with pytest.raises(ImageError, match=r"network for images, got .* holds a FWNet"):
        denoise(np.zeros((9, 7)), 0.1, tmp_path / "coder.safetensors")
    with pytest.raises(ImageError, match="network for images, got a FWNet"):
        denoise(np.zeros((9, 7)), 0.1, FWNet(4, 6, 2, radius=1.0))
    with pytest.raises(TypeError, match="a name, a path or a network for images, got Linear"):
        denoise(np.zeros((9, 7)), 0.1, torch.nn.Linear(2, 2))
    with pytest.raises(FwnetError, match="1 or 3 channels, got one for 2"):
        denoise(np.zeros((9, 7)), model=ConvFWNet(1, 4, in_channels=2))


def test_the_network_is_left_as_it_was(network):
    trained = DnCNN(3, 4).double().train()
    strides = trained.last.weight.stride()
    image = values((9, 7), np.float64)
    result = denoise(image, model=trained)
    assert trained.training
    assert trained.last.weight.stride() == strides
    assert result.dtype == np.float64
    with torch.no_grad():
        expected = trained.eval()(torch.from_numpy(image)[None, None]).clamp(0, 1)[0, 0]
    np.testing.assert_allclose(result, expected.numpy(), rtol=0, atol=1e-6)


def test_weights_in_half_precision_are_widened(tmp_path):
    network = DnCNN(2, 4, batch_norm=False).half()
    network.save(tmp_path / "half.safetensors")
    image = values((9, 7), np.float32)
    result = denoise(image, model=tmp_path / "half.safetensors")
    assert np.array_equal(result, denoise(image, model=network.float()))


@pytest.mark.parametrize("tile", [0, -3, 2.5, "64"])
def test_bad_tiles_are_refused(tile, network):
    with pytest.raises(ValueError, match="tile must be an integer >= 1"):
        denoise(np.zeros((9, 7)), 0.1, network, tile=tile)


def test_bad_devices_are_refused(network):
    with pytest.raises(FwnetError, match="unknown device 'nosuch'"):
        denoise(np.zeros((9, 7)), 0.1, network, device="nosuch")


@pytest.mark.parametrize("channels", [1, 3])
def test_tiles_and_progress(channels, network):
    image = values((50, 70, channels), np.float32)
    told = []
    result = denoise(image, 0.1, network, tile=25, progress=told.append)
    np.testing.assert_allclose(result, denoise(image, 0.1, network), rtol=0, atol=1e-5)
    assert told[-1] == Progress("restoring", 50 * 70, 50 * 70, "pixels")
    assert len(told) == channels * 2 * 3
    assert [one.done for one in told] == sorted({one.done for one in told})
    assert all(one.done < one.total for one in told[:-1])


@pytest.mark.parametrize("reduction", [2, 3])
def test_tiles_at_a_reduction_have_the_squares_of_the_whole(reduction):
    generator = torch.Generator().manual_seed(0)
    half = ConvFWNet(2, 6, noise_level_input=True, reduction=reduction, generator=generator)
    image = values((41, 35), np.float32)
    whole, tiled = (denoise(image, 0.1, half, tile=tile) for tile in (100, 11))
    np.testing.assert_allclose(tiled, whole, rtol=0, atol=1e-5)


def test_public_name():
    assert fwnet.denoise is denoise
    assert fwnet.imaging.denoise is denoise


def gain(result, noisy, clean):
    """By how many dB the result is nearer to the clean image than the noisy one."""
    after, before = (
        psnr(torch.from_numpy(one / 255)[None], torch.from_numpy(clean / 255)[None]).item()
        for one in (result, noisy)
    )
    return after - before


def with_noise(clean, sigma):
    noise = np.random.default_rng(0).standard_normal(clean.shape)
    return (clean + sigma * noise).clip(0, 255).round().astype(np.uint8)


@pytest.mark.parametrize(("channels", "known"), [(1, True), (3, False)])
def test_shipped_networks_remove_noise(channels, known):
    clean = data.chelsea()[100:200, 100:200] if channels == 3 else data.camera()[:100, 150:250]
    noisy = with_noise(clean, 25)
    assert gain(denoise(noisy, 25 / 255 if known else None), noisy, clean) > 8


ONE_LEVEL = [card.name for card in fwnet.list_models("denoise") if "_s" in card.name]


def test_the_networks_of_the_paper_are_there():
    assert len(ONE_LEVEL) == 3


@pytest.mark.parametrize("name", ONE_LEVEL)
def test_networks_for_one_level_do_better_than_a_blur(name):
    sigma = int(name.rpartition("_s")[2])
    clean = data.camera()[:100, 150:250]
    noisy = with_noise(clean, sigma)
    blurs = (gaussian_filter(noisy.astype(float), width) for width in np.linspace(0.5, 2, 4))
    best = max(gain(blur, noisy, clean) for blur in blurs)
    assert gain(denoise(noisy, model=name), noisy, clean) > best + 1


@pytest.mark.parametrize("side", [24, 48])
def test_the_estimate_serves_small_images(side):
    """Nearly as good as the true noise level."""
    clean = data.camera()[20 : 20 + side, 20 : 20 + side]
    noisy = with_noise(clean, 25)
    told, estimated = (gain(denoise(noisy, sigma), noisy, clean) for sigma in (25 / 255, None))
    assert estimated > told - 1


@pytest.mark.parametrize("channels", [1, 3])
def test_tiles_of_shipped_networks_are_not_seen(channels):
    image = data.chelsea()[:60, :110, :channels].copy()
    image[20:40, 40:80] = 0  # flat and black, where pool_p is most sensitive
    whole, tiled = (denoise(image / 255, 10 / 255, tile=tile) for tile in (110, 60))
    np.testing.assert_allclose(tiled, whole, rtol=0, atol=1e-5)


def test_noise_beyond_what_networks_know_is_scaled_down():
    clean = data.camera()[128:256, 128:256] / 255
    noisy = clean + 100 / 255 * np.random.default_rng(0).standard_normal(clean.shape)
    denoised = denoise(noisy, 100 / 255)
    before, after = (
        psnr(torch.from_numpy(one)[None], torch.from_numpy(clean)[None]).item()
        for one in (noisy, denoised)
    )
    assert after > before + 10


def test_a_network_for_one_level_is_mixed_with_the_image():
    image = torch.rand(1, 1, 4, 5)
    for strength in (0.0, 0.5, 1.0, 1.5):
        mixed = Denoising(0.1, strength=strength).restore(lambda x: 3 * x, image)
        torch.testing.assert_close(mixed, (1 + 2 * strength) * image)


def test_the_strength_is_a_factor_of_what_a_network_is_told():
    told = []

    def network(x, sigma):
        told.append(sigma)
        return x

    image = torch.rand(1, 1, 4, 5)
    for strength in (0.0, 0.5, 2.0):
        case = Denoising((0.0, 1.0), tell_sigma=True, strength=strength)
        assert torch.equal(case.restore(network, image, 0.1), image)
    assert told == pytest.approx([0.05, 0.2])  # with 0, nothing is left to do
