"""The simulated cluster of docs/scale.md where the answer is known, and the page's figures."""

import importlib.util
import json
import math
import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("scale_plan", PROJECT / "docs" / "scale_plan.py")
scale_plan = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(scale_plan)


def hours(machine, count=1, *, tasks=4000, read=0.0, core=0.0, gpu=0.0, driver=0.0):
    work = scale_plan.Work("", tasks, read, 0.0, core, gpu, driver)
    places, gpus, network, failures = machine
    kind = scale_plan.Machine("", places, gpus, network, failures)
    return scale_plan.simulate(work, kind, count)


@pytest.mark.parametrize(
    ("machine", "options", "seconds", "busy"),
    [
        ((8, 0, 1e12, math.inf), {"core": 2.0}, 4000 * 2 / (4 * 8), "cores busy"),
        ((8, 2, 1e12, math.inf), {"core": 0.1, "gpu": 2.0}, 4000 * 2 / (4 * 2), "GPUs busy"),
        ((64, 0, 1e9, math.inf), {"read": 1e9, "core": 0.5}, 4000 * 1e9 / 4e9, "network busy"),
        ((8, 0, 1e12, math.inf), {"core": 0.01, "driver": 0.1}, 4000 * 0.1, "driver busy"),
    ],
)
def test_what_is_short_decides(monkeypatch, machine, options, seconds, busy):
    monkeypatch.setattr(scale_plan, "STREAM", 1e9)
    found = hours(machine, 4, **options)
    assert found["hours"] * 3600 == pytest.approx(seconds, rel=0.1)
    assert found[busy] > 0.9


def test_the_store_is_shared(monkeypatch):
    monkeypatch.setattr(scale_plan, "STORE", 1e9)
    found = hours((8, 0, 1e12, math.inf), 4, read=1e8, core=0.01)
    assert found["store busy"] > 0.9


def test_failures_cost_what_was_at_work():
    calm, stormy = (hours((8, 0, 1e12, every), 4, core=60.0) for every in (math.inf, 1.0))
    assert calm["failures"] == 0 < stormy["failures"]
    assert calm["hours"] < stormy["hours"] < 1.5 * calm["hours"]
    assert 0 < stormy["done twice"] < 0.05


def test_the_page_has_the_figures_of_the_records():
    text = (PROJECT / "docs" / "scale.md").read_text(encoding="utf-8")
    record = json.loads((PROJECT / "results" / "scale-plan.json").read_text())
    table = re.findall(r"^\| (.+?) \| .+? \| (\d+) \| ([\d.,]+) \| ([\d.,]+) \|", text, re.M)
    assert len(table) == len(record["rows"])
    for (_, machines, hours, total), row in zip(table, record["rows"], strict=True):
        assert int(machines) == row["machines"]
        assert float(hours.replace(",", "")) == pytest.approx(row["hours"], rel=0.05)
        assert float(total.replace(",", "")) == pytest.approx(row["core or GPU hours"], rel=0.05)
