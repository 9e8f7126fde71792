"""The command line: reads arguments, calls the library, shows progress. Nothing else.

A file a command, or a few that are alike; `app` has them in the order in which --help lists them.
"""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer
from rich.console import Console

import fwnet
from fwnet.cli import bench, demo, encode, images, models, reproduce, train

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Lp-norm constrained coding with the Frank-Wolfe Network.",
    epilog="Start with [bold]fwnet demo[/bold]: it takes seconds and needs no data.",
)
app.command()(demo.demo)
app.command()(bench.bench)
app.command(epilog=encode.NOTES)(encode.encode)
app.command(epilog=images.DENOISE_NOTES)(images.denoise)
app.command(epilog=images.UPSCALE_NOTES)(images.upscale)
app.command(epilog=reproduce.NOTES)(reproduce.reproduce)
app.command()(models.models)
app.add_typer(train.train_app, name="train")


def main() -> None:
    """Run the command line; bad input ends with a line of explanation and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ∞ shows a question mark
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        Console().print(f"fwnet {fwnet.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Lp-norm constrained coding with the Frank-Wolfe Network."""
