"""Pictures that every machine has, for quick versions of the experiments on images."""

from __future__ import annotations

from pathlib import Path

__all__ = ["small_files"]

LEARN = ("chelsea", "coffee", "rocket", "brick")
TEST = ("camera", "astronaut")


def small_files() -> tuple[list[Path], list[Path]]:
    """Pictures of scikit-image, to learn from and to test on."""
    import skimage.data

    folder = Path(skimage.data.__file__).parent
    learn, test = ([next(folder.glob(f"{name}.*")) for name in part] for part in (LEARN, TEST))
    return learn, test
