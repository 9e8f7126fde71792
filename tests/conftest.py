import os
import signal

import pytest
import torch
from hypothesis import settings

# Suites that test classes inherit show what differs, too.
pytest.register_assert_rewrite(
    "tests.browser.pages", "tests.image_commands", "tests.image_trainings"
)

# What a user may have set, and what would change lines, colors, kernels or processes.
USER_VARIABLES = """
COLUMNS LINES TERMINAL_WIDTH FORCE_COLOR NO_COLOR PY_COLORS TTY_COMPATIBLE TTY_INTERACTIVE
GITHUB_ACTIONS FWNET_KERNELS RANK LOCAL_RANK WORLD_SIZE
"""
for name in USER_VARIABLES.split():
    os.environ.pop(name, None)

# Shells start work in the background with Ctrl-C ignored, which programs that tests start inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

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
