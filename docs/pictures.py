"""Make the pictures of the README and of the guide.

python docs/pictures.py         # the first figures of some examples of the gallery
python docs/pictures.py site    # screenshots of the site that `make docs` built (needs chromium)
"""

import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
from PIL import Image

PROJECT = Path(__file__).parents[1]
IMAGES = PROJECT / "docs" / "images"
FIGURES = {
    "codes/plot_codes": "codes.png",
    "codes/plot_learn_ball": "learn_ball.png",
    "codes/plot_pool_p": "pool_p.png",
    "codes/plot_radius": "radius.png",
    "images/plot_denoise": "denoising.jpg",
    "images/plot_real_photos": "real_photos.jpg",
    "images/plot_upscale": "upscaling.jpg",
    "networks/plot_learn_p_from_codes": "learning.png",
}
PAGES = {
    "index.html": "site_start.jpg",
    "gallery/index.html": "site_gallery.jpg",
    "generated/fwnet.solve.html": "site_solve.jpg",
}
SIZE = 1280, 1000
SCHEMES = {"light": 1, "dark": 0}  # Chromium's numbers


def draw_figures() -> None:
    """Run the examples and keep the first figure of each."""
    for example, picture in FIGURES.items():
        runpy.run_path(str(PROJECT / "examples" / f"{example}.py"))
        plt.figure(1).savefig(IMAGES / picture, dpi=80)
        plt.close("all")


def screenshot(page: str, scheme: str) -> Image.Image:
    """Return the top of a page of the site in the light or dark theme."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "page.png"
        address = (PROJECT / "build" / "docs" / page).as_uri()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options += [f"--window-size={SIZE[0]},{SIZE[1]}", f"--screenshot={place}"]
        options += [f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}"]
        subprocess.run(["chromium", *options, address], check=True, capture_output=True)
        return Image.open(place).convert("RGB")


def show_site() -> None:
    """Put the light and the dark screenshot of each page side by side."""
    width, height = (side * 4 // 9 for side in SIZE)
    for page, picture in PAGES.items():
        both = Image.new("RGB", (2 * width, height))
        for index, scheme in enumerate(SCHEMES):
            part = screenshot(page, scheme).resize((width, height), Image.Resampling.LANCZOS)
            both.paste(part, (index * width, 0))
        both.save(IMAGES / picture, quality=80)


if __name__ == "__main__":
    show_site() if "site" in sys.argv[1:] else draw_figures()
