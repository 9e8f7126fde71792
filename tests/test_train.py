"""`fwnet train coder`, `fwnet encode --model` and `fwnet reproduce`, as their users run them."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from fwnet.data import synthetic_codes
from fwnet.experiments.experiment import Experiment, Result
from fwnet.models import load_model
from tests.trainings import run


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    data = synthetic_codes(1.3, num_train=600, num_test=40, num_features=10, num_atoms=20, seed=2)
    for name, tensor in (
        ("x", data.signals),
        ("z", data.codes),
        ("d", data.dictionary),
        ("new", data.test_signals),
        ("truth", data.test_codes),
    ):
        np.save(folder / f"{name}.npy", tensor.numpy())
    return folder


def coder(pairs, output, *options):
    files = (str(pairs / "x.npy"), str(pairs / "z.npy"))
    return ["train", "coder", *files, "-o", str(output), "--device", "cpu", *options]


SHORT = ("--num-epochs", "3", "--num-layers", "3", "--batch-size", "50", "--learning-rate", "0.01")


def test_a_trained_coder_codes(pairs, tmp_path):
    result = run(*coder(pairs, tmp_path / "net", *SHORT))
    assert result.returncode == 0, result.stderr
    assert re.search(r"validation error [\d.e-]+ after epoch [123] \(mean of", result.stdout)
    model = tmp_path / "net" / "model.safetensors"
    assert str(model) in result.stdout
    assert {p.name for p in (tmp_path / "net").iterdir()} == {
        "model.safetensors",
        "checkpoint.safetensors",
        "history.jsonl",
        "history.png",
        "config.toml",
    }
    codes = tmp_path / "codes.npy"
    encoded = run("encode", str(pairs / "new.npy"), "--model", str(model), "-o", str(codes))
    assert encoded.returncode == 0, encoded.stderr
    assert "40 coded by FWNet, without a certificate" in encoded.stdout
    assert "Warning" not in encoded.stderr
    network, x = load_model(model), torch.from_numpy(np.load(pairs / "new.npy"))
    np.testing.assert_allclose(np.load(codes), network(x).detach().numpy(), atol=1e-5)
    truth = np.load(pairs / "truth.npy")
    assert np.square(np.load(codes) - truth).sum(1).mean() < np.square(truth).sum(1).mean()


@pytest.mark.parametrize("model", ["LISTA", "LCoD", "MLP"])
def test_the_other_networks_train_too(pairs, tmp_path, model):
    options = ("--model", model, "--share-weights", "--validation", "0", "--dictionary")
    result = run(*coder(pairs, tmp_path / "net", *SHORT, *options, str(pairs / "d.npy")))
    assert result.returncode == 0, result.stderr
    assert type(load_model(tmp_path / "net" / "model.safetensors")).__name__ == model


def test_settings_from_a_file(pairs, tmp_path):
    (tmp_path / "c.toml").write_text('num_epochs = 2\nbatch_size = 50\nschedule = "step"\n')
    options = ("--config", str(tmp_path / "c.toml"), "--seed", "5", "--fixed-p", "--p", "1.3")
    result = run(*coder(pairs, tmp_path / "net", *options, "--radius", "5"))
    assert result.returncode == 0, result.stderr
    config = (tmp_path / "net" / "config.toml").read_text()
    assert "num_epochs = 2" in config
    assert "seed = 5" in config
    network = load_model(tmp_path / "net" / "model.safetensors")
    assert network.p.item() == pytest.approx(1.3)
    assert network.config["radius"] == 5.0
    assert not network.config["learn_radius"]


def test_codes_that_are_worse_than_zeros_are_announced(pairs, tmp_path):
    options = ("--num-epochs", "1", "--model", "MLP", "--learning-rate", "3", "--validation", "0.5")
    result = run(*coder(pairs, tmp_path / "net", *options))
    assert result.returncode == 0, result.stderr
    assert (
        "Warning: the codes are hardly better than zeros. Train longer (--num-epochs)"
        in result.stderr
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "ResNet"), "model must be one of FWNet, MLP, LCoD, LISTA, got 'ResNet'"),
        (("--model", "LISTA", "--sparse"), "for FWNet with a line search, got it with model LISTA"),
        (("--dense", "--share-weights"), "got it with shared or separate weights"),
        (("--num-layers", "0"), "num_layers must be an integer >= 1, got 0"),
        (("--learning-rate", "-1"), "learning_rate must be a number > 0, got -1.0"),
        (("--radius", "-5"), "radius must be > 0 and finite, got -5.0"),
        (("--p", "0.5"), "p must be in [1, inf], got 0.5"),
        (("--p", "1", "--fixed-p"), "a fixed p must be > 1 and finite, got 1"),
        (("--p", "inf", "--fixed-p"), "a fixed p must be > 1 and finite, got inf"),
        (("--validation", "2"), "validation must be in [0, 1), got 2.0"),
        (("--batch-size", "10000"), "batch_size must be at most the 540 rows"),
        (("--config", "none.toml"), "none.toml does not exist"),
        (("--dictionary", "none.npy"), "none.npy does not exist"),
        (("--optimizer", "lion"), "Invalid value for '--optimizer'"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(pairs, tmp_path, options, message):
    result = run(*coder(pairs, tmp_path / "net", *options))
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "net" / "model.safetensors").exists()


def test_data_that_does_not_fit_is_refused(pairs, tmp_path):
    x, d = np.load(pairs / "x.npy"), np.load(pairs / "d.npy")
    np.save(tmp_path / "short.npy", x[:-1])
    np.save(tmp_path / "nan.npy", np.where(np.arange(600)[:, None] == 7, np.nan, x))
    np.save(tmp_path / "dt.npy", d.T)
    np.save(tmp_path / "huge.npy", 1e300 * x.astype(np.float64))
    np.save(tmp_path / "zeros.npy", np.zeros_like(x))
    z = str(pairs / "z.npy")
    for signals, options, message in (
        ("short.npy", (), "must have a row for each of the 599 rows"),
        (
            "nan.npy",
            (),
            "NaN or infinity in 1 of 600 rows, the first of them row 7",
        ),
        ("none.npy", (), "does not exist"),
        ("huge.npy", (), "must be finite in float32"),
        ("zeros.npy", (), "the dictionary must have a norm > 0"),
    ):
        arguments = ["train", "coder", str(tmp_path / signals), z, "-o", str(tmp_path / "n")]
        result = run(*arguments, *options)
        assert result.returncode == 2
        assert message in result.stderr
    result = run(*coder(pairs, tmp_path / "n", "--dictionary", str(tmp_path / "dt.npy")))
    assert result.returncode == 2
    assert "scikit-learn's (n_components, n_features): save its transpose" in result.stderr


def test_earlier_work_is_not_overwritten_unasked(pairs, tmp_path):
    assert run(*coder(pairs, tmp_path / "net", *SHORT)).returncode == 0
    again = run(*coder(pairs, tmp_path / "net", *SHORT))
    assert again.returncode == 2
    assert "continue with --resume, or start over with --force" in again.stderr
    other = run(*coder(pairs, tmp_path / "net", *SHORT, "--seed", "1", "--resume"))
    assert other.returncode == 2
    assert "was started with" in other.stderr
    assert run(*coder(pairs, tmp_path / "net", *SHORT, "--seed", "1", "--force")).returncode == 0


# The process kills itself: another one might be too late on a busy machine.
DIES_AT_THE_FIRST_CHECKPOINT = """
import os, pathlib, signal
from fwnet.cli import main

replace = pathlib.Path.replace

def replace_and_die(self, target):
    replace(self, target)
    if target.name == "checkpoint.safetensors":
        os.kill(os.getpid(), signal.SIGKILL)

pathlib.Path.replace = replace_and_die
main()
"""


def test_kill_9_and_resume_give_the_same_weights(pairs, tmp_path):
    options = ("--num-epochs", "6", "--num-layers", "2", "--batch-size", "20")
    options += ("--checkpoint-seconds", "0.02")
    assert run(*coder(pairs, tmp_path / "whole", *options)).returncode == 0
    killed = coder(pairs, tmp_path / "killed", *options)
    process = subprocess.run(
        [sys.executable, "-c", DIES_AT_THE_FIRST_CHECKPOINT, *killed],
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # as many as here: rounding depends on it
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert not (tmp_path / "killed" / "model.safetensors").exists()
    assert run(*killed, "--resume").returncode == 0
    whole, resumed = (load_model(tmp_path / n / "model.safetensors") for n in ("whole", "killed"))
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
    histories = [
        [
            {**json.loads(line), "seconds": 0}
            for line in (tmp_path / n / "history.jsonl").read_text().splitlines()
        ]
        for n in ("whole", "killed")
    ]
    assert histories[0] == histories[1]


def test_two_machines_agree_with_one(pairs, tmp_path):
    options = (*SHORT, "--num-epochs", "1")
    assert run(*coder(pairs, tmp_path / "one", *options)).returncode == 0
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # As on two machines: one launcher each. --multi_gpu is Accelerate's name for one process per
    # device; the devices are CPUs by --device cpu.
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"]
    launch += ["--num_machines", "2", "--num_processes", "2", "--main_process_ip", "127.0.0.1"]
    launch += ["--main_process_port", str(port), "--mixed_precision", "no"]
    launch += ["--dynamo_backend", "no", "--machine_rank"]
    machines = [
        subprocess.Popen(
            [*launch, str(rank), "-m", "fwnet", *coder(pairs, tmp_path / "two", *options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for rank in range(2)
    ]
    try:
        outputs = [machine.communicate(timeout=300) for machine in machines]
    finally:
        for machine in machines:
            machine.kill()
    assert [machine.returncode for machine in machines] == [0, 0], outputs
    assert [stdout.count("validation error") for stdout, _ in outputs] == [1, 0]
    one, two = (load_model(tmp_path / n / "model.safetensors") for n in ("one", "two"))
    with safe_open(tmp_path / "two" / "model.safetensors", framework="pt") as file:
        assert json.loads(file.metadata()["fwnet"])["notes"]["num_processes"] == 2
    for name, value in one.state_dict().items():
        torch.testing.assert_close(value, two.state_dict()[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "expected p and radius, or a model, got neither"),
        (("--model", "none.safetensors"), "none.safetensors does not exist"),
        (("--model", "MODEL", "--p", "1.3"), "expected no other option, got p 1.3"),
        (
            ("--model", "MODEL", "--certificates", "c.npy"),
            "expected no other option, got certificates c.npy",
        ),
        (("--model", "x.npy"), "is not a model file of fwnet"),
        (
            ("--model", "conv_fwnet_t16.denoise_gray"),
            "is a network for images; encode needs a file",
        ),
    ],
)
def test_encode_refuses_what_does_not_fit(pairs, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(pairs)
    model = tmp_path / "m.safetensors"
    from fwnet.models import FWNet

    FWNet(10, 20, 2).save(model)
    options = [str(model) if o == "MODEL" else o for o in options]
    data, output = str(pairs / "x.npy"), str(tmp_path / "codes.npy")
    result = run("encode", data, "-o", output, *options)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_encode_refuses_codes_that_are_no_numbers(pairs, tmp_path):
    from fwnet.models import FWNet

    x = np.load(pairs / "x.npy").astype(np.float64)
    x[3] *= 1e300
    np.save(tmp_path / "huge.npy", x)
    FWNet(10, 20, 2).save(tmp_path / "m.safetensors")
    arguments = ("--model", str(tmp_path / "m.safetensors"), "-o", str(tmp_path / "c.npy"))
    result = run("encode", str(tmp_path / "huge.npy"), *arguments)
    assert result.returncode == 2
    assert "NaN or infinite for 1 of 600 rows" in result.stderr
    assert not (tmp_path / "c.npy").exists()
    FWNet(10, 20, 2).bfloat16().save(tmp_path / "m.safetensors")
    result = run("encode", str(pairs / "x.npy"), *arguments, "--force")
    assert result.returncode == 0, result.stderr
    assert np.load(tmp_path / "c.npy").dtype == np.float32


def test_encode_refuses_a_network_for_other_signals(pairs, tmp_path):
    from fwnet.models import FWNet

    FWNet(11, 20, 2).save(tmp_path / "m.safetensors")
    arguments = ("--model", str(tmp_path / "m.safetensors"), "-o", str(tmp_path / "c.npy"))
    result = run("encode", str(pairs / "x.npy"), *arguments)
    assert result.returncode == 2
    assert "must have 11 columns" in result.stderr


def test_reproduce_lists_and_measures(tmp_path, monkeypatch):
    listed = run("reproduce", "--output", str(tmp_path))
    assert listed.returncode == 0
    assert "synthetic-l1" in listed.stdout
    assert "hours above" not in " ".join(listed.stdout.split())
    results = str(Path(__file__).parents[1] / "results")
    times = run("reproduce", "--output", results).stdout
    assert "trained for the hours above" in " ".join(times.split())
    stored = Result.load(Path(__file__).parents[1] / "results" / "synthetic-sharing.json")
    measured = []

    def measure(experiment, lab):
        """Stand in for the experiments, which have tests of their own."""
        measured.append((experiment.id, lab.quick))
        return stored

    monkeypatch.setattr(Experiment, "run", measure)
    quick = run("reproduce", "synthetic-sharing", "--quick", "-o", str(tmp_path), "--device", "cpu")
    assert quick.returncode == 0, quick.stderr
    assert measured == [("synthetic-sharing", True)]
    assert "The paper:" in quick.stdout
    assert not re.search("Held|Did not hold|Indistinguishable", quick.stdout)
    assert quick.stdout.splitlines()[-1].startswith("This small version shows only that the code")
    full = run("reproduce", "synthetic-sharing", "-o", str(tmp_path / "full"), "--device", "cpu")
    assert re.search("Held|Did not hold|Indistinguishable", full.stdout)
    assert measured.pop() == ("synthetic-sharing", False)
    shutil.rmtree(tmp_path / "full")
    assert {p.name for p in tmp_path.iterdir()} == {
        "synthetic-sharing-quick.json",
        "synthetic-sharing-quick.png",
    }


def test_reproduce_refuses_what_it_does_not_know(tmp_path):
    for arguments in (
        ("nothing",),
        ("synthetic-sharing", "--workers", "0"),
        ("synthetic-sharing", "--page", str(tmp_path / "no such folder" / "page.md")),
    ):
        result = run("reproduce", *arguments, "-o", str(tmp_path))
        assert result.returncode == 2
        assert "--help)" in result.stderr


def test_reproduce_with_broken_files(tmp_path):
    (tmp_path / "synthetic-l1.json").write_text('"a string"')
    assert "unreadable" in run("reproduce", "-o", str(tmp_path)).stdout
    page = run("reproduce", "-o", str(tmp_path), "--page", str(tmp_path / "page.md"))
    assert page.returncode == 2
    assert "is not a result of fwnet reproduce" in page.stderr
