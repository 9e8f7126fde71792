"""`fwnet upscale` as people meet it: its lines, its exit codes, and what it leaves."""

import struct
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image
from skimage import data

from fwnet import ConvFWNet, upscale
from fwnet.imaging import Restorer
from fwnet.imaging.image_files import read_image
from fwnet.models import VDSR
from fwnet.resize import enlarge
from tests.image_commands import OPTIONS, ImageCommandConformance, opened
from tests.imaging.png_files import png

BAD_SCALES = {
    "one": (["--scale", "1"], "scale must be an integer >= 2, got 1"),
    "negative": (["--scale", "-3"], "scale must be an integer >= 2, got -3"),
    "another": (["--scale", "2"], "scale must be 3, that of net.safetensors, got 2"),
    "none: a model that denoises": (
        ["--model", "conv_fwnet_t4.denoise_gray_s25"],
        "expected a network that enlarges, got conv_fwnet_t4.denoise_gray_s25, trained to denoise",
    ),
}


def save_sub_pixel(path, scale):
    generator = torch.Generator().manual_seed(scale)
    network = ConvFWNet(2, 6, scale=scale, generator=generator)
    network.save(path, {"task": "upscale", "scale": scale})


class TestUpscale(ImageCommandConformance):
    command = "upscale"
    scale = 3
    given = ("--scale", 3)
    line = "50 × 40 to 150 × 120"
    help_words = (
        "fwnet upscale small.jpg large.png --scale 4",
        "fwnet upscale photos/ large/ --compare",
        "3; with --model, the network's",
        "conv_fwnet_t19.upscale_x2, _x3 or _x4, by --scale",
    )

    def save_network(self, path):
        save_sub_pixel(path, 3)

    @pytest.mark.parametrize(
        ("name", "options", "for_jpeg"),
        [
            ("a.png", (), False),
            ("sub/b.jpg", (), True),
            ("a.png", ("--jpeg",), True),
            ("sub/b.jpg", ("--no-jpeg",), False),
        ],
    )
    def test_jpeg_files_have_their_own_networks(self, folder, name, options, for_jpeg):
        result = self.run(f"photos/{name}", "out.png", "--scale", 2, *options, options=[])
        assert result.exit_code == 0
        assert ("JPEG artifacts removed" in result.stdout) == for_jpeg
        model = "conv_fwnet_t12.upscale_x2_jpeg" if for_jpeg else "conv_fwnet_t19.upscale_x2"
        image = Image.open(f"photos/{name}")
        jpeg = options == ("--jpeg",) if options else None
        for expected in (upscale(image, 2, model), upscale(image, 2, jpeg=jpeg)):
            assert np.array_equal(np.asarray(opened("out.png")), np.asarray(expected))

    def expected(self, image):
        return upscale(image, 3, "net.safetensors")

    def check_before(self, shown, image):
        small = torch.from_numpy(image.copy()).permute(2, 0, 1) / 255
        bicubic = (255 * enlarge(small, 3).clamp(0, 1)).round().permute(1, 2, 0).numpy()
        assert abs(shown - bicubic).max() <= 1
        assert (shown == bicubic).mean() > 0.999

    @pytest.mark.parametrize("case", BAD_SCALES)
    def test_bad_scales(self, folder, case):
        arguments, line = BAD_SCALES[case]
        self.check_refusal(["photos/a.png", "large.png", *OPTIONS, *arguments], line)

    def test_scales_are_whole_numbers(self, folder):
        result = self.run("photos/a.png", "b.png", "--scale", "2.5")
        assert result.exit_code == 2
        assert "--help)" in result.stderr

    def test_the_model_says_the_scale(self, folder):
        assert self.run("photos/a.png", "large.png").exit_code == 0
        assert opened("large.png").size == (150, 120)
        save_sub_pixel("x2.safetensors", 2)
        result = self.run("photos/a.png", "twice.png", options=["--model", "x2.safetensors"])
        assert result.exit_code == 0
        assert opened("twice.png").size == (100, 80)

    def test_a_network_that_sees_the_enlarged_image(self, folder):
        VDSR(3, 6).save("any.safetensors", {"task": "upscale", "scale": 4})
        result = self.run("photos/a.png", "large.png", options=["--model", "any.safetensors"])
        assert result.exit_code == 0
        assert opened("large.png").size == (200, 160)

    def test_scales_without_a_network(self, folder):
        result = self.run("photos/a.png", "large.png", "--scale", 5, options=[])
        assert result.exit_code == 2
        line = "Error: scale must be 2, 3 or 4 without a model, got 5"
        assert result.stderr.startswith(line)
        VDSR(3, 6).save("any.safetensors")
        result = self.run("photos/a.png", "large.png", options=["--model", "any.safetensors"])
        assert result.exit_code == 2
        assert result.stderr == (
            "Error: scale must be given: any.safetensors does not say what it was trained for\n"
        )
        options = ["--scale", 5, "--model", "any.safetensors"]
        result = self.run("photos/a.png", "a.png", options=options)
        assert result.exit_code == 0
        assert opened("a.png").size == (250, 200)

    @pytest.mark.parametrize(("suffix", "channels"), [("png", 1), ("png", 4), ("tif", 3)])
    def test_sixteen_bits(self, folder, suffix, channels):
        array = np.random.default_rng(0).integers(0, 65536, (20, 30, channels), np.uint16)
        kind = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
        rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in array)
        Path("deep.png").write_bytes(png(30, 20, bits=16, kind=kind, rows=rows))
        tifffile.imwrite(
            "deep.tif",
            array if channels > 1 else array[..., 0],
            photometric="rgb" if channels > 2 else "minisblack",
            planarconfig="contig" if channels > 1 else None,
            extrasamples=["unassalpha"] if channels in (2, 4) else None,
        )
        assert self.run(f"deep.{suffix}", f"large.{suffix}").exit_code == 0
        result = read_image(Path(f"large.{suffix}")).pixels.channels()
        assert result.dtype == np.uint16
        assert np.array_equal(result, upscale(array, 3, "net.safetensors"))
        assert len(np.unique(result)) > 1000

    def test_floating_point(self, folder):
        array = np.random.default_rng(0).random((20, 30, 3), np.float32)
        tifffile.imwrite("float.tif", array, photometric="rgb")
        assert self.run("float.tif", "large.tif").exit_code == 0
        assert np.array_equal(tifffile.imread("large.tif"), upscale(array, 3, "net.safetensors"))

    def test_palettes_and_transparent_colors(self, folder):
        image = opened("photos/a.png").quantize(16)
        image.save("p.png")
        image.save("t.png", transparency=3)
        assert self.run("p.png", "t.png", "large").exit_code == 0
        expected = upscale(np.asarray(image.convert("RGB")), 3, "net.safetensors")
        assert np.array_equal(np.asarray(opened("large/p.png")), expected)
        large = opened("large/t.png")
        assert large.mode == "RGBA"
        alpha = enlarge(torch.from_numpy(1.0 * (np.asarray(image) != 3)), 3).clamp(0, 1)
        assert abs(np.asarray(large)[..., 3] - 255 * alpha.numpy()).max() < 0.51

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_viewers_show_the_same_side_up(self, folder, orientation):
        tags = Image.Exif()
        tags[0x0112] = orientation
        array = np.zeros((20, 30, 3), np.uint8)
        array[:10, :10] = 255
        Image.fromarray(array).save("a.png", exif=tags)
        for name in ("b.png", "b.bmp"):
            assert self.run("a.png", name).exit_code == 0
            large = read_image(Path(name))
            shown, small = (
                np.asarray(read.about.turned(read.pixels.pillow())).astype(int)
                for read in (large, read_image(Path("a.png")))
            )
            assert shown.shape == (3 * small.shape[0], 3 * small.shape[1], 3)
            corners = [one[[2, 2, -3, -3], [2, -3, 2, -3], 0] > 127 for one in (shown, small)]
            assert np.array_equal(*corners)

    def test_previews_and_notes_of_cameras_stay(self, folder):
        small = opened("photos/a.png").resize((16, 12))
        small.save("preview.jpg")
        preview = Path("preview.jpg").read_bytes()
        tags = Image.Exif()
        tags[0x010F] = "Maker"
        tags.get_ifd(0x8769)[0x927C] = b"a note of the maker"
        block = tags.tobytes().removeprefix(b"Exif\0\0")
        order = {b"II": "<", b"MM": ">"}[block[:2]]
        (first,) = struct.unpack_from(f"{order}I", block, 4)
        (count,) = struct.unpack_from(f"{order}H", block, first)
        end = first + 2 + 12 * count
        block = block[:end] + struct.pack(f"{order}I", len(block)) + block[end + 4 :]
        start = len(block) + 2 + 2 * 12 + 4
        entries = [(0x0201, 4, 1, start), (0x0202, 4, 1, len(preview))]
        block += struct.pack(f"{order}H", len(entries))
        block += b"".join(struct.pack(f"{order}HHII", *entry) for entry in entries)
        block += bytes(4) + preview
        opened("photos/a.png").save("a.jpg", exif=b"Exif\0\0" + block)
        assert self.run("a.jpg", "b.jpg").exit_code == 0
        exif = opened("b.jpg").info["exif"]
        assert exif == opened("a.jpg").info["exif"]
        assert preview in exif
        assert b"a note of the maker" in exif

    def test_hidden_colors_stay_where_transparency_is_left_out(self, folder):
        array = np.zeros((20, 30, 4), np.uint8)
        array[..., :3] = 255
        array[5:15, 10:20] = [255, 0, 0, 255]
        Image.fromarray(array).save("a.png")
        assert self.run("a.png", "b.bmp").exit_code == 0
        large = np.asarray(opened("b.bmp"))
        assert (large[:9] == 255).all()  # beyond the reach of bicubic interpolation
        assert (large[:, :24] == 255).all()
        assert (large[18:42, 33:57] != 255).any(2).all()

    def test_sizes_that_a_format_cannot_hold_are_told_before_the_work(self, folder, monkeypatch):
        monkeypatch.setattr(Restorer, "run", None)
        Image.new("L", (6000, 2)).save("wide.png")
        result = self.run("wide.png", "large.webp")
        assert result.exit_code == 2
        assert result.stderr == (
            "Error: cannot write large.webp: WEBP holds up to 16,383 pixels per side, and the "
            "image would have 18,000 × 6\n"
        )
        Image.new("L", (2, 25_000)).save("high.png")
        assert "up to 65,500 pixels per side" in self.run("high.png", "large.jpg").stderr
        assert not list(Path().glob("large.*"))

    def test_absurdly_large_results_are_refused(self, folder, monkeypatch):
        monkeypatch.setattr("fwnet.imaging.restorer.LARGEST_RESULT", 17_000)
        result = self.run("photos", "large")
        assert result.exit_code == 2
        assert result.stderr == (
            "Error: photos/a.png: the result must have at most 0 megapixels, got 150 × 120 pixels\n"
            "1 written, 1 failed.\n"
        )
        assert Path("large/sub/b.jpg").exists()

    @pytest.mark.parametrize(
        ("kind", "picture"), [("sub-pixel", data.chelsea), ("enlarged", data.camera)]
    )
    def test_the_default_tile_changes_nothing(self, folder, picture, kind):
        network = ConvFWNet(19, 16, scale=3) if kind == "sub-pixel" else VDSR(5, 8)
        network.save("net.safetensors", {"task": "upscale", "scale": 3})
        self.check_default_tile(picture, OPTIONS)
