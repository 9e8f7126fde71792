import imagecodecs
import numpy as np
import pytest
from PIL import Image

import fwnet
from fwnet.app.photos import JOBS, SIDE, look, open_photo, restore


@pytest.fixture
def photo(tmp_path):
    """A deep PNG with noise, larger than the part that is shown."""
    rows, columns = np.mgrid[:500, :620]
    clean = 0.5 + 0.3 * np.sin(rows / 20) * np.cos(columns / 30)
    noisy = clean + np.random.default_rng(0).normal(0, 0.1, clean.shape)
    path = tmp_path / "noisy.png"
    path.write_bytes(imagecodecs.png_encode((65535 * noisy.clip(0, 1)).astype(np.uint16)))
    return path


def test_strength_is_seen_in_the_middle(photo):
    opened = open_photo(photo)
    assert (opened.width, opened.height) == (620, 500)
    assert opened.sigma == pytest.approx(0.1, rel=0.1)
    before, weak = look(opened, "Clean", 0.3)
    _, strong = look(opened, "Clean", 1.0)
    assert before.size == strong.size == (SIDE, SIDE)
    grain = [np.diff(np.asarray(one, float)).std() for one in (before, weak, strong)]
    assert grain[0] > 1.1 * grain[1] > 1.2 * grain[2]
    _, same = look(opened, "Clean", 0.0)
    assert np.array_equal(before, same)


def test_the_part_shown_is_that_of_the_whole_result(photo, tmp_path):
    """… with the noise level of the whole, away from the border of the part."""
    opened = open_photo(photo)
    _, shown = look(opened, "Clean", 1.0)
    path, words = restore(opened, "Clean", 1.0, tmp_path)
    assert path.name == "noisy-clean.png"
    assert words.startswith("620 × 500")
    whole = imagecodecs.png_decode(path.read_bytes())
    assert whole.dtype == np.uint16
    part = whole[10 : 10 + SIDE, 70 : 70 + SIDE] / 257
    inner = (slice(70, -70), slice(70, -70))
    assert np.abs(part[inner] - np.asarray(shown)[inner]).max() <= 1


@pytest.mark.parametrize("job", list(JOBS)[1:])
def test_enlarging(job, tmp_path):
    pixels = fwnet.zoo.shipping.sample_image(3)[0].permute(1, 2, 0).mul(255).byte().numpy()
    image = Image.fromarray(pixels)
    exif = image.getexif()
    exif[274] = 6  # lies on its side
    image.crop((0, 0, 20, 24)).save(tmp_path / "small.jpg", exif=exif)
    opened = open_photo(tmp_path / "small.jpg")
    scale = JOBS[job]["scale"]
    before, after = look(opened, job, 1.0)
    assert before.size == after.size == (24 * scale, 20 * scale)  # upright
    path, _ = restore(opened, job, 1.0, tmp_path)
    assert path.name == f"small-{scale}x.jpg"
    with Image.open(path) as large:
        assert large.size == (20 * scale, 24 * scale)
        assert large.getexif()[274] == 6


def test_a_bad_file_is_told_in_a_line_without_its_folder(tmp_path):
    (tmp_path / "notes.png").write_text("not an image")
    with pytest.raises(ValueError, match=r"^notes\.png") as caught:
        open_photo(tmp_path / "notes.png")
    assert "\n" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
