"""The command line: reads arguments, calls the library, shows progress. Nothing else.

One file per command, or per group of similar ones; `app` lists them in the order of --help.
"""

import io
import signal
import sys
from typing import Annotated

import typer
from rich.console import Console

import fwnet
from fwnet.cli import (
    app_command,
    bench,
    demo,
    encode,
    explore,
    export,
    images,
    models,
    reproduce,
    train_coder,
    train_images,
    train_noise,
)
from fwnet.cli.command import Command, Group, one_line, say
from fwnet.restoration import RESTORATIONS

__all__ = ["app", "main"]

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Lp-norm constrained coding with the Frank-Wolfe Network.",
    epilog="Start with [bold]fwnet demo[/bold]: it takes one to three minutes and needs no data.",
)
train = typer.Typer(cls=Group, no_args_is_help=True, help="Train a network on your own data.")
TOUR, IMAGES, CODES, NETWORKS, MEASURE = "Look around", "Images", "Codes", "Networks", "Measure"

app.command(cls=Command, rich_help_panel=TOUR)(demo.demo)
app.command(cls=Command, rich_help_panel=TOUR)(app_command.app)
train.command("coder", cls=Command, epilog=train_coder.NOTES)(train_coder.train_coder_command)
for kind in RESTORATIONS.values():
    notes, train_notes = kind.notes + images.NOTES, kind.train_notes + train_images.NOTES
    app.command(
        kind.name,
        cls=Command,
        help=kind.help,
        epilog=notes,
        no_args_is_help=True,
        rich_help_panel=IMAGES,
    )(images.restoration_command(kind))
    train.command(kind.name, cls=Command, epilog=train_notes.replace("TASK", kind.name))(
        train_images.training_command_for(kind)
    )
train.command("noise", cls=Command, epilog=train_noise.NOTES)(train_noise.train_noise)
app.command(cls=Command, epilog=encode.NOTES, rich_help_panel=CODES)(encode.encode)
app.command(cls=Command, epilog=explore.NOTES, rich_help_panel=CODES)(explore.explore)
app.command(cls=Command, rich_help_panel=NETWORKS)(models.models)
app.add_typer(train, name="train", rich_help_panel=NETWORKS)
app.command(cls=Command, epilog=export.NOTES, no_args_is_help=True, rich_help_panel=NETWORKS)(
    export.export
)
app.command(cls=Command, rich_help_panel=MEASURE)(bench.bench)
app.command(cls=Command, epilog=reproduce.NOTES, rich_help_panel=MEASURE)(reproduce.reproduce)


def main() -> None:
    """Run the command line. Bad input prints one line and exits with code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ∞ shows a question mark
    signal.signal(signal.SIGTERM, _stop)
    sys.unraisablehook = _say_what_cannot_be_raised
    try:
        app(prog_name="fwnet")
    except KeyboardInterrupt:
        say("Stopped.")
        sys.exit(130)
    except OSError as error:  # of stdout, after the work
        say(f"Error: {one_line(error)}")
        sys.exit(2)


def _say_what_cannot_be_raised(about: "sys.UnraisableHookArgs") -> None:
    """Leave a lack of memory in a callback, as of a font, to the line that ends the command."""
    if not issubclass(about.exc_type, MemoryError):
        sys.__unraisablehook__(about)


def _stop(number: int, frame: object) -> None:  # noqa: ARG001
    """End as after Ctrl-C: with a line, and without half a file."""
    raise KeyboardInterrupt


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
