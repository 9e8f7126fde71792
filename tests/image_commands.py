"""What every command from image to image must do; a command's test class inherits it."""

import os
import re
import shutil
import signal
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

from fwnet.cli import app
from fwnet.imaging import Restorer, one_file
from fwnet.imaging.image_files import read_image
from fwnet.imaging.preview import GAP, LEAST, LINE
from tests.imaging.png_files import png

OPTIONS = ("--model", "net.safetensors", "--device", "cpu")
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()

BAD_ARGUMENTS = {
    "tile is small": (["--tile", "31"], "tile must be an integer >= 32, got 31"),
    "keep or replace": (["--force", "--skip-existing"], "expected --force or --skip-existing, got"),
    "model is missing": (["--model", "no.safetensors"], "no.safetensors does not exist"),
    "model is unknown": (["--model", "nosuch"], "no model and no file is called 'nosuch'"),
    "model is a folder": (
        ["--model", "mynet"],
        "mynet is a folder, and the model in it is mynet/model.safetensors",
    ),
    "model is an image": (["--model", "photos/a.png"], "photos/a.png is not a model file of"),
}

BAD_PLACES = {
    "unknown format": (["photos/a.png", "out.xyz"], "expected a name that ends in .png, .jpg"),
    "no format": (["photos/a.png", "out"], "expected a name that ends in .png, .jpg"),
    "output exists": (["photos/a.png", "photos/sub/b.jpg"], "photos/sub/b.jpg exists; overwrite"),
    "input is missing": (["no.png", "photos/sub/b.jpg"], "no.png does not exist"),
    "output is the input": (["photos/a.png", "photos/a.png"], "photos/a.png is the input itself"),
    "input by another name": (["photos/a.png", "photos/sub/../a.png"], "photos/sub/../a.png is th"),
    "into its own folder": (["photos/a.png", "photos"], "photos/a.png is the input itself: cho"),
    "folder is a file": (["photos", "net.safetensors"], "several files go into a folder, and net"),
    "below a file": (
        ["photos/a.png", "net.safetensors/x.png"],
        "cannot write net.safetensors/x.png: ",
    ),
    "folder named like an image": (
        ["photos/a.png", "photos/sub/b.jpg", "x.png"],
        "several files go into a folder, and x.png is named like an image",
    ),
    "camera raw": (["photos/../IMG.NEF", "out.png"], "photos/../IMG.NEF: camera raw files are not"),
    "no images": (["empty", "out"], "empty has no images in it"),
    "a folder into itself": (["photos", "photos/"], "photos/ is the folder of the images: choose"),
    "no output": (["photos", ""], "OUT is empty: expected a file or a folder"),
}

NO_MEMORY = {
    "NumPy": (MemoryError(), "the whole result must fit"),
    "GPU": (torch.OutOfMemoryError("CUDA out of memory"), "try a smaller --tile"),
    "CPU": (
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate"),
        "try a smaller --tile",
    ),
}


def opened(path):
    with Image.open(path) as image:
        image.load()
        return image


def array(path):
    return np.asarray(opened(path))


def enlarged(width):
    """How many times as wide an image is shown in a comparison or a preview."""
    return -(-LEAST // width)


def halves(path, width):
    """The two images of a comparison, of this width, without the gap and the words below."""
    factor = enlarged(width)
    sheet = array(path)[:-LINE]
    return sheet[::factor, : factor * width : factor], sheet[
        ::factor, factor * width + GAP :: factor
    ]


def contents():
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


class ImageCommandConformance:
    """Subclasses name the `command` and say what it makes of an image."""

    command = ""
    scale = 1  # how many times as high and wide images become
    given = ()  # an option of the command's own, and its value
    line = ""  # what it says of a 50 × 40 image with that
    help_words = ()

    def save_network(self, path):
        """A small network for the command."""
        raise NotImplementedError

    def expected(self, image):
        """What the function of the library makes of an array, with the option `given`."""
        raise NotImplementedError

    def check_before(self, shown, image):
        """`shown` is what comparisons should show on the left."""
        raise NotImplementedError

    def run(self, *arguments, options=OPTIONS):
        return CliRunner().invoke(app, [self.command, *map(str, [*arguments, *options])])

    def size(self, width, height):
        """That of the result."""
        return (self.scale * width, self.scale * height)

    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        """The current folder: a.png and sub/b.jpg in photos/, net.safetensors."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COLUMNS", "60")  # a narrow terminal must not break the line
        self.save_network("net.safetensors")
        (tmp_path / "photos" / "sub").mkdir(parents=True)
        Image.fromarray(data.chelsea()[:40, :50]).save("photos/a.png")
        Image.fromarray(data.camera()[:30, :60]).save("photos/sub/b.jpg")
        return tmp_path

    def test_one_file_and_its_line(self, folder):
        result = self.run("photos/a.png", "out.png", *self.given)
        assert result.exit_code == 0
        assert result.stderr == ""
        assert result.stdout.startswith(f"photos/a.png: {self.line}, ")
        assert result.stdout.endswith(" s, written to out.png\n")
        assert result.stdout.count("\n") == 1
        assert np.array_equal(array("out.png"), self.expected(array("photos/a.png")))

    def test_a_folder(self, folder):
        (folder / "photos" / "text.txt").write_text("no image, and not called one")
        result = self.run("photos", "out")
        assert result.exit_code == 0
        assert result.stderr == "1 file skipped, not named as an image: text.txt.\n"
        assert len(result.stdout.splitlines()) == 2
        found = sorted(path.as_posix() for path in Path("out").rglob("*") if path.is_file())
        assert found == ["out/a.png", "out/sub/b.jpg"]
        gray = opened("out/sub/b.jpg")
        assert (gray.mode, gray.size) == ("L", self.size(60, 30))

    def check_refusal(self, arguments, line):
        """One line, and nothing is left behind."""
        before = contents()
        result = self.run(options=arguments)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert result.stderr.startswith(f"Error: {line}")
        assert result.stderr.count("\n") == 1
        assert contents() == before

    @pytest.mark.parametrize("case", BAD_ARGUMENTS)
    def test_bad_arguments(self, folder, case):
        Path("mynet").mkdir()
        shutil.copy("net.safetensors", "mynet/model.safetensors")
        arguments, line = BAD_ARGUMENTS[case]
        self.check_refusal(["photos/a.png", "out.png", *OPTIONS, *arguments], line)

    def test_force_overwrites(self, folder):
        before = Path("photos/a.png").stat().st_ino  # a new file takes the place of the old one
        assert self.run("photos/a.png", "photos/a.png", "--force").exit_code == 0
        assert Path("photos/a.png").stat().st_ino != before
        assert opened("photos/a.png").size == self.size(50, 40)
        assert self.run("photos", "photos", "--force").exit_code == 0
        assert len(list(Path("photos").rglob("*.*"))) == 2

    def test_compare(self, folder):
        result = self.run("photos", "out", "--compare", *self.given)
        assert result.exit_code == 0
        assert "written to out/a.png and out/a-compare.png\n" in result.stdout
        left, right = halves("out/a-compare.png", array("out/a.png").shape[1])
        assert np.array_equal(right, array("out/a.png"))
        self.check_before(left, array("photos/a.png"))
        width, height = (enlarged(self.scale * 60) * side for side in self.size(60, 30))
        assert opened("out/sub/b-compare.png").size == (2 * width + GAP, height + LINE)
        result = self.run("photos/a.png", "other.png", "--compare")
        assert result.exit_code == 0
        Path("other.png").unlink()
        result = self.run("photos/a.png", "other.png", "--compare")
        assert result.stderr == "Error: other-compare.png exists; overwrite it with --force\n"
        assert not Path("other.png").exists()

    def test_comparisons_show_deep_and_turned_images_as_viewers_do(self, folder):
        tags = Image.Exif()
        tags[0x0112] = 6
        numbers = np.random.default_rng(0).integers(0, 65536, (30, 20), np.uint16)
        Image.fromarray(numbers).save("deep.png", exif=tags)
        assert self.run("deep.png", "out.png", "--compare").exit_code == 0
        result, sheet = opened("out.png"), opened("out-compare.png")
        assert (result.mode, result.size) == ("I;16", self.size(20, 30))
        assert result.getexif()[0x0112] == 6
        assert sheet.mode == "L"
        shown = np.rot90(np.asarray(result), -1) / 257
        assert abs(halves("out-compare.png", shown.shape[1])[1] - shown).max() < 0.51

    def test_comparisons_show_what_is_transparent_as_white(self, folder):
        image = np.full((30, 20, 4), 60, np.uint8)
        image[:10, :, 3], image[10:, :, 3] = 0, 255
        Image.fromarray(image).save("cut.png")
        assert self.run("cut.png", "out.png", "--compare").exit_code == 0
        for half in halves("out-compare.png", array("out.png").shape[1]):
            assert (half[0] == 255).all()
            assert (half[-1] != 255).any()

    @pytest.mark.parametrize("suffix", ["png", "jpg"])
    def test_what_is_kept(self, folder, suffix):
        tags = Image.Exif()
        tags[0x0112], tags[0x010F] = 8, "Maker"
        tags.get_ifd(0x8769).update({0x9003: "2024:05:06 07:08:09", 0xA002: 30, 0xA003: 20})
        image = Image.fromarray(data.chelsea()[:20, :30]).convert("RGBA")
        image.putalpha(Image.fromarray(data.camera()[:20, :30]))
        image.save("a.png", exif=tags, dpi=(100, 50), icc_profile=PROFILE)
        assert self.run("a.png", f"b.{suffix}", *self.given).exit_code == 0
        result = opened(f"b.{suffix}")
        mode = "RGB" if suffix == "jpg" else "RGBA"
        assert (result.mode, result.size) == (mode, self.size(30, 20))
        assert result.info["icc_profile"] == PROFILE
        tags = result.getexif()
        assert tags[0x010F] == "Maker"
        inner = tags.get_ifd(0x8769)
        assert inner[0x9003] == "2024:05:06 07:08:09"
        assert (inner[0xA002], inner[0xA003]) == self.size(30, 20)
        assert result.info["dpi"] == pytest.approx(self.size(100, 50), rel=1e-3)
        if suffix == "png":
            assert tags[0x0112] == 8
            assert np.array_equal(np.asarray(result), self.expected(np.asarray(image)))

    def test_all_pages_of_a_stack(self, folder):
        stack = np.stack([data.camera()[top : top + 20, :30] for top in (0, 100, 200)])
        text = "ImageJ=1.53t\nimages=3\nslices=3\n"
        options = {"photometric": "minisblack", "description": text, "metadata": None}
        tifffile.imwrite("a.tif", stack, **options)
        result = self.run("a.tif", "b.tif", "--compare", *self.given)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.startswith("a.tif: 3 pages, ")
        with tifffile.TiffFile("b.tif") as file:
            assert file.pages.first.description == text.strip()
            assert np.array_equal(file.asarray(), [self.expected(page) for page in stack])
        assert np.array_equal(halves("b-compare.png", self.size(30, 20)[0])[1], array("b.tif"))
        result = self.run("a.tif", "b.png", *self.given)
        assert result.stderr == "Warning: a.tif: only the first of 3 images is used.\n"
        assert np.array_equal(array("b.png"), self.expected(stack[0]))

    def check_default_tile(self, picture, options):
        """It gives what one tile for the whole image gives."""
        Image.fromarray(picture()[:20, :450]).save("wide.png")
        for name, more in (("tiled.png", []), ("whole.png", ["--tile", 450])):
            assert self.run("wide.png", name, *more, options=options).exit_code == 0
        whole, tiled = (array(name).astype(int) for name in ("whole.png", "tiled.png"))
        assert abs(whole - tiled).max() <= 1
        assert (whole != tiled).mean() < 1e-3

    def test_small_tiles_change_next_to_nothing(self, folder):
        assert self.run("photos/a.png", "whole.png", *self.given).exit_code == 0
        assert self.run("photos/a.png", "tiled.png", *self.given, "--tile", 32).exit_code == 0
        whole, tiled = (array(name).astype(int) for name in ("whole.png", "tiled.png"))
        assert abs(whole - tiled).max() <= 1
        assert (whole != tiled).mean() < 1e-3

    def test_help_teaches_with_examples(self, monkeypatch):
        monkeypatch.setenv("COLUMNS", "200")
        text = self.run("--help", options=()).stdout
        options = ("--model", "--device", "--tile", "--compare", "--force", "--skip-existing")
        words_of_all = ("quality 95", "fwnet models", "'.[heif]'", "At least 32", self.given[0])
        for words in (*self.help_words, *words_of_all, *options):
            assert words in text
        assert len(re.findall(r"\* +(IN\.\.\.|OUT) .*\[required\]", text)) == 2

    def test_a_missing_argument_prints_usage(self, folder, monkeypatch):
        monkeypatch.setenv("COLUMNS", "200")
        result = self.run("photos/a.png")
        assert result.exit_code == 2
        assert "--help)" in result.stderr
        assert "OUT is missing" in result.stderr
        nothing = self.run(options=())
        assert nothing.exit_code == 2
        assert "A file for one image" in nothing.output  # --help


class FilesConformance(ImageCommandConformance):
    """What does not depend on the command: where files go, and what may go wrong with them."""

    def test_several_files_and_patterns(self, folder):
        result = self.run("photos/*.png", "photos/sub/b.jpg", "out/")
        assert result.exit_code == 0
        assert sorted(os.listdir("out")) == ["a.png", "b.jpg"]  # noqa: PTH208

    def test_a_folder_without_permission(self, folder):
        Path("locked").mkdir(mode=0o500)
        if os.access("locked", os.W_OK):
            pytest.skip("this user writes everywhere")
        result = self.run("photos/a.png", "locked/x.png")
        assert result.exit_code == 2
        assert result.stderr == "Error: cannot write locked/x.png: no permission in locked\n"

    @pytest.mark.skipif(os.name == "nt", reason="permissions are another matter there")
    def test_a_folder_that_may_not_be_entered(self, folder):
        Path("locked").mkdir()
        Path("locked").chmod(0)
        try:
            if os.access("locked", os.X_OK):
                pytest.skip("this user enters everywhere")
            for arguments in (["locked/x.png", "y.png"], ["photos/a.png", "locked/x.png"]):
                result = self.run(*arguments)
                assert result.exit_code == 2
                assert result.stderr.count("\n") == 1
                assert "ermission" in result.stderr
        finally:
            Path("locked").chmod(0o700)

    def test_an_existing_result_is_skipped_and_the_others_are_done(self, folder):
        Path("out").mkdir()
        Path("out/a.png").write_bytes(b"precious")
        result = self.run("photos", "out")
        assert result.exit_code == 2
        assert result.stderr == (
            "Error: out/a.png exists; overwrite it with --force\n1 written, 1 failed.\n"
        )
        assert Path("out/a.png").read_bytes() == b"precious"
        assert Path("out/sub/b.jpg").exists()

    def test_existing_results_are_kept_if_asked(self, folder):
        Path("out").mkdir()
        Path("out/a.png").write_bytes(b"precious")
        Path("out/a-compare.png").write_bytes(b"old")
        result = self.run("photos", "out", "--skip-existing", "--compare")
        assert result.exit_code == 0
        assert result.stderr == "1 file skipped: existing results are kept.\n"
        assert result.stdout.startswith("photos/sub/b.jpg: ")
        assert Path("out/a.png").read_bytes() == b"precious"
        result = self.run("photos", "out", "--skip-existing")
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == "2 files skipped: existing results are kept.\n"
        Path("out/a.png").unlink()
        result = self.run("photos/a.png", "out/", "--skip-existing", "--compare")
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.endswith("written to out/a.png\n")
        assert Path("out/a-compare.png").read_bytes() == b"old"
        for option in ("--skip-existing", "--force"):
            missing = self.run("missing.jpg", "out/a.png", option)
            assert missing.exit_code == 2
            assert missing.stderr == "Error: missing.jpg does not exist\n"
        long = "x" * 300 + ".png"  # whether it exists cannot be found out
        assert self.run("photos/a.png", long, "--skip-existing").exit_code == 2

    def test_a_png_is_not_replaced_by_a_converted_file(self, folder):
        image = opened("photos/a.png")
        image.transpose(Image.Transpose.ROTATE_90).save("photos/a.avif")
        assert self.run("photos", "out").exit_code == 0
        assert opened("out/a.png").size == self.size(50, 40)
        assert opened("out/a.avif.png").size == self.size(40, 50)

    @pytest.mark.parametrize("kind", ["NumPy", "CPU"])
    def test_a_page_that_fails_leaves_nothing(self, folder, monkeypatch, kind):
        error, remedy = NO_MEMORY[kind]
        pages = np.zeros((3, 20, 30), np.float32)
        tifffile.imwrite("a.tif", pages, photometric="minisblack")
        working, calls = Restorer.run, []

        def fail_second(*arguments):
            calls.append(arguments)
            if len(calls) == 2:
                raise error
            return working(*arguments)

        monkeypatch.setattr(Restorer, "run", fail_second)
        line = f"a.tif: there is not enough memory: {remedy}\n"
        self.check_refusal(["a.tif", "b.tif", *OPTIONS], line)
        pages[2] = np.nan
        tifffile.imwrite("a.tif", pages, photometric="minisblack")
        self.check_refusal(["a.tif", "b.tif", *OPTIONS], "a.tif: an image must be finite, got NaN")

    def test_comparisons_of_equal_stems(self, folder):
        Path("many").mkdir()
        for name in ("a.png", "a-compare.png", "b.png", "b.tif", "b.webp"):
            Image.fromarray(data.chelsea()[:20, :30]).save(f"many/{name}")
        result = self.run("many", "out", "--compare", "--force", *self.given)
        assert result.exit_code == 0
        assert len(os.listdir("out")) == 10  # noqa: PTH208
        assert opened("out/a-compare.png").size == self.size(30, 20)
        width, height = (enlarged(self.scale * 30) * side for side in self.size(30, 20))
        assert opened("out/a.png-compare.png").size == (2 * width + GAP, height + LINE)

    def test_names_that_are_too_long(self, folder):
        long = "x" * 300 + ".png"
        for arguments in ([long, "out.png"], ["photos/a.png", long], [long, long], [long, "new/"]):
            result = self.run(*arguments)
            assert result.exit_code == 2
            assert result.stderr.startswith("Error: ")
            assert result.stderr.endswith("File name too long\n")
            assert result.stderr.count("\n") == 1
        result = self.run("photos/a.png", long, "out")
        assert result.exit_code == 2
        assert result.stderr.endswith("File name too long\n1 written, 1 failed.\n")
        assert result.stderr.count("\n") == 2
        assert Path("out/a.png").exists()
        result = self.run("photos/a.png", "b.png", options=["--model", "x" * 400])
        assert result.stderr.startswith("Error: no model and no file is called 'xxx")
        result = self.run("photos/a.png", "b.png", options=["--model", "photos/" + "x" * 400])
        assert result.stderr == f"Error: photos/{'x' * 400} cannot be read: File name too long\n"

    def test_names_are_printed_as_they_are(self, folder):
        Path("photos/a.png").rename("a:cat:b[bold].png")
        result = self.run("a:cat:b[bold].png", "c:dog:.png")
        assert result.stdout.startswith("a:cat:b[bold].png: ")
        assert result.stdout.endswith("written to c:dog:.png\n")
        assert self.run(":cat:.png", "d.png").stderr == "Error: :cat:.png does not exist\n"

    @pytest.mark.parametrize(
        ("kind", "step"),
        [("NumPy", "write_image"), ("GPU", "run"), ("CPU", "_write_comparison")],
    )
    def test_too_little_memory_for_one_file(self, folder, monkeypatch, kind, step):
        error, remedy = NO_MEMORY[kind]
        place = Restorer if step == "run" else one_file
        working, calls = getattr(place, step), []

        def fail_once(*arguments, **options):
            calls.append(arguments)
            if len(calls) == 1:
                raise error
            return working(*arguments, **options)

        monkeypatch.setattr(place, step, fail_once)
        result = self.run("photos", "out", "--compare")
        assert result.exit_code == 2
        assert result.stderr == (
            f"Error: photos/a.png: there is not enough memory: {remedy}\n1 written, 1 failed.\n"
        )
        assert Path("out/sub/b.jpg").exists()
        assert Path("out/sub/b-compare.png").exists()

    def test_what_is_lost_is_told(self, folder):
        image = Image.fromarray(data.chelsea()[:20, :30]).convert("RGBA")
        image.putalpha(100)
        image.save("a.png")
        result = self.run("a.png", "b.jpg")
        assert result.exit_code == 0
        assert result.stderr == "Warning: a.png: JPEG holds no transparency, which is left out.\n"
        black = Image.new("RGB", (30, 20))
        image.convert("RGB").save("c.gif", save_all=True, append_images=[black])
        result = self.run("c.gif", "d.png")
        assert result.stderr == "Warning: c.gif: only the first of 2 images is used.\n"

    def test_ctrl_c_keeps_what_is_done(self, folder, monkeypatch):
        def interrupted(path):
            if path.name == "b.jpg":
                raise KeyboardInterrupt
            return read_image(path)

        monkeypatch.setattr(one_file, "read_image", interrupted)
        result = self.run("photos", "out")
        assert result.exit_code == 130
        assert result.stderr == "Stopped. 1 file is done.\n"
        assert Path("out/a.png").exists()
        assert not Path("out/sub/b.jpg").exists()

    @pytest.mark.skipif(os.name == "nt", reason="signals are another matter there")
    @pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
    def test_nothing_is_half_written(self, folder, how):
        """Many files, stopped in the middle: every result that is there is whole."""
        Path("many").mkdir()
        Image.fromarray(data.chelsea()[:120, :150]).save("many/000.png")
        for index in range(1, 100):
            shutil.copy("many/000.png", f"many/{index:03d}.png")
        arguments = [self.command, "many", "out", *self.given, *OPTIONS]
        process = subprocess.Popen(
            [sys.executable, "-m", "fwnet", *map(str, arguments)],
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
        assert 3 <= len(results) < 100
        for path in results:
            assert opened(path).mode == "RGB"
            assert opened(path).size == self.size(150, 120)
        if how == signal.SIGINT:
            assert process.returncode == 130
            assert errors.count("\n") == 1
            assert errors.startswith("Stopped. ")
            assert len(lines.splitlines()) in (len(results), len(results) - 1)
            assert not list(Path("out").glob(".*"))

    @pytest.mark.parametrize("case", BAD_PLACES)
    def test_bad_places(self, folder, case):
        Path("empty").mkdir()
        Path("IMG.NEF").write_bytes(b"II*\0")
        arguments, line = BAD_PLACES[case]
        self.check_refusal([*arguments, *OPTIONS], line)

    def test_one_bad_file_does_not_keep_the_others(self, folder):
        Path("photos/0.png").write_bytes(b"no image, but called one")
        Path("photos/c.jpg").write_bytes(Path("photos/sub/b.jpg").read_bytes()[:-10])
        Path("photos/d.png").write_bytes(b"")
        Path("photos/bomb.png").write_bytes(png(100_000, 100_000, rows=bytes(100)))
        result = self.run("photos", "nosuch.png", "nosuch*.png", "out")
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
            "2 written, 6 failed.",
        ]
        assert (folder / "out" / "photos" / "sub" / "b.jpg").exists()
