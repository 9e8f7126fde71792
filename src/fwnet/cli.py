"""The command line: reads arguments, calls the library, shows progress. Nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import fwnet

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Lp-norm constrained coding with the Frank-Wolfe Network.",
    epilog="Start with [bold]fwnet demo[/bold]: it takes seconds and needs no data.",
)


def main() -> None:
    """Run the command line; bad input ends with a line of explanation and exit code 2."""
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


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the page and its pictures.")
    ] = Path("demo"),
) -> None:
    """Show the main ideas on built-in data and write one HTML page with the pictures."""
    from fwnet.demo import write_demo

    console = Console()
    try:
        with console.status("") as status:
            report = write_demo(output, progress=status.update)
    except OSError as error:
        raise typer.BadParameter(
            f"cannot write to {output}: {error.strerror}", param_hint="--output"
        ) from error
    for line in report.summary:
        console.print(f"• {line}", highlight=False)
    console.print(f"Open {report.page} in a browser.", highlight=False)
