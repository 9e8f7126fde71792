"""`fwnet demo`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fwnet.cli.command import make_folder


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the page and its pictures.")
    ] = Path("demo"),
) -> None:
    """Show the main ideas on built-in data and write one HTML page with the pictures."""
    from fwnet.demo import write_demo

    console = Console()
    make_folder(output)
    with console.status("") as status:
        report = write_demo(output, progress=status.update)
    for line in report.summary:
        console.print(f"• {line}", highlight=False, markup=False)
    console.print(f"Open {report.page} in a browser.", highlight=False, markup=False)
