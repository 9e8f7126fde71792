import os

import pytest
import torch
from hypothesis import settings

# Suites that test classes inherit show what differs, too.
pytest.register_assert_rewrite("tests.image_commands", "tests.image_trainings")

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when kernels are defined

# Tests run side by side: threads that wait for each other would only get in their way.
torch.set_num_threads(1)

# The first call of an operator may take long; the examples are the same on every machine.
settings.register_profile("fwnet", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("fwnet")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
