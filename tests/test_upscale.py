"""`fwnet upscale` as people meet it: its lines, its exit codes, and what it leaves."""

import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image, ImageCms
from skimage import data
from typer.testing import CliRunner

from fwnet import ConvFWNet, upscale
from fwnet.cli import app
from fwnet.imaging import Upscaler
from fwnet.imaging.image_files import read_image
from fwnet.models import VDSR
from fwnet.resize import enlarge
from tests.imaging.png_files import png

OPTIONS = ["--model", "x3.safetensors", "--device", "cpu"]
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder: a.png and sub/b.jpg in photos/, x2.safetensors, x3.safetensors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "60")  # a narrow terminal must not break the line
    for scale in (2, 3):
        generator = torch.Generator().manual_seed(scale)
        network = ConvFWNet(2, 6, scale=scale, generator=generator)
        network.save(f"x{scale}.safetensors", {"task": "upscale", "scale": scale})
    (tmp_path / "photos" / "sub").mkdir(parents=True)
    Image.fromarray(data.chelsea()[:40, :50]).save("photos/a.png")
    Image.fromarray(data.camera()[:30, :60]).save("photos/sub/b.jpg")
    return tmp_path


def run(*arguments, options=OPTIONS):
    return CliRunner().invoke(app, ["upscale", *map(str, arguments), *options])


def opened(path):
    with Image.open(path) as image:
        image.load()
        return image


def contents():
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def test_one_file_and_its_line(folder):
    result = run("photos/a.png", "large.png", "--scale", 3)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.startswith("photos/a.png: 50 × 40 to 150 × 120, ")
    assert result.stdout.endswith(" s, written to large.png\n")
    assert result.stdout.count("\n") == 1
    expected = upscale(np.asarray(opened("photos/a.png")), 3, "x3.safetensors")
    assert np.array_equal(np.asarray(opened("large.png")), expected)


def test_the_model_says_the_scale(folder):
    assert run("photos/a.png", "large.png").exit_code == 0
    assert opened("large.png").size == (150, 120)
    assert run("photos/a.png", "twice.png", options=["--model", "x2.safetensors"]).exit_code == 0
    assert opened("twice.png").size == (100, 80)


def test_a_network_that_sees_the_enlarged_image(folder):
    VDSR(3, 6).save("any.safetensors", {"task": "upscale", "scale": 4})
    result = run("photos/a.png", "large.png", options=["--model", "any.safetensors"])
    assert result.exit_code == 0
    assert opened("large.png").size == (200, 160)


def test_a_folder(folder):
    (folder / "photos" / "text.txt").write_text("no image, and not called one")
    result = run("photos", "large")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert len(result.stdout.splitlines()) == 2
    found = sorted(path.as_posix() for path in Path("large").rglob("*") if path.is_file())
    assert found == ["large/a.png", "large/sub/b.jpg"]
    assert (opened("large/sub/b.jpg").mode, opened("large/sub/b.jpg").size) == ("L", (180, 90))


def test_several_files_and_patterns(folder):
    result = run("photos/*.png", "photos/sub/b.jpg", "large/")
    assert result.exit_code == 0
    assert sorted(os.listdir("large")) == ["a.png", "b.jpg"]  # noqa: PTH208


def test_one_bad_file_does_not_keep_the_others(folder):
    Path("photos/0.png").write_bytes(b"no image, but called one")
    Path("photos/c.jpg").write_bytes(Path("photos/sub/b.jpg").read_bytes()[:-10])
    Path("photos/d.png").write_bytes(b"")
    Path("photos/bomb.png").write_bytes(png(100_000, 100_000, rows=bytes(100)))
    result = run("photos", "nosuch.png", "nosuch*.png", "large")
    assert result.exit_code == 2
    assert len(result.stdout.splitlines()) == 2
    lines = result.stderr.splitlines()
    assert lines[0] == "Error: photos/0.png is not an image that can be read"
    assert lines[1] == (
        "Error: photos/bomb.png claims to have 10,000 megapixels: no more than 179 are read"
    )
    assert lines[2].startswith("Error: photos/c.jpg is damaged: image file is truncated")
    assert lines[3:] == [
        "Error: photos/d.png is empty",
        "Error: nosuch.png does not exist",
        "Error: no file matches nosuch*.png",
    ]
    assert (folder / "large" / "photos" / "sub" / "b.jpg").exists()


BAD_ARGUMENTS = {
    "scale is one": (["--scale", "1"], "scale must be an integer >= 2, got 1"),
    "scale is negative": (["--scale", "-3"], "scale must be an integer >= 2, got -3"),
    "scale is another": (
        ["--scale", "2"],
        "scale must be 3, for which x3.safetensors was trained, got 2",
    ),
    "tile is zero": (["--tile", "0"], "tile must be an integer >= 1, got 0"),
    "model is missing": (["--model", "no.safetensors"], "no.safetensors does not exist"),
    "model is unknown": (["--model", "nosuch"], "no model and no file is called 'nosuch'"),
    "model is an image": (["--model", "photos/a.png"], "photos/a.png is not a whole safetensors"),
    "model denoises": (
        ["--model", "conv_fwnet_t4.denoise_gray_s25"],
        "expected a network that enlarges, got conv_fwnet_t4.denoise_gray_s25, which removes noise",
    ),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_bad_arguments_give_one_line_and_leave_nothing(folder, case):
    arguments, line = BAD_ARGUMENTS[case]
    before = contents()
    result = run("photos/a.png", "large.png", options=[*OPTIONS, *arguments])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {line}")
    assert result.stderr.count("\n") == 1
    assert contents() == before


def test_scales_without_a_network(folder):
    result = run("photos/a.png", "large.png", "--scale", 5, options=[])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: scale must be 2, 3 or 4, for which there are networks")
    VDSR(3, 6).save("any.safetensors")
    result = run("photos/a.png", "large.png", options=["--model", "any.safetensors"])
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: scale must be given: any.safetensors does not say what it was trained for\n"
    )
    result = run("photos/a.png", "a.png", "--scale", 5, options=["--model", "any.safetensors"])
    assert result.exit_code == 0
    assert opened("a.png").size == (250, 200)


BAD_PLACES = {
    "unknown format": (["photos/a.png", "large.xyz"], "expected a name that ends in .png, .jpg"),
    "output exists": (["photos/a.png", "photos/sub/b.jpg"], "photos/sub/b.jpg exists; overwrite"),
    "output is the input": (["photos/a.png", "photos/a.png"], "photos/a.png exists; overwrite it"),
    "into its own folder": (["photos/a.png", "photos"], "photos/a.png exists; overwrite it with"),
    "folder is a file": (["photos", "x3.safetensors"], "several files go into a folder, and x3"),
    "no images": (["empty", "large"], "empty has no images in it"),
}


@pytest.mark.parametrize("case", BAD_PLACES)
def test_bad_places_give_one_line_and_leave_nothing(folder, case):
    Path("empty").mkdir()
    arguments, line = BAD_PLACES[case]
    before = contents()
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {line}")
    assert result.stderr.count("\n") == 1
    assert contents() == before


def test_force_overwrites(folder):
    assert run("photos/a.png", "photos/a.png", "--force").exit_code == 0
    assert opened("photos/a.png").size == (150, 120)


def test_compare_shows_bicubic_beside_the_result(folder):
    result = run("photos", "large", "--compare")
    assert result.exit_code == 0
    assert "written to large/a.png and large/a-compare.png\n" in result.stdout
    sheet, after = (np.asarray(opened(f"large/{name}.png")) for name in ("a-compare", "a"))
    small = torch.from_numpy(np.array(opened("photos/a.png"))).permute(2, 0, 1) / 255
    bicubic = (255 * enlarge(small, 3).clamp(0, 1)).round().permute(1, 2, 0)
    assert np.array_equal(sheet[:, 150:], after)
    assert abs(sheet[:, :150] - bicubic.numpy()).max() <= 1
    assert (sheet[:, :150] == bicubic.numpy()).mean() > 0.999
    assert opened("large/sub/b-compare.png").size == (360, 90)


def test_comparisons_show_deep_and_turned_images_as_viewers_do(folder):
    tags = Image.Exif()
    tags[0x0112] = 6
    numbers = np.random.default_rng(0).integers(0, 65536, (30, 20), np.uint16)
    Image.fromarray(numbers).save("deep.png", exif=tags)
    assert run("deep.png", "large.png", "--compare").exit_code == 0
    large, sheet = opened("large.png"), opened("large-compare.png")
    assert (large.mode, large.size, large.getexif()[0x0112]) == ("I;16", (60, 90), 6)
    assert (sheet.mode, sheet.size) == ("L", (180, 60))
    shown = np.rot90(np.asarray(large), -1) / 257
    assert abs(np.asarray(sheet)[:, 90:] - shown).max() < 0.51


def test_what_is_kept(folder):
    tags = Image.Exif()
    tags[0x0112], tags[0x010F] = 8, "Maker"
    tags.get_ifd(0x8769).update({0x9003: "2024:05:06 07:08:09", 0xA002: 30, 0xA003: 20})
    image = Image.fromarray(data.chelsea()[:20, :30]).convert("RGBA")
    image.putalpha(Image.fromarray(data.camera()[:20, :30]))
    image.save("a.png", exif=tags, dpi=(100, 50), icc_profile=PROFILE)
    for suffix in ("png", "tif", "webp", "jpg"):
        assert run("a.png", f"b.{suffix}").exit_code == 0
        result = opened(f"b.{suffix}")
        assert (result.mode, result.size) == ("RGB" if suffix == "jpg" else "RGBA", (90, 60))
        assert result.info["icc_profile"] == PROFILE
        tags = result.getexif()
        assert tags[0x010F] == "Maker"
        inner = tags.get_ifd(0x8769)
        assert (inner[0x9003], inner[0xA002], inner[0xA003]) == ("2024:05:06 07:08:09", 90, 60)
        if suffix != "webp":  # which says nothing of resolution
            assert result.info["dpi"] == pytest.approx((300, 150), rel=2e-3)
        if suffix == "png":
            assert tags[0x0112] == 8
            expected = upscale(np.asarray(image), 3, "x3.safetensors")
            assert np.array_equal(np.asarray(result), expected)


@pytest.mark.parametrize("suffix", ["png", "tif"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_sixteen_bits(folder, suffix, channels):
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
    assert run(f"deep.{suffix}", f"large.{suffix}").exit_code == 0
    result = read_image(Path(f"large.{suffix}")).pixels.channels()
    assert result.dtype == np.uint16
    assert np.array_equal(result, upscale(array, 3, "x3.safetensors"))
    assert len(np.unique(result)) > 1000


def test_floating_point(folder):
    array = np.random.default_rng(0).random((20, 30, 3), np.float32)
    tifffile.imwrite("float.tif", array, photometric="rgb")
    assert run("float.tif", "large.tif").exit_code == 0
    assert np.array_equal(tifffile.imread("large.tif"), upscale(array, 3, "x3.safetensors"))


def test_palettes_and_transparent_colors(folder):
    image = opened("photos/a.png").quantize(16)
    image.save("p.png")
    image.save("t.png", transparency=3)
    assert run("p.png", "t.png", "large").exit_code == 0
    expected = upscale(np.asarray(image.convert("RGB")), 3, "x3.safetensors")
    assert np.array_equal(np.asarray(opened("large/p.png")), expected)
    large = opened("large/t.png")
    assert large.mode == "RGBA"
    alpha = enlarge(torch.from_numpy(1.0 * (np.asarray(image) != 3)), 3).clamp(0, 1)
    assert abs(np.asarray(large)[..., 3] - 255 * alpha.numpy()).max() < 0.51


@pytest.mark.parametrize("orientation", range(1, 9))
def test_viewers_show_the_same_side_up(folder, orientation):
    tags = Image.Exif()
    tags[0x0112] = orientation
    array = np.zeros((20, 30, 3), np.uint8)
    array[:10, :10] = 255
    Image.fromarray(array).save("a.png", exif=tags)
    for name in ("b.png", "b.bmp"):
        assert run("a.png", name).exit_code == 0
        large = read_image(Path(name))
        shown, small = (
            np.asarray(read.about.turned(read.pixels.pillow())).astype(int)
            for read in (large, read_image(Path("a.png")))
        )
        assert shown.shape == (3 * small.shape[0], 3 * small.shape[1], 3)
        corners = [one[[2, 2, -3, -3], [2, -3, 2, -3], 0] > 127 for one in (shown, small)]
        assert np.array_equal(*corners)


def test_previews_and_notes_of_cameras_stay(folder):
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
    assert run("a.jpg", "b.jpg").exit_code == 0
    exif = opened("b.jpg").info["exif"]
    assert exif == opened("a.jpg").info["exif"]
    assert preview in exif
    assert b"a note of the maker" in exif


def test_what_is_lost_is_told(folder):
    image = Image.fromarray(data.chelsea()[:20, :30]).convert("RGBA")
    image.putalpha(100)
    image.save("a.png")
    result = run("a.png", "b.jpg")
    assert result.exit_code == 0
    assert result.stderr == "Warning: a.png: JPEG holds no transparency, which is left out.\n"


def test_hidden_colors_stay_where_transparency_is_left_out(folder):
    array = np.zeros((20, 30, 4), np.uint8)
    array[..., :3] = 255
    array[5:15, 10:20] = [255, 0, 0, 255]
    Image.fromarray(array).save("a.png")
    assert run("a.png", "b.bmp").exit_code == 0
    large = np.asarray(opened("b.bmp"))
    assert (large[:9] == 255).all()  # beyond the reach of bicubic interpolation
    assert (large[:, :24] == 255).all()
    assert (large[18:42, 33:57] != 255).any(2).all()


def test_sizes_that_a_format_cannot_hold_are_told_before_the_work(folder, monkeypatch):
    monkeypatch.setattr(Upscaler, "run", None)
    Image.new("L", (6000, 2)).save("wide.png")
    result = run("wide.png", "large.webp")
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: cannot write large.webp: WEBP holds up to 16,383 pixels a side, and the image "
        "would have 18,000 × 6\n"
    )
    Image.new("L", (2, 25_000)).save("high.png")
    assert "up to 65,500 pixels a side" in run("high.png", "large.jpg").stderr
    assert not list(Path().glob("large.*"))


def test_absurdly_large_results_are_refused(folder, monkeypatch):
    monkeypatch.setattr("fwnet.imaging.upscaler.LARGEST_RESULT", 17_000)
    result = run("photos", "large")
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: photos/a.png: the result would have 150 × 120 pixels, 0 megapixels: no more than "
        "0 are made\n"
    )
    assert Path("large/sub/b.jpg").exists()


def test_too_little_memory_for_one_file(folder, monkeypatch):
    working, calls = Upscaler.run, []

    def fail_once(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise MemoryError
        return working(*arguments)

    monkeypatch.setattr(Upscaler, "run", fail_once)
    result = run("photos", "large")
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: photos/a.png: there is not enough memory: the whole result must fit\n"
    )
    assert Path("large/sub/b.jpg").exists()


@pytest.mark.parametrize("kind", ["sub-pixel", "enlarged"])
@pytest.mark.parametrize("picture", [data.camera, data.chelsea])
def test_the_default_tile_changes_nothing(folder, picture, kind):
    network = ConvFWNet(19, 16, scale=3) if kind == "sub-pixel" else VDSR(5, 8)
    network.save("net.safetensors", {"task": "upscale", "scale": 3})
    Image.fromarray(picture()[:40, :450]).save("wide.png")
    for name, more in (("tiled.png", []), ("whole.png", ["--tile", 450])):
        options = ["--model", "net.safetensors", "--device", "cpu", *map(str, more)]
        assert run("wide.png", name, options=options).exit_code == 0
    assert Path("tiled.png").read_bytes() == Path("whole.png").read_bytes()


def test_small_tiles_change_next_to_nothing(folder):
    assert run("photos/a.png", "whole.png").exit_code == 0
    assert run("photos/a.png", "tiled.png", "--tile", 16).exit_code == 0
    whole, tiled = (np.asarray(opened(name)).astype(int) for name in ("whole.png", "tiled.png"))
    assert abs(whole - tiled).max() <= 1
    assert (whole != tiled).mean() < 1e-3


def test_help_teaches_with_examples(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = CliRunner().invoke(app, ["upscale", "--help"]).stdout
    for words in (
        "fwnet upscale small.jpg large.png --scale 4",
        "fwnet upscale photos/ large/ --compare",
        "3, or what the model was trained for",
        "quality 95",
        "fwnet models",
    ):
        assert words in text
    for option in ("--scale", "--model", "--device", "--tile", "--compare", "--force"):
        assert option in text


def test_a_missing_argument_prints_usage(folder):
    result = run("photos/a.png")
    assert result.exit_code == 2
    assert "Usage" in result.stderr
    assert run("photos/a.png", "b.png", "--scale", "2.5").exit_code == 2


def test_ctrl_c_keeps_what_is_done(folder, monkeypatch):
    def interrupted(path):
        if path.name == "b.jpg":
            raise KeyboardInterrupt
        return read_image(path)

    monkeypatch.setattr("fwnet.imaging.file_runs.read_image", interrupted)
    result = run("photos", "large")
    assert result.exit_code == 130
    assert result.stderr == "Stopped. 1 file is done.\n"
    assert Path("large/a.png").exists()
    assert not Path("large/sub/b.jpg").exists()


@pytest.mark.skipif(os.name == "nt", reason="signals are another matter there")
def test_nothing_is_half_written(folder):
    """Many files, killed in the middle: every result that is there is whole."""
    Path("many").mkdir()
    Image.fromarray(data.chelsea()[:60, :75]).save("many/000.png")
    for index in range(1, 200):
        shutil.copy("many/000.png", f"many/{index:03d}.png")
    process = subprocess.Popen(
        [sys.executable, "-m", "fwnet", "upscale", "many", "out", *OPTIONS],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(list(Path("out").glob("*.png"))) < 3:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    results = sorted(Path("out").glob("*.png"))
    assert 3 <= len(results) < 200
    for path in results:
        assert np.asarray(opened(path)).shape == (180, 225, 3)
