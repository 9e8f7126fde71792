"""`fwnet.upscale`: every kind of image comes back as what it was, but larger."""

import io

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from skimage import data

import fwnet
from fwnet import ConvFWNet, DnCNN
from fwnet.errors import FwnetError
from fwnet.imaging import ImageError, Restorer, denoise, upscale
from fwnet.imaging.color import rgb_to_ycbcr
from fwnet.imaging.pixels import Pixels
from fwnet.models import MODELS, SRCNN, VDSR, ConvLISTA
from fwnet.progress import Progress
from fwnet.resize import REACH, enlarge
from fwnet.restoration import Upscaling
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


def restorer(model=None, scale=None, **options):
    return Restorer(Upscaling, model, scale=scale, **options)


class Bicubic(ConvFWNet):
    """y = x enlarged: what comes out is known."""

    def _transform(self, x):
        self.seen = x
        return torch.zeros(len(x), self.out_planes, *x.shape[-2:])


del MODELS["Bicubic"]  # which lists what is published


def bicubic(scale):
    return Bicubic(1, 2, scale=scale)


def sub_pixel(scale, depth=2, channels=6, kernel_size=3):
    generator = torch.Generator().manual_seed(0)
    return ConvFWNet(depth, channels, kernel_size=kernel_size, scale=scale, generator=generator)


def on_enlarged(depth=3, channels=6):
    return VDSR(depth, channels, generator=torch.Generator().manual_seed(0))


def enlarged(image, scale):
    """What bicubic interpolation makes of (h, w) or (h, w, channels), rounded once."""
    white = np.iinfo(image.dtype).max if image.dtype.kind == "u" else 1
    unit = torch.from_numpy(image.astype(np.float64) / white)
    unit = unit if unit.ndim == 2 else unit.permute(2, 0, 1)
    large = enlarge(unit, scale).clamp(0, 1) * white
    large = large if large.ndim == 2 else large.permute(1, 2, 0)
    return (large.round() if white > 1 else large).numpy()


scales = st.integers(2, 4)
sides = st.integers(1, 12)


@pytest.mark.parametrize("dtype", ARRAY_DTYPES)
@pytest.mark.parametrize("shape", ARRAY_SHAPES)
def test_arrays(shape, dtype):
    image = values(shape, dtype)
    image = np.maximum(image, image.max() / 2).astype(dtype)  # so that nothing becomes transparent
    before = image.copy()
    result = upscale(image, 3, bicubic(3))
    assert isinstance(result, np.ndarray)
    assert (result.shape, result.dtype) == ((27, 21, *shape[2:]), image.dtype)
    assert np.array_equal(image, before)
    native = image.astype(image.dtype.newbyteorder("="))
    tolerance = {"u": 1.0, "f": 2e-3 if image.dtype == np.float16 else 1e-6}[image.dtype.kind]
    np.testing.assert_allclose(result.astype(float), enlarged(native, 3), rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", TENSOR_DTYPES)
@pytest.mark.parametrize("shape", TENSOR_SHAPES)
def test_tensors(shape, dtype):
    image = 0.1 + 0.9 * torch.rand(shape, dtype=torch.float64)
    white = 1 if dtype.is_floating_point else torch.iinfo(dtype).max
    image = (white * image).to(dtype)
    result = upscale(image, 2, bicubic(2))
    assert isinstance(result, torch.Tensor)
    assert (result.shape, result.dtype) == ((*shape[:-2], 18, 14), image.dtype)
    expected = enlarge(image.double() / white, 2).clamp(0, 1) * white
    tolerance = 1.0 if white > 1 else 1e-2 if dtype.itemsize == 2 else 1e-6
    torch.testing.assert_close(result.double(), expected, rtol=0, atol=tolerance)


@given(sides, sides, scales, st.sampled_from([1, 3]), st.sampled_from([np.uint8, np.uint16]))
@settings(max_examples=30)
def test_integers_are_rounded_once(height, width, scale, channels, dtype):
    """Not a bit is lost between: what comes out is nearest to what there is without rounding."""
    image = values((height, width, channels), dtype)
    white = np.iinfo(dtype).max
    exact = upscale(image / white, scale, sub_pixel(scale)) * white
    result = upscale(image, scale, sub_pixel(scale))
    assert abs(result - exact).max() <= 0.5 + white * 4e-6


@pytest.mark.parametrize(("mode", "expected"), PILLOW_MODES)
def test_pillow(mode, expected):
    image = pillow_image(mode)
    image.info["dpi"] = (72, 36)
    result = upscale(image, 3, bicubic(3))
    assert isinstance(result, Image.Image)
    assert (result.mode, result.size, result.info["dpi"]) == (expected, (21, 27), (216, 108))
    assert image.info["dpi"] == (72, 36)
    if mode in ("L", "RGB", "I;16", "F"):
        large = enlarged(np.asarray(image), 3)
        np.testing.assert_allclose(np.asarray(result).astype(float), large, rtol=0, atol=1)


def test_what_a_pillow_image_says_of_itself():
    tags = Image.Exif()
    tags[0x0112], tags[0x010F] = 6, "Maker"
    tags.get_ifd(0x8769).update({0xA002: 50, 0xA003: 40})
    file = io.BytesIO()
    image = Image.fromarray(data.chelsea()[:40, :50])
    image.save(file, "JPEG", exif=tags, dpi=(100, 100), icc_profile=b"a profile")
    with Image.open(file) as image:
        result = upscale(image, 2, sub_pixel(2))
    tags = Image.Exif()
    tags.load(result.info["exif"])
    assert (tags[0x0112], tags[0x010F]) == (6, "Maker")
    assert (tags.get_ifd(0x8769)[0xA002], tags.get_ifd(0x8769)[0xA003]) == (100, 80)
    assert (result.info["dpi"], result.info["icc_profile"]) == ((200, 200), b"a profile")
    plain = upscale(Image.new("L", (4, 5)), 2, sub_pixel(2))
    assert plain.info == {}


@pytest.mark.parametrize("mode", ["L", "RGB", "P"])
def test_a_transparent_color_becomes_alpha(mode):
    image = Image.new("RGB", (9, 7), "white")
    image.paste("black", (3, 2, 6, 5))
    image = image.convert(mode)
    image.info["transparency"] = image.getpixel((4, 3))
    result = upscale(image, 3, sub_pixel(3))
    assert result.mode == ("LA" if mode == "L" else "RGBA")
    assert result.getpixel((13, 10))[-1] == 0
    assert result.getpixel((1, 1))[-1] == 255
    assert "transparency" not in result.info


@given(sides, sides, scales, st.booleans(), st.sampled_from(["f4", "u1", "u2"]), st.booleans())
@settings(max_examples=30)
def test_gray_is_its_copy_in_color(height, width, scale, small, dtype, alpha):
    network = sub_pixel(scale) if small else on_enlarged()
    gray = values((height, width, 1 + alpha), dtype)
    color = np.concatenate([gray[..., :1]] * 3 + [gray[..., 1:]], 2)
    large = upscale(gray, scale, network)
    copies = upscale(color, scale, network)
    assert np.array_equal(np.concatenate([large[..., :1]] * 3 + [large[..., 1:]], 2), copies)


def test_nearly_gray_is_nearly_the_same():
    """The two ways from pixels to pixels agree."""
    gray = data.camera()[100:130, 100:140] / 255
    color = np.repeat(gray[..., None], 3, axis=2)
    color[3, 5, 1] += 1e-6
    for network in (sub_pixel(3), on_enlarged()):
        large, copies = upscale(gray, 3, network), upscale(color, 3, network)
        np.testing.assert_allclose(copies, np.repeat(large[..., None], 3, 2), rtol=0, atol=5e-6)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_network_sees_luma(channels):
    image = values((9, 7, channels), np.float32)
    upscaler = restorer(bicubic(2))
    upscaler.run(Pixels(image))
    color = torch.from_numpy(np.repeat(image, 3 // channels, axis=2)).permute(2, 0, 1)
    torch.testing.assert_close(
        upscaler._only.model.seen[0], rgb_to_ycbcr(color)[:1], rtol=0, atol=1e-6
    )


def test_a_network_of_scale_one_sees_the_enlarged_luma():
    image = values((9, 7), np.float32)
    upscaler, seen = restorer(on_enlarged(), 3), []
    upscaler._only.model.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    result = upscaler.run(Pixels(image[..., None])).pixels.colors
    luma = (16 + 219 * torch.from_numpy(image)) / 255
    torch.testing.assert_close(seen[0][0, 0], enlarge(luma, 3), rtol=0, atol=1e-6)
    with torch.no_grad():
        large = (255 * on_enlarged()(seen[0])[0, 0] - 16) / 219
    np.testing.assert_allclose(result[..., 0], large.clamp(0, 1), rtol=0, atol=1e-5)


def test_colors_follow_bicubically():
    image = values((9, 7, 3), np.float32) / 2 + 0.25
    result = upscale(image, 3, sub_pixel(3))
    inside = ((result > 0.01) & (result < 0.99)).all(2)  # where nothing was cut off
    assert inside.mean() > 0.5
    chroma, expected = (
        rgb_to_ycbcr(torch.from_numpy(one).double().permute(2, 0, 1))[1:].numpy()[:, inside]
        for one in (result, enlarged(image, 3))
    )
    np.testing.assert_allclose(chroma, expected, rtol=0, atol=1e-5)


NETWORKS = {
    "sub-pixel": lambda scale, depth: sub_pixel(scale, depth),
    "one pixel": lambda scale, depth: ConvFWNet(1, 6, kernel_size=1, scale=scale, residual=False),
    "enlarged": lambda scale, depth: on_enlarged(depth + 1),
    "SRCNN": lambda scale, depth: SRCNN((5, 1, 3), (6, 5)),
    "ConvLISTA": lambda scale, depth: ConvLISTA(depth, 5, scale=scale),
}


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 30),
    scales,
    st.integers(1, 5),
    st.sampled_from([1, 2, 3, 4]),
    st.sampled_from(sorted(NETWORKS)),
)
@settings(max_examples=25)
def test_tiled_is_whole(height, width, tile, scale, depth, channels, kind):
    torch.manual_seed(0)
    network = NETWORKS[kind](scale, depth)
    tile = max(tile, height // 4, width // 4)  # so that there are not hundreds
    image = values((height, width, channels), np.float32)
    image[height // 4 : height // 2, width // 3 :] = 0  # black and transparent
    whole, parts = (upscale(image, scale, network, tile=size) for size in (40, tile))
    np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["sub-pixel", "enlarged"])
def test_a_halo_of_one_pixel_less_is_seen(kind, monkeypatch):
    """Of a network that sees the enlarged image the bound is reached at some depths only."""
    network = NETWORKS[kind](3, 3 if kind == "sub-pixel" else 5)
    image = values((40, 40, 3), np.float32)
    upscaler = restorer(network, 3, tile=20)
    expected = {"sub-pixel": 4, "enlarged": 2 + REACH}[kind]
    assert upscaler._only.restoration.halo(network) == expected
    whole = upscale(image, 3, network, tile=40)
    assert abs(upscaler.run(Pixels(image)).pixels.colors - whole).max() < 1e-5
    monkeypatch.setattr(Upscaling, "halo", lambda *_: expected - 1)
    assert abs(upscaler.run(Pixels(image)).pixels.colors - whole).max() > 1e-4


@pytest.mark.parametrize(("kind", "channels"), [("sub-pixel", 3), ("enlarged", 1)])
def test_eight_bits_are_the_same_but_for_rounding(kind, channels):
    network = sub_pixel(3, 4, 64) if kind == "sub-pixel" else on_enlarged(5, 16)
    image = data.chelsea()[:100, :150, :channels].copy()
    image[40:60, 60:90] = 0
    whole = upscale(image, 3, network, tile=150)
    assert whole.std() > 10
    tiled = upscale(image, 3, network, tile=90)
    assert abs(tiled.astype(int) - whole).max() <= 1
    assert (tiled != whole).mean() < 1e-3  # where float32 rounds either way


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_progress(channels):
    image = values((50, 70, channels), np.float32)
    told = []
    upscale(image, 2, sub_pixel(2), tile=25, progress=told.append)
    assert told[-1] == Progress("restoring", 100 * 140, 100 * 140, "pixels")
    assert len(told) == 2 * 3
    assert [one.done for one in told] == sorted({one.done for one in told})


def test_tiles_are_those_of_the_image_that_the_network_sees():
    assert restorer(sub_pixel(3), device="cpu")._only.tile == 256
    assert restorer(on_enlarged(), 3, device="cpu")._only.tile == 85
    assert restorer(on_enlarged(), 400, device="cpu")._only.tile == 1
    assert restorer(on_enlarged(), 3, device="cpu", tile=50)._only.tile == 50


def test_only_a_tile_at_a_time_is_in_floating_point():
    """Beside the small image and the large one there is next to nothing."""
    import tracemalloc

    image = values((300, 400, 3), np.uint8)
    upscaler = restorer(bicubic(4), tile=32)
    tracemalloc.start()
    try:
        large = upscaler.run(Pixels(image)).pixels.colors
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert large.nbytes == 300 * 400 * 3 * 16
    assert peak < large.nbytes + 2_000_000


def test_hidden_colors_are_not_seen():
    """A red disk on transparent black, beside one on transparent red."""
    rows, columns = np.mgrid[:30, :30]
    alpha = np.where(np.hypot(rows - 15, columns - 15) < 9, 255, 0).astype(np.uint8)
    red = np.zeros((30, 30, 3), np.uint8)
    red[..., 0] = 255
    black = np.where(alpha[..., None] > 0, red, 0).astype(np.uint8)
    for network in (sub_pixel(3), bicubic(3), on_enlarged()):
        on_red, on_black = (
            upscale(np.dstack([colors, alpha]), 3, network) for colors in (red, black)
        )
        seen = on_black[..., 3] > 0
        assert np.array_equal(on_black[..., 3], on_red[..., 3])
        assert np.array_equal(on_black[seen], on_red[seen])
        assert (on_black[~seen][:, :3] == 0).all()
        assert (on_red[~seen][:, :3] == [255, 0, 0]).all()
    assert set(np.unique(on_red[..., 3])) > {0, 255}


@given(sides, sides, scales, st.sampled_from(["u1", "u2", "f4"]))
@settings(max_examples=30)
def test_alpha_is_enlarged_bicubically(height, width, scale, dtype):
    image = values((height, width, 4), dtype)
    result = upscale(image, scale, sub_pixel(scale))
    tolerance = 1 if dtype[0] == "u" else 1e-6
    np.testing.assert_allclose(
        result[..., 3], enlarged(image[..., 3], scale), rtol=0, atol=tolerance
    )
    opaque = image.copy()
    opaque[..., 3] = 1 if dtype == "f4" else np.iinfo(dtype).max
    large = upscale(opaque, scale, sub_pixel(scale))
    np.testing.assert_allclose(large[..., 3], opaque[0, 0, 3], rtol=1e-6)
    assert np.array_equal(large[..., :3], upscale(opaque[..., :3], scale, sub_pixel(scale)))


def test_values_out_of_range_are_cut_off():
    result = upscale(np.random.default_rng(0).normal(0.5, 1, (9, 7)), 3, sub_pixel(3))
    assert 0 <= result.min() <= result.max() <= 1


def test_every_image_of_a_batch_is_done():
    batch = torch.rand(2, 3, 9, 7)
    results = upscale(batch, 2, sub_pixel(2))
    for one, result in zip(batch, results, strict=True):
        assert torch.equal(upscale(one, 2, sub_pixel(2)), result)


@pytest.mark.parametrize("scale", [1, 0, -3, 2.5, 3.0, "3", True, None])
def test_bad_scales_are_refused(scale):
    line = "scale must be given" if scale is None else "scale must be an integer >= 2, got "
    with pytest.raises(ValueError, match=line):
        upscale(np.zeros((9, 7)), scale, on_enlarged())


def test_whole_numbers_of_every_kind_are_scales():
    assert upscale(np.zeros((9, 7)), np.int64(3), sub_pixel(3)).shape == (27, 21)


def test_scales_without_a_network_are_told():
    with pytest.raises(FwnetError, match="scale must be 2, 3 or 4 without a model, got 5"):
        upscale(np.zeros((9, 7)), 5)


@pytest.mark.parametrize("scale", [2, 5, 7])
def test_other_scales_need_a_model(scale):
    assert upscale(np.zeros((3, 4)), scale, sub_pixel(scale)).shape == (3 * scale, 4 * scale)
    assert upscale(np.zeros((3, 4)), scale, on_enlarged()).shape == (3 * scale, 4 * scale)


def test_without_a_scale_it_is_that_of_the_model():
    image = values((5, 4), np.uint8)
    for scale in (2, 5):
        network = ConvFWNet(1, 2, scale=scale)
        expected = upscale(image, scale, network)
        assert expected.shape == (5 * scale, 4 * scale)
        assert np.array_equal(upscale(image, model=network), expected)
    with pytest.raises(FwnetError, match="scale must be given: a VDSR does not say"):
        upscale(image, model=VDSR(2, 2))


def test_the_scale_of_a_model_counts(tmp_path):
    on_enlarged().save(tmp_path / "x4.safetensors", {"task": "upscale", "scale": 4})
    on_enlarged().save(tmp_path / "any.safetensors")
    sub_pixel(2).save(tmp_path / "x2.safetensors", {"task": "upscale", "scale": 2})
    assert restorer(tmp_path / "x4.safetensors").scale == 4
    assert restorer(tmp_path / "x2.safetensors").scale == 2
    assert restorer(sub_pixel(5)).scale == 5
    assert restorer(tmp_path / "any.safetensors", 6).scale == 6
    with pytest.raises(FwnetError, match=r"scale must be given: .*any.safetensors does not say"):
        restorer(tmp_path / "any.safetensors")
    for path, known in (("x4.safetensors", 4), ("x2.safetensors", 2)):
        with pytest.raises(FwnetError, match=f"scale must be {known}, that of .*{path}, got 3"):
            upscale(np.zeros((9, 7)), 3, tmp_path / path)
    with pytest.raises(FwnetError, match="scale must be 2, that of a ConvFWNet, got 3"):
        upscale(np.zeros((9, 7)), 3, sub_pixel(2))


@pytest.mark.parametrize("notes", [{"scale": "3"}, {"scale": 1}, {"scale": None}, {}, None])
def test_notes_that_do_not_help(tmp_path, notes):
    on_enlarged().save(tmp_path / "mine.safetensors", notes)
    assert restorer(tmp_path / "mine.safetensors", 3).scale == 3


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_by_default_the_scale_decides(scale, monkeypatch):
    loaded = []

    def load(name):
        loaded.append(name)
        return TrainedModel(sub_pixel(scale), name, {"task": "upscale"})

    monkeypatch.setattr("fwnet.imaging.restorer.load_trained", load)
    assert upscale(np.zeros((9, 7)), scale).shape == (9 * scale, 7 * scale)
    assert loaded == [f"conv_fwnet_t19.upscale_x{scale}"]
    if scale == 3:
        assert upscale(np.zeros((9, 7))).shape == (27, 21)
        assert restorer().scale == 3


DENOISERS = {
    "name": "conv_fwnet_t4.denoise_gray_s25",
    "all levels": "conv_fwnet_t16.denoise_gray",
    "color": "conv_fwnet_t20.denoise_color",
    "network": ConvFWNet(1, 4, noise_level_input=True),
}


@pytest.mark.parametrize("case", DENOISERS)
def test_networks_that_remove_noise_are_refused(case):
    with pytest.raises(FwnetError, match=r"network that enlarges, got "):
        upscale(np.zeros((9, 7)), 3, DENOISERS[case])


def test_a_file_says_what_its_network_does(tmp_path):
    DnCNN(2, 4).save(tmp_path / "mine.safetensors", {"task": "denoise", "sigma": 25})
    line = "expected a network that enlarges, got .*mine.safetensors, trained to denoise"
    with pytest.raises(FwnetError, match=line):
        upscale(np.zeros((9, 7)), 3, tmp_path / "mine.safetensors")
    on_enlarged().save(tmp_path / "mine.safetensors", {"task": "upscale", "scale": 3})
    line = "expected a network that removes noise, got .*mine.safetensors, trained to upscale"
    with pytest.raises(FwnetError, match=line):
        denoise(np.zeros((9, 7)), model=tmp_path / "mine.safetensors")
    with pytest.raises(FwnetError, match="removes noise, got a ConvFWNet: it enlarges"):
        denoise(np.zeros((9, 7)), model=sub_pixel(2))


def test_networks_for_color_are_refused():
    with pytest.raises(FwnetError, match="for 1 channel, got one for 3"):
        upscale(np.zeros((9, 7)), 3, ConvFWNet(1, 4, in_channels=3, scale=3))


def test_absurdly_large_results_are_refused():
    image = np.broadcast_to(np.uint8(0), (20_000, 20_000, 3))
    with pytest.raises(ImageError) as caught:
        upscale(image, 3, sub_pixel(3))
    assert str(caught.value) == (
        "the result must have at most 1,000 megapixels, got 60,000 × 60,000 pixels"
    )


def test_the_network_is_left_as_it_was():
    trained = sub_pixel(2).double().train()
    image = values((9, 7), np.float64)
    result = upscale(image, 2, trained)
    assert trained.training
    assert trained.last.weight.dtype == torch.float64
    luma = (16 + 219 * torch.from_numpy(image)[None, None]) / 255
    with torch.no_grad():
        expected = (255 * trained.eval()(luma)[0, 0] - 16) / 219
    np.testing.assert_allclose(result, expected.clamp(0, 1).numpy(), rtol=0, atol=1e-5)


def test_public_name():
    assert fwnet.upscale is upscale
    assert fwnet.imaging.upscale is upscale
