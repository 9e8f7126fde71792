"""The time of `import fwnet` compared with `import torch`."""

import subprocess
import sys

from fwnet.bench.harness import Options, Report, compare


def run(options: Options) -> Report:
    """Time each import in a fresh interpreter; the first of each fills the disk cache."""
    report = options.report("import", baseline="import torch")
    report.rows = compare(
        "a fresh interpreter",
        {
            "import torch": lambda _: _interpreter("import torch"),
            "import fwnet": lambda _: _interpreter("import fwnet"),
        },
        options,
        rounds=3 if options.quick else 15,
        warmup=1,
        targets={"import fwnet": 1.3},
        measure_memory=False,
    )
    return report


def _interpreter(statement: str) -> None:
    subprocess.run([sys.executable, "-c", statement], check=True)
