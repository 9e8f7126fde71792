"""Deblur and inpaint with deepinv
===============================

``fwnet.deepinv.Denoiser`` is a prior for deepinv's plug-and-play algorithms. DPIR looks for an
image x that explains the measurements y = Ax + noise, and that a denoiser leaves as it is: it takes
turns between a step towards the measurements and the denoiser. Here photographs are deblurred, and
photographs of which half the pixels are missing are completed, with several denoisers in the same
algorithm.

Run ``python examples/plug_and_play.py``. It needs ``pip install '.[deepinv]'`` in the clone, and
``.[bm3d]`` for BM3D. ``--output results`` also writes the figures and the picture to that folder.
"""

# sphinx_gallery_thumbnail_path = '../results/plug-and-play.jpg'

import argparse
import json
import time
from pathlib import Path

import deepinv
import skimage.color
import skimage.data
import torch
from matplotlib.figure import Figure
from torch.nn.functional import conv2d

import fwnet
from fwnet.hardware import hardware_name

# %%
# Images and problems
# -------------------
# Photographs that come with scikit-image, in gray, 256 × 256 pixels. The cat serves to choose one
# number for each denoiser, the others to measure.

CHOSEN_ON, MEASURED_ON = ["cat"], ["camera", "astronaut", "coffee"]
SIZE = (1, 256, 256)
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def photograph(name: str) -> torch.Tensor:
    """Return the middle of a photograph in gray, (1, 1, 256, 256)."""
    image = skimage.util.img_as_float32(getattr(skimage.data, name)())
    gray = image if image.ndim == 2 else skimage.color.rgb2gray(image)
    top, left = ((length - 256) // 2 for length in gray.shape)
    middle = torch.from_numpy(gray[top : top + 256, left : left + 256].copy())
    return middle.float()[None, None].to(DEVICE)


def problems() -> dict[str, deepinv.physics.Physics]:
    """Return a blur, and a mask that hides half the pixels."""
    noise = deepinv.physics.GaussianNoise
    mask = (torch.rand(SIZE, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    kernel = deepinv.physics.functional.blur.gaussian_blur(sigma=(1.6, 1.6))
    return {
        "deblur": deepinv.physics.BlurFFT(SIZE, kernel, noise_model=noise(0.01)).to(DEVICE),
        "inpaint": deepinv.physics.Inpainting(SIZE, mask, noise_model=noise(0.02)).to(DEVICE),
    }


# %%
# Denoisers
# ---------
# Those of deepinv are total variation, BM3D, and DnCNN, whose weights it downloads. That DnCNN was
# trained for σ = 2/255 and does not use the level it is told.


class TotalVariation(deepinv.models.Denoiser):
    """deepinv's TV with the threshold σ, started anew for every image."""

    def forward(self, x: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
        """Denoise images."""
        return deepinv.models.TVDenoiser(n_it_max=200)(x, ths=sigma)


def denoisers() -> dict[str, torch.nn.Module]:
    """Return the denoisers that can be had here."""
    makers = {
        "TV (deepinv)": TotalVariation,
        "BM3D (deepinv)": deepinv.models.BM3D,
        "DnCNN (deepinv)": lambda: deepinv.models.DnCNN(1, 1, pretrained="download"),
        "fwnet, fast": lambda: fwnet.deepinv.Denoiser("conv_fwnet_t8.denoise_gray_fast"),
        "fwnet": lambda: fwnet.deepinv.Denoiser(in_channels=1),
    }
    found = {}
    for name, make in makers.items():
        try:
            found[name] = make().to(DEVICE)
        except Exception as error:  # not installed, or nothing to download from
            print(f"Without {name}: {type(error).__name__}")
    return found


# %%
# Plug and play
# -------------
# DPIR has eight rounds with falling noise levels. What level suits a denoiser depends on how
# strongly it smooths, so each is told a multiple of it, chosen on the cat.

FACTORS = (0.5, 0.7, 1.0, 1.4)


class Scaled(deepinv.models.Denoiser):
    """A denoiser that is told `factor` times the noise level."""

    def __init__(self, denoiser: torch.nn.Module, factor: float) -> None:
        super().__init__()
        self.denoiser, self.factor = denoiser, factor

    def forward(self, x: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
        """Denoise images."""
        return self.denoiser(x, self.factor * sigma)


def start(y: torch.Tensor, physics: deepinv.physics.Physics) -> torch.Tensor:
    """Return the image to start from: hidden pixels get the mean of their neighbors."""
    if not isinstance(physics, deepinv.physics.Inpainting):
        return y
    known, box = physics.mask.reshape(y.shape), torch.ones(1, 1, 5, 5).to(y)
    mean = conv2d(y, box, padding=2) / conv2d(known, box, padding=2).clamp(min=1)
    return torch.where(known > 0, y, mean)


def restored(
    name: str, physics: deepinv.physics.Physics, denoiser: torch.nn.Module, factor: float
) -> tuple[torch.Tensor, float]:
    """Degrade a photograph; return what DPIR makes of it, and its PSNR in dB."""
    x = photograph(name)
    torch.manual_seed(0)  # the same noise for every denoiser
    y = physics(x)
    noise = float(physics.noise_model.sigma)
    algorithm = deepinv.optim.DPIR(noise, Scaled(denoiser, factor), device=DEVICE)
    with torch.no_grad():
        found = algorithm(y, physics, init=start(y, physics)).clamp(0, 1)
    return found, fwnet.metrics.psnr(found, x).item()


def mean_psnr(names: list[str], *arguments: object) -> float:
    """Return the mean PSNR over photographs."""
    return sum(restored(name, *arguments)[1] for name in names) / len(names)


def measure() -> list[dict[str, object]]:
    """Return one row per problem and denoiser."""
    rows = []
    available = denoisers()
    for problem, physics in problems().items():
        for name, denoiser in available.items():
            factor = max(FACTORS, key=lambda one: mean_psnr(CHOSEN_ON, physics, denoiser, one))
            start = time.perf_counter()
            each = {image: restored(image, physics, denoiser, factor)[1] for image in MEASURED_ON}
            seconds = (time.perf_counter() - start) / len(each)
            mean = sum(each.values()) / len(each)
            rows.append({
                "problem": problem, "denoiser": name, "factor": factor,
                "psnr": round(mean, 2), "seconds": round(seconds, 1),
                "images": {image: round(value, 2) for image, value in each.items()},
            })  # fmt: skip
            print(f"{problem:8} {name:16} {mean:6.2f} dB {seconds:6.1f} s per image", flush=True)
    return rows


# %%
# One photograph
# --------------


DONE = {"deblur": "deblurred", "inpaint": "inpainted"}


def picture(factors: dict[str, float], image: str = "camera") -> Figure:
    """Draw a photograph, and for both problems the measurements and what DPIR makes of them."""
    denoiser = fwnet.deepinv.Denoiser(in_channels=1, device=DEVICE)
    shown = {"photograph": photograph(image)}
    for (problem, physics), measured in zip(
        problems().items(), ("blurred", "half the pixels"), strict=True
    ):
        torch.manual_seed(0)
        shown[measured] = physics(photograph(image))
        found, ratio = restored(image, physics, denoiser, factors[problem])
        shown[f"{DONE[problem]}: {ratio:.1f} dB"] = found
    figure = Figure(figsize=(11, 2.5), layout="constrained")
    for axis, (title, values) in zip(figure.subplots(1, 5), shown.items(), strict=True):
        axis.imshow(values[0, 0].cpu(), cmap="gray", vmin=0, vmax=1)
        axis.set_title(title, fontsize=11)
        axis.set_axis_off()
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Plug and play with several denoisers.")
    parser.add_argument("--output", type=Path, help="folder for the figures and the picture")
    output = parser.parse_args().output
    rows = measure()
    if output is not None:
        record = {
            "command": "python examples/plug_and_play.py --output results",
            "hardware": hardware_name(DEVICE),
            "versions": {"deepinv": deepinv.__version__, "torch": torch.__version__},
            "chosen_on": CHOSEN_ON,
            "rows": rows,
        }
        (output / "plug-and-play.json").write_text(json.dumps(record, indent=2) + "\n")
        factors = {row["problem"]: row["factor"] for row in rows if row["denoiser"] == "fwnet"}
        picture(factors).savefig(output / "plug-and-play.jpg", dpi=110)
