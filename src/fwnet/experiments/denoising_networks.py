"""The networks that experiments on denoising compare: their trainings, learning rates and rows.

All networks of a table are trained by the same loop for the same number of steps; the learning rate
of each kind of network is the one with the best PSNR on the held-back images after a shorter
training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fwnet.experiments.compared_network import SEEDS, ComparedNetwork, steps_per_epoch
from fwnet.experiments.denoising import DenoisingTraining, Start
from fwnet.experiments.experiment import Lab, Result
from fwnet.experiments.image_figures import add_rows, finished
from fwnet.experiments.learning_rates import learning_rates
from fwnet.experiments.runs import Job
from fwnet.models import MODELS, CodingNetwork
from fwnet.restoration import Denoising, Recipe

__all__ = ["FAMILIES", "Network", "final_jobs", "learning_rates_of", "measure_networks"]

PATCH_SETTINGS: dict[str, Any] = {"num_epochs": 5, "batch_size": 4096, "compile": False}
LEVELS = (15, 25, 50)
MIDDLE = 25  # where learning rates are chosen


@dataclass(frozen=True)
class Network(ComparedNetwork):
    """One of the networks that are compared.

    Attributes:
        start: Where weights come from.
        tuning_epochs: How long a training is that helps to choose a learning rate.
    """

    start: Start = "random"
    tuning_epochs: int = 3
    recipe: ClassVar[Recipe] = Denoising.recipe

    @property
    def on_patches(self) -> bool:
        """Whether it works on patches of 8 × 8, as the networks with full matrices do."""
        return issubclass(MODELS[self.model], CodingNetwork)

    def job(
        self,
        lab: Lab,
        sigma: float | list[float],
        learning_rate: float,
        seed: int = 0,
        *,
        num_epochs: int | None = None,
        tested_at: Sequence[float] = (),
        parent: DenoisingTraining | None = None,
        color: bool = False,
    ) -> DenoisingTraining:
        """Its training at a noise level."""
        others = PATCH_SETTINGS if self.on_patches else None
        settings = self.settings(lab, learning_rate, seed, num_epochs, others)
        options = self.options
        if lab.quick:
            options = {**options, **({"num_atoms": 64} if self.on_patches else {"channels": 8})}
        return DenoisingTraining(
            data="small" if lab.quick else "berkeley",
            model=self.model,
            options=options,
            sigma=sigma,
            settings=settings,
            crop_size=8 if self.on_patches else 48,
            crops_per_epoch=steps_per_epoch(lab) * settings["batch_size"],
            start=self.start,
            parent=None if parent is None else parent.key,
            color=color,
            tested_at=list(tested_at),
        )


def conv_fwnet(num_layers: int) -> Network:
    """Our network, of a depth."""
    family = "Conv F-W Net (4 layers)" if num_layers <= 4 else "Conv F-W Net (16 layers)"
    return Network(
        f"Conv F-W Net ({num_layers} layers)",
        "ConvFWNet",
        {"num_layers": num_layers},
        family,
        tuning_epochs=3 if num_layers <= 4 else 2,
    )


def dncnn(num_layers: int, batch_norm: bool = True) -> Network:
    """DnCNN, of a depth."""
    shallow = f"DnCNN (5 layers{'' if batch_norm else ', w/o BN'})"
    return Network(
        f"DnCNN ({num_layers} layers{'' if batch_norm else ', w/o BN'})",
        "DnCNN",
        # With batch normalization the output would be far too large at first.
        {"num_layers": num_layers}
        | ({"output_gain": 0.1} if batch_norm else {"batch_norm": False}),
        shallow if num_layers <= 5 else "DnCNN (17 layers)",
        tuning_epochs=3 if num_layers <= 5 else 2,
    )


def fc_fwnet(num_layers: int, p: float | None = None) -> Network:
    """The network with full matrices on patches; p is learned unless it is given."""
    options: dict[str, Any] = {"num_layers": num_layers, "num_atoms": 512, "p": p or 1.5}
    if p is not None:
        options["learn_p"] = False
    name = f"FC F-W Net ({num_layers} layers)" if p is None else f"FC F-W Net, fixed p = {p:g}"
    return Network(name, "FWNet", options, "FC F-W Net (4 layers)", "ksvd", tuning_epochs=5)


def fc_lista(num_layers: int) -> Network:
    """LISTA on patches."""
    options = {"num_layers": num_layers, "num_atoms": 512, "threshold": 0.01}
    name = f"FC LISTA ({num_layers} layers)"
    return Network(name, "LISTA", options, "FC LISTA (4 layers)", "ksvd", tuning_epochs=5)


CONV_LISTA = Network(
    "Conv LISTA (4 layers)",
    "ConvLISTA",
    {"num_layers": 4, "threshold": 0.1},
    "Conv LISTA (4 layers)",
)
PLAIN = Network(
    "Conv F-W Net (4 layers), authors' form",
    "ConvFWNet",
    {"num_layers": 4, "residual": False, "eps": 0.0},
    "Conv F-W Net (4 layers), authors' form",
)
FAMILIES = {
    network.name: network
    for network in (
        conv_fwnet(4),
        conv_fwnet(16),
        PLAIN,
        CONV_LISTA,
        dncnn(5),
        dncnn(5, batch_norm=False),
        dncnn(17),
        fc_fwnet(4),
        fc_lista(4),
    )
}


def learning_rates_of(lab: Lab, result: Result, families: Sequence[str]) -> dict[str, float]:
    """The learning rate of each family, chosen in the middle."""

    def trial(network: Network) -> Callable[[float], Job]:
        return lambda rate: network.job(lab, MIDDLE, rate, num_epochs=network.tuning_epochs)

    return learning_rates(lab, result, {name: trial(FAMILIES[name]) for name in families})


def table_networks() -> list[Network]:
    """Those of the table, and some that it should have had."""
    return [
        fc_lista(4),
        fc_lista(8),
        fc_fwnet(4),
        fc_fwnet(8),
        dncnn(4),
        dncnn(4, batch_norm=False),
        dncnn(5),
        dncnn(5, batch_norm=False),
        CONV_LISTA,
        PLAIN,
        conv_fwnet(4),
    ]


def seeds_at(lab: Lab, network: Network, sigma: float) -> tuple[int, ...]:
    """Three seeds for the networks of four layers (or five) in the middle; one elsewhere."""
    several = sigma == MIDDLE and network.options["num_layers"] in (4, 5)
    return SEEDS if several and not lab.quick else SEEDS[:1]


def final_jobs(
    lab: Lab, network: Network, sigma: float, rates: dict[str, float]
) -> list[DenoisingTraining]:
    """Trainings that are tested, one a seed."""
    return [
        network.job(lab, sigma, rates[network.family], seed, tested_at=[sigma])
        for seed in seeds_at(lab, network, sigma)
    ]


def measure_networks(
    lab: Lab,
    result: Result,
    networks: Sequence[Network],
    levels: Sequence[float],
    paper: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Choose learning rates, train every network at every level, and put what came into rows.

    paper: The printed figures of a network, one a level. Other images have none.
    """
    if lab.quick:
        paper = None
    rates = learning_rates_of(lab, result, sorted({network.family for network in networks}))
    jobs = {
        (network.name, sigma): final_jobs(lab, network, sigma, rates)
        for network in networks
        for sigma in levels
    }
    if not lab.runner.finished_only:  # all at once, so that many can work on them
        lab.runner.run([job for listed in jobs.values() for job in listed])
    for network in networks:
        printed = (paper or {}).get(network.name, [None] * len(levels))
        for sigma, figure in zip(levels, printed, strict=True):
            add_rows(
                result,
                network.name,
                {"σ": sigma},
                finished(lab, jobs[network.name, sigma]),
                paper=figure,
                learns_p=network.options.get("learn_p", True),
            )
