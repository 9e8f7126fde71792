import dataclasses
import re
from pathlib import Path

import pytest
import torch

from fwnet.experiments import EXPERIMENTS, Lab, Result, Runner, UnfinishedError
from fwnet.experiments.denoise_shipped import EPOCHS, shipped_jobs, test_jobs
from fwnet.experiments.denoising import DenoisingTraining, images_of, patch_atoms
from fwnet.experiments.denoising_networks import (
    FAMILIES,
    LEVELS,
    MIDDLE,
    conv_fwnet,
    final_jobs,
    learning_rates_of,
    table_networks,
)
from fwnet.models import load_model, read_model
from fwnet.zoo import list_models
from fwnet.zoo.shelf import weights_path

CPU = torch.device("cpu")
RESULTS = Path(__file__).parents[2] / "results"
test_jobs.__test__ = False  # a function of the experiment, not a test


class FakeRunner:
    """Answers with the same PSNR at every learning rate."""

    num_workers, finished_only = 1, False

    def __init__(self):
        self.asked = []

    def run(self, jobs):
        self.asked += jobs
        return [{"validation": 30.0} for _ in jobs]


def test_learning_rates_are_chosen_in_the_middle_by_short_trainings_that_are_not_tested():
    runner = FakeRunner()
    rates = learning_rates_of(Lab(runner), Result("x", "", "", ""), list(FAMILIES))
    assert rates == dict.fromkeys(FAMILIES, 2e-3)
    assert len(runner.asked) == 3 * len(FAMILIES)
    for job in runner.asked:
        assert job.sigma == MIDDLE
        assert job.tested_at == []
        assert "seed" not in job.settings
        assert job.settings["num_epochs"] <= 5


def test_networks_of_the_table_share_their_budget():
    rates = dict.fromkeys(FAMILIES, 1e-3)
    for network in table_networks():
        assert network.family in FAMILIES
        jobs = [job for sigma in LEVELS for job in final_jobs(Lab(None), network, sigma, rates)]
        settings = [
            {k: v for k, v in job.settings.items() if k not in ("seed", "learning_rate")}
            for job in jobs
        ]
        assert all(one == settings[0] for one in settings)
        steps = settings[0]["num_epochs"] * jobs[0].crops_per_epoch // settings[0]["batch_size"]
        assert steps == (5_000 if network.on_patches else 10_000)
        assert len({job.key for job in jobs}) == len(jobs)


def tiny(**changes):
    settings = {"num_epochs": 1, "batch_size": 4, "weight_decay": 0.0}
    job = DenoisingTraining(
        data="small",
        model="ConvFWNet",
        options={"num_layers": 2, "channels": 4},
        sigma=25,
        settings=settings,
        crop_size=12,
        crops_per_epoch=8,
        tested_at=[25],
    )
    return dataclasses.replace(job, **changes)


def test_a_training_keeps_its_weights_for_another_one_to_start_from(tmp_path):
    first = tiny()
    record = first.execute_in(tmp_path, CPU)
    assert record["tests"][0]["psnr"] > 10
    kept = load_model(tmp_path / first.key / "model.safetensors")
    child = tiny(
        parent=first.key,
        options={"num_layers": 2, "channels": 4, "noise_level_input": True},
        sigma=[0, 55],
    )
    start = child.network(tmp_path)
    assert torch.equal(start.first.weight[:, :1], kept.first.weight)
    assert not start.first.weight[:, 1:].any()
    assert len(child.execute_in(tmp_path, CPU)["tests"]) == 1
    with pytest.raises(ValueError, match="needs its weights"):
        child.network(None)


def test_a_network_that_chooses_settings_does_not_see_test_images(monkeypatch):
    learn, held, _ = images_of("small")
    monkeypatch.setattr("fwnet.experiments.denoising.images_of", lambda *_: (learn, held, None))
    record = tiny(tested_at=[]).execute(CPU)
    assert record["tests"] == []
    assert record["validation"] == pytest.approx(record["validation_by_epoch"][-1])


def test_training_that_diverges_is_a_record():
    wild = tiny(
        settings={"num_epochs": 3, "batch_size": 4, "learning_rate": 1e30, "optimizer": "sgd"}
    )
    assert wild.execute(CPU)["validation"] is None


@pytest.mark.parametrize("start", ["random atoms", "pca", "ksvd"])
def test_atoms_to_start_from_have_norm_1(start):
    atoms = patch_atoms("small", False, start, 3, 16)
    assert atoms.shape == (9, 16)
    torch.testing.assert_close(atoms.norm(dim=0), torch.ones(16))


def test_finished_trainings_alone_make_a_table(tmp_path):
    experiment = EXPERIMENTS["denoise-form"]
    cache = tmp_path / "runs.jsonl"
    with Runner(CPU, 1, cache) as runner:
        whole = experiment.run(Lab(runner, quick=True))
    lines = cache.read_text().splitlines()
    cache.write_text("\n".join(lines[:-1]) + "\n")
    with Runner(CPU, 1, cache, finished_only=True) as runner:
        part = experiment.run(Lab(runner, quick=True))
        with pytest.raises(UnfinishedError, match="not finished"):
            EXPERIMENTS["denoise-shipped"].run(Lab(runner, quick=True))
    assert len(part.rows) == len(whole.rows) - 1
    assert part.findings[-1].startswith("Not measured:")


def test_everything_that_ships_has_a_training_and_a_test():
    rates = dict.fromkeys(FAMILIES, 1e-3)
    names = {card.name for card in list_models("denoise")}
    assert set(shipped_jobs(Lab(None), rates)) == names
    tested = [(job.name, job.sigma) for job in test_jobs(Lab(None))]
    assert len(tested) == len(set(tested)) == 6 + 2 * len(LEVELS)
    assert {name for name, _ in tested} == names
    assert len(EPOCHS) == 5


def options_of(command):
    return dict(re.findall(r"--([a-z-]+) ([^\s-]\S*)", command))


@pytest.mark.parametrize("card", list_models("denoise"), ids=lambda card: card.name)
def test_the_commands_on_a_card_are_the_trainings_of_the_network(card):
    rates = {}
    for name in ("denoise-table", "denoise-depth"):
        choices = Result.load(RESULTS / f"{name}.json").choices
        rates |= {choice["method"]: choice["learning_rate"] for choice in choices}
    job = shipped_jobs(Lab(None), rates)[card.name]
    first, second = (options_of(part) for part in card.command.split(" && "))
    depth = job.options["num_layers"]
    parent = final_jobs(Lab(None), conv_fwnet(depth), int(first["sigma"]), rates)[0]
    assert parent.key == job.parent
    for option, one in ((first, parent), (second, job)):
        assert int(option["num-layers"]) == depth
        assert float(option["learning-rate"]) == one.settings["learning_rate"]
        assert int(option["num-epochs"]) == one.settings["num_epochs"]
        assert int(option["seed"]) == one.settings["seed"] == 1
    levels = [float(second[name]) for name in ("sigma", "max-sigma") if name in second]
    assert levels == (job.sigma if isinstance(job.sigma, list) else [job.sigma])
    assert ("--color" in card.command) is job.color
    notes = read_model(weights_path(card.name))[0]["notes"]
    assert job.settings.items() <= notes["settings"].items()
