import pytest

from tests.trainings import save_noise


@pytest.fixture
def photos(tmp_path):
    """A folder of four images to learn from."""
    for index in range(4):
        save_noise(tmp_path / "photos" / f"{index}.png", seed=index)
    return tmp_path / "photos"
