"""The base of every error that a user can fix."""


class FwnetError(ValueError):
    """An input, a file or a setting that does not fit; one line says what was expected and got.

    Line breaks and control characters, which names in files may hold, are shown as escapes.
    """

    def __str__(self) -> str:
        text = super().__str__()
        return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
