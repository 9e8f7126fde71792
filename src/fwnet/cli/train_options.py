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
from fwnet.files import write_whole
from fwnet.hardware import choose_device
from fwnet.progress import progress_bar, short_text
from fwnet.restoration import option
from fwnet.training import TrainingConfig, TrainingRun
from fwnet.training.checkpoint import PICTURE

if TYPE_CHECKING:
    from fwnet.coding import CoderReport
    from fwnet.training import NoiseLevelReport, RestorationReport, ShownFigure


# Parts of the text below the options.
RUN_NOTES = """loss, validation and p after each epoch (history.jsonl, history.png) and the \
settings (config.toml).

If a run was stopped, even killed, give the same command again with --resume. If the data, the \
network or the settings differ from those of the stopped run, an error says what differs.

On all GPUs of the machine, after pip install '.\\[train]' in the clone:"""
CPU_NOTES = """
For two processes on a CPU, add --multi_gpu --num_processes 2 before -m (accelerate needs \
--multi_gpu even there), and --device cpu at the end. For several machines, run \
[bold]accelerate config[/bold] on each of them first.
"""
TRAIN_LONGER = "Train longer (--num-epochs), or with a smaller --learning-rate."


@dataclass(frozen=True)
class OutputOptions:
    """Where every training writes."""

    output: Path = option(
        MISSING, "Folder for the results; created if missing.", flags=("--output", "-o")
    )


@dataclass(frozen=True)
class RunOptions:
    """How every training runs."""

    config: Path | None = option(
        None,
        "A TOML file of settings under Training, such as the config.toml of an earlier run; "
        "options override it.",
    )
    device: str = option("auto", DEVICE_HELP)
    checkpoint_seconds: float = option(30.0, "Seconds between checkpoints.")
    resume: bool = option(
        False, "Continue a stopped run; start one if there is none.", flags=("--resume",)
    )
    force: bool = option(
        False,
        "Discard the run in the output folder and start over. Without this or --resume, an "
        "earlier run is an error.",
        flags=("--force",),
    )


def training_command(
    shown: Mapping[str, object], own: Mapping[str, inspect.Parameter]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a function of `run`, `settings` and its own options as a training command.

    The command has `OutputOptions`, `RunOptions`, and an option for every `TrainingConfig` field.
    The function gets a `TrainingRun`, and the settings that the user gave, by name. A bar shows
    progress, and errors become lines and exit codes.

    Args:
        shown: Defaults in words for --help, by setting, where the command has its own.
        own: The command's own parameters.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
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


def _train(function: Callable[..., None], given: dict[str, Any], arguments: dict[str, Any]) -> None:
    if config := arguments.pop("config"):
        given = {**TrainingConfig.read_settings(config), **given}
    with progress_bar(shown=is_first_process()) as progress:
        run = TrainingRun(
            folder=arguments.pop("output"),
            device=choose_device(arguments.pop("device")),
            progress=progress,
            warn=say,
            **{name: arguments.pop(name) for name in ("resume", "force", "checkpoint_seconds")},
        )
        function(run=run, settings=given, **arguments)


def show_training(
    report: CoderReport | RestorationReport | NoiseLevelReport,
    shown: ShownFigure,
    lines: list[str],
    use: str,
) -> None:
    """Draw the history beside the model file, and print what was trained.

    Args:
        report: What was trained.
        shown: How its validation figure is shown.
        lines: How good it is.
        use: What to do with the network: words, and a command with {} for the model file.
    """
    from fwnet.training.picture import draw_history

    if not is_first_process():
        return
    training, network, path = report.training, report.network, report.model_path
    if training.history:  # empty if someone removed the file
        place = path.with_name(PICTURE)
        try:
            picture = draw_history(training.history, shown)
            write_whole(place, lambda file: picture.savefig(file, format="png", dpi=120))
        except SystemError as error:  # a function in C that found no memory
            raise MemoryError from error
    print_lines(
        [
            f"{network.num_parameters:,} parameters, {training.seconds:.1f} s",
            *lines,
            *(f"{name} {short_text(value)}" for name, value in network.watched().items()),
            f"written to {path}; {use.format(path)}",
        ]
    )
