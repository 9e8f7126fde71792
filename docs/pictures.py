"""Make the pictures of the README and of the guide.

python docs/pictures.py          # the first figures of some examples of the gallery
python docs/pictures.py photos   # six photos with the noise of a simulated camera, and without
python docs/pictures.py site     # screenshots of the site that `make docs` built (needs chromium)
python docs/pictures.py explore  # screenshots of the page of `fwnet explore` (needs chromium)
"""

import io
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from PIL import Image
from skimage import color, data
from sklearn.feature_extraction.image import extract_patches_2d

import fwnet
from fwnet.explore import explore, write_page
from fwnet.restoration import shots

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
CROPS = {  # top and left
    "astronaut": (30, 130),
    "chelsea": (40, 90),
    "coffee": (120, 220),
    "rocket": (180, 220),
    "stereo_motorcycle": (150, 150),
    "page": (0, 40),
}
SIDE = 190  # of a crop
SIZE = 1280, 1000
EXPLORE_SIZE = 1100, 1045
SCHEMES = {"light": 1, "dark": 0}  # Chromium's numbers


def draw_figures() -> None:
    """Run the examples and keep the first figure of each."""
    for example, picture in FIGURES.items():
        runpy.run_path(str(PROJECT / "examples" / f"{example}.py"))
        plt.figure(1).savefig(IMAGES / picture, dpi=80)
        plt.close("all")


def show_photos() -> None:
    """Put crops of photos of a simulated camera above what fwnet makes of them."""
    sheet = Image.new("RGB", (len(CROPS) * SIDE, 2 * SIDE))
    for index, (name, (top, left)) in enumerate(CROPS.items()):
        pixels = getattr(data, name)()
        pixels = pixels[0] if isinstance(pixels, tuple) else pixels
        pixels = color.gray2rgb(pixels) if pixels.ndim == 2 else pixels
        clean = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None] / 255
        draw = shots._Draws(1, torch.Generator().manual_seed(index))
        noisy, _ = shots._cleaned(*shots._developed(clean, draw), draw)
        file = io.BytesIO()
        whole = (255 * noisy[0]).round().clamp(0, 255).byte().permute(1, 2, 0).numpy()
        Image.fromarray(whole).save(file, "JPEG", quality=90)
        photo = Image.open(file)
        box = (left, top, left + SIDE, top + SIDE)
        for row, image in enumerate((photo, fwnet.denoise(photo))):
            sheet.paste(image.crop(box), (index * SIDE, row * SIDE))
    sheet.save(IMAGES / "six_photos.jpg", quality=90)


def screenshot(page: Path, scheme: str, size: tuple[int, int]) -> Image.Image:
    """Return the top of a page in the light or dark theme."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "page.png"
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options += [f"--window-size={size[0]},{size[1]}", f"--screenshot={place}"]
        options += [f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}"]
        subprocess.run(["chromium", *options, page.as_uri()], check=True, capture_output=True)
        return Image.open(place).convert("RGB")


def show_both(page: Path, picture: str, size: tuple[int, int], width: int) -> None:
    """Put the light and the dark screenshot of a page side by side, each of a width."""
    height = size[1] * width // size[0]
    both = Image.new("RGB", (2 * width, height))
    for index, scheme in enumerate(SCHEMES):
        part = screenshot(page, scheme, size).resize((width, height), Image.Resampling.LANCZOS)
        both.paste(part, (index * width, 0))
    both.save(IMAGES / picture, quality=80)


def show_site() -> None:
    """Show pages of the site."""
    for page, picture in PAGES.items():
        show_both(PROJECT / "build" / "docs" / page, picture, SIZE, SIZE[0] * 4 // 9)


def show_explore() -> None:
    """Show the page of `fwnet explore` for 4,000 patches of a photo, without their means."""
    patches = extract_patches_2d(data.camera() / 255, (8, 8), max_patches=4000, random_state=0)
    rows = patches.reshape(len(patches), -1)
    with tempfile.TemporaryDirectory() as folder:
        file, page = Path(folder) / "patches.npy", Path(folder) / "explore.html"
        np.save(file, rows - rows.mean(1, keepdims=True))
        write_page(explore(file, device="cpu"), page, Path("explore-dictionary.npy"))
        show_both(page, "explore.jpg", EXPLORE_SIZE, 600)


if __name__ == "__main__":
    works = {"site": show_site, "photos": show_photos, "explore": show_explore}
    works.get("".join(sys.argv[1:]), draw_figures)()
