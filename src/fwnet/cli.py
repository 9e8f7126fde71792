"""The command line: reads arguments, calls the library, shows progress. Nothing else."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import io
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import torch
import typer
from rich.console import Console

import fwnet
from fwnet.terminal import (
    is_first_process,
    job_progress,
    list_experiments,
    pixel_progress,
    print_card,
    print_coder,
    print_codes,
    print_denoised,
    print_denoiser,
    print_models,
    print_report,
    print_result,
    row_progress,
    say,
    training_progress,
)
from fwnet.training.denoiser_recipe import RECIPE, RECIPE_IN_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["app", "main"]

ENCODE_NOTES = """
[bold]fwnet encode data.npy --dictionary D.npy --p 1.3 --radius 5 -o codes.npy[/bold]

The file may be larger than memory. Codes are kept in shards in the folder codes.npy.parts until \
all are there; then they become codes.npy, and the folder goes. A run that was stopped, even \
killed, goes on with --resume and ends with the same bytes. Shards of an earlier run are never \
used or dropped unless --resume or --force says so, and never mixed with those of other data or \
options: that is refused with a line that says what differs.

With a network that fwnet train coder wrote, codes are learned and fast, and have no certificates:

[bold]fwnet encode data.npy --model mynet/model.safetensors -o codes.npy[/bold]

Parquet needs pyarrow: pip install 'fwnet\\[parquet]'. Every column is a feature.
"""

DENOISE_NOTES = """
[bold]fwnet denoise photo.jpg clean.png[/bold]             one file; the noise is estimated

[bold]fwnet denoise photo.jpg clean.png --sigma 25[/bold]  known noise, on the scale 0 to 255

[bold]fwnet denoise photos/ clean/ --compare[/bold]        a folder; before and after side by side

[bold]fwnet denoise 'scans/*.tif' logo.png clean/[/bold]   several files into a folder

Size, bits per channel, transparency, EXIF, color profile and resolution stay. JPEG files are \
written with quality 95. Large images are cut into tiles, with the same result. A file that is not \
an image is told in a line, the others are done, and the exit code is 2. What exists is not \
overwritten without --force. [bold]fwnet models[/bold] lists networks for --model.
"""

TRAIN_NOTES = """
[bold]fwnet train coder signals.npy codes.npy -o mynet[/bold]

A tenth of the rows is held back and the weights of the best epoch are kept. mynet/ has \
model.safetensors for [bold]fwnet encode --model[/bold], history.jsonl, history.png, config.toml. \
A run that was stopped, even killed, goes on with --resume and ends with the same weights.

On several processes or machines, with pip install 'fwnet\\[train]':

[bold]accelerate launch -m fwnet train coder signals.npy codes.npy -o mynet[/bold]

(two processes on a CPU: accelerate launch --multi_gpu --num_processes 2 -m fwnet … --device cpu)
"""

TRAIN_DENOISE_NOTES = """
[bold]fwnet train denoise --data photos --sigma 25 -o mynet[/bold]        for noise of one level

[bold]fwnet train denoise --data photos --max-sigma 55 -o mynet[/bold]    one network for all levels

[bold]fwnet train denoise --start conv_fwnet_t16.denoise_gray_s25 --data photos -o mynet[/bold]

The last one goes on from a network that comes with fwnet ([bold]fwnet models[/bold]), whose form \
and noise level it keeps.

Images should be clean: noise is added to squares of them, anew at every step. Some images are \
held back to show how good the network is after every epoch; the weights of the last one are kept. \
Without --data the network learns from the Berkeley images (FWNET_DATA, or a download of 70 MB), \
outside the 68 that everyone tests on.

The defaults train 4 layers in two minutes on a large GPU, and in a day on a CPU: there, try \
--batch-size 8 --steps-per-epoch 100 first. mynet/ has model.safetensors for [bold]fwnet denoise \
IN OUT --model[/bold], history.jsonl, history.png, config.toml. A run that was stopped, even \
killed, goes on with --resume. Learning rates were chosen on held-back Berkeley images after \
2,000 to 3,000 steps.
"""

REPRODUCE_NOTES = """
[bold]fwnet reproduce synthetic-l1 --quick[/bold]    a small version, in less than a minute

[bold]fwnet reproduce synthetic-l1[/bold]            all of it: results/synthetic-l1.json and .png

Settings are chosen on validation data for every method, so a full experiment is hundreds of \
trainings: minutes on a GPU, hours on a CPU. Finished trainings are kept in results/runs.jsonl and \
not repeated; a run that was stopped goes on from there.
"""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Lp-norm constrained coding with the Frank-Wolfe Network.",
    epilog="Start with [bold]fwnet demo[/bold]: it takes seconds and needs no data.",
)


train_app = typer.Typer(no_args_is_help=True, help="Train a network on your own data.")
app.add_typer(train_app, name="train")


def main() -> None:
    """Run the command line; bad input ends with a line of explanation and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ∞ shows a question mark
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        Console().print(f"fwnet {fwnet.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Lp-norm constrained coding with the Frank-Wolfe Network."""


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the page and its pictures.")
    ] = Path("demo"),
) -> None:
    """Show the main ideas on built-in data and write one HTML page with the pictures."""
    from fwnet.demo import write_demo

    console = Console()
    _make_folder(output)
    with console.status("") as status:
        report = write_demo(output, progress=status.update)
    for line in report.summary:
        console.print(f"• {line}", highlight=False, markup=False)
    console.print(f"Open {report.page} in a browser.", highlight=False, markup=False)


@app.command()
def bench(
    name: Annotated[
        str | None, typer.Argument(help="Which benchmark; without it they are listed.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, for a first look.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder to save bench-NAME-HARDWARE.json in."),
    ] = None,
) -> None:
    """Measure speed and memory as ratios, side by side in one run, on an idle machine."""
    from fwnet.bench import BENCHMARKS, Options, run_benchmark

    console = Console()
    if name is None:
        for key, (_, what) in BENCHMARKS.items():
            console.print(f"[bold]{key:12}[/bold] {what}", highlight=False)
        return
    if name not in BENCHMARKS:
        expected = ", ".join(BENCHMARKS)
        raise typer.BadParameter(f"expected one of {expected}, got {name!r}", param_hint="NAME")
    chosen = _device(device)
    if output:
        _make_folder(output)
    with Console(stderr=True).status("") as status:

        def show(group: str, index: int, rounds: int) -> None:
            status.update(f"{group}: round {index + 1} of {rounds}")

        report = run_benchmark(name, Options(chosen, quick, show))
    path = report.save(output) if output else None
    if as_json:
        console.print_json(json.dumps(dataclasses.asdict(report)))
        return
    print_report(console, report)
    if path:
        console.print(f"Saved to {path}.", highlight=False, markup=False)


@app.command(epilog=ENCODE_NOTES)
def encode(
    data: Annotated[Path, typer.Argument(help="Signals, one a row: .npy, or .parquet.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the codes go: .npy or .parquet.")
    ],
    p: Annotated[
        float | None, typer.Option("--p", help="Exponent of the norm, from 1 to inf.")
    ] = None,
    radius: Annotated[float | None, typer.Option(help="Bound on the norm of a code.")] = None,
    dictionary: Annotated[
        Path | None,
        typer.Option(
            "--dictionary",
            "-d",
            help="An .npy of shape (n, m), one atom a column: the transpose of scikit-learn's "
            "components_. Without it, the identity.",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="A network that fwnet train coder wrote, instead of p and radius."),
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option(help="Tolerance of the certificate; by default 1e-6 or, in float64, 1e-10."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    certificates: Annotated[
        Path | None,
        typer.Option(help="An .npy to write one record a row: gap, norm_gap, status_code, …"),
    ] = None,
    shard_rows: Annotated[
        int | None,
        typer.Option(help="Rows that are solved, and kept, together; by default by their width."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on from the shards of a run that was stopped. Without any, begin.",
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Overwrite the output; without --resume, drop the shards of an earlier run.",
        ),
    ] = False,
) -> None:
    """Code the rows of a file: min ½‖x − Dz‖² such that ‖z‖_p ≤ radius, or with a network."""
    from fwnet.coding import EncodeError, encode_file

    chosen = _device(device)
    try:
        with row_progress() as show:
            report = encode_file(
                data,
                output,
                p=p,
                radius=radius,
                dictionary=dictionary,
                model=model,
                tol=tol,
                device=chosen,
                certificates=certificates,
                shard_rows=shard_rows,
                resume=resume,
                force=force,
                progress=show,
            )
    except EncodeError as error:
        say(f"Error: {error}")
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        say("Stopped. The same command with --resume goes on from here.")
        raise typer.Exit(130) from error
    print_codes(report)
    if report.certifies and report.rows_uncertified:
        say(f"Warning: {report.rows_uncertified:,} of {report.rows:,} rows are not certified.")


@app.command(epilog=DENOISE_NOTES)
def denoise(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="IN...", help="Images: files, folders, patterns such as '*.png'."),
    ],
    output: Annotated[
        str,
        typer.Argument(metavar="OUT", help="A file for one image; else a folder, made if need be."),
    ],
    sigma: Annotated[
        float | None,
        typer.Option(help="Standard deviation of the noise, 0 to 255; by default estimated."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="A network of fwnet models, or a file; by default one for gray or for color.",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    tile: Annotated[
        int | None,
        typer.Option(help="Side of the tiles of large images: smaller ones take less memory."),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Write before and after side by side: OUT-compare.png."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
) -> None:
    """Remove noise from images with a trained network, whatever their size and format."""
    from fwnet.imaging import FailedFile, denoise_files

    chosen = _device(device)
    num_done = num_failed = 0
    try:
        if sigma is not None and not 0 <= sigma <= 255:
            raise ValueError(f"--sigma must be in [0, 255], got {sigma:g}")
        if sigma is not None and 0 < sigma < 1:
            say(f"Hint: --sigma is on the scale 0 to 255, where {sigma:g} is hardly any noise.")
        with pixel_progress() as show:
            for outcome in denoise_files(
                inputs,
                output,
                sigma=None if sigma is None else sigma / 255,
                model=model,
                device=chosen,
                tile=tile,
                compare=compare,
                force=force,
                progress=show,
            ):
                if isinstance(outcome, FailedFile):
                    num_failed += 1
                    say(f"Error: {outcome.reason}")
                    continue
                if sigma is not None and outcome.sigma is None and not num_done:
                    say("Hint: this network serves one noise level; --sigma is not used.")
                num_done += 1
                print_denoised(outcome)
    except ValueError as error:
        say(f"Error: {error}")
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        files = "1 file is" if num_done == 1 else f"{num_done} files are"
        say(f"Stopped. {files} done.")
        raise typer.Exit(130) from error
    if num_failed:
        raise typer.Exit(2)


def _with_training_options(
    shown: Mapping[str, object],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one option for every field of `TrainingConfig`; they arrive as `settings`.

    shown: What --help says where the command has a default of its own.
    """
    return lambda command: _add_training_options(command, shown)


def _add_training_options(
    command: Callable[..., None], shown: Mapping[str, object]
) -> Callable[..., None]:
    from fwnet.training import TrainingConfig

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


@train_app.callback()
def train_options() -> None:
    """Train a network on your own data."""


@train_app.command("coder", epilog=TRAIN_NOTES)
@_with_training_options({})
def train_coder_command(
    signals: Annotated[Path, typer.Argument(help="An .npy, one signal x a row.")],
    codes: Annotated[Path, typer.Argument(help="An .npy, the code z of each signal.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for what is trained.")],
    settings: dict[str, Any],
    model: Annotated[str, typer.Option(help="FWNet, MLP, LISTA or LCoD.")] = "FWNet",
    num_layers: Annotated[int, typer.Option(help="T, the number of layers.")] = 6,
    dictionary: Annotated[
        Path | None,
        typer.Option(
            "--dictionary",
            "-d",
            help="An .npy of shape (n, m), one atom a column, to start from; by default the one "
            "that rebuilds the signals from the codes best.",
        ),
    ] = None,
    p: Annotated[float, typer.Option("--p", help="Of FWNet: the exponent, or its start.")] = 2.0,
    fixed_p: Annotated[bool, typer.Option("--fixed-p", help="Of FWNet: do not learn p.")] = False,
    radius: Annotated[
        float | None,
        typer.Option(help="Of FWNet: the radius; by default learned from the largest norm on."),
    ] = None,
    share_weights: Annotated[
        bool | None,
        typer.Option(
            "--share-weights/--separate-weights",
            help="One matrix for all layers, or one each. By default separate; shared for LCoD.",
        ),
    ] = None,
    validation: Annotated[
        float, typer.Option(help="Part of the rows to hold back; 0 keeps the last epoch.")
    ] = 0.1,
    config: Annotated[
        Path | None,
        typer.Option(help="A TOML file of training settings; options go before it."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    checkpoint_seconds: Annotated[
        float, typer.Option(min=0, help="How much work a kill may cost.")
    ] = 30.0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from where a run was stopped, or begin.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Begin anew though the folder has an earlier run.")
    ] = False,
) -> None:
    """Learn to code: a network is trained on signals and the codes that you have for them."""
    from fwnet.coding import train_coder
    from fwnet.training import TrainingConfig

    chosen = _device(device)
    try:
        read = TrainingConfig.read(config, **settings) if config else TrainingConfig(**settings)
        with training_progress() as show:
            report = train_coder(
                signals,
                codes,
                output,
                config=read,
                model=model,
                num_layers=num_layers,
                dictionary=dictionary,
                p=p,
                learn_p=not fixed_p,
                radius=radius,
                share_weights=share_weights,
                validation=validation,
                device=chosen,
                resume=resume,
                force=force,
                checkpoint_seconds=checkpoint_seconds,
                progress=show,
            )
        if is_first_process():
            print_coder(report, output)
    except (ValueError, OSError) as error:
        if is_first_process():
            say(f"Error: {error}")
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        say("Stopped. The same command with --resume goes on from here.")
        raise typer.Exit(130) from error


@train_app.command("denoise", epilog=TRAIN_DENOISE_NOTES)
@_with_training_options({**RECIPE, **RECIPE_IN_WORDS})
def train_denoise_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for what is trained.")],
    settings: dict[str, Any],
    data: Annotated[
        Path | None,
        typer.Option(help="A folder of images, with those below it; by default the Berkeley ones."),
    ] = None,
    sigma: Annotated[
        float | None,
        typer.Option(
            help="Standard deviation of the noise, 0 to 255.",
            show_default="25, or 0 beside --max-sigma; with --start what that was trained for",
        ),
    ] = None,
    max_sigma: Annotated[
        float | None,
        typer.Option(
            help="One network for all levels from --sigma to this; fwnet denoise tells it which."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="ConvFWNet, ConvLISTA or DnCNN.", show_default="ConvFWNet"),
    ] = None,
    num_layers: Annotated[
        int | None, typer.Option(help="The number of layers.", show_default="4; DnCNN 17")
    ] = None,
    channels: Annotated[
        int | None, typer.Option(help="The number of maps in a layer.", show_default="64")
    ] = None,
    color: Annotated[
        bool | None,
        typer.Option("--color/--gray", help="What images are read as.", show_default="gray"),
    ] = None,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain", help="The authors' form: the output is W_R z, not the input plus that."
        ),
    ] = False,
    p: Annotated[
        float | None,
        typer.Option("--p", help="Of ConvFWNet: the exponent, or its start.", show_default="1.5"),
    ] = None,
    fixed_p: Annotated[
        bool, typer.Option("--fixed-p", help="Of ConvFWNet: do not learn p.")
    ] = False,
    batch_norm: Annotated[
        bool | None, typer.Option(help="Of DnCNN: normalize or not.", show_default="batch-norm")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Go on from a trained network: one of fwnet models, or a file. One for gray may "
            "become one for color, one for a level one for all.",
        ),
    ] = None,
    crop_size: Annotated[int, typer.Option(help="Side of the squares that are learned from.")] = 48,
    steps_per_epoch: Annotated[int, typer.Option(help="How many batches an epoch has.")] = 1000,
    validation: Annotated[
        int | None,
        typer.Option(
            help="How many images to hold back, to see how good the network is.",
            show_default="12, or a tenth if fewer",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="A TOML file of training settings; options go before it."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    checkpoint_seconds: Annotated[
        float, typer.Option(min=0, help="How much work a kill may cost.")
    ] = 30.0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from where a run was stopped, or begin.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Begin anew though the folder has an earlier run.")
    ] = False,
) -> None:
    """Learn to remove noise: a network is trained on a folder of clean images."""
    from fwnet.training import TrainingConfig, make_denoiser, train_denoiser, trained_levels
    from fwnet.zoo import load_model

    chosen = _device(device)
    try:
        other: Any = load_model(start) if start else None
        if start and sigma is None and max_sigma is None:
            sigma, max_sigma = trained_levels(start, other)
        levels = _noise_levels(sigma, max_sigma)
        given = {**(TrainingConfig.read_settings(config) if config else {}), **settings}
        seed = TrainingConfig(**given).seed
        network = make_denoiser(
            model,
            num_layers=num_layers,
            channels=channels,
            color=color,
            noise_level_input=max_sigma is not None,
            plain=plain or None,
            p=p,
            learn_p=False if fixed_p else None,
            batch_norm=batch_norm,
            start=other,
            seed=seed,
        )
        with training_progress() as show:
            report = train_denoiser(
                network,
                data,
                output,
                sigma=levels,
                start=other,
                settings=given,
                crop_size=crop_size,
                steps_per_epoch=steps_per_epoch,
                validation=validation,
                device=chosen,
                resume=resume,
                force=force,
                checkpoint_seconds=checkpoint_seconds,
                notes={"command": shlex.join(["fwnet", *sys.argv[1:]])},
                tell=_say_once,
                progress=show,
            )
        if is_first_process():
            print_denoiser(report, output)
    except (ValueError, OSError) as error:
        _say_once(f"Error: {error}")
        raise typer.Exit(2) from error
    except torch.OutOfMemoryError as error:
        _say_once("Error: the GPU has too little memory: try a smaller --batch-size.")
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        _say_once("Stopped. The same command with --resume goes on from here.")
        raise typer.Exit(130) from error


def _noise_levels(sigma: float | None, max_sigma: float | None) -> float | tuple[float, float]:
    """What to train for, on the scale of [0, 1], from 0 to 255 as everyone writes it."""
    low = sigma if sigma is not None else 25.0 if max_sigma is None else 0.0
    if max_sigma is None and not 0 < low <= 255:
        raise ValueError(f"--sigma must be in (0, 255], got {low:g}")
    if max_sigma is not None and not (0 <= low <= max_sigma <= 255 and max_sigma > 0):
        raise ValueError(
            "--sigma and --max-sigma must satisfy 0 <= sigma <= max-sigma <= 255 and "
            f"max-sigma > 0, got {low:g} and {max_sigma:g}"
        )
    high = low if max_sigma is None else max_sigma
    if high < 1:
        _say_once(f"Hint: --sigma is on the scale 0 to 255, where {high:g} is hardly any noise.")
    return low / 255 if max_sigma is None else (low / 255, high / 255)


def _say_once(line: str) -> None:
    """Say a line, in the first of several processes."""
    if is_first_process():
        say(line)


@app.command(epilog=REPRODUCE_NOTES)
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Which experiments, or all; without any they are listed."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, for a first look.")] = False,
    finished: Annotated[
        bool,
        typer.Option(
            "--finished",
            help="Train nothing: make tables of finished trainings. Where an experiment can, it "
            "leaves out what has none.",
        ),
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for figures and pictures.")
    ] = Path("results"),
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the data sets (mnist/ for the digits); also FWNET_DATA. Without "
            "either they are downloaded."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    workers: Annotated[
        int | None,
        typer.Option(help="Trainings at a time; by default one a core, at most 16."),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(help="Write the page of all results in the output folder to this file."),
    ] = None,
) -> None:
    """Measure the tables and figures of the paper again, with the baselines, side by side."""
    from fwnet.data import DATA_SETS, DATA_VARIABLE, DataError
    from fwnet.experiments import EXPERIMENTS, Lab, Runner, UnfinishedError
    from fwnet.training import DivergedError

    if not names:
        if page:
            _write_page(page, output)
        else:
            list_experiments(output)
        return
    for name in names:
        if name not in (*EXPERIMENTS, "all"):
            expected = ", ".join((*EXPERIMENTS, "all"))
            raise typer.BadParameter(
                f"expected some of {expected}, got {name!r}", param_hint="NAMES"
            )
    if workers is not None and workers < 1:
        raise typer.BadParameter(f"expected 1 or more, got {workers}", param_hint="--workers")
    chosen = _device(device)
    _make_folder(output)
    if page and not page.parent.is_dir():
        raise typer.BadParameter(f"{page.parent} is not a folder", param_hint="--page")
    if data is not None:
        if not any((data / name).is_dir() for name in DATA_SETS):
            raise typer.BadParameter(
                f"expected a folder with some of {', '.join(DATA_SETS)} in it, got {data}",
                param_hint="--data",
            )
        os.environ[DATA_VARIABLE] = str(data.resolve())  # for the processes that do the work
    wanted = list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))
    count = workers or min(os.cpu_count() or 1, 16)
    cache = None if quick else output / "runs.jsonl"
    try:
        with job_progress() as show, Runner(chosen, count, cache, show, finished) as runner:
            for name in wanted:
                experiment = EXPERIMENTS[name]
                result = experiment.run(Lab(runner, quick))
                paths = experiment.write(result, output, "-quick" if quick else "")
                print_result(experiment, result, paths)
    except (ImportError, OSError, DataError, DivergedError, UnfinishedError) as error:
        say(f"Error: {error}")
        raise typer.Exit(2) from error
    if page:
        _write_page(page, output)


@app.command()
def models(
    name: Annotated[
        str | None, typer.Argument(help="Which model to tell about; without it they are listed.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the trained models that come with fwnet: what they do, and how well."""
    from fwnet.models import ModelFileError
    from fwnet.zoo import find_card, list_models

    try:
        cards = list_models() if name is None else [find_card(name)]
    except ModelFileError as error:
        say(f"Error: {error}")
        raise typer.Exit(2) from error
    if as_json:
        told = [dataclasses.asdict(card) for card in cards]
        Console().print_json(json.dumps(told if name is None else told[0]))
    elif name is None:
        print_models(cards)
    else:
        print_card(cards[0])


def _make_folder(output: Path) -> None:
    """Find out before the work whether its result can be written."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        raise typer.BadParameter(
            f"cannot write to {output}: {error.strerror}", param_hint="--output"
        ) from error


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise typer.BadParameter(f"expected auto, cpu or cuda, got {name!r}", param_hint="--device")
    if name == "cuda" and not torch.cuda.is_available():
        raise typer.BadParameter("this machine has no CUDA device", param_hint="--device")
    return torch.device(name)


def _write_page(page: Path, output: Path) -> None:
    from fwnet.experiments.page import results_page

    try:
        page.write_text(results_page(output), encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(
            f"cannot write {page}: {error.strerror}", param_hint="--page"
        ) from error
    except ValueError as error:
        say(f"Error: {error}")
        raise typer.Exit(2) from error
