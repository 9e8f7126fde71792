"""Networks on images, for denoising and for super-resolution."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from fwnet.data import ImageSet
from fwnet.experiments import (
    EXPERIMENTS,
    Lab,
    Result,
    denoise_depth,
    denoise_table,
    denoising,
    image_training,
    upscale_trials,
)
from fwnet.experiments.denoise_shipped import shipped_tests
from fwnet.experiments.image_study import PSNR, QUICK_SETTINGS, SSIM, add_figures
from fwnet.experiments.image_training import (
    ImageTraining,
    figures_by_set,
    images_to_test,
    learning_images,
    network_tests,
    patch_atoms,
)
from fwnet.experiments.patches import PatchDenoiser
from fwnet.experiments.study import Measured
from fwnet.experiments.super_resolution import DEEP, FULL_STEPS, NO_SKIP, OURS, RELU
from fwnet.experiments.upscale_exponent import FIXED
from fwnet.experiments.upscale_table import CASES, Bicubic
from fwnet.experiments.upscale_trials import tried_jobs
from fwnet.hardware import full_precision
from fwnet.models import VDSR, ConvFWNet, create_model, load_model
from fwnet.resize import enlarge, shrink
from fwnet.restoration import Denoising
from fwnet.training import DivergedError, TrainingConfig
from fwnet.zoo import list_models
from fwnet.zoo import load_model as load_shipped
from tests.experiments.fake_runner import FakeRunner
from tests.real_data import DATA, needs

CPU = torch.device("cpu")
UPSCALING = {case.name: case for case in (*CASES, NO_SKIP, FULL_STEPS, RELU, DEEP, *FIXED)}
DENOISING = {case.name: case for case in (*denoise_table.CASES, *denoise_depth.CASES)}
ALL = [*UPSCALING.values(), *DENOISING.values()]


# Cases


def steps(job):
    return job.settings["num_epochs"] * job.crops_per_epoch // job.settings["batch_size"]


def test_networks_of_a_table_share_their_budget():
    for cases, wanted in ((UPSCALING, {20_000}), (DENOISING, {10_000, 5_000})):
        jobs = [case.job(Lab(None), {"learning_rate": 1e-3}, 1) for case in cases.values()]
        assert {steps(job) for job in jobs} == wanted
        assert len({job.key for job in jobs}) == len(jobs)
        for job in jobs:
            assert steps(job) == (5_000 if "num_atoms" in job.options else max(wanted))
            assert TrainingConfig(**job.settings).seed == 1
            assert "compile" in job.settings


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_settings_are_those_of_the_recipe(case):
    ours = case.settings(Lab(None), 1e-3, 1, None)
    if "num_atoms" in case.options:
        assert (ours["num_epochs"], ours["batch_size"], ours["compile"]) == (5, 4096, False)
        return
    few = {"channels": [2, 2] if case.model == "SRCNN" else 2}
    network = create_model(case.model, **{**case.options, **few})
    theirs = case.recipe.settings(network, CPU, 20_000)
    assert all(ours[name] == theirs[name] for name in theirs if name not in CHANGED)
    quick = case.settings(Lab(None, quick=True), 1e-3, 0, None)
    assert QUICK_SETTINGS.items() <= quick.items()
    assert "seed" not in quick


CHANGED = ("learning_rate", "precision")


@pytest.mark.parametrize(
    ("name", "clip_norm"),
    [
        ("SRCNN (9-1-5)", 0.1),
        ("VDSR (5 layers)", 0.003),
        ("VDSR (5 layers) + BN", 0.01),
        ("Conv F-W Net (4 layers), authors' form", 0.01),
    ],
)
def test_gradients_are_clipped_by_network(name, clip_norm):
    assert UPSCALING[name].settings(Lab(None), 1e-3, 0, None)["clip_norm"] == clip_norm


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_learning_rates_are_chosen_by_short_trainings_that_are_not_tested(case):
    runner = FakeRunner(lambda job: {"validation": 30.0})
    family = case.family or case
    assert case.search_key == {"method": family.name}
    assert family.model == case.model
    case.search(Lab(runner))
    for job in runner.asked:
        assert steps(job) <= 5_000
        assert job.settings["num_epochs"] <= 5
        assert "seed" not in job.settings
        assert not job.tested


def test_seeds_of_denoising():
    case = denoising.conv_fwnet(4)
    assert case.seeds(Lab(None)) == (1, 2, 3)
    assert dataclasses.replace(case, task={"sigma": 50}).seeds(Lab(None)) == (1,)
    assert denoising.conv_fwnet(16).seeds(Lab(None)) == (1,)


def test_a_key_depends_on_the_task_and_on_every_field():
    job = tiny()
    jobs = [
        job,
        tiny(task={"sigma": 50}),
        tiny(task={"scale": 25}),
        tiny(smaller_copies=True),
        tiny(tested=False),
    ]
    assert len({job.key for job in jobs}) == len(jobs)


# Trainings

TASKS = [{"sigma": 25}, {"scale": 3}]


def tiny(**changes):
    job = ImageTraining(
        task={"sigma": 25},
        data="small",
        model="ConvFWNet",
        options={"num_layers": 2, "channels": 4},
        settings={"num_epochs": 1, "batch_size": 4, "weight_decay": 0.0},
        crop_size=12,
        crops_per_epoch=8,
        tested=True,
    )
    return dataclasses.replace(job, **changes)


@pytest.mark.parametrize("task", TASKS)
def test_a_training_keeps_its_weights(task, tmp_path):
    job = tiny(task=task)
    record = job.execute_in(tmp_path, CPU)
    kept = load_model(tmp_path / job.key / "model.safetensors")
    assert record["tests"] == network_tests(kept, task, "small", CPU)
    assert record["num_parameters"] == kept.num_parameters
    assert record["watched"]["p"] == pytest.approx(kept.p.item())


def test_a_network_on_patches_is_kept(tmp_path):
    options = {"num_layers": 2, "num_atoms": 12}
    job = tiny(model="FWNet", options=options, start="ksvd", crop_size=3)
    job.execute_in(tmp_path, CPU)
    assert isinstance(load_model(tmp_path / job.key / "model.safetensors"), PatchDenoiser)
    torch.testing.assert_close(job.network().state_dict(), job.network().state_dict())


@pytest.mark.parametrize("task", TASKS)
def test_a_network_that_chooses_settings_does_not_see_test_images(task, monkeypatch):
    def refuse(*_):
        raise AssertionError("test images were read")

    monkeypatch.setattr(image_training, "images_to_test", refuse)
    record = tiny(task=task, tested=False).execute(CPU)
    assert record["tests"] == []
    assert record["validation"] == record["validation_by_epoch"][-1]


@pytest.mark.parametrize("task", TASKS)
def test_training_that_diverges_is_a_record(task):
    wild = {"num_epochs": 3, "batch_size": 4, "learning_rate": 1e30, "optimizer": "sgd"}
    record = tiny(task=task, settings=wild).execute(CPU)
    assert record["validation"] is None
    assert record["diverged"]


@pytest.mark.parametrize("start", ["random atoms", "pca", "ksvd"])
def test_atoms_to_start_from_have_norm_1(start):
    atoms = patch_atoms("small", start, 3, 16)
    assert atoms.shape == (9, 16)
    torch.testing.assert_close(atoms.norm(dim=0), torch.ones(16))


@pytest.mark.parametrize("luma", [False, True])
def test_images_of_one_purpose_serve_no_other(luma):
    learned, held = learning_images("small", luma)
    names = [*learned.names, *held.names, *images_to_test("small", luma)["small"].names]
    assert len(names) == len(set(names)) == 6


@needs("t91", "set5", "set14", "bsds500")
def test_no_file_is_both_learned_from_and_tested(monkeypatch):
    monkeypatch.setenv("FWNET_DATA", str(DATA))
    learn, held = learning_images("t91+berkeley199", luma=True)
    sets = [learn, held, *images_to_test("t91", luma=True).values()]
    assert [len(one) for one in sets] == [91 + 199, 12, 5, 14]
    contents = [{one[index].numpy().tobytes() for index in range(len(one))} for one in sets]
    assert not any(one & other for one, other in itertools.combinations(contents, 2))


# Figures


def uneven(scale):
    generator = np.random.default_rng(0)
    sides = [(10 * scale + index, 9 * scale + 2 * index) for index in range(2)]
    arrays = [generator.integers(0, 256, (*side, 1), np.uint8) for side in sides]
    return ImageSet.of(arrays, ["0", "1"])


def by_hand(images, scale, restore):
    """The protocol of super-resolution on arrays of 8 bits, by scikit-image."""
    ratios, similarities = [], []
    for index in range(len(images)):
        pixels = (255 * images[index][0, 0]).round().numpy().astype(np.uint8)
        height, width = (side // scale * scale for side in pixels.shape)
        wanted = pixels[:height, :width]
        unit = torch.from_numpy(wanted / 255)[None, None]
        ours = np.rint(255 * restore(shrink(unit, scale))[0, 0].numpy()).clip(0, 255)
        inner = (slice(scale, height - scale), slice(scale, width - scale))
        pair = wanted[inner], ours.astype(np.uint8)[inner]
        ratios.append(peak_signal_noise_ratio(*pair))
        window = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
        similarities.append(structural_similarity(*pair, **window))
    return np.mean(ratios), np.mean(similarities)


@pytest.mark.parametrize("scale", [2, 3])
@pytest.mark.parametrize("sub_pixel", [False, True])
def test_figures_of_enlarged_images_are_those_of_the_protocol(scale, sub_pixel, monkeypatch):
    network = ConvFWNet(2, 4, scale=scale) if sub_pixel else VDSR(3, 4)

    def restore(small):
        with torch.no_grad():
            return network((small if sub_pixel else enlarge(small, scale)).float())

    images = uneven(scale)
    monkeypatch.setattr(image_training, "images_to_test", lambda *_: {"uneven": images})
    (record,) = network_tests(network, {"scale": scale}, "small", CPU)
    ratio, similarity = by_hand(images, scale, restore)
    assert record["psnr"] == pytest.approx(ratio, abs=1e-3)
    assert record["ssim"] == pytest.approx(similarity, abs=1e-4)


def test_figures_of_denoised_images_are_those_of_the_noise():
    """A method that changes nothing leaves noise of σ."""
    gray = ImageSet.of([np.full((96, 96, 1), 128, np.uint8)], ["gray"])
    (record,) = figures_by_set(Denoising(25 / 255), {"": gray}, lambda example: example.degraded)
    assert record["psnr"] == pytest.approx(20 * np.log10(255 / 25), abs=0.2)


def test_bicubic_enlargement():
    (test,) = Bicubic("small", 2).execute(CPU)["tests"]
    ratio, _ = by_hand(
        images_to_test("small", luma=True)["small"], 2, lambda small: enlarge(small, 2)
    )
    assert test["images"] == "small"
    assert test["psnr"] == pytest.approx(ratio, abs=1e-3)


@needs("set5", "set14")
def test_bicubic_enlargement_has_its_published_figures(monkeypatch):
    monkeypatch.setenv("FWNET_DATA", str(DATA))
    tests = Bicubic("t91", 3).execute(CPU)["tests"]
    figures = {test["images"]: round(test["psnr"], 2) for test in tests}
    assert figures == {"Set5": 30.39, "Set14": 27.54}


def test_precision_is_full_while_a_network_is_tested(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)

    def fail():
        assert not torch.backends.cudnn.allow_tf32
        raise KeyError

    with pytest.raises(KeyError), full_precision():
        fail()
    assert torch.backends.cudnn.allow_tf32


# Rows


def record(psnrs, p=None, **changes):
    tests = [
        {"images": name, "psnr": value, "ssim": value / 100}
        for name, value in zip(("Set5", "Set14"), psnrs, strict=False)
    ]
    done = {"validation": 31.0, "seconds": 2.0, "hardware": "here"}
    counts = {"num_parameters": 7, "multiply_adds": 5}
    return {"tests": tests, "watched": {} if p is None else {"p": p}, **counts, **done, **changes}


def test_rows_are_means_over_seeds():
    result = Result("x", "", "", "")
    records = [record([30.0, 28.0], p=1.2), record([31.0, 28.5], p=1.4)]
    add_figures(result, Measured(OURS, {}, records), {OURS.name: {"Set5": 30.0}})
    assert [(row.setting["images"], row.quantity) for row in result.rows] == [
        ("Set5", PSNR),
        ("Set5", SSIM),
        ("Set14", PSNR),
        ("Set14", SSIM),
        ("Set5", "learned p"),
    ]
    first, similarity, other, _, exponent = result.rows
    assert (first.mean, first.values, first.paper) == (30.5, [30.0, 31.0], 30.0)
    assert similarity.mean == pytest.approx(0.305)
    assert exponent.mean == pytest.approx(1.3)
    assert (other.mean, other.paper) == (28.25, None)
    assert (first.num_parameters, first.seconds, first.hardware) == (7, 2.0, "here")
    assert result.details == {OURS.name: {"num_parameters": 7, "multiply_adds": 5}}


@pytest.mark.parametrize(("case", "p"), [(FIXED[0], 1.3), (OURS, None)])
def test_p_that_is_not_learned_has_no_row(case, p):
    result = Result("x", "", "", "")
    add_figures(result, Measured(case, {}, [record([30.0], p=p)]))
    assert {row.quantity for row in result.rows} == {PSNR, SSIM}


def test_a_training_that_diverged_is_not_averaged_away():
    records = [record([30.0]), {"validation": None, "diverged": "inf at step 3"}]
    with pytest.raises(DivergedError, match="diverged: inf at step 3"):
        add_figures(Result("", "", "", ""), Measured(OURS, {}, records))


def test_finished_trainings_alone_make_a_table():
    def answer(job):
        if isinstance(job, ImageTraining):
            return record([33.0, 29.0] if job.tested else [], p=1.3)
        return record([28.0, 27.0])

    def knows(job):
        return getattr(job, "model", "VDSR") == "VDSR" or not getattr(job, "tested", False)

    lab = Lab(FakeRunner(answer, knows, finished_only=True))
    experiment = EXPERIMENTS["upscale-table"]
    result = experiment.run(lab)
    assert {row.method.split()[0] for row in result.rows} == {"bicubic", "VDSR"}
    assert {verdict.word for verdict in experiment.verdicts(result)} == {"Not measured"}
    assert experiment.draw(result)


# What ships


def test_everything_that_ships_is_tested():
    tested = [(job.name, job.task["sigma"]) for job in shipped_tests(Lab(None))]
    assert len(tested) == len(set(tested)) == 3 + 5 * 3
    assert {name for name, _ in tested} == {card.name for card in list_models("denoise")}
    for case in upscale_trials.CASES:
        listed = tried_jobs(Lab(None), case, 1e-3)
        lengths = [(job.settings["num_epochs"], job.smaller_copies) for job in listed]
        assert lengths[:2] == [(10, False), (10, True)]
        assert len({job.key for job in listed}) == len(listed)


@needs("set5", "set14")
def test_a_shipped_network_is_as_good_as_its_card_says(monkeypatch):
    monkeypatch.setenv("FWNET_DATA", str(DATA))
    (card,) = [card for card in list_models("upscale") if "_t4" in card.name]
    network = load_shipped(card.name)
    record, _ = network_tests(network, {"scale": 3}, "t91", CPU)
    assert record["psnr"] == pytest.approx(card.figures["Set5 ×3 PSNR"], abs=0.006)
