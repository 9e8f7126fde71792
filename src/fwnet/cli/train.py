"""`fwnet train`: its commands, in files of their own."""

from __future__ import annotations

import typer

from fwnet.cli import train_coder, train_denoise, train_upscale

__all__ = ["train_app"]

train_app = typer.Typer(no_args_is_help=True)


@train_app.callback()
def train_options() -> None:
    """Train a network on your own data."""


train_app.command("coder", epilog=train_coder.NOTES)(train_coder.train_coder_command)
train_app.command("denoise", epilog=train_denoise.NOTES)(train_denoise.train_denoise_command)
train_app.command("upscale", epilog=train_upscale.NOTES)(train_upscale.train_upscale_command)
