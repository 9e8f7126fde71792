import json

import numpy as np
import pytest
import torch

from fwnet.bench import BENCHMARKS, Options, Report, Row, run_benchmark
from fwnet.bench.dictionary import judge, mean_norm, patches
from fwnet.bench.harness import compare
from fwnet.bench.network import speedups
from tests.trainings import run


def test_ratios_are_against_the_first_candidate():
    def wait(loops):
        return lambda _: sum(range(loops))

    rows = compare(
        "loops",
        {"short": wait(20_000), "long": wait(200_000)},
        Options(torch.device("cpu")),
        rounds=9,
        targets={"long": 20.0},
    )
    assert [row.name for row in rows] == ["short", "long"]
    assert rows[0].ratio == 1
    assert rows[1].ratio == pytest.approx(rows[1].milliseconds / rows[0].milliseconds)
    assert rows[1].target == 20


def test_rounds_are_numbered_for_rotating_inputs():
    seen = []
    options = Options(torch.device("cpu"))
    compare("one", {"candidate": seen.append}, options, rounds=4, warmup=0, measure_memory=False)
    assert seen == [0, 1, 2, 3]


def test_report_is_saved_under_the_name_of_the_hardware(tmp_path):
    report = Report(
        "pool", "fwnet bench pool", "NVIDIA H200 (x1)", "copy", [Row("g", "n", 1, 2, 0, None)]
    )
    path = report.save(tmp_path)
    assert path.name == "bench-pool-nvidia-h200--x1.json"
    assert json.loads(path.read_text())["rows"][0]["milliseconds"] == 2
    assert list(tmp_path.iterdir()) == [path]


def test_projection_benchmark_certifies_what_it_times():
    report = run_benchmark("projection", Options(torch.device("cpu"), quick=True))
    assert report.notes["largest optimality residual"] < 1e-10
    assert len(report.rows) == 2


class TestDictionary:
    def test_patches_are_the_same_every_time_and_without_mean(self):
        equal = patches(900, equal_contrast=True, seed=0)
        assert equal.shape == (900, 64)
        assert equal.dtype == np.float32
        np.testing.assert_allclose(equal.mean(1), 0, atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(equal, axis=1), 8, rtol=1e-5)
        np.testing.assert_array_equal(equal, patches(900, equal_contrast=True, seed=0))
        as_they_are = patches(900, equal_contrast=False, seed=0)
        assert as_they_are.shape == (900, 64)
        assert np.linalg.norm(as_they_are, axis=1).std() > 1

    def test_judges_by_both_objectives(self):
        x = patches(200, equal_contrast=True, seed=0)
        few, many = x[:20] / 8, x[:100] / 8
        unseen = torch.from_numpy(x)
        radius = mean_norm(unseen, many)
        poor, good = (judge(unseen, radius, 1.0, atoms) for atoms in (few, many))
        assert good.is_as_good_as(poor)
        assert not poor.is_as_good_as(good)
        assert good.is_as_good_as(good)
        assert max(poor.gap, good.gap) < 0.01 * good.constrained


def test_speedups_compare_like_with_like():
    times = {
        "plain operators": 100.0,
        "plain operators, torch.compile": 30.0,
        "fused step": 20.0,
        "fused step, channels last": 18.0,
        "fused step, torch.compile": 15.0,
        "fused step, torch.compile, CUDA graph, bf16": 5.0,
        "fused step without optimizer": 16.0,
        "convolutions alone": 10.0,
    }
    notes = speedups(times)
    assert notes["eager: times as fast as plain operators"] == 5
    assert notes["compiled: times as fast as plain operators"] == 2
    assert notes["fastest"] == "fused step, torch.compile, CUDA graph, bf16"
    assert notes["fastest: times as fast as plain operators, torch.compile"] == 6
    del times["plain operators, torch.compile"]  # it did not compile: no ratio, rather than NaN
    assert not any("torch.compile" in key for key in speedups(times))


def test_codes_by_p_compares_solutions_of_the_same_problem():
    report = run_benchmark("codes", Options(torch.device("cpu"), quick=True, exponents=(1.0, 2.0)))
    assert report.command == "fwnet bench codes --device cpu --p 1,2 --quick"
    group = "synthetic, 50 × 100, radius 2.5"
    certified = report.notes[f"{group}, certified of 200"]
    assert set(certified.values()) == {200}
    assert set(certified) == {f"p = {p}, float{bits}" for p in (1, 2) for bits in (32, 64)}
    # scikit-learn's codes are optimal for the penalty that belongs to the radius.
    assert report.notes[f"{group}, lasso_lars"]["largest gap"] < 1e-12
    assert report.notes[f"{group}, lasso_cd, gap 1e-10"]["largest gap"] <= 1e-10
    assert report.notes[f"{group}, lasso_cd"]["largest gap"] < 1e-6


def test_command_line_lists_and_refuses():
    listing = run("bench")
    assert listing.returncode == 0
    assert all(name in listing.stdout for name in BENCHMARKS)
    for wrong in (("pool", "--p", "all"), ("codes", "--p", "0.5"), ("codes", "--p", "1,x")):
        refused = run("bench", *wrong)
        assert refused.returncode == 2
        assert "--p" in refused.stderr
    result = run("bench", "nosuch")
    assert result.returncode == 2
    assert "expected" in result.stderr
