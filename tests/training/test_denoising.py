"""Learning to remove noise, and batch normalization beside a running mean of the weights."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from fwnet.data import ImageSet, noisy
from fwnet.models import ConvFWNet, DnCNN
from fwnet.training import (
    RestorationTask,
    TrainingRun,
    decibels,
    restoration_task,
    steps,
    train,
)
from fwnet.training.steps import estimate_norms
from tests.training.conformance import ALL, CONFIG, TaskConformance
from tests.trainings import denoising as denoising_task


def images(count=5, channels=1, seed=0):
    """Waves of several sizes."""
    generator = np.random.default_rng(seed)
    arrays = []
    for _ in range(count):
        height, width = generator.integers(20, 30, 2)
        y, x = np.mgrid[:height, :width]
        waves = [
            127 + 100 * np.sin(generator.normal(0, 0.3) * x + generator.normal(0, 0.3) * y)
            for _ in range(channels)
        ]
        arrays.append(np.stack(waves, -1).astype(np.uint8))
    return ImageSet.of(arrays, [f"wave {index}" for index in range(count)])


def task(*, validated=True, **options):
    options = {"sigma": 0.1, "crop_size": 12, "crops_per_epoch": 40, **options}
    return denoising_task(images(), images(3, seed=1) if validated else None, **options)


class TestDenoisingTask(TaskConformance):
    task = staticmethod(task)
    variants = ({}, {"sigma": (0.0, 0.3)})
    networks = (
        lambda: normalizing(),
        lambda: ConvFWNet(2, 4, generator=torch.Generator().manual_seed(0)),
    )


class TestBatches:
    def test_crops_are_those_of_the_images(self):
        x, clean, sigma = task().batch(0, ALL, replace(CONFIG, batch_size=9))
        assert x.shape == clean.shape == (9, 1, 12, 12)
        assert sigma.shape == (9,)
        levels = (255 * clean).round()
        torch.testing.assert_close(levels / 255, clean)
        assert set(levels.unique().tolist()) <= set(images().pixels.unique().tolist())

    def test_noise_is_never_that_of_tests(self):
        for step in range(3):
            x, clean, _ = task().batch(step, ALL, replace(CONFIG, seed=0))
            tested = noisy(clean, 0.1, step) - clean
            assert (x - clean - tested).abs().max() > 0.05

    def test_noise_has_its_sigma(self):
        config = replace(CONFIG, batch_size=300)
        for sigma in (0.1, (0.1, 0.1)):
            x, clean, told = task(sigma=sigma).batch(0, ALL, config)
            noise = x - clean
            assert told.unique().tolist() == pytest.approx([0.1])
            assert noise.std().item() == pytest.approx(0.1, rel=0.02)
            assert abs(noise.mean().item()) < 0.003
        assert (x < 0).any() or (x > 1).any()  # not clipped

    def test_sigma_is_drawn_from_an_interval(self):
        x, clean, sigma = task(sigma=(0.05, 0.2)).batch(1, ALL, replace(CONFIG, batch_size=400))
        assert 0.05 <= sigma.min() < 0.06
        assert 0.19 < sigma.max() <= 0.2
        assert sigma.mean().item() == pytest.approx(0.125, rel=0.05)
        relative = (x - clean) / sigma[:, None, None, None]
        assert relative.std().item() == pytest.approx(1, rel=0.02)
        # … one an image, not one a batch
        spread = (x - clean).flatten(1).std(1)
        assert np.corrcoef(spread, sigma)[0, 1] > 0.98


class TestLoss:
    def test_by_hand(self):
        clean = torch.tensor([0.5, 0.25]).reshape(2, 1, 1, 1).expand(2, 1, 2, 2)
        x = clean + torch.tensor([[0.1, -0.1], [0.2, 0.0]])
        sigma = torch.tensor([0.1, 0.0])
        # Squared errors of twice the noise: mean of 4·(0.01, 0.01, 0.04, 0) is 0.06.
        loss = task().loss(lambda x: 2 * x - clean, x, clean, sigma)
        assert loss.item() == pytest.approx((0.06 / 0.1 + 0.06 * 255) / 2, rel=1e-5)

    def test_the_network_is_told_sigma_or_not(self):
        seen = []

        def model(x, *others):
            seen.append(others)
            return x

        for told in (False, True):
            denoising = task(tell_sigma=told)
            batch = denoising.batch(0, ALL, CONFIG)
            denoising.loss(model, *batch)
        assert seen[0] == ()
        assert torch.equal(seen[1][0], batch[2])


class TestValidation:
    def by_hand(self, held, sigmas, gain=0.9):
        values = []
        for index in range(len(held)):
            clean = held[index].double()
            for sigma in sigmas:
                y = (gain * noisy(clean.float(), sigma, index)).double().clamp(0, 1)
                values.append(-10 * math.log10((y - clean).square().mean().item()))
        return sum(values) / len(values)

    def test_it_is_the_mean_psnr(self):
        denoising = task()
        found = denoising.validate(lambda x: 0.9 * x)
        expected = self.by_hand(denoising.validation, [0.1])
        assert decibels(found) == pytest.approx(expected, abs=1e-5)
        assert denoising.shown.text(found) == f"{expected:.4g} dB"

    def test_noisy_images_are_what_there_is_to_improve(self):
        denoising = task()
        noise = denoising.validate_baseline()
        assert noise == denoising.validate(lambda x: x)
        assert decibels(noise) == pytest.approx(20, abs=0.5)  # of σ = 0.1
        assert task(tell_sigma=True).validate_baseline() == noise

    @pytest.mark.parametrize(
        ("interval", "levels"),
        [
            ((0.0, 55.0), [15, 25, 50]),
            ((15.0, 30.0), [15, 25]),
            ((2.0, 12.0), [7]),
            ((60.0, 80.0), [70]),
            ((30.0, 30.0), [30]),
        ],
    )
    def test_levels_are_those_of_the_interval(self, interval, levels):
        low, high = interval
        denoising = task(sigma=(low / 255, high / 255), tell_sigma=True)
        told = []

        def model(x, sigma):
            told.append(sigma)
            return 0.9 * x

        found = decibels(denoising.validate(model))
        expected = self.by_hand(denoising.validation, [level / 255 for level in levels])
        assert found == pytest.approx(expected, abs=1e-5)
        assert [255 * sigma for sigma in told] == pytest.approx(levels * 3)

    def test_of_large_images_the_middle_is_looked_at(self, monkeypatch):
        monkeypatch.setattr(restoration_task, "VALIDATED_SIDE", 7)
        shapes, one = [], task()

        def model(x):
            shapes.append(tuple(x.shape))
            return 0.9 * x

        found = decibels(one.validate(model))
        assert shapes == [(1, 1, 7, 7)] * 3
        assert found == pytest.approx(self.by_hand(one.validation.middles(7), [0.1]), abs=1e-5)

    def test_decibels(self):
        assert decibels(25.5) == pytest.approx(20)
        assert decibels(255) == 0
        assert decibels(0.0) == math.inf


class TestErrors:
    @pytest.mark.parametrize(
        "sigma", [0.0, 25.0, -0.1, (0.2, 0.1), (0.0, 0.0), (0.1, 25), math.nan]
    )
    def test_sigma(self, sigma):
        with pytest.raises(ValueError, match=r"sigma must be in \(0, 1\].*25 is sigma=25/255"):
            task(sigma=sigma)

    def test_crops_larger_than_images(self):
        with pytest.raises(ValueError, match="must have at least 50 × 50 pixels"):
            task(crop_size=50)


def test_fingerprints_tell_trainings_apart():
    tasks = [
        task(),
        task(sigma=0.2),
        task(sigma=(0.1, 0.2)),
        task(tell_sigma=True),
        task(crop_size=10),
        task(crops_per_epoch=44),
        denoising_task(images(), sigma=0.1, crop_size=12, crops_per_epoch=40),
        denoising_task(
            images(seed=3), images(3, seed=1), sigma=0.1, crop_size=12, crops_per_epoch=40
        ),
    ]
    assert len({one.fingerprint() for one in tasks}) == len(tasks)
    assert task().fingerprint() == tasks[0].fingerprint()


def normalizing(seed=0):
    return DnCNN(4, 3, generator=torch.Generator().manual_seed(seed))


def statistics_of_batches(model, denoising, steps, config=CONFIG):
    """Of every norm, the mean of means and (unbiased) variances of what goes into it."""
    inputs = [[] for _ in model.norms]
    model = copy.deepcopy(model).train()
    for index, norm in enumerate(model.norms):
        norm.register_forward_pre_hook(lambda _, args, index=index: inputs[index].append(args[0]))
    with torch.no_grad():
        for step in steps:
            model(denoising.batch(step, ALL, config)[0])
    return [
        (
            torch.stack([x.mean((0, 2, 3)) for x in seen]).mean(0),
            torch.stack([x.transpose(0, 1).flatten(1).var(1) for x in seen]).mean(0),
        )
        for seen in inputs
    ]


def assert_statistics(model, expected):
    for norm, (mean, variance) in zip(model.norms, expected, strict=True):
        torch.testing.assert_close(norm.running_mean, mean, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(norm.running_var, variance, rtol=1e-4, atol=1e-6)


class TestNorms:
    def test_statistics_are_those_of_the_latest_batches(self, monkeypatch):
        monkeypatch.setattr(steps, "NUM_BATCHES", 6)
        denoising, model = task(), normalizing()
        for step, batches in ((4, range(4)), (20, range(14, 20))):
            for norm in model.norms:
                norm.running_mean.fill_(9)
            estimate_norms(model, denoising, CONFIG, step, ALL)
            assert_statistics(model, statistics_of_batches(model, denoising, batches))

    @pytest.mark.parametrize("training", [False, True])
    def test_all_else_stays(self, training):
        model = normalizing().train(training)
        before = {name: weight.clone() for name, weight in model.named_parameters()}
        estimate_norms(model, task(), CONFIG, 3, ALL)
        assert model.training is training
        assert all(norm.momentum == 0.1 for norm in model.norms)
        for name, weight in model.named_parameters():
            assert torch.equal(weight, before[name])
            assert weight.grad is None

    def test_a_network_without_norms_costs_nothing(self):
        class NoBatch(RestorationTask):
            def batch(self, *arguments):
                raise AssertionError

        plain = DnCNN(3, 2, batch_norm=False)
        task = denoising_task(images(), sigma=0.1, crop_size=5, kind=NoBatch)
        estimate_norms(plain, task, CONFIG, 3, ALL)


class TestTraining:
    def test_what_is_kept_is_the_mean_with_its_norms(self):
        model, denoising = normalizing(), task(crops_per_epoch=400)
        result = train(model, denoising, CONFIG)
        assert_statistics(model, statistics_of_batches(model, denoising, range(168, 200)))
        with torch.no_grad():
            assert denoising.validate(model) == result.history[-1]["validation"]
        first, last = (record["validation"] for record in result.history)
        assert last < first
        assert last < denoising.validate_baseline()

    def test_the_best_epoch_has_norms_of_its_own(self):
        class Worse(RestorationTask):
            num_figures = 0

            def validate(self, model):
                type(self).num_figures += 1
                if type(self).num_figures == 1:
                    self.seen.append({k: v.clone() for k, v in model.state_dict().items()})
                return float(type(self).num_figures)

        Worse.seen = []
        options = {"sigma": 0.1, "crop_size": 12, "crops_per_epoch": 40}
        denoising = denoising_task(images(), images(2), kind=Worse, **options)
        model = normalizing()
        result = train(model, denoising, CONFIG, keep_best=True)
        assert result.best_epoch == 1
        for name, value in model.state_dict().items():
            assert torch.equal(value, Worse.seen[0][name]), name
        assert_statistics(model, statistics_of_batches(model, denoising, range(10)))

    def test_a_network_learns_all_levels(self):
        generator = torch.Generator().manual_seed(0)
        model = ConvFWNet(2, 8, noise_level_input=True, generator=generator)
        denoising = task(sigma=(0.0, 0.3), tell_sigma=True, crops_per_epoch=400)
        train(model, denoising, CONFIG)
        with torch.no_grad():
            assert (
                decibels(denoising.validate(model)) > decibels(denoising.validate_baseline()) + 0.5
            )

    def test_color(self):
        generator = torch.Generator().manual_seed(0)
        model = ConvFWNet(2, 8, in_channels=3, generator=generator)
        denoising = denoising_task(images(4, 3), images(2, 3), sigma=0.2, crop_size=9)
        denoising.crops_per_epoch = 40
        result = train(model, denoising, CONFIG)
        assert result.history[-1]["validation"] < denoising.validate_baseline()

    def test_a_run_is_not_continued_as_another(self, tmp_path):
        train(normalizing(), task(), CONFIG, TrainingRun(folder=tmp_path), identity={"sigma": 25.0})
        with pytest.raises(ValueError, match=r"was started with sigma 25.0, got sigma 50.0: cont"):
            train(
                normalizing(),
                task(sigma=0.2),
                CONFIG,
                TrainingRun(folder=tmp_path, resume=True),
                identity={"sigma": 50.0},
            )
