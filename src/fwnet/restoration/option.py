"""Options of commands, as fields of dataclasses."""

from dataclasses import dataclass, field
from typing import Any


def option(
    default: Any,
    explanation: str,
    *,
    shown: str | None = None,
    flags: tuple[str, ...] = (),
    metavar: str | None = None,
) -> Any:
    """Describe a field of a dataclass that becomes an option of a command.

    Args:
        default: The value without the option; MISSING for a required one.
        explanation: The help text.
        shown: The default in words, where None stands for it.
        flags: Names on the command line, where they differ from the name of the field.
        metavar: The name of the value in --help.

    >>> from dataclasses import dataclass
    >>> from fwnet.restoration import option
    >>> @dataclass
    ... class Options:
    ...     strength: float = option(1.0, "How much to remove.")
    >>> Options().strength
    1.0
    """
    metadata = {"help": explanation, "shown": shown, "flags": flags, "metavar": metavar}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class NoOptions:
    """Options of a restoration that has none of its own."""
