"""Networks that remove noise."""

from dataclasses import replace
from functools import partial
from typing import Any

from fwnet.experiments.image_study import MIDDLE, ImageCase

LEVELS = (15, 25, 50)
PATCH_SETTINGS: dict[str, Any] = {"num_epochs": 5, "batch_size": 4096, "compile": False}


denoiser = partial(ImageCase, task={"sigma": MIDDLE}, data="berkeley", tuning_epochs=3)


def conv_fwnet(num_layers: int) -> ImageCase:
    """Return our network of a depth."""
    family = 4 if num_layers <= 4 else 16
    return denoiser(
        name=f"Conv F-W Net ({num_layers} layers)",
        model="ConvFWNet",
        options={"num_layers": num_layers},
        family=None if num_layers == family else conv_fwnet(family),
        tuning_epochs=3 if num_layers <= 4 else 2,
    )


def dncnn(num_layers: int, batch_norm: bool = True) -> ImageCase:
    """Return DnCNN of a depth."""
    # With batch normalization the first outputs would be far too large.
    changes = {"output_gain": 0.1} if batch_norm else {"batch_norm": False}
    family = 5 if num_layers <= 5 else 17
    return denoiser(
        name=f"DnCNN ({num_layers} layers{'' if batch_norm else ', w/o BN'})",
        model="DnCNN",
        options={"num_layers": num_layers, **changes},
        family=None if num_layers == family else dncnn(family, batch_norm),
        tuning_epochs=3 if num_layers <= 5 else 2,
    )


def on_patches(name: str, model: str, num_layers: int, **options: Any) -> ImageCase:
    """Return a network with full matrices on patches."""
    return denoiser(
        name=name,
        model=model,
        options={"num_layers": num_layers, "num_atoms": 512, **options},
        start="ksvd",
        tuning_epochs=5,
        given=PATCH_SETTINGS,
    )


def fc_fwnet(num_layers: int) -> ImageCase:
    """Return F-W Net on patches."""
    case = on_patches(f"FC F-W Net ({num_layers} layers)", "FWNet", num_layers, p=1.5)
    return case if num_layers == 4 else replace(case, family=fc_fwnet(4))


def fc_fixed(p: float) -> ImageCase:
    """Return F-W Net of four layers on patches with a fixed p."""
    case = on_patches(f"FC F-W Net, fixed p = {p:g}", "FWNet", 4, p=p, learn_p=False)
    return replace(case, family=fc_fwnet(4))


def fc_lista(num_layers: int) -> ImageCase:
    """Return LISTA on patches."""
    case = on_patches(f"FC LISTA ({num_layers} layers)", "LISTA", num_layers, threshold=0.01)
    return case if num_layers == 4 else replace(case, family=fc_lista(4))


CONV_LISTA = denoiser(
    name="Conv LISTA (4 layers)", model="ConvLISTA", options={"num_layers": 4, "threshold": 0.1}
)
PLAIN = denoiser(
    name="Conv F-W Net (4 layers), authors' form",
    model="ConvFWNet",
    options={"num_layers": 4, "residual": False, "eps": 0.0},
)


def at_levels(cases: list[ImageCase]) -> list[ImageCase]:
    """Return cases at all noise levels."""
    return [
        replace(case, task={"sigma": sigma}, family=case.family or case)
        for case in cases
        for sigma in LEVELS
    ]
