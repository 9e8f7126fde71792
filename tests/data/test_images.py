import math
import random
import warnings
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image
from skimage.data import chelsea
from torch.nn.functional import avg_pool2d

from fwnet.data import (
    DataError,
    ImageSet,
    image_files,
    noisy,
    read_images,
    read_luma,
    read_luma_images,
    read_pixels,
    to_gray,
    to_luma,
)
from fwnet.data.images import GRAY_UNIT, GRAY_WEIGHTS


def numbered(sizes):
    """Images whose colors count the pixels of all of them: every pixel says where it is from."""
    arrays, start = [], 0
    for height, width in sizes:
        number = start + np.arange(height * width).reshape(height, width)
        colors = np.stack([number >> 16, number >> 8 & 255, number & 255], -1)
        arrays.append(colors.astype(np.uint8))
        start += height * width
    return ImageSet.of(arrays, [f"image {index}" for index in range(len(arrays))])


def numbers(images):
    """What the colors count, (batch, height, width)."""
    parts = (images * 255).round().long()
    return (parts[:, 0] << 16 | parts[:, 1] << 8 | parts[:, 2]).numpy()


def symmetries(square):
    """The eight of a square."""
    return [turn for flip in (square, square.T) for turn in map(np.rot90, [flip] * 4, range(4))]


def find(crop, grids):
    """The image, the place and the symmetry that a crop has, all of it, or None."""
    size = len(crop)
    for index, grid in enumerate(grids):
        if grid.min() <= crop.min() <= grid.max():
            rows, columns = np.nonzero(grid == crop.min())
            square = grid[rows[0] : rows[0] + size, columns[0] : columns[0] + size]
            for symmetry, turned in enumerate(symmetries(square)):
                if np.array_equal(turned, crop):
                    return index, rows[0], columns[0], symmetry
    return None


sides = st.integers(5, 13)
seeds = st.integers(0, 2**30)


@given(
    st.lists(st.tuples(sides, sides), min_size=1, max_size=4),
    st.integers(1, 5),
    seeds,
)
def test_crops_are_squares_of_the_images_under_the_symmetries(sizes, size, seed):
    images = numbered(sizes)
    crops = images.crops(20, size, torch.Generator().manual_seed(seed))
    assert crops.shape == (20, 3, size, size)
    assert crops.dtype == torch.float32
    grids = [numbers(images[index])[0] for index in range(len(images))]
    for crop in numbers(crops):
        assert find(crop, grids) is not None


def test_all_images_places_and_symmetries_are_equally_likely():
    sizes, size, count = [(4, 5), (3, 3), (5, 3)], 3, 6_000
    images = numbered(sizes)
    grids = [numbers(images[index])[0] for index in range(3)]
    found = [find(crop, grids) for crop in numbers(images.crops(count, size, torch.Generator()))]
    for index, (height, width) in enumerate(sizes):
        cells = list(product(range(height - 2), range(width - 2), range(8)))
        expected = count / 3 / len(cells)
        for cell in cells:
            times = found.count((index, *cell))
            assert abs(times - expected) < 5 * math.sqrt(expected), (index, cell, times)


def test_crops_depend_on_the_generator_alone():
    images = numbered([(8, 9), (7, 6)])
    one, same, other = (
        images.crops(6, 4, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@given(st.lists(st.tuples(sides, sides), min_size=1, max_size=4), st.integers(1, 5), seeds)
def test_squares_say_where_crops_are(sizes, size, seed):
    images = numbered(sizes)
    squares = images.draw_squares(20, size, torch.Generator().manual_seed(seed))
    crops = images.cut(squares)
    assert torch.equal(crops, images.crops(20, size, torch.Generator().manual_seed(seed)))
    plain = numbers(images.cut(replace(squares, symmetries=torch.zeros(20, dtype=torch.long))))
    places = zip(squares.images, squares.rows, squares.columns, strict=True)
    for crop, square, (image, row, column) in zip(numbers(crops), plain, places, strict=True):
        grid = numbers(images[image])[0]
        np.testing.assert_array_equal(square, grid[row : row + size, column : column + size])
        assert any(np.array_equal(turned, crop) for turned in symmetries(square))


@given(
    st.lists(st.tuples(sides, sides), min_size=1, max_size=3),
    st.integers(1, 5),
    st.integers(1, 4),
    seeds,
)
def test_crops_of_enlarged_images_line_up(sizes, size, scale, seed):
    """Under all eight symmetries: a crop that is enlarged is the crop of what was enlarged."""
    small = numbered(sizes)
    arrays = [small[i][0].permute(1, 2, 0).numpy() * 255 for i in range(len(small))]
    large = ImageSet.of([a.repeat(scale, 0).repeat(scale, 1) for a in arrays], small.names)
    squares = small.draw_squares(16, size, torch.Generator().manual_seed(seed))
    squares = replace(squares, symmetries=torch.arange(16) % 8)
    crops = small.cut(squares)
    wanted = crops.repeat_interleave(scale, 2).repeat_interleave(scale, 3)
    assert squares.enlarged(scale).size == scale * size
    torch.testing.assert_close(large.cut(squares.enlarged(scale)), wanted)


@given(
    st.lists(st.tuples(sides, sides), min_size=1, max_size=3),
    st.integers(1, 5),
    st.integers(2, 4),
    seeds,
)
def test_crops_of_means_are_means_of_crops(sizes, size, scale, seed):
    """… of float pixels, as degraded images have them: here every pixel of the crop counts."""
    large = numbered([(scale * height, scale * width) for height, width in sizes])
    means = [avg_pool2d(255 * large[i], scale)[0] for i in range(len(large))]
    small = ImageSet.of([mean.permute(1, 2, 0).numpy() for mean in means], large.names)
    squares = small.draw_squares(16, size, torch.Generator().manual_seed(seed))
    squares = replace(squares, symmetries=torch.arange(16) % 8)
    wanted = avg_pool2d(large.cut(squares.enlarged(scale)), scale)
    torch.testing.assert_close(small.cut(squares), wanted, rtol=1e-5, atol=1e-6)


def test_float_pixels_are_held_as_they_are():
    generator = np.random.default_rng(0)
    arrays = [generator.normal(100, 90, (*size, 1)).astype(np.float32) for size in ((5, 7), (6, 4))]
    images = ImageSet.of(arrays, ["a", "b"])
    for index, array in enumerate(arrays):
        for kept in (images, images.select([1, 0]).select([1, 0]), images.middles(9)):
            pixels = kept[index][0].permute(1, 2, 0)
            assert pixels.dtype == torch.float32
            assert torch.equal(pixels, torch.from_numpy(array) / 255)
    rounded = ImageSet(images.pixels.round(), images.sizes, images.names)
    assert rounded.digest() != images.digest()


@given(st.lists(st.tuples(sides, sides), min_size=1, max_size=3), st.integers(1, 14))
def test_the_middle_of_every_image(sizes, side):
    images = numbered(sizes)
    middles = images.middles(side)
    assert middles.names == images.names
    assert middles.sizes.tolist() == [[min(side, length) for length in size] for size in sizes]
    for index, size in enumerate(sizes):
        grid, middle = (numbers(one[index])[0] for one in (images, middles))
        before = np.argwhere(grid == middle[0, 0])[0]
        after = size - before - middle.shape
        assert set(after - before) <= {0, 1}
        np.testing.assert_array_equal(
            grid[before[0] : size[0] - after[0], before[1] : size[1] - after[1]], middle
        )


# Copies, in NumPy and float64, by the definition


def keys(t):
    """Keys' cubic kernel."""
    t = np.abs(t)
    near, far = 1.5 * t**3 - 2.5 * t**2 + 1, -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2
    return np.where(t <= 1, near, np.where(t < 2, far, 0.0))


def shrinking(length, fewer):
    """The matrix from a line to a shorter one: a kernel as wide, cut off at the line's ends."""
    factor = fewer / length
    middles = (np.arange(fewer) + 0.5) / factor - 0.5
    weights = keys(factor * (np.arange(length) - middles[:, None]))
    return weights / weights.sum(1, keepdims=True)


def copied(array, height, width):
    """An image (height, width, channel) at another size, neither rounded nor clipped."""
    rows, columns = shrinking(len(array), height), shrinking(array.shape[1], width)
    return np.einsum("ij,jkc,lk->ilc", rows, array.astype(float), columns)


def gray_levels(images, index):
    """One image of a set as it would be in a file: (height, width, channel)."""
    return (255 * images[index][0]).round().byte().permute(1, 2, 0).numpy()


class TestSmallerCopies:
    FACTORS = (0.9, 0.8, 0.7, 0.6)

    @given(
        st.lists(st.tuples(sides, sides), min_size=1, max_size=4),
        st.lists(st.floats(0.3, 0.99), max_size=4, unique=True),
        st.integers(2, 14),
    )
    def test_the_images_come_first_and_copies_after_them_by_factor(self, sizes, factors, least):
        images = numbered(sizes)
        expected = []
        for factor, (name, size) in product(factors, zip(images.names, sizes, strict=True)):
            exact = [factor * length for length in size]
            assume(all(abs(length % 1 - 0.5) > 1e-9 for length in exact))  # halves go either way
            if min(nearest := [math.floor(length + 0.5) for length in exact]) >= least:
                expected.append((f"{name} × {factor:g}", nearest))
        more = images.with_smaller_copies(factors, least)
        # Bit by bit what they were.
        assert more.select(range(len(images))).digest() == images.digest()
        assert more.names[: len(images)] == images.names
        found = list(zip(more.names, more.sizes.tolist(), strict=True))
        assert found[len(images) :] == expected
        assert (more.pixels.dtype, more.channels) == (torch.uint8, 3)
        assert len(more.pixels) == more.sizes.prod(1).sum()

    def test_their_sizes_and_names(self):
        images = numbered([(10, 20), (30, 11)])
        more = images.with_smaller_copies((0.9, 0.6), 7)
        assert more.sizes.tolist() == [[10, 20], [30, 11], [9, 18], [27, 10], [18, 7]]
        names = ("image 0 × 0.9", "image 1 × 0.9", "image 1 × 0.6")  # 6 × 12 is not high enough
        assert more.names == ("image 0", "image 1", *names)

    @given(
        st.lists(st.tuples(sides, sides), min_size=1, max_size=2),
        st.sampled_from([1, 3]),
        st.sampled_from([2, 256]),
        seeds,
    )
    def test_they_are_bicubic_and_rounded(self, sizes, channels, levels, seed):
        """Of noise, so that every pixel counts; of black and white some would leave the range."""
        generator = np.random.default_rng(seed)
        step = 255 // (levels - 1)
        arrays = [
            (step * generator.integers(0, levels, (*size, channels))).astype(np.uint8)
            for size in sizes
        ]
        images = ImageSet.of(arrays, [str(index) for index in range(len(arrays))])
        more = images.with_smaller_copies(self.FACTORS, 1)
        assert len(more) == 5 * len(arrays)
        for index in range(len(arrays), len(more)):
            array = arrays[index % len(arrays)]
            exact = copied(array, *more.sizes[index].tolist()).clip(0, 255)
            copy = gray_levels(more, index)
            assert copy.shape == exact.shape
            assert abs(copy - exact).max() < 0.5 + 1e-4

    def test_values_beyond_the_range_are_cut_off(self):
        """… and do not come round to the other end of 8 bits."""
        edge = np.zeros((20, 20, 1), np.uint8)
        edge[:, 8:] = 255
        more = ImageSet.of([edge], ["edge"]).with_smaller_copies((0.7,), 1)
        exact = copied(edge, 14, 14)
        assert exact.min() < -5
        assert exact.max() > 260
        copy = gray_levels(more, 1)
        assert (copy[exact <= 0] == 0).all()
        assert (copy[exact >= 255] == 255).all()

    def test_they_are_what_pillow_makes(self):
        """In float32 and rounded once: in 8 bits it rounds between rows and columns as well."""
        array = np.random.default_rng(0).integers(0, 256, (31, 45, 1), np.uint8)
        more = ImageSet.of([array], ["noise"]).with_smaller_copies((*self.FACTORS, 0.37), 1)
        for index in range(1, 6):
            height, width = more.sizes[index].tolist()
            picture = Image.fromarray(array[:, :, 0].astype(np.float32))
            theirs = np.array(picture.resize((width, height), Image.Resampling.BICUBIC))
            ours = gray_levels(more, index)[:, :, 0]
            assert abs(ours - theirs.clip(0, 255)).max() < 0.5 + 1e-3

    def test_of_a_photo_they_are_what_pillow_makes_in_8_bits(self):
        array = chelsea()[100:200, 120:240]
        more = ImageSet.of([array], ["chelsea"]).with_smaller_copies(self.FACTORS, 48)
        assert more.sizes.tolist() == [[100, 120], [90, 108], [80, 96], [70, 84], [60, 72]]
        for index in range(1, 5):
            height, width = more.sizes[index].tolist()
            picture = Image.fromarray(array).resize((width, height), Image.Resampling.BICUBIC)
            difference = abs(gray_levels(more, index).astype(int) - np.asarray(picture))
            assert difference.max() <= 1
            assert difference.mean() < 0.25

    @given(st.lists(st.integers(0, 255), min_size=3, max_size=3), sides, sides)
    def test_constants_stay(self, color, height, width):
        image = np.full((height, width, 3), color, np.uint8)
        more = ImageSet.of([image], ["flat"]).with_smaller_copies(self.FACTORS, 1)
        assert len(more) == 5
        assert more.pixels.unique(dim=0).tolist() == [color]

    @pytest.mark.parametrize("axis", [0, 1])
    def test_ramps_stay(self, axis):
        """A pixel of a copy is where its middle is: half a pixel aside would be 2 levels."""
        ramp = np.arange(20, 200, 4, dtype=np.uint8)
        array = np.tile(ramp[:, None, None], (1, 30, 1))
        images = ImageSet.of([array if axis == 0 else array.swapaxes(0, 1)], ["ramp"])
        more = images.with_smaller_copies(self.FACTORS, 1)
        for index in range(1, 5):
            copy = gray_levels(more, index)[:, :, 0].swapaxes(0, axis)
            place = (np.arange(len(copy)) + 0.5) * len(ramp) / len(copy) - 0.5
            inner = slice(3, -3)  # at its ends a ramp is cut off
            assert abs(copy - (20 + 4 * place)[:, None])[inner].max() < 0.65

    def test_without_copies_the_set_is_as_it_was(self):
        images = numbered([(9, 12), (8, 7)])
        for factors, least in (((), 1), (self.FACTORS, 12)):
            more = images.with_smaller_copies(factors, least)
            assert more.names == images.names
            assert more.digest() == images.digest()


def test_an_image_is_what_was_given():
    generator = np.random.default_rng(0)
    arrays = [generator.integers(0, 256, (*size, 1), np.uint8) for size in ((5, 7), (6, 4))]
    images = ImageSet.of(arrays, ["a", "b"])
    assert (len(images), images.channels, images.names) == (2, 1, ("a", "b"))
    assert images.sizes.tolist() == [[5, 7], [6, 4]]
    for index, array in enumerate(arrays):
        image = images[index]
        assert image.shape == (1, 1, *array.shape[:2])
        assert image.dtype == torch.float32
        np.testing.assert_array_equal((255 * image[0, 0]).round().numpy(), array[:, :, 0])
    assert torch.equal(images.to(torch.device("cpu"))[1], images[1])


@given(st.integers(2, 40), st.data())
def test_a_split_has_every_image_once(count, data):
    images = numbered([(2, 2 + index % 3) for index in range(count)])
    num_held = data.draw(st.integers(1, count - 1))
    learn, held = images.split(num_held)
    assert len(held) == num_held
    assert len(learn) == count - num_held
    assert sorted(learn.names + held.names) == sorted(images.names)
    order = {name: index for index, name in enumerate(images.names)}
    for part in (learn, held):
        places = [order[name] for name in part.names]
        assert places == sorted(places)
        for index, place in enumerate(places):
            assert torch.equal(part[index], images[place])
    # Spread evenly: no stretch is without one.
    places = [-1, *(order[name] for name in held.names), count]
    assert max(np.diff(places)) <= count / num_held + 1


@pytest.mark.parametrize("count", [0, 3, 4, -1])
def test_bad_splits(count):
    with pytest.raises(DataError, match=f"cannot hold out {count} of 3 images"):
        numbered([(2, 2)] * 3).split(count)


def test_a_digest_tells_images_apart():
    images = numbered([(4, 6), (3, 5)])
    turned = ImageSet(images.pixels, torch.tensor([[6, 4], [3, 5]]), images.names)
    changed = images.pixels.clone()
    changed[11, 1] += 1
    others = [
        images.select([1, 0]),
        images.select([0]),
        turned,
        ImageSet(changed, images.sizes, images.names),
        ImageSet(images.pixels[:, :1].contiguous(), images.sizes, images.names),
    ]
    digests = {one.digest() for one in (images, *others)}
    assert len(digests) == 6
    assert images.select([0, 1]).digest() == images.digest()
    renamed = ImageSet(images.pixels, images.sizes, ("x", "y"))
    assert renamed.digest() == images.digest()


def test_images_must_be_as_large_as_a_crop():
    images = numbered([(9, 9), (4, 8)])
    images.check_sides(4, "the size of a crop")
    message = r"image 1 must have at least 5 × 5 pixels, the size of a crop, got 8 × 4"
    with pytest.raises(DataError, match=message):
        images.check_sides(5, "the size of a crop")
    with pytest.raises(DataError, match="expected at least one image, got none"):
        ImageSet.of([], [])


class TestNoise:
    def test_it_is_the_same_for_an_index(self):
        one, other = torch.rand(1, 3, 20, 30), torch.zeros(1, 3, 20, 30)
        noise = noisy(other, 0.1, 5)
        torch.rand(3)
        torch.testing.assert_close(noisy(one, 0.1, 5) - one, noise, atol=1e-6, rtol=0)
        torch.testing.assert_close(noisy(other, 0.2, 5), 2 * noise)
        assert not torch.allclose(noisy(other, 0.1, 6), noise)

    def test_it_is_normal_and_not_clipped(self):
        noise = noisy(torch.zeros(1, 1, 300, 300), 0.2, 0)
        assert abs(noise.mean().item()) < 4 * 0.2 / 300
        assert noise.std().item() == pytest.approx(0.2, rel=0.01)
        kurtosis = (noise / noise.std()).pow(4).mean().item()
        assert kurtosis == pytest.approx(3, abs=0.1)
        assert noise.min() < 0


class TestGray:
    def test_it_is_the_formula_in_exact_arithmetic(self):
        generator = random.Random(0)
        colors = [[generator.randrange(256) for _ in range(3)] for _ in range(3000)]
        colors += [[level] * 3 for level in range(256)]
        gray = to_gray(np.array(colors, np.uint8)[:, None])
        assert gray.shape == (3256, 1, 1)
        assert gray.dtype == np.uint8
        weights = [Decimal(weight) / GRAY_UNIT for weight in GRAY_WEIGHTS]
        for color, value in zip(colors, gray.ravel().tolist(), strict=True):
            exact = sum((w * c for w, c in zip(weights, color, strict=True)), Decimal(0))
            assert value == int(exact.quantize(Decimal(1), ROUND_HALF_UP))

    def test_the_weights_are_those_of_rgb2gray(self):
        exact = (0.298936021293775, 0.587043074451121, 0.114020904255103)
        assert [w / GRAY_UNIT for w in GRAY_WEIGHTS] == pytest.approx(exact, abs=1e-9)
        assert sum(GRAY_WEIGHTS) == GRAY_UNIT  # white stays white


class TestLuma:
    def test_it_is_the_formula_in_exact_arithmetic(self):
        generator = random.Random(0)
        colors = [[generator.randrange(256) for _ in range(3)] for _ in range(3000)]
        colors += [[level] * 3 for level in range(256)]
        # 299·R + 587·G + 114·B = 127,500, with which Y is 125.5.
        halves = [(r, g, 127_500 - 299 * r - 587 * g) for r, g in product(range(256), repeat=2)]
        colors += [[r, g, b // 114] for r, g, b in halves if b % 114 == 0 and 0 <= b // 114 < 256]
        assert len(colors) > 3300
        luma = to_luma(np.array(colors, np.uint8)[:, None])
        assert luma.shape == (len(colors), 1, 1)
        assert luma.dtype == np.uint8
        weights = [Decimal("65.481"), Decimal("128.553"), Decimal("24.966")]
        for color, value in zip(colors, luma.ravel().tolist(), strict=True):
            exact = 16 + sum((w * c for w, c in zip(weights, color, strict=True)), Decimal(0)) / 255
            assert value == int(exact.quantize(Decimal(1), ROUND_HALF_UP))

    def test_black_white_and_the_primaries(self):
        """The table of ITU-R BT.601."""
        colors = [(0, 0, 0), (255, 255, 255), (255, 0, 0), (0, 255, 0), (0, 0, 255)]
        luma = to_luma(np.array([colors], np.uint8))
        assert luma[0, :, 0].tolist() == [16, 235, 81, 145, 41]

    @pytest.mark.parametrize("mode", ["1", "L", "LA"])
    def test_gray_files_are_taken_as_they_are(self, tmp_path, mode):
        pixels = np.random.default_rng(0).integers(0, 256, (7, 9), np.uint8)
        picture = Image.fromarray(pixels).convert(mode)
        picture.save(tmp_path / "x.png")
        luma = read_luma(tmp_path / "x.png")
        np.testing.assert_array_equal(luma[:, :, 0], np.asarray(picture.convert("L")))
        assert luma.max() > 235

    @pytest.mark.parametrize("mode", ["P", "RGB", "RGBA"])
    @pytest.mark.parametrize("channels", [1, 3])
    def test_files_of_colors_are_converted_even_if_all_are_gray(self, tmp_path, mode, channels):
        pixels = np.random.default_rng(0).integers(0, 256, (7, 9, channels), np.uint8)
        picture = Image.fromarray(pixels.repeat(3 // channels, axis=2)).convert(mode)
        picture.save(tmp_path / "x.png")
        colors = np.asarray(picture.convert("RGB"))
        luma = read_luma(tmp_path / "x.png")
        assert luma.shape == (7, 9, 1)
        np.testing.assert_array_equal(luma, to_luma(colors))
        assert 16 <= luma.min() < luma.max() <= 235

    def test_a_set_of_both(self, tmp_path):
        generator = np.random.default_rng(0)
        arrays = [generator.integers(0, 256, shape, np.uint8) for shape in ((5, 6, 3), (8, 4))]
        files = [tmp_path / f"{name}.png" for name in "ab"]
        for array, path in zip(arrays, files, strict=True):
            Image.fromarray(array).save(path)
        images = read_luma_images(files)
        assert (images.channels, images.sizes.tolist()) == (1, [[5, 6], [8, 4]])
        assert images.names == tuple(map(str, files))
        np.testing.assert_array_equal((255 * images[1][0, 0]).round().numpy(), arrays[1])
        np.testing.assert_array_equal(
            (255 * images[0][0, 0]).round().numpy(), to_luma(arrays[0])[:, :, 0]
        )

    def test_files_that_cannot_be_read(self, tmp_path):
        with pytest.raises(DataError, match=r"none\.png cannot be read as an image"):
            read_luma(tmp_path / "none.png")


@pytest.mark.parametrize(
    "read", [read_luma, lambda path: read_pixels(path, True), lambda path: read_pixels(path, False)]
)
def test_more_than_8_bits_are_refused(tmp_path, read):
    deep = np.random.default_rng(0).integers(0, 2**16, (7, 9), np.uint16)
    Image.fromarray(deep).save(tmp_path / "x.png")
    Image.fromarray(deep.astype(np.float32)).save(tmp_path / "x.tif")
    for name in ("x.png", "x.tif"):
        with pytest.raises(DataError, match=f"{name} has more than 8 bits per channel"):
            read(tmp_path / name)


class TestFiles:
    def test_all_files_below_a_folder_by_name(self, tmp_path):
        skipped = ("notes.txt", "a/x.npy", ".h.png", "a/._c.JPG", ".cache/e.png")
        for name in ("b.png", "a/c.JPG", "a/b/d.tiff", "z.webp", *skipped):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        found = [path.relative_to(tmp_path).as_posix() for path in image_files(tmp_path)]
        assert found == ["a/b/d.tiff", "a/c.JPG", "b.png", "z.webp"]

    def test_no_folder_and_no_images(self, tmp_path):
        with pytest.raises(DataError, match=r"expected a folder of images, got .*nowhere"):
            image_files(tmp_path / "nowhere")
        (tmp_path / "notes.txt").touch()
        with pytest.raises(DataError, match=r"expected images \(.bmp, .*\) in .*, got none"):
            image_files(tmp_path)

    @pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
    def test_pictures_of_all_modes(self, tmp_path, mode):
        pixels = np.random.default_rng(0).integers(0, 256, (7, 9, 3), np.uint8)
        picture = Image.fromarray(pixels).convert(mode)
        picture.save(tmp_path / "x.png")
        color = read_pixels(tmp_path / "x.png", color=True)
        np.testing.assert_array_equal(color, np.asarray(picture.convert("RGB")))
        gray = read_pixels(tmp_path / "x.png", color=False)
        np.testing.assert_array_equal(gray, to_gray(color))
        if mode == "L":  # gray stays what it was
            np.testing.assert_array_equal(gray[:, :, 0], np.asarray(picture))

    def test_a_set_from_files(self, tmp_path):
        generator = np.random.default_rng(0)
        for name, size in (("a", (5, 6)), ("b", (8, 4))):
            pixels = generator.integers(0, 256, (*size, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / f"{name}.png")
        files = image_files(tmp_path)
        for color in (False, True):
            images = read_images(files, color)
            assert images.channels == (3 if color else 1)
            assert images.sizes.tolist() == [[5, 6], [8, 4]]
            assert images.names == tuple(map(str, files))

    @pytest.mark.parametrize("content", [b"", b"words", b"\x89PNG\r\n\x1a\n half of it", None])
    def test_what_is_no_image_is_told_in_one_line(self, tmp_path, content):
        path = tmp_path / "x.png"
        if content is None:  # cut short
            Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8)).save(
                path
            )
            content = path.read_bytes()[:1500]
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"x.png cannot be read as an image: ") as caught:
            read_images([path])
        assert "\n" not in str(caught.value)

    def test_no_file_and_a_folder(self, tmp_path):
        (tmp_path / "folder.png").mkdir()
        for name in ("none.png", "folder.png"):
            with pytest.raises(DataError, match=f"{name} cannot be read as an image"):
                read_pixels(tmp_path / name, color=False)

    def test_a_picture_too_large_to_be_true(self, tmp_path, monkeypatch):
        Image.new("L", (40, 40)).save(tmp_path / "x.png")
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
        with pytest.raises(DataError, match="cannot be read as an image: Image size"):
            read_pixels(tmp_path / "x.png", color=False)

    def test_a_large_picture_is_read_without_a_word(self, tmp_path, monkeypatch):
        Image.new("L", (40, 40)).save(tmp_path / "x.png")
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # an error is from twice that on
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            assert read_pixels(tmp_path / "x.png", color=False).shape == (40, 40, 1)
        assert heard == []
