"""Options that all trainings share, and the lines about their results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwnet.cli.command import (
    DEVICE_HELP,
    STOPPED,
    is_first_process,
    option_parameters,
    print_lines,
    reported_errors,
    say,
    with_parameters,
)
from fwnet.hardware import choose_device
from fwnet.progress import progress_bar, short_text
from fwnet.restoration import option
from fwnet.training import TrainingConfig, TrainingRun

if TYPE_CHECKING:
    from fwnet.coding import CoderReport
    from fwnet.training import RestorationReport, ShownFigure


@dataclass(frozen=True)
class OutputOptions:
    """Where every training writes."""

    output: Path = option(MISSING, "Folder for the results.", flags=("--output", "-o"))


@dataclass(frozen=True)
class RunOptions:
    """How every training runs."""

    config: Path | None = option(None, "A TOML file of settings; options override the file.")
    device: str = option("auto", DEVICE_HELP)
    checkpoint_seconds: float = option(30.0, "Seconds between checkpoints.")
    resume: bool = option(
        False, "Continue a stopped run; start one if there is none.", flags=("--resume",)
    )
    force: bool = option(False, "Start over; discard an earlier run.", flags=("--force",))


@dataclass(frozen=True)
class Trained:
    """What a training command reports at the end.

    Attributes:
        report: What was trained.
        shown: How its validation figure is shown.
        lines: How good it is.
        use: Words before the last line, and that line: a command with {} for the model file.
    """

    report: CoderReport | RestorationReport
    shown: ShownFigure
    lines: list[str]
    use: tuple[str, str]


def training_command(
    shown: Mapping[str, object], own: Mapping[str, inspect.Parameter]
) -> Callable[[Callable[..., Trained]], Callable[..., None]]:
    """Decorate a function of `run`, `settings` and its own options as a training command.

    The command has `OutputOptions`, `RunOptions`, and an option for every `TrainingConfig` field.
    The function gets a `TrainingRun`, and the settings that the user gave, by name. A bar shows
    progress, the history is drawn at the end, and errors become lines and exit codes.

    Args:
        shown: Defaults in words for --help, by setting, where the command has its own.
        own: The command's own parameters.
    """

    def decorate(function: Callable[..., Trained]) -> Callable[..., None]:
        shared = option_parameters(OutputOptions) | option_parameters(RunOptions, panel="Run")
        settings = option_parameters(TrainingConfig, shown, panel="Training", unset=True)

        def command(**arguments: Any) -> None:
            given = {name: arguments.pop(name) for name in settings}
            given = {name: value for name, value in given.items() if value not in (None, [])}
            with reported_errors(lambda: STOPPED, memory="--batch-size"):
                _train(function, given, arguments)

        command.__doc__ = function.__doc__
        parameters = {"output": shared["output"]} | dict(own) | shared | settings
        return with_parameters(command, function.__name__, parameters)

    return decorate


def _train(
    function: Callable[..., Trained], given: dict[str, Any], arguments: dict[str, Any]
) -> None:
    output, config = arguments.pop("output"), arguments.pop("config")
    if config:
        given = {**TrainingConfig.read_settings(config), **given}
    with progress_bar(shown=is_first_process()) as progress:
        run = TrainingRun(
            folder=output,
            device=choose_device(arguments.pop("device")),
            progress=progress,
            warn=say,
            **{name: arguments.pop(name) for name in ("resume", "force", "checkpoint_seconds")},
        )
        trained = function(run=run, settings=given, **arguments)
    if is_first_process():
        _show(trained, output)


def _show(trained: Trained, output: Path) -> None:
    """Draw the history, and print what was trained."""
    from fwnet.training.picture import draw_history

    history = trained.report.training.history
    if history:  # empty if someone removed the file
        draw_history(history, trained.shown).savefig(output / "history.png", dpi=120)
    network, path = trained.report.network, trained.report.model_path
    words, command = trained.use
    print_lines(
        [
            f"{network.num_parameters:,} parameters, {trained.report.training.seconds:.1f} s",
            *trained.lines,
            *(f"{name} {short_text(value)}" for name, value in network.watched().items()),
            f"written to {path}; {words}",
            command.format(path),
        ]
    )
