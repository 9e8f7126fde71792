"""What commands share: options from fields of dataclasses, lines, errors as exit codes."""

import dataclasses
import inspect
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from fwnet.restoration import option

if TYPE_CHECKING:
    from fwnet.engine import Engine

DEVICE_HELP = "Where to compute: cpu, cuda, mps (Apple), or auto: cuda if there is one, else cpu."
Device = Annotated[str, typer.Option(metavar="NAME", help=DEVICE_HELP)]
STOPPED = "Stopped. Continue with the same command and --resume."
USAGE_ERROR: Any = typer.BadParameter.__base__  # Click's, or Typer's own
NUMBERS = {"float_parsing": "a number", "int_parsing": "a whole number"}  # pydantic's kinds
METAVARS = {int: "N", float: "X", list[float]: "X", Path: "PATH", str: "NAME"}


class Plain:
    """What makes --help plain: no types for flags and arguments, and names in capitals."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters as --help shows them."""
        parameters: Any = super().get_params(ctx)  # type: ignore[misc]
        for one in parameters:
            if one.param_type_name == "argument":
                one.metavar = one.metavar or one.name.upper()
                one.display_type_rich = lambda **_: None
                name = one.metavar if one.required else f"[{one.metavar}]"
                name = one.metavar if "..." in name else name + "..." * (one.nargs != 1)
                one.get_usage_pieces = lambda _, name=name: [name]
            elif one.is_flag:
                one.metavar = ""
        return parameters

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write --help; IN... is required, although a command has its own message without it."""
        for one in self.params:  # type: ignore[attr-defined]
            one.required |= "..." in (one.metavar or "")
        super().format_help(ctx, formatter)  # type: ignore[misc]


class Command(Plain, TyperCommand):
    """A command with a plain --help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options; name an argument where none is expected before any missing option."""
        takes_none = all(one.param_type_name != "argument" for one in self.params)
        if takes_none and args and not args[0].startswith("-"):
            has_data = any("--data" in one.opts for one in self.params)
            hint = f"; did you mean --data {args[0]}?" if has_data else ""
            ctx.fail(f"expected options only, got {args[0]}{hint}")
        return super().parse_args(ctx, args)


class Group(Plain, TyperGroup):
    """A group of commands with a plain --help and errors of one line."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run the command line; a wrong one is one line and exit code 2."""
        run: Any = super().main
        if not standalone_mode:
            return run(*args, standalone_mode=False, **extra)
        try:
            code = run(*args, standalone_mode=False, **extra)
        except USAGE_ERROR as error:
            code = error.exit_code
            faults: Any = getattr(error.__cause__, "errors", list)()  # of pydantic, in new versions
            got = f", got {faults[0]['input']!r}" if faults else ""
            message = error.format_message().removeprefix("Invalid value: ")
            if faults and faults[0]["type"] in NUMBERS and error.param:
                message = f"{error.param.opts[0]} must be {NUMBERS[faults[0]['type']]}"
            if words := " ".join(message.split()).rstrip("."):
                see = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
                say(f"Error: {words}{got}{see}")
        sys.exit(code)


@dataclasses.dataclass(frozen=True)
class EngineOptions:
    """Where the work runs."""

    engine: str = option(
        "local",
        "Where the work runs: local (this process), or ray (every core of this machine, or the "
        "cluster at --address). ray needs pip install '.\\[ray]' in the clone.",
    )
    address: str | None = option(
        None,
        "Ray cluster that is running: auto, HOST:PORT or ray://HOST:PORT.",
        shown="$RAY_ADDRESS, or a cluster of this machine that ends with the command",
        metavar="ADDRESS",
    )


@contextmanager
def chosen_engine(engine: str, address: str | None) -> "Iterator[Engine]":
    """Yield the engine of `EngineOptions`."""
    if engine not in ("local", "ray"):
        raise ValueError(f"engine must be local or ray, got {engine!r}")
    if engine == "local":
        from fwnet.engine import OneProcess

        if address is not None:
            raise ValueError(f"--address needs --engine ray, got --address {address}")
        yield OneProcess()
        return
    # Ray would print what it says about dead workers to stdout; it is read on import.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    try:
        from fwnet.ray import RayEngine
    except ImportError as error:
        raise ValueError(str(error)) from error
    with RayEngine(address, warn=say) as running:
        yield running


def option_parameters(
    kind: Any,
    shown: Mapping[str, object] | None = None,
    helps: Mapping[str, str] | None = None,
    *,
    panel: str | None = None,
    unset: bool = False,
) -> dict[str, inspect.Parameter]:
    """Return one parameter of a command for every field of a dataclass.

    Args:
        kind: A dataclass whose fields have "help" in their metadata and, optionally, "shown" (the
            default in words), "flags" and "metavar"; see `fwnet.restoration.option`.
        shown: Defaults in words, by field, that replace those.
        helps: Help texts, by field, that replace those.
        panel: The heading in --help.
        unset: Whether the default of every option is None, for "not given".
    """
    hints = get_type_hints(kind)
    annotated: Any = Annotated  # made of values here, which no type checker follows
    parameters = {}
    for field in dataclasses.fields(kind):
        about = field.metadata
        hint = list[float] if hints[field.name] == tuple[float, ...] else hints[field.name]
        words = (shown or {}).get(field.name, about.get("shown") or _in_words(field))
        default = None if unset else field.default
        words = f"{words:g}" if isinstance(words, float) else words
        text = (helps or {}).get(field.name, about["help"])
        option = typer.Option(
            *about.get("flags") or (),
            help=text if words is None else f"{text} [dim]\\[default: {words}][/dim]",
            show_default=False,
            metavar=about.get("metavar") or _metavar(hint),
            rich_help_panel=panel,
        )
        parameters[field.name] = inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is dataclasses.MISSING else default,
            annotation=annotated[hint | None if unset else hint, option],
        )
    return parameters


def argument_parameter(
    name: str,
    kind: Any,
    explanation: str,
    default: Any = inspect.Parameter.empty,
    **options: Any,
) -> dict[str, inspect.Parameter]:
    """Return an argument of a command, by its name; `options` are those of `typer.Argument`."""
    annotated: Any = Annotated
    annotation = annotated[kind, typer.Argument(help=explanation, **options)]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return {name: inspect.Parameter(name, keyword, default=default, annotation=annotation)}


def with_parameters(
    function: Callable[..., None], name: str, parameters: Mapping[str, inspect.Parameter]
) -> Callable[..., None]:
    """Return a function of keywords as a command with these parameters."""

    def command(**arguments: Any) -> None:
        function(**arguments)

    command.__signature__ = inspect.Signature([*parameters.values()])  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters.values()}
    command.__name__, command.__doc__ = name, function.__doc__
    return command


def _metavar(hint: Any) -> str | None:
    """Return a short name for the values of an option."""
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    if kinds and all(isinstance(kind, str) for kind in kinds):
        return "NAME"  # one of several; the help text lists them
    return METAVARS.get(kinds[0] if kinds and hint not in METAVARS else hint)


def _in_words(field: Any) -> Any:
    """Return the default of a field as --help shows it."""
    default = field.default
    if isinstance(default, bool):
        flag = field.name.replace("_", "-")
        return None if field.metadata.get("flags") else flag if default else f"no-{flag}"
    if isinstance(default, tuple):
        return " and ".join(map(str, default))
    return None if default is dataclasses.MISSING else default


def make_folder(output: Path) -> None:
    """Make a folder; raise before the work if nothing can be written there."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        raise typer.BadParameter(
            f"cannot write to {output}: {error.strerror}", param_hint="--output"
        ) from error


def print_lines(lines: Iterable[str]) -> None:
    """Print lines to stdout unchanged, however long."""
    try:
        for line in lines:
            Console().print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python would try again at its end
        raise OSError(error.errno, error.strerror, "stdout") from error


def say(line: str) -> None:
    """Print one line to stderr, however long; of several processes, only the first.

    Control characters, which names of files may have, are shown as escapes.
    """
    line = re.sub("[\x00-\x1f\x7f-\x9f]", lambda found: repr(found[0])[1:-1], line)
    if is_first_process():
        Console(stderr=True).print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)


def is_first_process() -> bool:
    """Return whether this is the only process, or the first of several."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def reported_errors(
    stopped: Callable[[], str] = lambda: "Stopped.",
    memory: str | None = None,
    options: Iterable[Any] = (),
) -> Iterator[None]:
    """Turn errors of users into a line and exit code 2, and Ctrl-C into exit code 130.

    Args:
        stopped: Returns the line to print after Ctrl-C.
        memory: The option to try with a smaller value when there is too little memory.
        options: Dataclasses of the options whose names get dashes where a message begins with one.
    """
    from fwnet.hardware import is_out_of_memory

    try:
        yield
    except (ValueError, OSError) as error:
        say(f"Error: {_with_dashes(one_line(error), options)}")
        raise typer.Exit(2) from error
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        hint = f": try a smaller {memory}" if memory else ""
        say(f"Error: there is not enough memory{hint}.")
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        say(stopped())
        raise typer.Exit(130) from error


def _with_dashes(message: str, options: Iterable[Any]) -> str:
    """Return "--shard-rows must be …" for "shard_rows must be …" where there is such an option."""
    name, _, rest = message.partition(" ")
    flag = f"--{name}".replace("_", "-")
    fields = [field for kind in options for field in dataclasses.fields(kind)]
    flags = [field.metadata["flags"] or f"--{field.name}".replace("_", "-") for field in fields]
    is_flag = flag in flags or any(flag in some for some in flags if isinstance(some, tuple))
    return f"{flag} {rest}" if is_flag and rest.startswith(("must be", "needs")) else message


def one_line(error: Exception) -> str:
    """Return the message of an error; of one of the system, without its number."""
    if isinstance(error, OSError) and error.strerror:
        where = f"cannot read or write {error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return str(error)


def rounded(value: object) -> object:
    """Return three digits of a number; anything else unchanged."""
    return f"{value:.3g}" if isinstance(value, float) else value
