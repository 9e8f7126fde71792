"""Restorations: one object each for what is degraded, and how a network undoes it."""

from fwnet.restoration.denoising import Denoising
from fwnet.restoration.option import option
from fwnet.restoration.recipe import Recipe, Settings
from fwnet.restoration.restoration import Example, ImageSource, Restoration, TrainingData
from fwnet.restoration.upscaling import Upscaling

__all__ = [
    "RESTORATIONS",
    "Denoising",
    "Example",
    "ImageSource",
    "Recipe",
    "Restoration",
    "Settings",
    "TrainingData",
    "Upscaling",
    "option",
]

RESTORATIONS: dict[str, type[Restoration]] = {kind.name: kind for kind in (Denoising, Upscaling)}
