import dataclasses

import pytest
import torch
from skimage.metrics import peak_signal_noise_ratio

from fwnet.experiments import Lab
from fwnet.experiments.denoising import DenoisingTraining
from fwnet.experiments.denoising_networks import conv_fwnet, fc_fwnet
from fwnet.experiments.image_job import figures_of, in_full_precision
from fwnet.experiments.small_images import small_files
from fwnet.experiments.super_resolution import UpscalingTraining
from fwnet.experiments.super_resolution_networks import OURS
from fwnet.models import ConvFWNet
from fwnet.training import TrainingConfig


def test_figures_are_means_over_images_of_any_size():
    pairs = [(torch.rand(1, 1, 12 + n, 11), torch.rand(1, 1, 12 + n, 11)) for n in range(3)]
    ratios = [
        peak_signal_noise_ratio(wanted.double().numpy(), ours.double().numpy(), data_range=1)
        for ours, wanted in pairs
    ]
    figures = figures_of(iter(pairs))
    assert figures["psnr"] == pytest.approx(sum(ratios) / 3)
    assert figures["psnr_by_image"] == pytest.approx(ratios, abs=6e-4)
    same = figures_of([(wanted, wanted) for _, wanted in pairs])
    assert same["ssim"] == pytest.approx(1)


@pytest.mark.parametrize("before", [True, False])
def test_precision_is_full_for_as_long_as_a_network_is_tested(before, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", before)

    def fail():
        assert not torch.backends.cudnn.allow_tf32
        raise KeyError

    with pytest.raises(KeyError), in_full_precision(ConvFWNet(1, 2)):
        fail()
    assert torch.backends.cudnn.allow_tf32 is before


def test_a_key_depends_on_every_field_and_on_the_kind_of_training():
    shared = {"data": "small", "model": "ConvFWNet", "options": {"num_layers": 2}}
    jobs = [
        DenoisingTraining(**shared, sigma=25),
        DenoisingTraining(**shared, sigma=[0, 25]),
        DenoisingTraining(**shared, sigma=25, color=True),
        UpscalingTraining(**shared),
        UpscalingTraining(**shared, smaller_copies=True),
        UpscalingTraining(**shared, parent="some"),
        UpscalingTraining(**{**shared, "options": {"num_layers": 3}}),
    ]
    assert len({job.key for job in jobs}) == len(jobs)
    assert dataclasses.replace(jobs[0]).key == jobs[0].key


@pytest.mark.parametrize("quick", [False, True])
def test_settings_are_ones_that_trainings_know(quick):
    lab = Lab(None, quick)
    jobs = [
        conv_fwnet(4).job(lab, 25, 1e-3, 3),
        OURS.job(lab, 1e-3, 3, data="t91", smaller_copies=quick),
    ]
    assert jobs[1].smaller_copies is quick
    jobs.append(fc_fwnet(4).job(lab, 25, 1e-3, 3, num_epochs=4))
    for job in jobs:
        config = TrainingConfig(**job.settings)
        assert (config.learning_rate, config.seed) == (1e-3, 3)
        steps = job.crops_per_epoch / config.batch_size
        assert (steps, config.compile) == ((10, False) if quick else (1000, job is not jobs[2]))
    assert jobs[2].settings["num_epochs"] == (1 if quick else 4)


def test_small_images_are_there_and_none_serves_twice():
    learn, test = small_files()
    assert all(path.is_file() for path in (*learn, *test))
    assert len({*learn, *test}) == len(learn) + len(test)
