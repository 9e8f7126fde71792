"""`fwnet demo`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fwnet.cli.command import make_folder


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PATH", help="Folder for the page.")
    ] = Path("demo"),
) -> None:
    """Run a short tour on built-in data and write an HTML page."""
    from fwnet.demo import write_demo

    console = Console()
    make_folder(output)
    with console.status("") as status:
        sections = write_demo(output, progress=status.update)
    for section in sections:
        console.print(f"• {section.text}", highlight=False, markup=False)
    console.print(f"Open {output / 'index.html'} in a browser.", highlight=False, markup=False)
