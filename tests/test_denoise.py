"""`fwnet denoise` as people meet it: its lines, its exit codes, and what it leaves."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import ExifTags, Image, ImageOps
from skimage import data

from fwnet import ConvFWNet, DnCNN, denoise
from fwnet.imaging.preview import GAP, LINE
from fwnet.restoration import Denoising
from tests.image_commands import OPTIONS, FilesConformance, array, enlarged, opened


class TestDenoise(FilesConformance):
    command = "denoise"
    given = ("--sigma", 25)
    line = "50 × 40, sigma 25.0 (given)"
    help_words = (
        "fwnet denoise photo.jpg clean.png --sigma 25",
        "fwnet denoise photos/ clean/ --compare",
        "scale 0 to 255",
        "conv_fwnet_t20.denoise_color for color images",
    )

    def save_network(self, path):
        generator = torch.Generator().manual_seed(0)
        ConvFWNet(2, 6, noise_level_input=True, generator=generator).save(path)

    def expected(self, image):
        return denoise(image, 25 / 255, "net.safetensors")

    def check_before(self, shown, image):
        assert np.array_equal(shown, image)

    def test_sigma_is_estimated(self, folder):
        result = self.run("photos/a.png", "clean.png")
        assert result.exit_code == 0
        assert "(estimated)" in result.stdout
        expected = denoise(array("photos/a.png"), None, "net.safetensors")
        assert np.array_equal(array("clean.png"), expected)

    def test_without_a_model_the_networks_of_the_package_are_used(self, folder):
        result = self.run("photos", "clean", "--sigma", 15, options=[])
        assert result.exit_code == 0
        assert len(result.stdout.splitlines()) == 2
        for name in ("a.png", "sub/b.jpg"):
            noisy, clean = (array(f"{root}/{name}") for root in ("photos", "clean"))
            assert clean.shape == noisy.shape
            assert 0 < abs(clean.astype(int) - noisy).mean() < 15

    @pytest.mark.parametrize("sigma", [-3, "nan", 256])
    def test_sigma_out_of_range(self, folder, sigma):
        arguments = ["photos/a.png", "clean.png", *OPTIONS, "--sigma", sigma]
        self.check_refusal(arguments, f"--sigma must be in [0, 255], got {sigma}\n")

    def test_sigma_below_one_gets_a_hint(self, folder):
        result = self.run("photos/a.png", "clean.png", "--sigma", 0.1)
        assert result.exit_code == 0
        assert result.stderr == (
            "Hint: --sigma is on the scale 0 to 255, where 0.1 is hardly any noise.\n"
        )
        assert "sigma 0.1 (given)" in result.stdout
        assert self.run("photos/a.png", "other.png", "--sigma", 0).stderr == ""

    def test_strength_is_a_factor_of_sigma(self, folder):
        result = self.run("photos/a.png", "clean.png", "--sigma", 20, "--strength", 0.5)
        assert result.exit_code == 0
        assert "sigma 20.0 (given), strength 0.5" in result.stdout
        expected = denoise(array("photos/a.png"), 10 / 255, "net.safetensors")
        assert np.array_equal(array("clean.png"), expected)
        assert self.run("photos/a.png", "same.png", "--strength", 0).exit_code == 0
        assert np.array_equal(array("same.png"), array("photos/a.png"))
        arguments = ["photos/a.png", "other.png", *OPTIONS, "--strength", -1]
        self.check_refusal(arguments, "strength must be in [0, 10], got -1\n")
        arguments[-1] = "1,5"
        line = "--strength must be a number, got '1,5' (see "
        self.check_refusal(arguments, line)

    def test_a_preview_shows_several_strengths(self, folder):
        tags = Image.Exif()
        tags[ExifTags.Base.Orientation] = 6
        Image.fromarray(data.chelsea()[:40, :50]).save("turned.png", exif=tags)
        for name, size in (("photos/a.png", (50, 40)), ("turned.png", (40, 50))):
            result = self.run(name, "strip.png", "--preview", "--sigma", 20, "--force")
            assert result.exit_code == 0
            assert result.stdout.startswith(f"{name}: preview, sigma 20.0 (given), ")
            factor = enlarged(size[0])
            sheet, (width, height) = opened("strip.png"), (factor * side for side in size)
            assert sheet.size == (5 * width + 4 * GAP, height + LINE)
            crops = [
                np.asarray(sheet.crop((left, 0, left + width, height)))[::factor, ::factor]
                for left in range(0, sheet.width, width + GAP)
            ]
            shown = np.asarray(ImageOps.exif_transpose(opened(name)))
            assert np.array_equal(crops[0], shown)
            expected = denoise(array(name), 20 / 255, "net.safetensors")
            assert np.array_equal(crops[2], np.rot90(expected, -1 if "turned" in name else 0))
            assert not any(np.array_equal(crop, shown) for crop in crops[1:])

    @pytest.mark.parametrize("missing", ["nosuch*", "empty"])
    def test_previews_of_nothing_are_refused_in_one_line(self, folder, missing):
        Path("empty").mkdir()
        result = self.run(missing, ".", "--preview")
        assert result.exit_code == 2
        words = {"nosuch*": "no file matches nosuch*", "empty": "empty has no images in it"}
        assert result.stderr == f"Error: {words[missing]}\n"

    def test_previews_in_a_folder_are_not_named_as_results(self, folder):
        Image.new("L", (40, 40), 9).save("photos/a.jpg")
        Image.new("L", (40, 40), 9).save("photos/c.jpg")
        result = self.run("photos", "strips", "--preview", "--sigma", 20)
        assert result.exit_code == 0
        assert sorted(str(path) for path in Path("strips").rglob("*.*")) == [
            "strips/a.jpg-preview.png",
            "strips/a.png-preview.png",
            "strips/c-preview.png",
            "strips/sub/b-preview.png",
        ]

    @pytest.mark.parametrize("option", [["--compare"], ["--strength", "2"]])
    def test_a_preview_takes_no_strength_and_no_comparison(self, folder, option):
        arguments = ["photos/a.png", "strip.png", "--preview", *OPTIONS, *option]
        self.check_refusal(arguments, f"expected --preview or {option[0]}, got both\n")

    def test_little_noise_is_said(self, folder):
        Image.new("RGB", (60, 50), (90, 120, 30)).save("flat.png")
        result = self.run("flat.png", "clean.png")
        assert result.exit_code == 0
        assert "sigma 0.0 (estimated): no noise found" in result.stdout
        assert np.array_equal(array("clean.png"), array("flat.png"))
        assert "texture" not in self.run("flat.png", "b.png", "--sigma", 1).stdout
        assert "all five are alike" in self.run("flat.png", "c.png", "--preview").stdout
        given = self.run("flat.png", "d.png", "--preview", "--sigma", 0).stdout
        assert "(given), " in given
        Image.new("RGB", (60, 15)).save("icon.png")
        for name, option in (("e.png", "--compare"), ("f.png", "--preview")):
            line = (
                "sigma 0.0 (estimated): a side under 16 pixels is too small to estimate noise (--si"
            )
            assert line in self.run("icon.png", name, option).stdout
        assert "little noise" in Denoising((0.0, 1.0)).describe(60, 50, 1.5 / 255)

    def test_an_unchanged_jpeg_file_is_copied(self, folder):
        """Compressed again, it would change, and lose what only the file holds."""
        result = self.run("photos/sub/b.jpg", "same.jpg", "--strength", 0)
        assert result.exit_code == 0, result.stderr
        assert Path("same.jpg").read_bytes() == Path("photos/sub/b.jpg").read_bytes()
        assert self.run("photos/sub/b.jpg", "same.png", "--strength", 0).exit_code == 0
        assert np.array_equal(array("same.png"), array("photos/sub/b.jpg"))

    def test_fast_takes_the_small_networks(self, folder):
        result = self.run("photos", "clean", "--fast", "--sigma", 15, options=[])
        assert result.exit_code == 0
        for name, model in (("a.png", "t10.denoise_color"), ("sub/b.jpg", "t8.denoise_gray")):
            expected = denoise(Image.open(f"photos/{name}"), 15 / 255, f"conv_fwnet_{model}_fast")
            assert np.abs(array(f"clean/{name}").astype(int) - np.asarray(expected)).mean() < 1
        refused = self.run("photos/a.png", "b.png", "--fast")
        assert refused.exit_code == 2
        assert refused.stderr == "Error: expected --fast or --model, got both\n"

    def test_a_network_for_one_noise_level(self, folder):
        DnCNN(2, 4).save("one.safetensors")
        options = ["--model", "one.safetensors"]
        result = self.run("photos", "clean", options=options)
        assert result.exit_code == 0
        assert "for the noise level of the network" in result.stdout
        result = self.run("photos", "other", "--sigma", 25, options=options)
        assert result.exit_code == 0
        assert (
            result.stderr
            == "Hint: this network has no input for the noise level: sigma is not used.\n"
        )

    def test_a_network_for_color_meets_a_gray_image(self, folder):
        ConvFWNet(1, 4, in_channels=3).save("color.safetensors")
        result = self.run("photos", "clean", options=["--model", "color.safetensors"])
        assert result.exit_code == 2
        error, summary = result.stderr.splitlines()
        assert error.startswith("Error: photos/sub/b.jpg: the network is for color images")
        assert summary == "1 written, 1 failed."
        assert Path("clean/a.png").exists()

    def test_transparency_is_not_touched(self, folder):
        image = Image.fromarray(data.chelsea()[:20, :30])
        image.putalpha(Image.fromarray(data.camera()[:20, :30]))
        image.save("a.png")
        assert self.run("a.png", "b.png").exit_code == 0
        assert np.array_equal(array("b.png")[..., 3], data.camera()[:20, :30])

    @pytest.mark.parametrize(
        ("picture", "options"),
        [(data.camera, OPTIONS), (data.chelsea, ("--device", "cpu"))],
        ids=["small", "shipped"],
    )
    def test_the_default_tile_changes_nothing(self, folder, picture, options):
        self.check_default_tile(picture, (*options, "--sigma", 20))
