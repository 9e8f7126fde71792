"""`fwnet export`."""

from pathlib import Path
from typing import Annotated

import typer

from fwnet.cli.command import print_lines, reported_errors

NOTES = """
[bold]fwnet export conv_fwnet_t16.denoise_gray denoise.onnx[/bold]

Inputs: image (batch, channel, height, width) with values in \\[0, 1] and, if the network is told \
the noise level, sigma (batch) on the same scale; signal (batch, n) for networks that \
fwnet train coder wrote. Batch, height and width may be any. Output: result.

The file is compared with the network on random numbers, a photograph and black (for signals: \
random, smooth and zero ones) before it is written. ONNX needs pip install '.\\[onnx]' in the clone.
"""


def export(
    model: Annotated[str, typer.Argument(help="A name from fwnet models, or a model file.")],
    output: Annotated[
        Path, typer.Argument(metavar="OUT", help="The file to write: .onnx or .pt2 (torch.export).")
    ],
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="onnx or torch. [dim]\\[default: by the suffix of OUT][/dim]",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a network as ONNX or with torch.export, to run it without fwnet."""
    from fwnet.export import export_model
    from fwnet.files import why_not_writable

    with reported_errors():
        reason = why_not_writable(output)
        if reason is None and output.exists() and not force:
            reason = "it exists already; --force overwrites it"
        if reason is not None:
            raise ValueError(f"cannot write {output}: {reason}")
        made = export_model(model, output, file_format)
    shapes = {**made.inputs, "result": made.result}
    megabytes = made.num_bytes / 1e6
    size = f"{megabytes:.1f} MB" if megabytes >= 1 else f"{1000 * megabytes:.0f} kB"
    print_lines(
        [
            *(f"{name:8}({', '.join(map(str, shape))})" for name, shape in shapes.items()),
            "largest difference from PyTorch: "
            + ", ".join(f"{kind} {value:.0e}" for kind, value in made.differences.items()),
            f"{size} written to {made.path}",
        ]
    )
