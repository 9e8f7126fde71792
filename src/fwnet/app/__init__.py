"""`fwnet app`: clean and enlarge photos, explore p and watch it being learned, in a browser.

The page comes from this machine and stays on it: nothing is sent elsewhere, uploads are bounded,
and temporary files are removed when they are an hour old and when the app ends.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fwnet.app.exponents import explore, learn
from fwnet.app.photos import JOBS, Photo, look, open_photo, restore
from fwnet.errors import FwnetError
from fwnet.progress import Progress

__all__ = ["running"]

MISSING = "the app needs gradio: pip install '.[app]' in the clone"
HOUR = 3600  # seconds after which temporary files are removed
LARGEST_FILE = "100mb"
START = "Choose a photo: JPEG, PNG, TIFF, WebP or HEIC, up to 100 MB."
STYLE = ".figure svg { max-width: 100%; height: auto } footer { display: none !important }"


@contextmanager
def running(
    host: str = "127.0.0.1", port: int | None = None, *, browser: bool = False
) -> Iterator[str]:
    """Serve the app while the context lasts; yield its address.

    Args:
        host: The address to listen at; by default only this machine can reach it.
        port: The port; None for a free one from 7860.
        browser: Whether to open a browser.
    """
    with tempfile.TemporaryDirectory(prefix="fwnet-app-") as folder:
        # Read by gradio: where uploads go, and that it reports to no one.
        os.environ["GRADIO_TEMP_DIR"] = folder
        os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
        page = _page(Path(folder))
        try:
            _, address, _ = page.launch(
                server_name=host,
                server_port=port,
                inbrowser=browser,
                max_file_size=LARGEST_FILE,
                css=STYLE,
                share=False,
                quiet=True,
                footer_links=[],
                ssr_mode=False,
                run_history=False,
                enable_monitoring=False,
                prevent_thread_lock=True,
            )
        except OSError as error:
            page.close(verbose=False)
            where = "of 7860 to 7959" if port is None else f"{port}"
            raise FwnetError(f"port must be a free one at {host}, got {where}") from error
        try:
            yield address
        finally:
            page.close(verbose=False)


def _page(folder: Path) -> Any:
    """Return the page; results are written below `folder`."""
    try:
        import gradio as gr
    except ImportError as error:
        raise FwnetError(MISSING) from error

    with gr.Blocks(analytics_enabled=False, title="fwnet", delete_cache=(600, HOUR)) as page:
        gr.Markdown("# fwnet\nEverything runs on this machine; nothing is sent elsewhere.")
        with gr.Tab("Photo"):
            _photo_tab(gr, folder)
        with gr.Tab("Explore p"):
            _explore_tab(gr, page)
        with gr.Tab("Learn p"):
            _learn_tab(gr)
    return page


def _photo_tab(gr: Any, folder: Path) -> None:
    photo = gr.State(time_to_live=HOUR)
    with gr.Row():
        with gr.Column(scale=1):
            file = gr.File(label="Photo", height=140, elem_id="photo")
            job = gr.Radio(list(JOBS), value="Clean", label="What to do")
            strength = gr.Slider(
                0,
                2,
                1,
                step=0.1,
                label="Strength",
                elem_id="strength",
                info="How much noise to remove; 1 is normal.",
            )
            whole = gr.Button("Restore the whole photo", variant="primary", interactive=False)
            result = gr.DownloadButton("Download", interactive=False)
        with gr.Column(scale=2):
            views = gr.ImageSlider(
                label="The middle of the photo, before and after",
                type="pil",
                format="png",
                height=500,
                interactive=False,
                elem_id="views",
                buttons=["fullscreen"],  # what it shows is not the result in full depth
            )
            status = gr.Markdown(START)

    def show(now: Photo | None, task: str, level: float) -> tuple[Any, str]:
        if now is None:
            return None, START
        noise = "" if now.sigma is None else f", noise level {255 * now.sigma:.1f} of 255"
        return look(now, task, level), f"{now.path.name}: {now.width} × {now.height}{noise}"

    def opened(path: str, task: str, level: float) -> tuple[Any, ...]:
        try:
            now = open_photo(path)
            return now, *show(now, task, level), gr.update(interactive=True), _nothing(gr)
        except FwnetError as error:
            return None, None, f"⚠ {error}", gr.update(interactive=False), _nothing(gr)

    def emptied() -> tuple[Any, ...]:
        return None, None, START, gr.update(interactive=False), _nothing(gr)

    def restored(
        now: Photo,
        task: str,
        level: float,
        bar: Any = gr.Progress(),  # noqa: B008 (gradio's way)
    ) -> tuple[Any, str]:
        def report(step: Progress) -> None:
            bar(step.done / max(1, step.total), desc=step.stage)

        _remove_old(folder)
        place = Path(tempfile.mkdtemp(prefix="result-", dir=folder))
        try:
            path, words = restore(now, task, level, place, report)
        except FwnetError as error:
            return _nothing(gr), f"⚠ {error}"
        return gr.update(value=path, interactive=True, label=f"Download {path.name}"), words

    shown = {"inputs": [photo, job, strength], "outputs": [views, status]}
    everything = [photo, views, status, whole, result]
    _on(file.upload, opened, [file, job, strength], everything)
    _on(file.clear, emptied, None, everything)
    _on(strength.change, show, **shown, trigger_mode="always_last")
    _on(job.change, show, **shown)
    _on(job.change, lambda task: gr.update(interactive=task == "Clean"), job, strength)
    _on(whole.click, restored, [photo, job, strength], [result, status])


def _explore_tab(gr: Any, page: Any) -> None:
    with gr.Row():
        place = gr.Slider(
            0,
            1,
            0.25,
            step=0.01,
            label="p, as 1 − 1/p",
            info="0 is p = 1, 0.5 is p = 2, 1 is p = ∞.",
        )
        share = gr.Slider(
            0.05,
            1,
            0.5,
            step=0.05,
            label="Radius",
            info="As a fraction of the norm of an exact code.",
        )
    figure, words = gr.HTML(elem_classes="figure"), gr.Markdown()
    options = {"trigger_mode": "always_last", "show_progress": "hidden"}
    for event in (place.change, share.change, page.load):
        _on(event, explore, [place, share], [figure, words], **options)


def _learn_tab(gr: Any) -> None:
    gr.Markdown(
        "A network of 4 layers learns codes of 15,000 signals, and the p they were made with."
    )
    with gr.Row():
        true_p = gr.Slider(1.1, 3, 1.3, step=0.1, label="True p")
        first_p = gr.Slider(1.1, 3, 2, step=0.1, label="Initial p of the network")
    start = gr.Button("Learn", variant="primary")
    figure, words = gr.HTML(elem_classes="figure"), gr.Markdown()
    _on(start.click, learn, [true_p, first_p], [figure, words], show_progress="hidden")


def _on(event: Callable[..., Any], work: Any, inputs: Any, outputs: Any, **options: Any) -> None:
    """Connect an event of the page; it is not part of any public interface."""
    event(work, inputs, outputs, api_visibility="private", **options)


def _nothing(gr: Any) -> Any:
    """Return a download button with nothing to download."""
    return gr.update(value=None, interactive=False, label="Download")


def _remove_old(folder: Path) -> None:
    """Remove results that are an hour old."""
    for one in folder.glob("result-*"):
        if time.time() - one.stat().st_mtime > HOUR:
            shutil.rmtree(one, ignore_errors=True)
