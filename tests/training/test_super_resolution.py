"""Learning to enlarge images."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fwnet.data import DataError, ImageSet, read_luma_images, set5_files
from fwnet.models import SRCNN, VDSR, ConvFWNet
from fwnet.resize import enlarge, shrink
from fwnet.restoration import Upscaling
from fwnet.training import (
    TrainingRun,
    decibels,
    restoration_task,
    train,
)
from tests.real_data import DATA, needs
from tests.training.conformance import ALL, CONFIG, TaskConformance, same
from tests.trainings import upscaling

SEEN = pytest.mark.parametrize("low_resolution", [False, True])
FACTORS = (0.9, 0.8, 0.7, 0.6)


def noise(count=4, seed=0):
    """Images in which every square is found in one place alone."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(20, 30, (count, 2))
    arrays = [generator.integers(0, 256, (*size, 1), np.uint8) for size in sizes]
    return ImageSet.of(arrays, [f"noise {index}" for index in range(count)])


def waves(count=4, seed=0):
    """Images of which a network can learn more than bicubic enlargement knows."""
    generator = np.random.default_rng(seed)
    arrays = []
    for _ in range(count):
        y, x = np.mgrid[: generator.integers(24, 34), : generator.integers(24, 34)]
        angle, phase = generator.uniform(0, 7, 2)
        wave = np.sin(1.1 * (x * math.cos(angle) + y * math.sin(angle)) + phase)
        arrays.append((127 + 100 * wave).astype(np.uint8)[:, :, None])
    return ImageSet.of(arrays, [f"wave {index}" for index in range(count)])


def task(images=noise, *, validated=True, **options):
    defaults = {"scale": 3, "low_resolution": True, "crop_size": 12, "crops_per_epoch": 40}
    held = images(3, seed=1) if validated else None
    return upscaling(images(), held, **{**defaults, **options})


class TestUpscalingTask(TaskConformance):
    task = staticmethod(task)
    variants = ({"low_resolution": False}, {"low_resolution": True})
    networks = (lambda: seeded(ConvFWNet, 2, 4, scale=3),)


def whole(image, scale):
    return Upscaling(scale).usable(image)


def degraded(image, scale, low_resolution):
    restoration = Upscaling(scale, low_resolution)
    return restoration.seen(restoration.degrade(image)).to(image.dtype)


# The protocol, in NumPy and float64, by the definitions


def cubic(t):
    """Keys' kernel."""
    if t <= 1:
        return 1.5 * t**3 - 2.5 * t**2 + 1
    return -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2 if t < 2 else 0.0


def resizing(length, factor):
    """The matrix that resizes a line by s or 1/s, mirrored at its ends."""
    narrow = min(factor, 1.0)
    matrix = np.zeros((round(length * factor), length))
    for row, line in enumerate(matrix):
        middle = (row + 0.5) / factor - 0.5
        for place in range(math.floor(middle) - 25, math.floor(middle) + 26):
            mirrored = place % (2 * length)
            line[min(mirrored, 2 * length - 1 - mirrored)] += cubic(narrow * abs(place - middle))
    return matrix / matrix.sum(1, keepdims=True)


def resized(image, factor):
    return resizing(image.shape[0], factor) @ image @ resizing(image.shape[1], factor).T


def figure_by_hand(images, scale, low_resolution, model):
    """255·10^(−PSNR/20) of the mean PSNR, on the scale of gray levels."""
    values = []
    for index in range(len(images)):
        image = 255 * images[index][0, 0].double().numpy()
        height, width = (scale * (side // scale) for side in image.shape)
        image = image[:height, :width]
        small = resized(image, 1 / scale)
        y = model(small / 255 if low_resolution else resized(small, scale) / 255)
        y = np.rint(255 * y).clip(0, 255)
        inner = (slice(scale, -scale),) * 2
        values.append(10 * math.log10(255**2 / np.mean((y - image)[inner] ** 2)))
    return 255 * 10 ** (-sum(values) / len(values) / 20)


def blocks(x, scale):
    """A sub-pixel network: every pixel becomes s × s of them."""
    return x.repeat(scale, 0).repeat(scale, 1)


class TestDegradation:
    @given(st.integers(2, 5), st.integers(1, 17), st.integers(1, 17))
    def test_whole_images_are_the_largest_that_can_be_shrunk(self, scale, height, width):
        image = torch.rand(2, height, width)
        part = whole(image, scale)
        for length, kept in zip((height, width), part.shape[1:], strict=True):
            assert kept % scale == 0
            assert 0 <= length - kept < scale
        assert torch.equal(part, image[:, : part.shape[1], : part.shape[2]])

    @pytest.mark.parametrize("scale", [2, 3, 4])
    def test_it_is_bicubic_and_not_rounded(self, scale):
        image = torch.rand(1, 1, 5 * scale, 4 * scale)
        small, large = (degraded(image, scale, low) for low in (True, False))
        assert small.dtype == large.dtype == torch.float32
        exact = resized(image[0, 0].double().numpy(), 1 / scale)
        np.testing.assert_allclose(small[0, 0], exact, atol=1e-7)
        np.testing.assert_allclose(large[0, 0], resized(exact, scale), atol=1e-7)


class TestBatches:
    @SEEN
    @pytest.mark.parametrize("scale", [2, 3])
    def test_crops_of_degraded_images_with_those_of_the_images(self, scale, low_resolution):
        """Not degraded crops: near their border they would be others."""
        one = task(scale=scale, low_resolution=low_resolution)
        x, wanted = one.batch(0, ALL, replace(CONFIG, batch_size=40))
        factor = scale if low_resolution else 1
        assert wanted.shape == (40, 1, 12, 12)
        assert x.shape == (40, 1, 12 // factor, 12 // factor)
        places = set()
        for seen, crop in zip(x[:, 0], wanted[:, 0], strict=True):
            image, row, column, turn = find(crop, noise())
            assert row % factor == column % factor == 0
            places.add((image, row, column))
            small = shrink(whole(noise()[image].double(), scale), scale)
            large = (small if low_resolution else enlarge(small, scale))[0, 0]
            top, left, side = row // factor, column // factor, 12 // factor
            square = turn(large[top : top + side, left : left + side])
            torch.testing.assert_close(seen, square.float())
        assert {image for image, _, _ in places} == set(range(4))
        assert len(places) > 20

    @pytest.mark.parametrize(("scale", "low_resolution"), [(2, True), (3, False)])
    def test_crops_of_copies_as_well(self, scale, low_resolution):
        """… which are degraded as images of their own are: they are not degraded images' copies."""
        one = task(scale=scale, low_resolution=low_resolution, copies=True)
        images = noise().with_smaller_copies(FACTORS, 12)
        assert len(images) == 20
        x, wanted = one.batch(0, ALL, replace(CONFIG, batch_size=120))
        factor = scale if low_resolution else 1
        side, found = 12 // factor, []
        for seen, crop in zip(x[:, 0], wanted[:, 0], strict=True):
            image, row, column, turn = find(crop, images)
            found.append(image)
            large = whole(images[image], scale)
            assert row + 12 <= large.shape[2]
            assert column + 12 <= large.shape[3]
            top, left = row // factor, column // factor
            square = degraded(large, scale, low_resolution)[0, 0, top:, left:][:side, :side]
            torch.testing.assert_close(seen, turn(square))
        # All are equally likely, the smallest copies too.
        assert set(found) == set(range(20))
        assert max(map(found.count, found)) < 6 + 5 * math.sqrt(6)

    @SEEN
    @pytest.mark.parametrize("scale", [2, 3])
    def test_crops_that_begin_at_any_pixel(self, scale, low_resolution):
        """Each is what shrinking the image from there on gives, with what is around the crop."""
        side = 3 * scale
        large = {"scale": scale, "low_resolution": low_resolution, "crop_size": side}
        generator = np.random.default_rng(0)
        arrays = [generator.integers(0, 256, (38, 43, 1), np.uint8) for _ in range(3)]
        images = ImageSet.of(arrays, ["a", "b", "c"])
        one = upscaling(images, **large, shifts=True)
        assert one.degraded_images is None
        x, wanted = one.batch(0, ALL, replace(CONFIG, batch_size=60))
        factor = scale if low_resolution else 1
        assert wanted.shape == (60, 1, side, side)
        assert x.shape == (60, 1, side // factor, side // factor)
        starts = set()
        for seen, crop in zip(x[:, 0], wanted[:, 0], strict=True):
            image, row, column, turn = find(crop, images)
            begin = row % scale, column % scale
            starts.add(begin)
            shifted = whole(images[image][..., begin[0] :, begin[1] :].double(), scale)
            small = shrink(shifted, scale)
            shown = (small if low_resolution else enlarge(small, scale))[0, 0]
            top, left = row - begin[0], column - begin[1]
            square = shown[top // factor :, left // factor :][: side // factor, : side // factor]
            torch.testing.assert_close(seen, turn(square).float())
        assert len(starts) == scale**2

    def test_images_too_small_for_what_is_around_a_crop(self):
        images = ImageSet.of([np.zeros((23, 40, 1), np.uint8)], ["low"])
        options = {"scale": 3, "low_resolution": True, "crop_size": 12}
        with pytest.raises(DataError, match="at least 24 × 24 pixels, the size of a crop"):
            upscaling(images, **options, shifts=True)
        assert len(upscaling(images, **options).images) == 1


TURNS = [
    lambda x, flip=flip, quarter=quarter: (x.T if flip else x).rot90(quarter)
    for flip in (False, True)
    for quarter in range(4)
]


def find(crop, images):
    """The image, the place and the symmetry that a crop comes from."""
    for index in range(len(images)):
        windows = images[index][0, 0].unfold(0, len(crop), 1).unfold(1, len(crop), 1)
        for turn in TURNS:
            # The symmetries are a group: some other one leads back.
            there = (windows == turn(crop)).flatten(2).all(2).nonzero().tolist()
            for row, column in there:
                (back,) = [turn for turn in TURNS if torch.equal(turn(windows[row, column]), crop)]
                return index, row, column, back
    raise AssertionError("not a square of the images")


class TestSmallerCopies:
    OPTIONS = {"scale": 3, "low_resolution": True, "crop_size": 12}

    def test_small_images_have_fewer(self):
        """Only those that a crop can be cut out of: of the smallest images none."""
        lengths = {12: 0, 13: 1, 14: 1, 16: 2, 18: 3, 20: 4, 40: 4}
        arrays = [np.zeros((length, 50, 1), np.uint8) for length in lengths]
        images = ImageSet.of(arrays, [str(length) for length in lengths])
        one = upscaling(images, **self.OPTIONS, copies=True)
        expected = [
            f"{length} × {factor}"
            for index, factor in enumerate(FACTORS)
            for length, count in lengths.items()
            if index < count
        ]
        assert one.images.names == (*map(str, lengths), *expected)
        assert one.degraded_images.names == one.images.names
        assert (one.images.sizes % 3 == 0).all()
        assert torch.equal(one.images.sizes, 3 * one.degraded_images.sizes)
        assert one.images.sizes.min() == 12

    @SEEN
    def test_it_learns_what_a_set_that_has_them_teaches(self, low_resolution):
        options = {**self.OPTIONS, "low_resolution": low_resolution}
        one = upscaling(noise(), **options, copies=True)
        same_set = noise().with_smaller_copies(FACTORS, 12)
        other = upscaling(same_set, **options)
        assert one.images.names == same_set.names
        assert one.fingerprint() == other.fingerprint()
        assert same(one.batch(3, ALL, CONFIG), other.batch(3, ALL, CONFIG))

    def test_they_are_asked_for(self):
        one = task()
        assert one.images.names == noise().names
        assert one.fingerprint() == task(copies=False).fingerprint()
        assert not same(one.batch(0, ALL, CONFIG), task(copies=True).batch(0, ALL, CONFIG))

    def test_nothing_is_validated_with_them(self):
        one, other = task(), task(copies=True)
        assert other.validation.digest() == one.validation.digest()
        assert other.validate_baseline() == one.validate_baseline()

    def test_images_must_be_as_large_as_a_crop_all_the_same(self):
        message = r"noise 0 must have at least 30 × 30 pixels, the size of a crop, got \d+ × \d+"
        with pytest.raises(DataError, match=message):
            task(crop_size=30, copies=True)


def test_the_loss_is_the_mean_squared_error():
    x, wanted = torch.rand(2, 1, 4, 4), torch.rand(2, 1, 4, 4)
    loss = task().loss(lambda x: (2 * x).bfloat16(), x, wanted)
    assert loss.dtype == torch.float32
    expected = ((2 * x).bfloat16().double() - wanted).square().mean().item()
    assert loss.item() == pytest.approx(expected, rel=1e-5)


class TestValidation:
    @pytest.mark.parametrize(("make", "scale"), [(noise, 2), (waves, 3)])
    def test_it_is_the_protocol(self, make, scale):
        images = make(3, seed=1)
        one = task(make, scale=scale, low_resolution=False)
        found = one.validate(lambda x: 1.3 * x - 0.1)
        expected = figure_by_hand(images, scale, False, lambda x: 1.3 * x - 0.1)
        assert found == pytest.approx(expected, rel=1e-4)
        assert one.shown.text(found) == f"{decibels(expected):.4g} dB"

        one = task(make, scale=scale, low_resolution=True)
        found = one.validate(lambda x: x.repeat_interleave(scale, 2).repeat_interleave(scale, 3))
        expected = figure_by_hand(images, scale, True, lambda x: blocks(x, scale))
        assert found == pytest.approx(expected, rel=1e-4)

    @SEEN
    def test_bicubic_is_what_there_is_to_improve(self, low_resolution):
        one = task(low_resolution=low_resolution)
        expected = figure_by_hand(one.validation, 3, False, lambda x: x)
        assert one.validate_baseline() == pytest.approx(expected, rel=1e-4)
        asked = (lambda x: enlarge(x, 3)) if low_resolution else (lambda x: x)
        assert one.validate(asked) == pytest.approx(expected, rel=1e-4)

    def test_of_large_images_the_middle_is_looked_at(self, monkeypatch):
        monkeypatch.setattr(restoration_task, "VALIDATED_SIDE", 17)
        one, shapes = task(), []

        def model(x):
            shapes.append(tuple(x.shape))
            return enlarge(x, 3)

        found = one.validate(model)
        assert shapes == [(1, 1, 5, 5)] * 3
        middles = one.validation.middles(17)
        assert found == pytest.approx(figure_by_hand(middles, 3, False, lambda x: x), rel=1e-4)

    def test_perfect_is_zero(self):
        gray = ImageSet.of([np.full((12, 15, 1), 77, np.uint8)], ["gray"])
        one = upscaling(gray, gray, scale=3, low_resolution=False, crop_size=9)
        assert one.validate_baseline() == 0
        assert one.shown.text(0.0) == "inf dB"

    @needs("set5")
    @pytest.mark.parametrize(("scale", "figure"), [(2, 33.66), (3, 30.39), (4, 28.42)])
    def test_bicubic_has_the_published_figures(self, monkeypatch, scale, figure):
        monkeypatch.setattr(restoration_task, "VALIDATED_SIDE", 10_000)
        images = read_luma_images(set5_files(DATA))
        one = upscaling(noise(), images, scale=scale, low_resolution=True, crop_size=12)
        assert decibels(one.validate_baseline()) == pytest.approx(figure, abs=0.006)


class TestCompressed:
    """Learning from small images that were saved as JPEG."""

    def test_crops_are_compressed_anew_at_every_step_and_by_step_and_seed_alone(self):
        plain, learned = task(), task(jpeg_quality=30)
        for step in (0, 5):
            (seen, clean), (small, wanted) = (
                one.batch(step, ALL, CONFIG) for one in (learned, plain)
            )
            assert torch.equal(clean, wanted)
            levels = 255 * (255 * seen - 16) / 219  # of the file, before Y was computed
            torch.testing.assert_close(levels, levels.round(), rtol=0, atol=1e-3)
            error = (seen - small).square().mean((1, 2, 3)).sqrt()
            assert (error > 0).all()
            assert error.max() < 0.2
            assert torch.equal(seen, learned.batch(step, ALL, CONFIG)[0])

    def test_qualities_and_places_of_blocks_differ(self, monkeypatch):
        seen = []
        monkeypatch.setattr(
            "fwnet.restoration.upscaling.jpeg",
            lambda x, quality, corner: seen.append((quality, corner)) or x,
        )
        learned = task(jpeg_quality=95)
        for step in range(60):
            learned.batch(step, ALL, CONFIG)
        assert {int(one) for quality, _ in seen for one in quality} == set(range(95, 101))
        assert len({corner for _, corner in seen}) > 30

    def test_it_is_validated_at_qualities_that_it_learns(self):
        image = noise()[0]
        for quality, count in ((30, 3), (60, 2), (90, 1)):
            restoration = Upscaling(3, jpeg_quality=quality)
            assert len(list(restoration.examples(image, 0))) == count
        low, high = (task(waves, jpeg_quality=quality) for quality in (30, 90))
        assert low.validate_baseline() > high.validate_baseline()

    def test_facts_are_kept_and_a_run_is_not_continued_at_another_quality(self):
        assert "jpeg_quality" not in Upscaling(3).facts
        assert Upscaling(3, jpeg_quality=40).facts["jpeg_quality"] == 40
        assert task(jpeg_quality=40).fingerprint() != task(jpeg_quality=41).fingerprint()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"jpeg_quality": 0}, "jpeg_quality must be an integer >= 1, got 0"),
            ({"jpeg_quality": 101}, "jpeg_quality must be from 1 to 100, got 101"),
            ({"jpeg_quality": 50, "low_resolution": False}, "that see the small image"),
        ],
    )
    def test_bad_ones(self, options, message):
        with pytest.raises(ValueError, match=message):
            Upscaling(3, **options)


class TestErrors:
    @pytest.mark.parametrize("scale", [1, 0, -2, 2.0, None])
    def test_scales(self, scale):
        with pytest.raises(ValueError, match=f"scale must be an integer >= 2, got {scale}"):
            task(scale=scale)

    def test_crops_that_are_not_shrunk_to_whole_pixels(self):
        message = "crop_size must be a multiple of the scale, 3, and at least 9, got 10"
        for low_resolution in (True, False):
            with pytest.raises(ValueError, match=message):
                task(crop_size=10, low_resolution=low_resolution)

    def test_color(self):
        color = ImageSet.of([np.zeros((20, 20, 3), np.uint8)], ["color"])
        options = {"scale": 2, "low_resolution": True, "crop_size": 6}
        for pair in ((color, None), (noise(), color)):
            with pytest.raises(ValueError, match="images must have 1 channels, got 3"):
                upscaling(*pair, **options)

    def test_images_too_small_to_learn_from(self):
        message = r"noise 0 must have at least 30 × 30 pixels, the size of a crop, got \d+ × \d+"
        with pytest.raises(DataError, match=message):
            task(crop_size=30)

    def test_images_too_small_to_validate_with(self):
        """Of a picture that is two scales high nothing is left without its border."""
        options = {"scale": 4, "low_resolution": True, "crop_size": 12}
        message = r"x must have at least 12 × 12 pixels, three times the scale, got 30 × 11"
        with pytest.raises(DataError, match=message):
            upscaling(noise(), ImageSet.of([np.zeros((11, 30, 1), np.uint8)], ["x"]), **options)
        least = ImageSet.of([np.zeros((12, 12, 1), np.uint8)], ["x"])
        assert upscaling(noise(), least, **options).validate_baseline() == 0

    @given(st.integers(2, 5), st.integers(3, 5), st.integers(0, 9), st.integers(0, 9))
    @settings(max_examples=12)
    def test_what_is_large_enough_for_a_crop_stays_so(self, scale, times, more_high, more_wide):
        """Though images, and copies of them, are cut to multiples of the scale."""
        size = times * scale
        array = np.random.default_rng(0).integers(
            0, 256, (size + more_high, size + more_wide, 1), np.uint8
        )
        images = ImageSet.of([array], ["x"])
        for low_resolution, copies in product((True, False), repeat=2):
            options = {"low_resolution": low_resolution, "copies": copies}
            one = upscaling(images, scale=scale, crop_size=size, **options)
            assert one.images.sizes.min() >= size
            x, wanted = one.batch(0, ALL, CONFIG)
            assert x.isfinite().all()
            assert wanted.shape == (4, 1, size, size)


def test_fingerprints_tell_trainings_apart():
    options = {"scale": 3, "low_resolution": True, "crop_size": 12, "crops_per_epoch": 40}
    tasks = [
        task(),
        task(scale=2),
        task(low_resolution=False),
        task(crop_size=9),
        task(crops_per_epoch=44),
        task(copies=True),
        upscaling(noise(), **options),
        upscaling(noise(seed=3), noise(3, seed=1), **options),
        upscaling(noise(), noise(3, seed=4), **options),
    ]
    assert len({one.fingerprint() for one in tasks}) == len(tasks)
    assert task().fingerprint() == tasks[0].fingerprint()
    square = noise().middles(18)  # of which every scale leaves all pixels
    prints = {upscaling(square, **{**options, "scale": s}).fingerprint() for s in (2, 3)}
    assert len(prints) == 2


def seeded(kind, *arguments, **options):
    return kind(*arguments, **options, generator=torch.Generator().manual_seed(0))


class TestTraining:
    @pytest.mark.parametrize(
        "make",
        [
            lambda: seeded(ConvFWNet, 2, 8, scale=2, output_gain=0.1),
            lambda: seeded(VDSR, 3, 8, output_gain=0.1),
        ],
    )
    def test_networks_become_better_than_bicubic(self, make):
        model = make()
        one = task(waves, scale=2, low_resolution=model.scale > 1, crops_per_epoch=400)
        result = train(model, one, replace(CONFIG, average=0.98))
        bicubic = one.validate_baseline()
        assert decibels(result.history[-1]["validation"]) > decibels(bicubic) + 1

    def test_what_does_not_begin_as_the_enlarged_image_learns_too(self):
        model = seeded(SRCNN, (5, 1, 3), (8, 4))
        one = task(waves, scale=2, low_resolution=False, crops_per_epoch=400)
        first, last = (record["loss"] for record in train(model, one, CONFIG).history)
        assert last < first / 2

    def test_a_run_is_not_continued_for_another_scale(self, tmp_path):
        model = seeded(ConvFWNet, 2, 4)
        train(model, task(low_resolution=False), CONFIG, TrainingRun(folder=tmp_path))
        with pytest.raises(ValueError, match="was started with"):
            train(
                seeded(ConvFWNet, 2, 4),
                task(low_resolution=False, scale=2),
                CONFIG,
                TrainingRun(folder=tmp_path, resume=True),
            )
