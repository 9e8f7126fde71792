"""Pictures that nobody photographed: text, line art, and a rendering."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIDE = 512
SIZES = range(10, 26, 3)  # of letters, in pixels
LIGHT = (-0.5, -0.6, 0.62)


def text() -> np.ndarray:
    """Return a page of words of random letters, black on white."""
    return _written("white", "black")


def screen() -> np.ndarray:
    """Return the same, light on dark."""
    return _written("#202233", "#d8dcd0")


def _written(background: str, ink: str) -> np.ndarray:
    page = Image.new("RGB", (SIDE, SIDE), background)
    pen, random, top = ImageDraw.Draw(page), np.random.default_rng(0), 8
    while top < SIDE - 2 * SIZES[-1]:
        for size in SIZES:
            words = ["".join(random.choice(list("abcdefghijklmnopqrstuvwxyz"), 6)) for _ in "." * 9]
            pen.text((8, top), " ".join(words), ink, ImageFont.load_default(size))
            top += 3 * size // 2
    return np.array(page)


def lines() -> np.ndarray:
    """Return curves, circles and filled shapes of plain colors."""
    page = Image.new("RGB", (SIDE, SIDE), "white")
    pen, x = ImageDraw.Draw(page), np.arange(20, SIDE - 20)
    for index, color in enumerate(("crimson", "navy", "seagreen", "darkorange")):
        y = 130 + 90 * np.sin(x / (15 + 10 * index))
        pen.line(list(zip(x.tolist(), y.tolist(), strict=True)), color, index + 1)
        pen.ellipse((30 + 110 * index, 280, 110 + 110 * index, 360), outline=color, width=2)
        pen.rectangle((30 + 110 * index, 390, 110 + 110 * index, 480), fill=color)
    return np.array(page)


def sphere() -> np.ndarray:
    """Return a rendered sphere with stripes and a highlight on a gradient."""
    y, x = np.mgrid[-1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j][..., None]
    depth = np.sqrt(np.clip(1 - (x / 0.8) ** 2 - (y / 0.8) ** 2, 0, None))
    shade = np.clip(np.concatenate([x, y, depth], 2) @ np.array(LIGHT), 0, 1)[..., None]
    stripes = 0.06 * np.sin(40 * x + 9 * np.sin(7 * y))
    ball = (0.15 + 0.8 * shade) * np.array([0.9, 0.3, 0.2]) + stripes + shade**40
    wall = np.array([0.3, 0.4, 0.6]) + 0.2 * y
    light: np.ndarray = np.rint(255 * np.where(depth > 0, ball, wall).clip(0, 1))
    return light.astype(np.uint8)


DRAWINGS = {"text": text, "screen": screen, "lines": lines, "sphere": sphere}
