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
    "codes/plot_codes": "codes.png",
    "images/plot_denoise": "denoising.jpg",
    "networks/plot_learn_p_from_codes": "learning.png",
    "codes/plot_pool_p": "pool_p.png",
    "codes/plot_radius": "radius.png",
    "images/plot_upscale": "upscaling.jpg",
}

for example, picture in PICTURES.items():
    runpy.run_path(str(PROJECT / "examples" / f"{example}.py"))
    plt.figure(1).savefig(PROJECT / "docs" / "images" / picture, dpi=80)
    plt.close("all")
