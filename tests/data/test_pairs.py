"""Pairs of noisy and clean images: names, sizes and shifts."""

import numpy as np
import pytest
from PIL import Image
from skimage import data

from fwnet.data import DataError, estimate_shift, match_pairs, read_pair, read_pixels
from tests.trainings import save_noise


def make(folder, names):
    for name in names:
        save_noise(folder / name, 4, 4)
    return folder


def matched(tmp_path, noisy, clean, folders=("noisy", "clean")):
    """Names of pairs, and of files without a partner."""
    one, other = (make(tmp_path / part, n) for part, n in zip(folders, (noisy, clean), strict=True))
    pairs, alone = match_pairs(one, other)
    names = {
        str(theirs.relative_to(one)): str(ours.relative_to(other)) for ours, theirs in pairs.items()
    }
    return names, [path.name for path in alone]


class TestNames:
    @pytest.mark.parametrize(
        ("noisy", "clean"),
        [
            ("a.png", "a.png"),
            ("a.JPG", "a.tif"),
            ("below/a.png", "below/a.png"),
            ("a.b.png", "a.b.jpg"),
            ("a_noisy.png", "a_clean.png"),
            ("a_noisy.png", "a.png"),
            ("noisy.png", "clean.png"),
            ("cat_11_real.JPG", "cat_11_mean.JPG"),
            ("1_NOISY_SRGB_010.PNG", "1_GT_SRGB_010.PNG"),
            ("scene/NOISY-1.png", "scene/GT-1.png"),
            ("scene/noisy/1.png", "scene/clean/1.png"),
            ("real_madrid.png", "real_madrid.jpg"),
        ],
    )
    def test_a_pair(self, tmp_path, noisy, clean):
        assert matched(tmp_path, [noisy], [clean]) == ({noisy: clean}, [])

    @pytest.mark.parametrize(
        ("noisy", "clean"),
        [
            ("a.png", "b.png"),
            ("a/1.png", "b/1.png"),
            ("surreal.png", "surmean.png"),
            ("a_clean.png", "a_noisy.png"),
        ],
    )
    def test_no_pair(self, tmp_path, noisy, clean):
        with pytest.raises(DataError, match=r"of the same names, got .*noisy/.* and .*clean/.*for"):
            matched(tmp_path, [noisy], [clean])

    def test_both_in_one_folder(self, tmp_path):
        names = ["1_real.png", "1_mean.png", "2_real.png", "2_mean.png", "3_mean.png", "other.png"]
        pairs, alone = matched(tmp_path, names, [], ("both", "both"))
        assert pairs == {"1_real.png": "1_mean.png", "2_real.png": "2_mean.png"}
        assert alone == ["3_mean.png", "other.png"]

    def test_files_without_a_partner(self, tmp_path):
        noisy, clean = ["a.png", "b.png", "x/c.png"], ["a.png", "c.png", "d.png"]
        pairs, alone = matched(tmp_path, noisy, clean)
        assert pairs == {"a.png": "a.png"}
        assert alone == ["c.png", "d.png", "b.png", "c.png"]

    def test_equal_names_come_first_and_no_file_is_used_twice(self, tmp_path):
        pairs, alone = matched(tmp_path, ["a.png", "a_real.png"], ["a.png"])
        assert (pairs, alone) == ({"a.png": "a.png"}, ["a_real.png"])


def shifted(image, down, right, sigma=0.0, seed=0):
    """A copy with other pixels at its border, and smooth noise."""
    noise = np.random.default_rng(seed).standard_normal(image.shape)
    noise = sum(np.roll(noise, step, (0, 1)) for step in ((0, 0), (0, 1), (1, 0), (1, 1))) / 2
    return np.roll(image, (down, right), (0, 1)) + sigma * noise


class TestShifts:
    PICTURE = data.camera()[100:300, 150:370, None].astype(float)

    @pytest.mark.parametrize("sigma", [2, 10])
    @pytest.mark.parametrize("shift", [(0, 0), (0, 1), (-1, 0), (2, -3), (-9, 20)])
    def test_they_are_found(self, shift, sigma):
        assert estimate_shift(self.PICTURE, shifted(self.PICTURE, *shift, sigma)) == shift

    @pytest.mark.parametrize("shift", [(0, 0), (0, 1), (2, -3)])
    def test_in_small_images(self, shift):
        noisy = shifted(self.PICTURE, *shift, 5)
        assert estimate_shift(self.PICTURE[:81, :64], noisy[:81, :64]) == shift

    @pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
    def test_half_a_pixel_is_the_limit(self, share):
        between = (1 - share) * self.PICTURE + share * shifted(self.PICTURE, 0, 1)
        assert estimate_shift(self.PICTURE, between) == (0, round(share))

    @pytest.mark.parametrize("side", [48, 100, 600])
    @pytest.mark.parametrize("seed", range(5))
    def test_noise_on_a_flat_image_has_none(self, side, seed):
        y, x = np.mgrid[:side, :side] / 10
        flat = np.stack([100 + x, 90 + y, 80 + x], 2)
        assert estimate_shift(flat, shifted(flat, 0, 0, 20, seed)) == (0, 0)

    def test_the_middle_of_large_images_counts(self):
        large = np.tile(self.PICTURE, (4, 4, 1))
        moved = shifted(large, 3, 0)
        assert estimate_shift(large, moved) == (3, 0)
        moved[184:696, 184:696] = large[184:696, 184:696]
        assert estimate_shift(large, moved) == (0, 0)

    @pytest.mark.parametrize("shape", [(1, 1, 3), (2, 5, 1), (30, 40, 3)])
    def test_equal_and_constant_images_have_none(self, shape):
        same = np.random.default_rng(0).random(shape) * 255
        assert estimate_shift(same, same) == (0, 0)
        for level in (0, 77):
            assert estimate_shift(np.full(shape, 0.1 + level), np.full(shape, 3.3)) == (0, 0)


class TestReading:
    def save(self, path, pixels):
        Image.fromarray(pixels).save(path)
        return path

    def read(self, noisy, clean):
        return read_pair(noisy, clean, lambda path: read_pixels(path, color=True))

    def test_clean_channels_come_first(self, tmp_path):
        clean = data.astronaut()[:60, 100:150]
        noisy = np.minimum(clean, 250) + np.uint8(3)
        noisy_file = self.save(tmp_path / "n.png", noisy)
        pair = self.read(noisy_file, self.save(tmp_path / "c.png", clean))
        assert np.array_equal(pair, np.concatenate([clean, noisy], 2))

    def test_another_size(self, tmp_path):
        clean = self.save(tmp_path / "c.png", np.zeros((30, 20, 3), np.uint8))
        noisy = self.save(tmp_path / "n.png", np.zeros((20, 30, 3), np.uint8))
        message = f"{noisy} must have the size of {clean}, 20 × 30, got 30 × 20"
        with pytest.raises(DataError, match=message):
            self.read(noisy, clean)

    def test_a_shift(self, tmp_path):
        picture = data.astronaut()
        clean = self.save(tmp_path / "c.png", picture[100:200, 100:200])
        noisy = self.save(tmp_path / "n.png", picture[98:198, 101:201])
        message = rf"{noisy} seems shifted by \(2, -1\) pixels against {clean}"
        with pytest.raises(DataError, match=message):
            self.read(noisy, clean)
