import dataclasses

import pytest

from fwnet.training import ConfigError, TrainingConfig


def test_a_file_holds_what_it_was_written_from(tmp_path):
    config = TrainingConfig(
        num_epochs=7, optimizer="sgd", decay_at=(0.3, 0.6), clip_norm=0.1, schedule="step"
    )
    config.write(tmp_path / "c.toml")
    assert TrainingConfig.read(tmp_path / "c.toml") == config
    TrainingConfig().write(tmp_path / "default.toml")
    assert TrainingConfig.read(tmp_path / "default.toml") == TrainingConfig()


def test_a_file_may_have_only_some_settings(tmp_path):
    (tmp_path / "c.toml").write_text("num_epochs = 7\nseed = 3\n")
    config = TrainingConfig.read(tmp_path / "c.toml")
    assert config == TrainingConfig(num_epochs=7, seed=3)


def test_every_field_explains_itself():
    for field in dataclasses.fields(TrainingConfig):
        assert field.metadata["help"].endswith(".")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_epochs": 0}, "num_epochs must be an integer >= 1, got 0"),
        ({"num_epochs": 1.5}, "num_epochs must be an integer >= 1, got 1.5"),
        ({"batch_size": "many"}, "batch_size must be an integer >= 1, got 'many'"),
        ({"learning_rate": -1.0}, "learning_rate must be a number > 0, got -1.0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number > 0, got nan"),
        ({"optimizer": "lion"}, r"optimizer must be one of .*adam.*, got 'lion'"),
        ({"schedule": "linear"}, r"schedule must be one of .*cosine.*, got 'linear'"),
        ({"precision": "fp8"}, r"precision must be one of .*bf16.*, got 'fp8'"),
        ({"momentum": 1.0}, r"momentum must be in \[0, 1\), got 1.0"),
        ({"weight_decay": -1e-4}, "weight_decay must be a number >= 0"),
        ({"clip_norm": -1.0}, "clip_norm must be a number >= 0"),
        ({"decay_at": (0.5, 1.0)}, r"decay_at must be a list of fractions in \(0, 1\)"),
        ({"decay_at": 0.5}, r"decay_at must be a list of fractions in \(0, 1\), got 0.5"),
        ({"learning_rate": True}, "learning_rate must be a number > 0, got True"),
        ({"seed": -1}, "seed must be an integer >= 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        TrainingConfig(**settings)


def test_files_that_make_no_sense_are_refused(tmp_path):
    (tmp_path / "bad.toml").write_text("num_epochs = ")
    (tmp_path / "typo.toml").write_text("epochs = 3")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    for name, message in (
        ("none.toml", "none.toml does not exist"),
        ("bad.toml", "is not a TOML file"),
        ("binary.toml", "is not a TOML file"),
        ("typo.toml", "expected keys among num_epochs, .*, got 'epochs'"),
    ):
        with pytest.raises(ConfigError, match=message):
            TrainingConfig.read(tmp_path / name)


def test_schedules():
    def rates(**settings):
        config = TrainingConfig(learning_rate=1.0, **settings)
        return [config.learning_rate_at(step, 100) for step in (0, 25, 50, 75, 99)]

    assert rates(schedule="constant") == [1.0] * 5
    assert rates(schedule="step", decay_at=(0.5, 0.75)) == pytest.approx([1, 1, 0.1, 0.01, 0.01])
    cosine = rates(schedule="cosine")
    assert cosine[0] == 1.0
    assert cosine[2] == pytest.approx(0.5)
    assert 0 < cosine[-1] < 1e-3
