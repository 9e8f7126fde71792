"""`fwnet train`: its commands, in files of their own."""

import typer

from fwnet.cli import train_coder, train_images
from fwnet.cli.arguments import Command
from fwnet.restoration import RESTORATIONS

train_app = typer.Typer(no_args_is_help=True)


@train_app.callback()
def train_options() -> None:
    """Train a network on your own data."""


train_app.command("coder", cls=Command, epilog=train_coder.NOTES)(train_coder.train_coder_command)
for kind in RESTORATIONS.values():
    train_app.command(kind.name, cls=Command, epilog=kind.train_notes + train_images.NOTES)(
        train_images.training_command_for(kind)
    )
