"""`fwnet explore`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fwnet.cli.command import (
    DEVICE_HELP,
    argument_parameter,
    option_parameters,
    print_lines,
    reported_errors,
    with_parameters,
)
from fwnet.cli.encode import COLUMNS_HELP, names_in
from fwnet.progress import progress_bar
from fwnet.restoration import option

NOTES = """
[bold]fwnet explore data.npy -o explore.html[/bold]

Some entries of each row are hidden and predicted from the code of the others. The page recommends \
the p and the radius that predict best, with the range that the data allow, and names every doubt.

With a dictionary of your own, learned from other rows than these:

[bold]fwnet explore data.parquet --columns 'x*' --dictionary D.npy[/bold]
"""


@dataclass(frozen=True)
class ExploreOptions:
    """Options of `fwnet explore`."""

    output: Path = option(Path("explore.html"), "The page to write.", flags=("--output", "-o"))
    dictionary: Path | None = option(
        None,
        "A .npy file with D, of shape (length of a signal, length of a code): one atom per column.",
        shown="one is learned from half of the sample",
        flags=("--dictionary", "-d"),
    )
    save_dictionary: Path | None = option(
        None,
        "The .npy file for the dictionary.",
        shown="explore-dictionary.npy beside explore.html; no file with --dictionary",
    )
    columns: str | None = option(None, COLUMNS_HELP, shown="all", metavar="NAMES")
    components: int | None = option(
        None,
        "Atoms of a dictionary that is learned; not with --dictionary.",
        shown="the number of columns",
    )
    normalize: bool | None = option(
        None,
        "Divide every row by its norm, so that one radius can suit all.",
        shown="if the norms differ by more than a factor of 4",
        flags=("--normalize/--no-normalize",),
    )
    rows: int = option(500, "Number of rows to draw from the file.")
    seed: int = option(0, "Seed of all randomness.")
    device: str = option("auto", DEVICE_HELP)
    force: bool = option(False, "Overwrite existing files.", flags=("--force",))


def _explore(
    data: Path,
    output: Path,
    save_dictionary: Path | None,
    columns: str | None,
    force: bool,
    **options: Any,
) -> None:
    """Find the p and the radius that suit the rows of a file; write an HTML page."""
    import numpy as np

    from fwnet.coding import EncodeError
    from fwnet.coding.array_files import open_rows
    from fwnet.explore import explore, recommendation, write_page
    from fwnet.files import resolved, why_not_writable, write_whole

    with reported_errors(options=[ExploreOptions]):
        if save_dictionary is None and options["dictionary"] is None:
            save_dictionary = output.with_name(f"{output.stem}-dictionary.npy")
        for path, suffix in ((output, ".html"), (save_dictionary, ".npy")):
            if path is not None and path.suffix != suffix:
                raise EncodeError(f"expected a file that ends in {suffix}, got {path}")
            if path is not None and (problem := why_not_writable(path)):
                raise EncodeError(f"cannot write {path}: {problem}")
        inputs = [resolved(path) for path in (data, options["dictionary"]) if path is not None]
        if save_dictionary is not None and resolved(save_dictionary) in inputs:
            raise EncodeError(f"every file must have its own path, got {save_dictionary} twice")
        for path in (output, save_dictionary):
            if path is not None and path.exists() and not force:
                raise EncodeError(f"{path} exists; overwrite it with --force")
        open_rows(data, names_in(columns))  # a wrong file leaves no new folders
        for path in filter(None, (output, save_dictionary)):
            path.parent.mkdir(parents=True, exist_ok=True)
        with progress_bar() as progress:
            found = explore(data, columns=names_in(columns), **options, progress=progress)
        write_page(found, output, save_dictionary)
        written = []
        if save_dictionary is not None:
            matrix = found.dictionary.cpu().numpy()
            write_whole(save_dictionary, lambda file: np.save(file, matrix))
            n, m = matrix.shape
            written = [f"Dictionary written to {save_dictionary} ({n} × {m})."]
    print_lines([*recommendation(found), *written, f"Open {output} in a browser."])


DATA = argument_parameter("data", Path, "Signals, one per row: .npy or .parquet.")
explore = with_parameters(_explore, "explore", DATA | option_parameters(ExploreOptions))
