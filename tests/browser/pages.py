"""Pages in headless Chromium: serve a folder, open a page, and collect what the console says."""

import shutil
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


HARMLESS = ("log:", "info:", "debug:", "warning:", "startGroup")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_GET(self):
        if self.path == "/favicon.ico":  # which browsers ask for by themselves
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()


@contextmanager
def served(folder):
    """Serve a folder; yield its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@contextmanager
def opened(address, listen=None, **options):
    """Open an address; yield the page, and check that nothing went wrong in its console.

    listen: A list for the addresses that the page asks for.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (extra dev)")
    if CHROMIUM is None:
        pytest.skip("needs chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        # Without a sandbox, which root cannot have; the pages are our own.
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(**options)
        complaints = []
        page.on("pageerror", lambda error: complaints.append(f"uncaught: {error}"))
        page.on("console", lambda said: complaints.append(f"{said.type}: {said.text}"))
        if listen is not None:
            page.on("request", lambda request: listen.append(request.url))
        page.goto(address)
        yield page
        browser.close()
    assert [said for said in complaints if not said.startswith(HARMLESS)] == []
