"""The networks that experiments on super-resolution compare: trainings, learning rates, figures.

All networks of a table are trained by the same loop for the same number of steps; the learning rate
of each kind of network is the one with the best PSNR on the held-back images after a shorter
training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from matplotlib.figure import Figure

from fwnet.experiments.compared_network import SEEDS, ComparedNetwork, steps_per_epoch
from fwnet.experiments.experiment import Lab, Result, row_of
from fwnet.experiments.image_figures import PSNR, SSIM, add_rows, is_above, psnr_row
from fwnet.experiments.learning_rates import learning_rates
from fwnet.experiments.pictures import bars, new_figure
from fwnet.experiments.runs import Job
from fwnet.experiments.super_resolution import Bicubic, Data, UpscalingTraining
from fwnet.restoration import Recipe, Upscaling

__all__ = ["FAMILIES", "Network", "final_jobs", "learning_rates_of", "measure_networks"]

TUNING_EPOCHS = 2
SETS = ("Set5", "Set14")
SMALL_OUTPUT = {"output_gain": 0.1}  # residual networks begin near bicubic enlargement


@dataclass(frozen=True)
class Network(ComparedNetwork):
    """One of the networks that are compared."""

    recipe: ClassVar[Recipe] = Upscaling.recipe

    def job(
        self,
        lab: Lab,
        learning_rate: float,
        seed: int = 0,
        *,
        data: Data,
        smaller_copies: bool,
        scale: int = 3,
        num_epochs: int | None = None,
        crop_size: int = 48,
        tested: bool = False,
    ) -> UpscalingTraining:
        """Its training.

        Args:
            lab: Where it is to be done.
            learning_rate: Where the learning rate starts.
            seed: Of weights and crops.
            data: What it learns from.
            smaller_copies: Whether it learns from smaller copies of that as well.
            scale: How many times as high and wide an image becomes.
            num_epochs: How long it is; None for as long as all that are compared.
            crop_size: The side of a crop of the large image.
            tested: Whether the network is tested.
        """
        settings = self.settings(lab, learning_rate, seed, num_epochs)
        options = self.options
        if "scale" in options:
            options = {**options, "scale": scale}
        if lab.quick:
            options = {**options, "channels": [8, 4] if self.model == "SRCNN" else 8}
        return UpscalingTraining(
            data="small" if lab.quick else data,
            smaller_copies=smaller_copies,
            model=self.model,
            options=options,
            scale=scale,
            settings=settings,
            crop_size=crop_size,
            crops_per_epoch=steps_per_epoch(lab) * settings["batch_size"],
            tested=tested,
        )


def conv_fwnet(name: str, **options: Any) -> Network:
    """Our network of four layers, or one that differs from it."""
    title = f"Conv F-W Net (4 layers){name}"
    return Network(title, "ConvFWNet", {"num_layers": 4, **SMALL_OUTPUT, **options}, title)


def fixed_exponent(p: float) -> Network:
    """Our network with a p that is not learned; its learning rate is that of the learned one."""
    options = {**OURS.options, "p": p, "learn_p": False}
    return Network(f"Conv F-W Net, fixed p = {p:g}", "ConvFWNet", options, OURS.name)


def vdsr(num_layers: int, batch_norm: bool = False) -> Network:
    """VDSR, of a depth."""
    suffix = " + BN" if batch_norm else ""
    options = {"num_layers": num_layers, **SMALL_OUTPUT}
    options |= {"batch_norm": True} if batch_norm else {}
    return Network(
        f"VDSR ({num_layers} layers){suffix}", "VDSR", options, f"VDSR (5 layers){suffix}"
    )


def srcnn(*kernel_sizes: int) -> Network:
    """SRCNN, of kernel sizes."""
    name = f"SRCNN ({'-'.join(map(str, kernel_sizes))})"
    return Network(name, "SRCNN", {"kernel_sizes": list(kernel_sizes)}, name)


OURS = conv_fwnet("")
PLAIN = conv_fwnet(", authors' form", residual=False, eps=0.0, output_gain=1.0)
SUB_PIXEL = conv_fwnet(", sub-pixel", scale=3)
NO_SKIP = conv_fwnet(", no skip", skip=False)
FULL_STEPS = conv_fwnet(", γ = 1", step_sizes=[1.0] * 4, learn_step_sizes=False)
RELU = conv_fwnet(", ReLU", activation="relu")
FIXED = [fixed_exponent(p) for p in (1.3, 1.5, 1.8, 2.3, 2.5)]
DEEP = Network(
    "Conv F-W Net (19 layers), sub-pixel",
    "ConvFWNet",
    {"num_layers": 19, **SMALL_OUTPUT, "scale": 3},
    "Conv F-W Net (19 layers), sub-pixel",
)
FAMILIES = {
    network.name: network
    for network in (
        OURS,
        PLAIN,
        SUB_PIXEL,
        NO_SKIP,
        FULL_STEPS,
        RELU,
        vdsr(5),
        vdsr(5, batch_norm=True),
        srcnn(9, 1, 5),
        srcnn(9, 5, 5),
        DEEP,
    )
}


def learning_rates_of(lab: Lab, result: Result, families: Sequence[str]) -> dict[str, float]:
    """The learning rate of each family."""

    def trial(network: Network) -> Callable[[float], Job]:
        data: Data = "t91+berkeley199" if network is DEEP else "t91"
        return lambda rate: network.job(
            lab, rate, data=data, smaller_copies=False, num_epochs=TUNING_EPOCHS
        )

    return learning_rates(lab, result, {name: trial(FAMILIES[name]) for name in families})


def final_jobs(lab: Lab, network: Network, rates: dict[str, float]) -> list[UpscalingTraining]:
    """Trainings that are tested, one a seed."""
    seeds = SEEDS[:1] if lab.quick else SEEDS
    return [
        network.job(lab, rates[network.family], seed, data="t91", smaller_copies=True, tested=True)
        for seed in seeds
    ]


def measure_networks(
    lab: Lab,
    result: Result,
    networks: Sequence[Network],
    paper: Mapping[str, Sequence[float | None]] | None = None,
) -> None:
    """Choose learning rates, train every network on 91 images, and put what came into rows.

    paper: The printed figures of a network, one a set of test images. Other images have none.
    """
    if lab.quick:
        paper = None
    rates = learning_rates_of(lab, result, sorted({network.family for network in networks}))
    jobs = {network.name: final_jobs(lab, network, rates) for network in networks}
    lab.runner.run([job for listed in jobs.values() for job in listed])  # many work on them
    for network in networks:
        printed = (paper or {}).get(network.name, [None] * len(SETS))
        records = lab.runner.run(jobs[network.name])
        for index, name in enumerate(test_sets(lab)):
            add_rows(
                result,
                network.name,
                {"images": name},
                records,
                test=index,
                paper=printed[index],
                learns_p=network.options.get("learn_p", True),
            )


def add_bicubic(lab: Lab, result: Result, scale: int = 3) -> None:
    """The figures of bicubic enlargement."""
    (record,) = lab.runner.run([Bicubic("small" if lab.quick else "t91", scale)])
    for test in record["tests"]:
        for quantity, key in ((PSNR, "psnr"), (SSIM, "ssim")):
            setting = {"images": test["images"]}
            result.rows.append(row_of("bicubic", setting, quantity, [test[key]]))


def draw_bars(result: Result) -> Figure:
    """PSNR of all methods, a panel a set of images."""
    names = list(dict.fromkeys(row.setting["images"] for row in result.rows))
    figure, axes = new_figure(columns=len(names), width=5.6)
    for axis, name in zip(axes if len(names) > 1 else [axes], names, strict=True):
        rows = [r for r in result.rows if r.quantity == PSNR and r.setting["images"] == name]
        bars(
            axis,
            rows,
            lambda row: "F-W" in row.method,
            xlabel="PSNR in dB (crosses: the paper)",
            title=f"{name} × 3",
        )
    return figure


def psnr_of(result: Result, name: str) -> str:
    """The PSNR of a method on every set, with its spread."""
    parts = []
    for images in dict.fromkeys(row.setting["images"] for row in result.rows):
        row = psnr_row(result, name, images=images)
        if row is not None:
            spread = "" if row.spread is None else f" ± {row.spread:.2f}"
            parts.append(f"{row.ours:.2f}{spread}")
    return " / ".join(parts)


def is_better(result: Result, ours: str, theirs: str) -> bool:
    """Whether one network has a higher PSNR than another on every set."""
    sets = dict.fromkeys(row.setting["images"] for row in result.rows)
    pairs = [[psnr_row(result, name, images=one) for name in (ours, theirs)] for one in sets]
    return all(is_above(*pair) for pair in pairs)


def test_sets(lab: Lab) -> Sequence[str]:
    """What networks are tested on."""
    return ("small",) if lab.quick else SETS
