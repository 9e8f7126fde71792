"""python -m fwnet.zoo ship MODEL.safetensors NAME: for maintainers."""

import argparse
from pathlib import Path

from fwnet.zoo import ship
from fwnet.zoo.shelf import SHIPPED


def main(arguments: list[str] | None = None) -> None:
    """Add a model to the package; print nothing unless something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m fwnet.zoo")
    command = parser.add_subparsers(required=True).add_parser(
        "ship", help="write weights and card of a trained model; its notes are the defaults"
    )
    command.add_argument("path", type=Path, help="a file that Model.save wrote")
    command.add_argument("name", help="architecture_tT.task_variant")
    for fact in ("summary", "data", "data-license", "command", "hardware"):
        command.add_argument(f"--{fact}")
    command.add_argument("--seconds", type=float)
    command.add_argument(
        "--figure", action="append", default=[], metavar="NAME=NUMBER", help="may be repeated"
    )
    command.add_argument("--float32", action="store_true", help="store kernels in float32")
    command.add_argument("--folder", type=Path, default=SHIPPED)
    given = vars(parser.parse_args(arguments))
    pairs = [figure.rpartition("=") for figure in given.pop("figure")]
    path, name = given.pop("path"), given.pop("name")
    half, folder = not given.pop("float32"), given.pop("folder")
    facts = {fact: value for fact, value in given.items() if value is not None}
    try:
        if pairs:
            facts["figures"] = {what: float(number) for what, _, number in pairs}
        ship(path, name, half=half, folder=folder, **facts)
    except (ValueError, OSError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
