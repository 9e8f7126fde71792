"""`fwnet denoise` as people meet it: its lines, its exit codes, and what it leaves."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from skimage import data
from typer.testing import CliRunner

from fwnet import ConvFWNet, DnCNN, denoise
from fwnet.cli import app
from fwnet.imaging import Denoiser
from fwnet.imaging.image_files import read_image
from tests.imaging.png_files import png

OPTIONS = ["--model", "gray.safetensors", "--device", "cpu"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder: a.png and sub/b.jpg in photos/, gray.safetensors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "60")  # a narrow terminal must not break the line
    generator = torch.Generator().manual_seed(0)
    network = ConvFWNet(2, 6, noise_level_input=True, generator=generator)
    network.save(tmp_path / "gray.safetensors")
    (tmp_path / "photos" / "sub").mkdir(parents=True)
    Image.fromarray(data.chelsea()[:40, :50]).save("photos/a.png")
    Image.fromarray(data.camera()[:30, :60]).save("photos/sub/b.jpg")
    return tmp_path


def run(*arguments, options=OPTIONS):
    return CliRunner().invoke(app, ["denoise", *map(str, arguments), *options])


def opened(path):
    with Image.open(path) as image:
        image.load()
        return image


def contents():
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def test_one_file_and_its_line(folder):
    result = run("photos/a.png", "clean.png", "--sigma", 25)
    assert result.exit_code == 0
    assert result.stderr == ""
    line = "photos/a.png: 50 × 40, sigma 25.0 (given), "
    assert result.stdout.startswith(line)
    assert result.stdout.endswith(" s, written to clean.png\n")
    assert result.stdout.count("\n") == 1
    image = np.asarray(opened("photos/a.png"))
    expected = denoise(image, 25 / 255, "gray.safetensors")
    assert np.array_equal(np.asarray(opened("clean.png")), expected)


def test_sigma_is_estimated(folder):
    result = run("photos/a.png", "clean.png")
    assert result.exit_code == 0
    assert "(estimated)" in result.stdout
    image = np.asarray(opened("photos/a.png"))
    expected = denoise(image, None, "gray.safetensors")
    assert np.array_equal(np.asarray(opened("clean.png")), expected)


def test_without_a_model_the_networks_of_the_package_are_used(folder):
    result = run("photos", "clean", "--sigma", 15, options=[])
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 2
    for name in ("a.png", "sub/b.jpg"):
        noisy, clean = (np.asarray(opened(f"{root}/{name}")) for root in ("photos", "clean"))
        assert clean.shape == noisy.shape
        assert 0 < abs(clean.astype(int) - noisy).mean() < 15


def test_a_folder(folder):
    (folder / "photos" / "text.txt").write_text("no image, and not called one")
    result = run("photos", "clean")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert len(result.stdout.splitlines()) == 2
    found = sorted(path.as_posix() for path in Path("clean").rglob("*") if path.is_file())
    assert found == ["clean/a.png", "clean/sub/b.jpg"]
    assert opened("clean/sub/b.jpg").mode == "L"


def test_several_files_and_patterns(folder):
    result = run("photos/*.png", "photos/sub/b.jpg", "clean/")
    assert result.exit_code == 0
    assert sorted(os.listdir("clean")) == ["a.png", "b.jpg"]  # noqa: PTH208


def test_one_bad_file_does_not_keep_the_others(folder):
    Path("photos/0.png").write_bytes(b"no image, but called one")
    Path("photos/c.jpg").write_bytes(Path("photos/sub/b.jpg").read_bytes()[:-10])
    Path("photos/d.png").write_bytes(b"")
    Path("photos/bomb.png").write_bytes(png(100_000, 100_000, rows=bytes(100)))
    result = run("photos", "nosuch.png", "nosuch*.png", "clean")
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
    assert (folder / "clean" / "photos" / "sub" / "b.jpg").exists()


BAD_ARGUMENTS = {
    "sigma is negative": (["--sigma", "-3"], "--sigma must be in [0, 255], got -3"),
    "sigma is NaN": (["--sigma", "nan"], "--sigma must be in [0, 255], got nan"),
    "sigma is too large": (["--sigma", "256"], "--sigma must be in [0, 255], got 256"),
    "tile is zero": (["--tile", "0"], "tile must be an integer >= 1, got 0"),
    "model is missing": (["--model", "no.safetensors"], "no.safetensors does not exist"),
    "model is unknown": (["--model", "nosuch"], "no model and no file is called 'nosuch'"),
    "model is an image": (["--model", "photos/a.png"], "photos/a.png is not a whole safetensors"),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_bad_arguments_give_one_line_and_leave_nothing(folder, case):
    arguments, line = BAD_ARGUMENTS[case]
    before = contents()
    result = run("photos/a.png", "clean.png", options=[*OPTIONS, *arguments])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {line}")
    assert result.stderr.count("\n") == 1
    assert contents() == before


BAD_PLACES = {
    "unknown format": (["photos/a.png", "clean.xyz"], "expected a name that ends in .png, .jpg"),
    "no format": (["photos/a.png", "clean"], "expected a name that ends in .png, .jpg"),
    "output exists": (["photos/a.png", "photos/sub/b.jpg"], "photos/sub/b.jpg exists; overwrite"),
    "output is the input": (["photos/a.png", "photos/a.png"], "photos/a.png exists; overwrite it"),
    "input by another name": (["photos/a.png", "photos/sub/../a.png"], "photos/sub/../a.png exist"),
    "into its own folder": (["photos/a.png", "photos"], "photos/a.png exists; overwrite it with"),
    "folder is a file": (
        ["photos", "gray.safetensors"],
        "several files go into a folder, and gray",
    ),
    "below a file": (
        ["photos/a.png", "gray.safetensors/x.png"],
        "cannot write gray.safetensors/x.png: ",
    ),
    "no images": (["empty", "clean"], "empty has no images in it"),
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
    before = Path("photos/a.png").read_bytes()
    assert run("photos/a.png", "photos/a.png", "--force").exit_code == 0
    assert Path("photos/a.png").read_bytes() != before
    assert run("photos", "photos", "--force").exit_code == 0
    assert len(list(Path("photos").rglob("*.*"))) == 2


def test_an_existing_result_is_skipped_and_the_others_are_done(folder):
    Path("clean").mkdir()
    Path("clean/a.png").write_bytes(b"precious")
    result = run("photos", "clean")
    assert result.exit_code == 2
    assert result.stderr == "Error: clean/a.png exists; overwrite it with --force\n"
    assert Path("clean/a.png").read_bytes() == b"precious"
    assert Path("clean/sub/b.jpg").exists()


def test_a_folder_without_permission(folder):
    Path("locked").mkdir(mode=0o500)
    if os.access("locked", os.W_OK):
        pytest.skip("this user writes everywhere")
    result = run("photos/a.png", "locked/x.png")
    assert result.exit_code == 2
    assert result.stderr == "Error: cannot write locked/x.png: no permission in locked\n"


def test_compare(folder):
    result = run("photos", "clean", "--compare", "--sigma", 30)
    assert result.exit_code == 0
    assert "written to clean/a.png and clean/a-compare.png\n" in result.stdout
    sheet = np.asarray(opened("clean/a-compare.png"))
    before, after = (np.asarray(opened(f"{name}/a.png")) for name in ("photos", "clean"))
    assert np.array_equal(sheet, np.concatenate([before, after], axis=1))
    assert opened("clean/sub/b-compare.png").size == (120, 30)
    result = run("photos/a.png", "other.png", "--compare")
    assert result.exit_code == 0
    Path("other.png").unlink()
    result = run("photos/a.png", "other.png", "--compare")
    assert result.stderr == "Error: other-compare.png exists; overwrite it with --force\n"
    assert not Path("other.png").exists()


def test_comparisons_of_equal_stems(folder):
    Path("many").mkdir()
    for name in ("a.png", "a-compare.png", "b.png", "b.tif", "b.webp"):
        Image.fromarray(data.chelsea()[:20, :30]).save(f"many/{name}")
    result = run("many", "clean", "--compare", "--sigma", 30, "--force")
    assert result.exit_code == 0
    assert len(os.listdir("clean")) == 10  # noqa: PTH208
    assert opened("clean/a-compare.png").size == (30, 20)
    assert opened("clean/a.png-compare.png").size == (60, 20)


def test_names_that_are_too_long(folder):
    long = "x" * 300 + ".png"
    for arguments in ([long, "clean.png"], ["photos/a.png", long], [long, long], [long, "out/"]):
        result = run(*arguments)
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: ")
        assert result.stderr.endswith("File name too long\n")
        assert result.stderr.count("\n") == 1
    result = run("photos/a.png", long, "clean")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert Path("clean/a.png").exists()
    result = run("photos/a.png", "b.png", options=["--model", "x" * 400])
    assert result.stderr.startswith("Error: no model and no file is called 'xxx")
    result = run("photos/a.png", "b.png", options=["--model", "photos/" + "x" * 400])
    assert result.stderr == f"Error: photos/{'x' * 400} cannot be read: File name too long\n"


@pytest.mark.skipif(os.name == "nt", reason="permissions are another matter there")
def test_a_folder_that_may_not_be_entered(folder):
    Path("locked").mkdir()
    Path("locked").chmod(0)
    try:
        if os.access("locked", os.X_OK):
            pytest.skip("this user enters everywhere")
        for arguments in (["locked/x.png", "y.png"], ["photos/a.png", "locked/x.png"]):
            result = run(*arguments)
            assert result.exit_code == 2
            assert result.stderr.count("\n") == 1
            assert "ermission" in result.stderr
    finally:
        Path("locked").chmod(0o700)


NO_MEMORY = [
    (MemoryError(), "the whole result must fit"),
    (torch.OutOfMemoryError("CUDA out of memory"), "try a smaller --tile"),
    (
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate"),
        "try a smaller --tile",
    ),
]


@pytest.mark.parametrize(("error", "remedy"), NO_MEMORY, ids=["NumPy", "GPU", "CPU"])
@pytest.mark.parametrize("where", ["Denoiser.run", "write_image", "_write_comparison"])
def test_too_little_memory_for_one_file(folder, monkeypatch, error, remedy, where):
    import fwnet.imaging.file_runs as module

    place = Denoiser if where == "Denoiser.run" else module
    name = where.rpartition(".")[2]
    working, calls = getattr(place, name), []

    def fail_once(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise error
        return working(*arguments)

    monkeypatch.setattr(place, name, fail_once)
    result = run("photos", "clean", "--compare")
    assert result.exit_code == 2
    assert result.stderr == f"Error: photos/a.png: there is not enough memory: {remedy}\n"
    assert Path("clean/sub/b-compare.png").exists()


def test_names_are_printed_as_they_are(folder):
    Path("photos/a.png").rename("a:cat:b[bold].png")
    result = run("a:cat:b[bold].png", "c:dog:.png")
    assert result.stdout.startswith("a:cat:b[bold].png: ")
    assert result.stdout.endswith("written to c:dog:.png\n")
    assert run(":cat:.png", "d.png").stderr == "Error: :cat:.png does not exist\n"


def test_comparisons_show_deep_and_turned_images_as_viewers_do(folder):
    tags = Image.Exif()
    tags[0x0112] = 6
    numbers = np.random.default_rng(0).integers(0, 65536, (30, 20), np.uint16)
    Image.fromarray(numbers).save("deep.png", exif=tags)
    assert run("deep.png", "clean.png", "--compare").exit_code == 0
    clean, sheet = opened("clean.png"), opened("clean-compare.png")
    assert (clean.mode, clean.size, clean.getexif()[0x0112]) == ("I;16", (20, 30), 6)
    assert (sheet.mode, sheet.size) == ("L", (60, 20))
    shown = np.rot90(np.asarray(clean), -1) / 257
    assert abs(np.asarray(sheet)[:, 30:] - shown).max() < 0.51


def test_what_is_kept(folder):
    tags = Image.Exif()
    tags[0x0112], tags[0x010F] = 8, "Maker"
    image = Image.fromarray(data.chelsea()[:20, :30]).convert("RGBA")
    image.putalpha(Image.fromarray(data.camera()[:20, :30]))
    image.save("a.png", exif=tags, dpi=(300, 300))
    assert run("a.png", "b.png").exit_code == 0
    result = opened("b.png")
    assert (result.mode, result.size) == ("RGBA", (30, 20))
    assert np.array_equal(np.asarray(result)[..., 3], data.camera()[:20, :30])
    assert result.getexif()[0x0112] == 8
    assert result.getexif()[0x010F] == "Maker"
    assert result.info["dpi"] == pytest.approx((300, 300), rel=1e-3)


def test_what_is_lost_is_told(folder):
    image = Image.fromarray(data.chelsea()[:20, :30]).convert("RGBA")
    image.putalpha(100)
    image.save("a.png")
    result = run("a.png", "b.jpg")
    assert result.exit_code == 0
    assert result.stderr == "Warning: a.png: JPEG holds no transparency, which is left out.\n"
    image.convert("RGB").save("c.gif", save_all=True, append_images=[Image.new("RGB", (30, 20))])
    result = run("c.gif", "d.png")
    assert result.stderr == "Warning: c.gif: only the first of 2 images is used.\n"


def test_sigma_below_one_gets_a_hint(folder):
    result = run("photos/a.png", "clean.png", "--sigma", 0.1)
    assert result.exit_code == 0
    assert result.stderr == (
        "Hint: --sigma is on the scale 0 to 255, where 0.1 is hardly any noise.\n"
    )
    assert "sigma 0.1 (given)" in result.stdout
    assert run("photos/a.png", "other.png", "--sigma", 0).stderr == ""


def test_a_network_for_one_noise_level(folder):
    DnCNN(2, 4).save("one.safetensors")
    options = ["--model", "one.safetensors"]
    result = run("photos", "clean", options=options)
    assert result.exit_code == 0
    assert "the noise that the network is made for" in result.stdout
    result = run("photos", "other", "--sigma", 25, options=options)
    assert result.exit_code == 0
    assert result.stderr == "Hint: this network serves one noise level; --sigma is not used.\n"


def test_a_network_for_color_meets_a_gray_image(folder):
    ConvFWNet(1, 4, in_channels=3).save("color.safetensors")
    result = run("photos", "clean", options=["--model", "color.safetensors"])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: photos/sub/b.jpg: the network is one for color images")
    assert result.stderr.count("\n") == 1
    assert Path("clean/a.png").exists()


@pytest.mark.parametrize("options", [OPTIONS, ["--device", "cpu"]], ids=["small", "shipped"])
@pytest.mark.parametrize("picture", [data.camera, data.chelsea])
def test_the_default_tile_changes_nothing(folder, picture, options):
    Image.fromarray(picture()[:40, :450]).save("wide.png")
    for name, more in (("tiled.png", []), ("whole.png", ["--tile", 450])):
        assert run("wide.png", name, "--sigma", 20, *more, options=options).exit_code == 0
    assert Path("tiled.png").read_bytes() == Path("whole.png").read_bytes()


def test_small_tiles_change_next_to_nothing(folder):
    assert run("photos/a.png", "whole.png", "--sigma", 20).exit_code == 0
    assert run("photos/a.png", "tiled.png", "--sigma", 20, "--tile", 16).exit_code == 0
    whole, tiled = (np.asarray(opened(name)).astype(int) for name in ("whole.png", "tiled.png"))
    assert abs(whole - tiled).max() <= 1
    assert (whole != tiled).mean() < 1e-3


def test_help_teaches_with_examples(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = CliRunner().invoke(app, ["denoise", "--help"]).stdout
    for words in (
        "fwnet denoise photo.jpg clean.png --sigma 25",
        "fwnet denoise photos/ clean/ --compare",
        "scale 0 to 255",
        "quality 95",
        "fwnet models",
    ):
        assert words in text
    for option in ("--sigma", "--model", "--device", "--tile", "--compare", "--force"):
        assert option in text


def test_a_missing_argument_prints_usage(folder):
    result = run("photos/a.png")
    assert result.exit_code == 2
    assert "Usage" in result.stderr


def test_ctrl_c_keeps_what_is_done(folder, monkeypatch):
    def interrupted(path):
        if path.name == "b.jpg":
            raise KeyboardInterrupt
        return read_image(path)

    monkeypatch.setattr("fwnet.imaging.file_runs.read_image", interrupted)
    result = run("photos", "clean")
    assert result.exit_code == 130
    assert result.stderr == "Stopped. 1 file is done.\n"
    assert Path("clean/a.png").exists()
    assert not Path("clean/sub/b.jpg").exists()


@pytest.mark.skipif(os.name == "nt", reason="signals are another matter there")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_half_written(folder, how):
    """Many files, stopped in the middle: every result that is there is whole."""
    Path("many").mkdir()
    for index in range(200):
        Image.fromarray(data.chelsea()[:120, :150]).save(f"many/{index:03d}.png")
    process = subprocess.Popen(
        [sys.executable, "-m", "fwnet", "denoise", "many", "out", "--sigma", "9", *OPTIONS],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(list(Path("out").glob("*.png"))) < 3:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.002)
    process.send_signal(how)
    lines, errors = process.communicate(timeout=60)
    results = sorted(Path("out").glob("*.png"))
    assert 3 <= len(results) < 200
    for path in results:
        assert np.asarray(opened(path)).shape == (120, 150, 3)
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert errors.count("\n") == 1
        assert errors.startswith("Stopped. ")
        assert len(lines.splitlines()) in (len(results), len(results) - 1)
        assert not list(Path("out").glob(".*"))
