"""`fwnet models`."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from fwnet.cli.command import print_lines, reported_errors

if TYPE_CHECKING:
    from fwnet.zoo import Card


def models(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A network: show its training data, license and results. Without it, list all."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the trained networks with their PSNR on standard test images, or describe one."""
    from fwnet.zoo import find_card, list_models

    with reported_errors():
        cards = list_models() if name is None else [find_card(name)]
    if as_json:
        shown = [dataclasses.asdict(card) for card in cards]
        Console().print_json(json.dumps(shown if name is None else shown[0]))
    elif name is None:
        _print_models(cards)
    else:
        _print_card(cards[0])


def _print_models(cards: list[Card]) -> None:
    """Print a table of the shipped models."""
    console = Console()
    if not cards:
        console.print("No trained models come with this version.")
        return
    table = Table("model", "parameters", "size", "PSNR (dB)", box=SIMPLE_HEAD, pad_edge=False)
    for column in table.columns[:3]:
        column.no_wrap = True
    for column in table.columns[1:3]:
        column.justify = "right"
    defaults = _default_models()
    for task in dict.fromkeys(card.task for card in cards):
        table.add_section()
        table.add_row(f"[bold]{task}[/bold]")
        for card in cards:
            if card.task == task:
                figures = "\n".join(
                    f"{key.removesuffix(' PSNR')} {x:.2f}" for key, x in card.figures.items()
                )
                size = f"{card.num_bytes / 1e6:.2f} MB"
                when = defaults.get(card.name)
                name = f"{card.name}\n[dim]  {when}[/dim]" if when else card.name
                table.add_row(name, f"{card.num_parameters:,}", size, figures)
    console.print(table)
    console.print("fwnet models NAME describes one of them.", highlight=False)


def _default_models() -> dict[str, str]:
    """Return the models that the commands choose by themselves, and when."""
    from fwnet.restoration import denoising, upscaling

    chosen = [
        (denoising.MODELS, "default"),
        (denoising.FAST_MODELS, "default with --fast"),
        (upscaling.MODELS, "default"),
        (upscaling.JPEG_MODELS, "default for JPEG files"),
    ]
    return {name: when for models, when in chosen for name in models.values()}


def _in_words(name: str, value: Any) -> str:
    """Return a fact about the training of a model in words."""
    if name == "sigma":
        return f"σ from {value[0]} to {value[1]}" if isinstance(value, list) else f"σ = {value}"
    return ("color" if value else "gray") + " images" if name == "color" else f"{name} {value}"


def _print_card(card: Card) -> None:
    """Print everything that is known about a model."""
    facts = {
        "task": card.task,
        "trained for": ", ".join(_in_words(*fact) for fact in card.trained_for.items()),
        "class": card.model,
        "parameters": f"{card.num_parameters:,}",
        "multiply-adds": f"{card.multiply_adds:,} per pixel",
        **{name: f"{value:.2f}" for name, value in card.figures.items()},
        "data": card.data,
        "data license": card.data_license,
        "trained by": card.command,
        "trained in": f"{card.seconds:,.0f} s on {card.hardware}",
        "file": f"{card.num_bytes:,} bytes, kernels in {card.dtype}",
        "sha256": card.sha256,
    }
    width = max(len(name) for name in facts)
    lines = [f"{name:{width}}  {value}" for name, value in facts.items()]
    print_lines([card.name, card.summary, "", *lines])
