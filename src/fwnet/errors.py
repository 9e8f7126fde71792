"""The base of every error that a user can fix."""


class FwnetError(ValueError):
    """An input, a file or a setting that does not fit; one line says what was expected and got."""
