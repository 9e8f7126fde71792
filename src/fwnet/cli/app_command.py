"""`fwnet app`."""

import signal
import threading
from typing import Annotated

import typer

from fwnet.cli.command import print_lines, reported_errors


def app(
    host: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Address to listen at. With 0.0.0.0, others can reach the app."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=65535,
            help="Port to listen at. [dim]\\[default: a free one from 7860][/dim]",
            show_default=False,
        ),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
) -> None:
    """Clean and enlarge photos, and explore p, in a browser. Everything stays on this machine."""
    with reported_errors(stopped=lambda: "Stopped. Temporary files are removed."):
        from fwnet.app import running

        with running(host, port, browser=browser) as address:
            print_lines([f"Open {address} in a browser. Ctrl-C ends the app."])
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
            threading.Event().wait()
