"""Make the pictures of the README and of the guide from the gallery's examples.

    python docs/pictures.py

The first figure of an example becomes the picture.
"""

import runpy
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

PROJECT = Path(__file__).parents[1]
PICTURES = {
    "plot_codes": "codes.png",
    "plot_denoise": "denoising.jpg",
    "plot_learn_p_from_codes": "learning.png",
    "plot_pool_p": "pool_p.png",
    "plot_radius": "radius.png",
    "plot_upscale": "upscaling.jpg",
}

for example, picture in PICTURES.items():
    runpy.run_path(str(PROJECT / "examples" / f"{example}.py"))
    plt.figure(1).savefig(PROJECT / "docs" / "images" / picture, dpi=80)
    plt.close("all")
