"""What all trainings have: options, a bar, and lines about what came of them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import torch
import typer

from fwnet.cli.arguments import Device, chosen_device
from fwnet.cli.terminal import (
    is_first_process,
    print_lines,
    say_once,
    shown_figures,
)
from fwnet.progress import progress_bar
from fwnet.training import TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fwnet.coding import CoderReport
    from fwnet.training import ImageReport, ShownFigure

__all__ = ["Run", "Trained", "training_command"]


@dataclass(frozen=True)
class RunOptions:
    """Options of all trainings."""

    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for what is trained.")]
    config: Annotated[
        Path | None,
        typer.Option(help="A TOML file of training settings; options go before it."),
    ] = None
    device: Device = "auto"
    checkpoint_seconds: Annotated[
        float, typer.Option(min=0, help="How much work a kill may cost.")
    ] = 30.0
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from where a run was stopped, or begin.")
    ] = False
    force: Annotated[
        bool, typer.Option("--force", help="Begin anew though the folder has an earlier run.")
    ] = False


@dataclass(frozen=True)
class Run:
    """What becomes of them, for a command.

    Attributes:
        output: The folder.
        settings: Of the training, by name, as far as the user said them.
        arguments: What all functions that train take: device, resume, force, …
    """

    output: Path
    settings: dict[str, Any]
    arguments: dict[str, Any]

    @property
    def config(self) -> TrainingConfig:
        """The settings, with their defaults."""
        return TrainingConfig(**self.settings)


@dataclass(frozen=True)
class Trained:
    """What a command says when it is done.

    Attributes:
        report: What was trained.
        shown: How its figure is shown.
        lines: How good it is.
        use: Words before the last line, and that line: a command with {} for the file.
    """

    report: CoderReport | ImageReport
    shown: ShownFigure
    lines: list[str]
    use: tuple[str, str]


def training_command(
    shown: Mapping[str, object],
) -> Callable[[Callable[..., Trained]], Callable[..., None]]:
    """Give a command the options of all trainings; they arrive as `run`.

    There is one for every field of `TrainingConfig`. While it works there is a bar; at the end the
    history is drawn. Errors become lines and exit codes.

    shown: What --help says of settings where the command has a default of its own.
    """
    return lambda command: _with_options(command, shown)


def _with_options(
    command: Callable[..., Trained], shown: Mapping[str, object]
) -> Callable[..., None]:
    of_all = dict(inspect.signature(RunOptions, eval_str=True).parameters)
    own = dict(inspect.signature(command, eval_str=True).parameters)
    del own["run"]
    settings = _setting_options(shown)
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in ({"output": of_all["output"]} | own | of_all | settings).values()
    ]

    @functools.wraps(command)
    def with_options(**arguments: Any) -> None:
        given = {name: arguments.pop(name) for name in settings}
        given = {name: value for name, value in given.items() if value not in (None, [])}
        options = RunOptions(**{name: arguments.pop(name) for name in of_all})
        _run(functools.partial(command, **arguments), options, given)

    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_options


def _setting_options(shown: Mapping[str, object]) -> dict[str, inspect.Parameter]:
    """One option for every setting of a training; None where the user says nothing."""
    hints = get_type_hints(TrainingConfig)
    annotated: Any = Annotated  # made of values here, which no type checker follows
    options = {}
    for one in dataclasses.fields(TrainingConfig):
        kind: Any = list[float] if one.name == "decay_at" else hints[one.name]
        default = shown.get(one.name, one.default)
        default = " ".join(map(str, default)) if isinstance(default, tuple) else default
        option = typer.Option(
            help=one.metadata["help"],
            show_default=str(default) if default is not None else False,
            rich_help_panel="Training",
        )
        options[one.name] = inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=annotated[kind | None, option],
        )
    return options


def _run(command: Callable[..., Trained], options: RunOptions, given: dict[str, Any]) -> None:
    device = chosen_device(options.device)
    try:
        if options.config:
            given = {**TrainingConfig.read_settings(options.config), **given}
        with progress_bar(shown=is_first_process()) as show:
            arguments = {
                "device": device,
                "checkpoint_seconds": options.checkpoint_seconds,
                "resume": options.resume,
                "force": options.force,
                "progress": show,
            }
            trained = command(run=Run(options.output, given, arguments))
        if is_first_process():
            _draw_history(trained, options.output)
            _print_trained(trained)
    except (ValueError, OSError) as error:
        say_once(f"Error: {error}")
        raise typer.Exit(2) from error
    except torch.OutOfMemoryError as error:
        say_once("Error: the GPU has too little memory: try a smaller --batch-size.")
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        say_once("Stopped. The same command with --resume goes on from here.")
        raise typer.Exit(130) from error


def _draw_history(trained: Trained, output: Path) -> None:
    from fwnet.training.picture import draw_history

    history = trained.report.training.history
    if history:  # a file of the run that someone removed
        draw_history(history, trained.shown).savefig(output / "history.png", dpi=120)


def _print_trained(trained: Trained) -> None:
    network, path = trained.report.network, trained.report.model_path
    words, command = trained.use
    print_lines(
        [
            f"{network.num_parameters:,} parameters, {trained.report.training.seconds:.1f} s",
            *trained.lines,
            *(f"{name} {shown_figures(value)}" for name, value in network.watched().items()),
            f"written to {path}; {words}",
            command.format(path),
        ]
    )
