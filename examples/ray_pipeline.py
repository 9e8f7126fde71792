"""Certified codes in a pipeline of Ray Data
=========================================

Read Parquet files, code their rows, and set bad rows apart. ``python examples/ray_pipeline.py``
makes its own data in a temporary folder. It needs Ray: ``pip install '.[ray]'`` in the clone.
"""

# sphinx_gallery_thumbnail_path = 'images/codes.png'

import os
import tempfile
from pathlib import Path

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray

import fwnet.ray

rng = np.random.default_rng(0)
D = rng.standard_normal((16, 32))  # one atom per column

with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / "signals").mkdir()
    for number in range(4):
        x = rng.standard_normal((500, 16)).astype(np.float32)
        x[7, 3] = np.nan  # a bad row in every file
        columns = {"id": np.arange(500 * number, 500 * (number + 1))}
        columns |= {f"x{i}": np.ascontiguousarray(x[:, i]) for i in range(16)}
        pq.write_table(pa.table(columns), f"{folder}/signals/{number}.parquet")

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False

    # Every actor makes its coder once. One CPU is left for the readers. On a cluster:
    # ActorPoolStrategy(min_size=…, max_size=…), and num_gpus=1 for actors with a GPU.
    signals = ray.data.read_parquet(f"{folder}/signals")
    options = {"p": 1.3, "radius": 2.0, "columns": [f"x{i}" for i in range(16)]}
    coded = signals.map_batches(
        fwnet.ray.Coder,
        fn_constructor_args=[D],
        fn_constructor_kwargs=options,
        compute=ray.data.ActorPoolStrategy(
            size=1
        ),  # on a cluster: (min_size=…, max_size=…), num_gpus=…
        batch_size=500,
    ).materialize()

    good = coded.filter(lambda row: row["status_code"] == 0)
    print(f"{good.count()} of {coded.count()} rows are certified")
    print("largest gap:", f"{good.max('gap'):.1e}")
    bad = sorted(row["id"] for row in coded.filter(lambda row: row["status_code"] != 0).take_all())
    print("rows without a code:", bad)
    ray.shutdown()
