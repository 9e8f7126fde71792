import json
import os
import signal
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open

from fwnet.data import synthetic_codes
from fwnet.experiments.feed_forward import FeedForward
from fwnet.files import locked
from fwnet.models import LISTA, FWNet, load_model
from fwnet.progress import silent
from fwnet.training import (
    Classification,
    CodeRegression,
    DivergedError,
    ShownFigure,
    Task,
    TrainingConfig,
    TrainingError,
    TrainingRun,
    train,
)
from fwnet.training.picture import draw_history
from fwnet.training.steps import make_optimizer

CONFIG = TrainingConfig(num_epochs=4, batch_size=20, learning_rate=0.01)


def data(count=200):
    return synthetic_codes(
        1.3, num_train=count, num_test=50, num_features=6, num_atoms=10, seed=1
    ).scaled()


def network():
    return FWNet.from_dictionary(data().dictionary, 3, radius=5.0)


def test_what_is_no_network_no_task_or_no_tensor_is_refused():
    x, z = torch.randn(9, 6), torch.randn(9, 10)
    task = CodeRegression(x, z)
    with pytest.raises(TypeError, match=r"model must be a network of.*got Sequential"):
        train(torch.nn.Sequential(torch.nn.Linear(6, 10)), task, CONFIG)
    with pytest.raises(TypeError, match="task must be a task such as CodeRegression, got FWNet"):
        train(network(), network(), CONFIG)
    with pytest.raises(TypeError, match="targets must be a tensor, got ndarray: convert it with"):
        CodeRegression(x, z.numpy())


def task(validation=True):
    d = data()
    held = (d.test_signals, d.test_codes) if validation else ()
    return CodeRegression(d.signals, d.codes, *held)


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


def test_the_network_learns():
    model = network()
    before = task().validate(model)
    result = train(model, task(), TrainingConfig(num_epochs=30, batch_size=20, learning_rate=0.01))
    assert task().validate(model) < 0.75 * before
    assert [record["epoch"] for record in result.history] == list(range(1, 31))
    assert result.history[-1]["step"] == 300
    assert result.history[-1]["loss"] < result.history[0]["loss"]
    assert result.history[-1]["p"] != pytest.approx(2.0)
    assert len(result.history[-1]["gamma"]) == 3
    assert not model.training


def test_the_result_depends_on_settings_alone():
    runs = []
    for _ in range(2):
        model = network()
        torch.rand(7)  # randomness of others does not matter
        train(model, task(), CONFIG)
        runs.append(weights(model))
    assert_same(*runs)
    model = network()
    train(model, task(), TrainingConfig(**{**CONFIG.as_dict(), "seed": 1}))
    assert not torch.equal(model.first.weight, runs[0]["first.weight"])


class Killed(BaseException):
    pass


@pytest.mark.parametrize(
    ("settings", "keep_best"), [({}, True), ({"optimizer": "sgd", "learning_rate": 0.1}, False)]
)
def test_a_killed_training_ends_with_the_same_weights(tmp_path, settings, keep_best, monkeypatch):
    config = TrainingConfig(**{**CONFIG.as_dict(), **settings, "clip_norm": 1.0})
    monkeypatch.setattr("fwnet.training.loop.STEPS_BETWEEN_CLOCKS", 1)
    monkeypatch.setattr("fwnet.training.loop.LOOK_SECONDS", 0.0)
    whole = network()
    expected = train(whole, task(), config, keep_best=keep_best)
    for kill_at in (10, 11):

        def kill(progress, step=kill_at):
            if progress.done == step:
                raise Killed

        folder = tmp_path / str(kill_at)
        run = TrainingRun(folder=folder, checkpoint_seconds=0.0, progress=kill)
        with pytest.raises(Killed):
            train(network(), task(), config, run, keep_best=keep_best)
        model = network()
        run = replace(run, resume=True, progress=silent)
        result = train(model, task(), config, run, keep_best=keep_best)
        assert_same(weights(model), weights(whole))
        assert_same(weights(load_model(folder / "model.safetensors")), weights(whole))
        for ours, theirs in zip(result.history, expected.history, strict=True):
            assert {**ours, "seconds": 0} == {**theirs, "seconds": 0}
        lines = (folder / "history.jsonl").read_text().splitlines()
        assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3, 4]


def test_a_line_of_history_cut_short_is_written_again(tmp_path):
    def stop(progress):
        if progress.stage == "epoch 3 of 4":
            raise Killed

    with pytest.raises(Killed):
        train(
            network(),
            task(),
            CONFIG,
            TrainingRun(folder=tmp_path, checkpoint_seconds=0.0, progress=stop),
        )
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write('{"step": 40, "epo')
    train(network(), task(), CONFIG, TrainingRun(folder=tmp_path, resume=True))
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3, 4]


def test_a_finished_training_is_not_repeated(tmp_path):
    model = network()
    train(model, task(), CONFIG, TrainingRun(folder=tmp_path))
    steps = []
    again = network()
    train(again, task(), CONFIG, TrainingRun(folder=tmp_path, resume=True, progress=steps.append))
    assert steps == []
    assert_same(weights(model), weights(again))


def test_earlier_work_is_not_lost_unasked(tmp_path):
    train(network(), task(), CONFIG, TrainingRun(folder=tmp_path))
    with pytest.raises(TrainingError, match=r"already has a checkpoint.* --resume, .* --force"):
        train(network(), task(), CONFIG, TrainingRun(folder=tmp_path))
    other = TrainingConfig(**{**CONFIG.as_dict(), "learning_rate": 0.02})
    with pytest.raises(
        TrainingError, match=r"was started with learning_rate 0.01, got learning_rate 0.02"
    ):
        train(network(), task(), other, TrainingRun(folder=tmp_path, resume=True))
    with pytest.raises(TrainingError, match="was started with other data"):
        train(network(), task(validation=False), CONFIG, TrainingRun(folder=tmp_path, resume=True))
    lista = LISTA.from_dictionary(data().dictionary, 3)
    with pytest.raises(TrainingError, match="was started with model 'FWNet', got model 'LISTA'"):
        train(lista, task(), CONFIG, TrainingRun(folder=tmp_path, resume=True))
    train(network(), task(), other, TrainingRun(folder=tmp_path, force=True))
    assert TrainingConfig.read(tmp_path / "config.toml") == other


def test_the_file_of_the_model_tells_its_story(tmp_path):
    train(network(), task(), CONFIG, TrainingRun(folder=tmp_path), notes={"data": "synthetic"})
    with safe_open(tmp_path / "model.safetensors", framework="pt") as file:
        notes = json.loads(file.metadata()["fwnet"])["notes"]
    assert notes["data"] == "synthetic"
    assert notes["settings"]["learning_rate"] == 0.01
    assert notes["last_epoch"]["epoch"] == 4


def test_the_best_epoch_is_kept():
    values = iter([5.0, 2.0, 3.0, 4.0])
    seen = []

    class Scripted(CodeRegression):
        def validate(self, model):
            seen.append(weights(model))
            return next(values)

    d, model = data(), network()
    result = train(model, Scripted(d.signals, d.codes), CONFIG, keep_best=True)
    assert result.best_epoch == 2
    assert_same(weights(model), seen[1])


def scripted(*figures):
    """A task whose validation figures are given."""
    values = iter(figures)

    class Scripted(CodeRegression):
        def validate(self, model):
            return next(values)

    d = data()
    return Scripted(d.signals, d.codes)


def test_of_equally_good_epochs_the_last_is_kept():
    result = train(network(), scripted(5.0, 2.0, 2.0, 4.0), CONFIG, keep_best=True)
    assert result.best_epoch == 3


def test_patience_ends_a_training_that_no_longer_improves(tmp_path):
    config = replace(CONFIG, num_epochs=8)
    figures = (5.0, 2.0, 2.0, 3.0, 1.0)
    result = train(
        network(),
        scripted(*figures),
        config,
        TrainingRun(folder=tmp_path),
        keep_best=True,
        patience=2,
    )
    assert [record["epoch"] for record in result.history] == [1, 2, 3, 4]
    assert result.best_epoch == 3
    again = train(
        network(),
        scripted(),
        config,
        TrainingRun(folder=tmp_path, resume=True),
        keep_best=True,
        patience=2,
    )
    assert again.history == result.history


def test_the_mean_of_the_weights_is_kept_and_validated():
    seen, trained = [], []

    class Watched(CodeRegression):
        def loss(self, model, *batch):
            trained.append(weights(model))
            return super().loss(model, *batch)

        def validate(self, model):
            seen.append(weights(model))
            return super().validate(model)

    d, model = data(), network()
    config = replace(CONFIG, num_epochs=1, average=0.8)
    train(model, Watched(d.signals, d.codes, d.test_signals, d.test_codes), config)
    plain = network()
    train(plain, task(), replace(config, average=0.0))
    after = [*trained[1:], weights(plain)]
    for name, _ in model.named_parameters():
        mean = after[0][name]
        for step, value in enumerate([state[name] for state in after], start=1):
            mean = torch.lerp(mean, value, max(0.2, 1 / step))
        torch.testing.assert_close(weights(model)[name], mean)
    assert_same(weights(model), seen[0])


def test_a_compiled_network_learns_the_same(monkeypatch):
    compiled = []

    def compile_once(model):
        compiled.append(model)
        return real(model, backend="aot_eager")  # needs no C++ compiler

    real = torch.compile
    monkeypatch.setattr(torch, "compile", compile_once)
    one, other = network(), network()
    train(one, task(), CONFIG)
    train(other, task(), replace(CONFIG, compile=True))
    assert compiled == [other]
    for name, value in weights(one).items():
        torch.testing.assert_close(weights(other)[name], value, rtol=1e-3, atol=1e-4)
    torch._dynamo.reset()


def test_a_mean_survives_an_interruption(tmp_path):
    config = replace(CONFIG, average=0.9)
    model = network()
    train(model, task(), config)

    class Interrupted(CodeRegression):
        left = 27

        def loss(self, model, *batch):
            Interrupted.left -= 1
            if Interrupted.left == 0:
                os.kill(os.getpid(), signal.SIGINT)
            return super().loss(model, *batch)

    d = data()
    interrupted = Interrupted(d.signals, d.codes, d.test_signals, d.test_codes)
    with pytest.raises(KeyboardInterrupt):
        train(network(), interrupted, config, TrainingRun(folder=tmp_path, checkpoint_seconds=1e-9))
    resumed = network()
    train(resumed, task(), config, TrainingRun(folder=tmp_path, resume=True))
    assert_same(weights(resumed), weights(model))


class TestClassification:
    def digits(self, **options):
        generator = torch.Generator().manual_seed(0)
        centers = 2 * torch.randn(3, 6, generator=generator)
        labels = torch.arange(300) % 3
        x = centers[labels] + torch.randn(300, 6, generator=generator)
        return Classification(x[:240], labels[:240], x[240:], labels[240:], **options)

    def network(self):
        generator = torch.Generator().manual_seed(1)
        return FeedForward(6, [12], 3, generator=generator)

    @pytest.mark.parametrize("radius", [0.0, 0.5])
    def test_classes_are_learned(self, radius):
        model, task = self.network(), self.digits(adversarial_radius=radius)
        assert task.validate(model) > 0.3
        train(model, task, replace(CONFIG, num_epochs=20))
        assert task.validate(model) < 0.1

    def test_neighbors_are_at_the_radius_and_told_apart_worse(self):
        model, task = self.network(), self.digits(adversarial_radius=0.3)
        seen = []

        def watched(x):
            seen.append(x.detach())
            return model(x)

        x, y = task.inputs[:50], task.targets[:50]
        task.loss(watched, x, y)
        torch.testing.assert_close((seen[1] - x).norm(dim=-1), torch.full((50,), 0.3))
        worst = self.digits().loss(model, seen[1], y)
        assert self.digits().loss(model, x, y) < worst
        for _ in range(5):
            noise = torch.nn.functional.normalize(torch.randn_like(x), dim=-1)
            assert self.digits().loss(model, x + 0.3 * noise, y) < worst

    def test_a_loss_is_that_of_the_two(self):
        model, task = self.network(), self.digits(adversarial_radius=1e-6)
        x, y = task.inputs[:50], task.targets[:50]
        torch.testing.assert_close(task.loss(model, x, y), self.digits().loss(model, x, y))

    def test_bad_radius(self):
        with pytest.raises(ValueError, match="adversarial_radius must be >= 0, got -1"):
            self.digits(adversarial_radius=-1)

    def test_another_radius_is_another_task(self):
        assert self.digits().fingerprint() != self.digits(adversarial_radius=1.0).fingerprint()


class Exploding(CodeRegression):
    """The loss is NaN from some step on."""

    step = 0

    def loss(self, model, *batch):
        type(self).step += 1
        factor = float("nan") if type(self).step > 25 else 1.0
        return factor * super().loss(model, *batch)


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr("fwnet.training.loop.STEPS_BETWEEN_CLOCKS", 1)
    monkeypatch.setattr("fwnet.training.loop.LOOK_SECONDS", 0.0)
    monkeypatch.setattr(Exploding, "step", 0)
    d = data()
    with pytest.raises(DivergedError, match=r"became nan in epoch 3 \(step 26\) at learning rate"):
        train(
            network(),
            Exploding(d.signals, d.codes),
            CONFIG,
            TrainingRun(folder=tmp_path, checkpoint_seconds=0.0),
        )
    with safe_open(tmp_path / "checkpoint.safetensors", framework="pt") as file:
        position = json.loads(file.metadata()["training"])["position"]
        assert position["step"] == 25
        for name in file.keys():  # noqa: SIM118
            assert file.get_tensor(name).isfinite().all()
    assert not (tmp_path / "model.safetensors").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_a_step_and_saves(tmp_path, number):
    """Wherever it comes: in a step, in the validation, between."""
    whole = network()
    expected = train(whole, task(), CONFIG)

    class Interrupted(CodeRegression):
        losses = validations = 0

        def loss(self, model, *batch):
            type(self).losses += 1
            if type(self).losses == in_loss:
                os.kill(os.getpid(), number)
            return super().loss(model, *batch)

        def validate(self, model):
            type(self).validations += 1
            if type(self).validations == in_validation:
                os.kill(os.getpid(), number)
            return super().validate(model)

    d = data()
    before = signal.getsignal(number)
    for in_loss, in_validation in ((7, 0), (25, 0), (0, 2)):
        Interrupted.losses = Interrupted.validations = 0
        folder = tmp_path / f"{in_loss}-{in_validation}"
        interrupted = Interrupted(d.signals, d.codes, d.test_signals, d.test_codes)
        with pytest.raises(KeyboardInterrupt):
            train(network(), interrupted, CONFIG, TrainingRun(folder=folder))
        assert signal.getsignal(number) == before
        assert (folder / "checkpoint.safetensors").exists()
        model = network()
        result = train(model, task(), CONFIG, TrainingRun(folder=folder, resume=True))
        assert_same(weights(model), weights(whole))
        for ours, theirs in zip(result.history, expected.history, strict=True):
            assert {**ours, "seconds": 0} == {**theirs, "seconds": 0}


def test_weights_that_are_no_numbers_are_not_delivered(tmp_path):
    class LastGradient(CodeRegression):
        step = 0

        def loss(self, model, *batch):
            type(self).step += 1
            loss = super().loss(model, *batch)
            if type(self).step == 40:  # a finite loss whose gradient is not
                weight = next(model.parameters())
                loss = loss + (weight - weight.detach()).abs().sqrt().sum()
            return loss

    d = data()
    with pytest.raises(DivergedError, match="weights became NaN or infinite in epoch 4"):
        train(network(), LastGradient(d.signals, d.codes), CONFIG, TrainingRun(folder=tmp_path))
    assert not (tmp_path / "model.safetensors").exists()

    class NoFigure(CodeRegression):
        def validate(self, model):
            return float("nan")

    with pytest.raises(DivergedError, match="the validation figure became nan"):
        train(network(), NoFigure(d.signals, d.codes), CONFIG, keep_best=True)


def test_a_model_whose_checkpoint_is_gone_is_not_lost(tmp_path):
    train(network(), task(), CONFIG, TrainingRun(folder=tmp_path))
    (tmp_path / "checkpoint.safetensors").unlink()
    with pytest.raises(TrainingError, match=r"already has a model.safetensors: start over with"):
        train(network(), task(), CONFIG, TrainingRun(folder=tmp_path, resume=True))
    assert (tmp_path / "model.safetensors").exists()


def test_files_of_a_run_that_are_broken(tmp_path):
    train(network(), task(), CONFIG, TrainingRun(folder=tmp_path))
    (tmp_path / "history.jsonl").write_text("5\n")
    assert train(network(), task(), CONFIG, TrainingRun(folder=tmp_path, resume=True)).history == []
    (tmp_path / "history.jsonl").unlink()
    assert train(network(), task(), CONFIG, TrainingRun(folder=tmp_path, resume=True)).history == []
    (tmp_path / "checkpoint.safetensors").write_bytes(b"nothing")
    with pytest.raises(TrainingError, match="cannot be read"):
        train(network(), task(), CONFIG, TrainingRun(folder=tmp_path, resume=True))


def test_decay_is_on_matrices_alone():
    model = FWNet(4, 6, 3, learn_radius=True, p_per_layer=True)
    for optimizer in ("adam", "sgd"):
        made = make_optimizer(model, TrainingConfig(optimizer=optimizer, weight_decay=0.1))
        for group in made.param_groups:
            for weight in group["params"]:
                assert group["weight_decay"] == (0.1 if weight.ndim == 2 else 0.0)
        assert sum(len(group["params"]) for group in made.param_groups) == 3 + 1 + 3 + 1


def test_decay_shrinks_weights_and_not_p():
    class Constant(CodeRegression):
        def loss(self, model, *batch):
            return 0.0 * model(batch[0]).sum()

    d, model = data(), network()
    norm, p = model.first.weight.norm().item(), model.p.item()
    config = TrainingConfig(
        num_epochs=1, batch_size=20, optimizer="sgd", learning_rate=0.1, weight_decay=0.1
    )
    train(model, Constant(d.signals, d.codes), config)
    assert model.first.weight.norm().item() < 0.95 * norm
    assert model.p.item() == p


def test_clipping_bounds_the_step():
    d, model = data(), network()
    before = weights(model)
    config = TrainingConfig(
        num_epochs=1,
        batch_size=200,
        optimizer="sgd",
        momentum=0.0,
        learning_rate=1.0,
        weight_decay=0.0,
        clip_norm=1e-3,
    )
    train(model, CodeRegression(d.signals, d.codes), config)
    after = weights(model)
    moved = sum((after[name] - before[name]).square().sum() for name in before).sqrt()
    assert moved.item() == pytest.approx(1e-3, rel=1e-3)


def test_a_clip_norm_of_0_turns_clipping_off():
    ends = []
    for clip_norm in (None, 0.0):
        model = network()
        train(model, task(), TrainingConfig(**{**CONFIG.as_dict(), "clip_norm": clip_norm}))
        ends.append(weights(model))
    assert_same(*ends)


def test_bf16_trains_too():
    model = network()
    result = train(model, task(), TrainingConfig(num_epochs=10, batch_size=20, precision="bf16"))
    assert model.first.weight.dtype == torch.float32
    assert result.history[-1]["loss"] < result.history[0]["loss"]


def test_epochs_go_through_the_data_in_an_order_of_their_own():
    d = data()
    regression = CodeRegression(torch.arange(200.0).unsqueeze(-1), d.codes)

    def order(epoch, config=CONFIG):
        steps = range(10 * epoch, 10 * epoch + 10)
        return torch.cat([regression.batch(s, slice(None), config)[0] for s in steps]).squeeze(-1)

    first, second = order(0), order(1)
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(200))
    assert not torch.equal(first, second)
    assert torch.equal(order(0), first)  # whatever came between
    parts = [regression.batch(3, slice(0, 8), CONFIG), regression.batch(3, slice(8, 20), CONFIG)]
    whole = regression.batch(3, slice(None), CONFIG)
    assert torch.equal(torch.cat([p[0] for p in parts]), whole[0])


def test_validation_comes_in_pairs():
    d = data()
    for pair in ((d.test_signals, None), (d.test_signals[:0], d.test_codes[:0])):
        with pytest.raises(ValueError, match="validation inputs and targets, or neither"):
            CodeRegression(d.signals, d.codes, *pair)


def test_a_target_for_every_input():
    with pytest.raises(ValueError, match="got 3 inputs, 2 targets"):
        CodeRegression(torch.zeros(3, 2), torch.zeros(2, 4))


def test_the_interface_of_a_task_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Task()


def test_history_becomes_a_picture(tmp_path):
    result = train(network(), task(), CONFIG)
    path = tmp_path / "history.png"
    picture = draw_history(result.history, CodeRegression.shown)
    picture.savefig(path)
    assert path.stat().st_size > 5_000
    errors, p, gamma = picture.axes
    assert [axis.get_ylabel() for axis in picture.axes] == ["error per sample", "p", "gamma"]
    training, validation = errors.lines
    assert training.get_ydata().tolist() == [2 * record["loss"] for record in result.history]
    assert validation.get_ydata().tolist() == [record["validation"] for record in result.history]
    assert len(p.lines) == 1
    assert len(gamma.lines) == 3


def test_a_figure_of_another_kind_has_a_picture_of_its_own():
    shown = ShownFigure("loudness", "dB", lambda figure: -figure)
    history = [{"epoch": n, "loss": 1.0 / n, "validation": 2.0 * n, "p": 1.5} for n in (1, 2)]
    loss, loudness, p = draw_history(history, shown).axes
    assert [loss.get_ylabel(), loudness.get_ylabel()] == ["loss", "loudness (dB)"]
    assert loss.lines[0].get_ydata().tolist() == [1.0, 0.5]
    assert loudness.lines[0].get_ydata().tolist() == [-2.0, -4.0]
    assert p.lines[0].get_ydata().tolist() == [1.5, 1.5]
    without = [{name: record[name] for name in ("epoch", "loss")} for record in history]
    assert len(draw_history(without, shown).axes) == 1


def test_progress_shows_figures_as_people_read_them():
    told = []
    train(network(), task(), replace(CONFIG, num_epochs=1), TrainingRun(progress=told.append))
    assert float(told[-1].figures["validation"]) > 0
    assert ShownFigure("PSNR", "dB", lambda x: 10 * x).text(2.87234) == "28.72 dB"
    train(network(), task(validation=False), CONFIG, TrainingRun(progress=told.append))
    assert "validation" not in told[-1].figures


def test_several_processes_without_accelerate_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(__import__("sys").modules, "accelerate", None)
    with pytest.raises(RuntimeError, match=r"pip install '\.\[train\]' in the clone"):
        train(network(), task(), CONFIG)


def test_fingerprints_tell_data_apart():
    d = data()
    other = d.codes.clone()
    other[3, 2] = other[3, 2].nextafter(torch.tensor(9.0))
    prints = {
        CodeRegression(d.signals, d.codes).fingerprint(),
        CodeRegression(d.signals, other).fingerprint(),
        CodeRegression(d.signals, d.codes, d.test_signals, d.test_codes).fingerprint(),
    }
    assert len(prints) == 3
    assert CodeRegression(d.signals, d.codes).fingerprint() in prints


@pytest.mark.parametrize("ways", [{"force": True}, {"resume": True}])
def test_two_trainings_in_one_folder_are_refused(tmp_path, ways):
    run = TrainingRun(folder=tmp_path / "run", **ways)
    with locked(tmp_path), pytest.raises(TrainingError, match="another process is at work"):
        train(network(), task(), CONFIG, replace(run, folder=tmp_path))
    assert not list(tmp_path.iterdir())
    train(network(), task(), CONFIG, run)
