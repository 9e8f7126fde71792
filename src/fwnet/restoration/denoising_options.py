"""What the commands that denoise and that train for it take, and how they explain it."""

from dataclasses import dataclass
from pathlib import Path

from fwnet.restoration.option import option

NOTES = """
[bold]fwnet denoise photo.jpg clean.png[/bold]                 noise estimated

[bold]fwnet denoise photo.jpg clean.png --sigma 25[/bold]      noise known

[bold]fwnet denoise photo.jpg strip.png --preview[/bold]       which strength looks best?

[bold]fwnet denoise photo.jpg clean.png --strength 0.5[/bold]  more grain kept

[bold]fwnet denoise photo.jpg clean.png --fast[/bold]          smaller networks

[bold]fwnet denoise photos/ clean/ --compare[/bold]            a folder, with comparisons

[bold]fwnet denoise 'scans/*.tif' logo.png clean/[/bold]       several files into a folder

The noise level is also found for photos of cameras and for JPEG files (docs/real_photos.md). A \
photo without visible noise stays nearly as it is.

The size is kept. Bits per channel, transparency, EXIF, color profile and dots per inch are kept \
where the output format can store them.

A network for gray images is applied to each channel of a color image. A network for color images \
refuses gray ones.
"""

TRAIN_NOTES = """
[bold]fwnet train denoise --data photos --sigma 25 -o mynet[/bold]      one level

[bold]fwnet train denoise --data photos --max-sigma 55 -o mynet[/bold]  all levels up to 55

[bold]fwnet train denoise --start conv_fwnet_t4.denoise_gray_s25 --data photos -o mynet[/bold]

The last command starts from a shipped network and keeps its noise level.

Images of --data should be clean: new Gaussian noise, independent in every pixel, is added to \
crops of them at every step.

[bold]fwnet train denoise --noisy shots --clean means --start conv_fwnet_t20.denoise_color \
-o mynet[/bold]

Real noise is different. With --camera, half of the crops get noise as cameras make it, and the \
network is told its effective level. If you have pairs, such as one shot and the mean of many, the \
network learns from them instead. Starting from a shipped network helps; with few pairs, add \
--learning-rate 0.0005.

Two files are a pair if they have the same name, whatever the suffix, in the same subfolder. The \
words noisy and real in the one, clean, mean and gt in the other, do not count (a_real.jpg and \
a_mean.png), and --noisy and --clean may be one folder. Pairs of different sizes, and those that \
seem shifted by more than half a pixel, are reported and skipped.

Without --data the network learns from the Berkeley images (BSDS500) without the 68 test images \
of BSD68. They are read from $FWNET_DATA/bsds500 (docs/data.md). Without that folder, 70 MB are \
downloaded once into the cache of the user (on Linux, ~/.cache/fwnet).

The defaults train 4 layers in two minutes on a large GPU, or a day on a CPU; on a CPU, try \
--batch-size 8 --steps-per-epoch 100 first.
"""


@dataclass(frozen=True)
class ApplyOptions:
    """Options of `fwnet denoise`."""

    sigma: float | None = option(
        None,
        "Standard deviation of the noise, on the scale 0 to 255 (also for 16-bit images). The "
        "default networks were trained for up to 75. Networks for one noise level ignore it.",
        shown="estimated",
    )
    strength: float = option(
        1.0,
        "How much noise to remove, from 0 to 10: 0 leaves the image as it is, 0.5 removes less and "
        "keeps more grain, 2 removes more. The noise level is multiplied by it.",
    )
    preview: bool = option(
        False,
        "Write a picture that shows the middle of the image at five strengths instead.",
        flags=("--preview",),
    )
    fast: bool = option(
        False,
        "Use smaller networks, which take a fifth (gray) or a quarter (color) of the time and "
        "clean a little less well.",
        flags=("--fast",),
    )


@dataclass(frozen=True)
class TrainOptions:
    """Options of `fwnet train denoise`."""

    noisy: Path | None = option(
        None,
        "Learn from pairs instead of --data: the folder of the noisy images.",
    )
    clean: Path | None = option(
        None, "The folder of the clean images, named like the noisy ones (see below)."
    )
    sigma: float | None = option(
        None,
        "Standard deviation of the noise, on the scale 0 to 255.",
        shown="0 with --max-sigma; else the network's with --start; else 25",
    )
    max_sigma: float | None = option(
        None,
        "Train one network for all levels from --sigma to this one.",
        shown="only the level --sigma; with --start and no --sigma, the network's",
    )
    color: bool | None = option(
        None,
        "Train for color (RGB) or for gray images.",
        shown="gray; with --start, the network's",
        flags=("--color/--gray",),
    )
    camera: bool = option(
        False,
        "Half of the crops get the noise of cameras: smooth, interpolated, compressed as JPEG.",
        flags=("--camera",),
    )
