"""Images side by side: before and after, or a crop of an image at several strengths."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from fwnet.imaging.metadata import Metadata
from fwnet.imaging.pixels import Pixels, with_bits
from fwnet.imaging.restorer import Restorer

STRENGTHS = (0.0, 0.5, 1.0, 1.5, 2.0)
SIDE = 320  # of the crop, in pixels
LEAST, TALLEST = 100, 2000  # smaller images are enlarged to this width, if not above this height
GAP, LINE = 6, 30  # between images, and the least height of the words below them


def preview(
    restorer: Restorer, pixels: Pixels, about: Metadata, sigma: float | None
) -> Image.Image:
    """Return the middle of an image at strengths from 0 to 2, with the strength below each.

    Args:
        restorer: A network for denoising.
        pixels: The image.
        about: Its metadata, which say how a viewer turns it.
        sigma: The noise level of the whole image.
    """
    crop, views = pixels.middle(SIDE), []
    for strength in STRENGTHS:
        result = restorer.with_options(sigma=sigma, strength=strength).run(crop)
        views.append(about.turned(Pixels(with_bits(result.pixels.colors, 8)).pillow()))
    names = [f"--strength {strength:g}" for strength in STRENGTHS[1:]]
    names[STRENGTHS.index(1.0) - 1] += " (default)"
    return side_by_side(views, ["as it is", *names])


def before_and_after(before: np.ndarray, after: Pixels, about: Metadata) -> Image.Image:
    """Return colors before and an image after in 8 bits on white, as a viewer shows them."""
    views = []
    for colors in (before, after.colors):
        view = Pixels(with_bits(colors, 8)).pillow()
        if after.alpha is not None:
            cover = Pixels(with_bits(after.alpha, 8)[..., None]).pillow()
            view = Image.composite(view, Image.new(view.mode, view.size, "white"), cover)
        views.append(about.turned(view))
    return side_by_side(views, ["before", "after"])


def side_by_side(views: Sequence[Image.Image], words: Sequence[str]) -> Image.Image:
    """Return images of one size and mode on a white sheet, with words below each.

    Small images are enlarged, each pixel to a square, to be as wide as the words. Very narrow and
    tall ones are not, and have no words.
    """
    width, height = views[0].size
    factor = max(1, min(-(-LEAST // width), TALLEST // height))
    if factor > 1:
        width, height = factor * width, factor * height
        views = [view.resize((width, height), Image.Resampling.NEAREST) for view in views]
    letter = max(8, min(20, width // 12), width // 50)
    size = len(views) * (width + GAP) - GAP, height + max(LINE, 3 * letter // 2)
    sheet = Image.new(views[0].mode, size, "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(letter)
    for index, (view, text) in enumerate(zip(views, words, strict=True)):
        left = index * (width + GAP)
        sheet.paste(view, (left, 0))
        if width >= LEAST:
            pen.text((left + 2, height + 3), text, "black", font)
    return sheet
