"""What the commands that enlarge and that train for it take, and how they explain it."""

from dataclasses import dataclass

from fwnet.restoration.option import option

NOTES = """
[bold]fwnet upscale small.png large.png[/bold]            3 times the height and width

[bold]fwnet upscale small.jpg large.png --scale 4[/bold]  4 times

[bold]fwnet upscale photos/ large/ --compare[/bold]       a folder, with comparisons

[bold]fwnet upscale 'scans/*.tif' logo.png large/[/bold]  several files into a folder

The network enlarges the brightness of an image (luma, Y of YCbCr). Colors and transparency are \
enlarged bicubically. Bits per channel, EXIF and color profile are kept where the output format \
can store them. The resolution in dots per inch grows with the image, so that a print keeps its \
size.
"""

TRAIN_NOTES = """
[bold]fwnet train upscale --data photos --scale 3 -o mynet[/bold]

[bold]fwnet train upscale --start conv_fwnet_t19.upscale_x3 --scale 4 --data photos -o mynet[/bold]

The second command starts from a shipped network for another scale.

Images should be sharp: they are shrunk, and the network learns to undo that, on their brightness \
(luma, Y of YCbCr). Crops are measured in pixels of the large, sharp image; --crop-size must be a \
multiple of --scale (with --scale 5, the default is 45).

Without --data the network learns from T91, the 91 images of Yang et al., and the training images \
of Berkeley (BSDS500): 199 of 200, as one contains a test image of Set5. You must \
supply T91, in $FWNET_DATA/t91 (docs/data.md). BSDS500 is read from $FWNET_DATA/bsds500. Without \
that folder, 70 MB are downloaded once into the cache of the user (on Linux, ~/.cache/fwnet).

By default ConvFWNet sees the small image, and its last layer makes the pixels of the large one: \
that is fast. With --enlarged it sees the image after bicubic enlargement, as in the paper of \
the Frank-Wolfe Network. VDSR and SRCNN always do.

The defaults take a few minutes on a large GPU. For a first look on a CPU, try --num-layers 4 \
--batch-size 16 --steps-per-epoch 100.
"""


@dataclass(frozen=True)
class ApplyOptions:
    """Options of `fwnet upscale`."""

    scale: int | None = option(
        None,
        "Scale factor. The default networks are for 2, 3 and 4; with --model, it must be that of "
        "the network.",
        shown="3; with --model, the network's",
    )
    jpeg: bool | None = option(
        None,
        "Use the default network that also removes the artifacts of JPEG, or the one for images "
        "without them, which keeps more detail.",
        shown="--jpeg for JPEG files, else --no-jpeg",
    )


@dataclass(frozen=True)
class TrainOptions:
    """Options of `fwnet train upscale`."""

    scale: int | None = option(
        None,
        "Scale factor of height and width: 2, 3, 4, 5, …",
        shown="3; with --start, the network's",
    )
    enlarged: bool = option(
        False,
        "ConvFWNet: give the network the bicubically enlarged image (see below). With --start, "
        "the input, small or enlarged, is that of the network you start from.",
        flags=("--enlarged",),
    )
    smaller_copies: bool = option(
        True,
        "Also learn from copies at 0.9, 0.8, 0.7 and 0.6 of the height and width. This helps "
        "when there are few images; the data then need 3.3 times the memory in all.",
    )
    shifts: bool = option(
        True,
        "Learn from crops that begin at any pixel, not only at multiples of the scale: for a scale "
        "of 3 there are 9 times as many.",
    )
    jpeg_quality: int | None = option(
        None,
        "Learn to enlarge JPEG files of this quality (1 to 100) and better: small images are "
        "compressed before the network sees them.",
        shown="no compression; with --start, the network's",
    )
