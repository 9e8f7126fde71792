"""What all trainings have: options, a bar, what they do when stopped."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

from fwnet.cli.terminal import is_first_process, progress_bar, shown_figures
from fwnet.training import ReadingProgress, TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fwnet.training import TrainingProgress

__all__ = ["training_progress", "with_training_options"]


def with_training_options(
    shown: Mapping[str, object],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one option for every field of `TrainingConfig`; they arrive as `settings`.

    shown: What --help says where the command has a default of its own.
    """
    return lambda command: _add_training_options(command, shown)


def _add_training_options(
    command: Callable[..., None], shown: Mapping[str, object]
) -> Callable[..., None]:
    own = [
        parameter
        for parameter in inspect.signature(command, eval_str=True).parameters.values()
        if parameter.name != "settings"
    ]
    hints = get_type_hints(TrainingConfig)
    annotated: Any = Annotated  # made of values here, which no type checker follows
    fields = dataclasses.fields(TrainingConfig)
    options = []
    for one in fields:
        kind: Any = list[float] if one.name == "decay_at" else hints[one.name]
        default = shown.get(one.name, one.default)
        default = " ".join(map(str, default)) if isinstance(default, tuple) else default
        option = typer.Option(
            help=one.metadata["help"],
            show_default=str(default) if default is not None else False,
            rich_help_panel="Training",
        )
        options.append(
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=annotated[kind | None, option],
            )
        )

    @functools.wraps(command)
    def with_settings(**arguments: Any) -> None:
        given = {one.name: arguments.pop(one.name) for one in fields}
        settings = {name: value for name, value in given.items() if value not in (None, [])}
        command(**arguments, settings=settings)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + options
    with_settings.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_settings.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_settings


@contextmanager
def training_progress() -> Iterator[Callable[[ReadingProgress | TrainingProgress], None]]:
    """A bar on stderr with loss, validation, p and γ."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
    )
    with progress_bar(*columns, shown=is_first_process()) as bar:
        task = bar.add_task("", total=1, figures="")

        def show(progress: ReadingProgress | TrainingProgress) -> None:
            if isinstance(progress, ReadingProgress):
                done, count = progress.done, progress.count
                bar.update(task, total=count, completed=done, description="reading images")
                if done == count:  # what follows has a speed of its own
                    bar.reset(task, total=1)
                return
            figures = {"loss": progress.loss, "validation": progress.shown_validation}
            bar.update(
                task,
                total=progress.num_steps,
                completed=progress.step,
                description=f"epoch {progress.epoch} of {progress.num_epochs}",
                figures="  ".join(
                    f"{name} {shown_figures(value)}"
                    for name, value in {**figures, **progress.watched}.items()
                    if value is not None
                ),
            )

        yield show
