"""A crop of an image at several strengths, side by side: which one looks best?"""

from dataclasses import replace

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from fwnet.imaging.metadata import Metadata
from fwnet.imaging.pixels import Pixels, with_bits
from fwnet.imaging.restorer import Restorer

STRENGTHS = (0.0, 0.5, 1.0, 1.5, 2.0)
SIDE = 320  # of the crop, in pixels
GAP, LINE = 6, 22  # between crops, and the height of the words below them


def preview(restorer: Restorer, pixels: Pixels, about: Metadata) -> Image.Image:
    """Return the middle of an image at strengths from 0 to 2, with the strength below each.

    The noise level is that of the whole image.

    Args:
        restorer: A network for denoising.
        pixels: The image.
        about: Its metadata, which say how a viewer turns it.
    """
    sigma = restorer.noise_level(pixels)
    middle = tuple(
        slice(max(0, (length - SIDE) // 2), max(0, (length - SIDE) // 2) + SIDE)
        for length in pixels.colors.shape[:2]
    )
    crop = replace(pixels, colors=np.ascontiguousarray(pixels.colors[middle]), alpha=None)
    views = []
    for strength in STRENGTHS:
        result = restorer.with_options(sigma=sigma, strength=strength).run(crop)
        views.append(about.turned(Pixels(with_bits(result.pixels.colors, 8)).pillow()))
    width, height = views[0].size
    sheet = Image.new("RGB", (len(views) * (width + GAP) - GAP, height + LINE), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(14)
    for index, (strength, view) in enumerate(zip(STRENGTHS, views, strict=True)):
        left = index * (width + GAP)
        sheet.paste(view, (left, 0))
        words = f"--strength {strength:g}" if strength else "as it is"
        pen.text((left + 2, height + 3), words, "black", font)
    return sheet
