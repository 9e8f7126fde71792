"""The site: `make docs` builds it into build/docs, and every warning is an error."""

import os
import re
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # examples run side by side instead

import sphinx.ext.autosummary

import fwnet

sphinx.ext.autosummary.WELL_KNOWN_ABBREVIATIONS += ("s.t.",)  # no end of a sentence

project = "fwnet"
author = "The fwnet developers"
copyright = author  # noqa: A001 (Sphinx's name)
version = release = fwnet.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery/README.*"]
html_theme = "furo"
html_title = f"fwnet {release}"
html_static_path = ["static"]
html_css_files = ["fwnet.css"]
html_theme_options = {"navigation_with_keys": True}

myst_heading_anchors = 4
default_role = "code"  # `name` in docstrings
highlight_language = "text"  # of blocks that name no language: commands and equations
smartquotes_action = "D"  # dashes only: quotes are part of code
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
autosummary_generate = True
templates_path = ["templates"]
napoleon_use_ivar = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "abort_on_example_error": True,
    "parallel": 2,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 5,
    "doc_module": ("fwnet",),
    "backreferences_dir": "generated/backreferences",
    "subsection_order": [f"../examples/{part}" for part in ("codes", "networks", "images", "*")],
}

# Pages link to files beside the folder docs; on the site these are pages, too.
ELSEWHERE = {
    "../results/": "measured.md",
    "../results/README.md": "measured.md",
    "../CHANGELOG.md": "changelog.md",
    "../CONTRIBUTING.md": "contributing.md",
    "../examples/": "gallery/index.rst",
}
EXAMPLE = re.compile(r"\(\.\./examples/(\w+/plot_\w+)\.py\)")  # its page is made from it


def _add_contents(app, docname, source):
    """Append the table of contents to the start page; a code host would show it as code."""
    if docname == "index":
        source[0] += Path(app.srcdir, "contents.txt").read_text(encoding="utf-8")


def _link_inside(app, docname, source):  # noqa: ARG001 (Sphinx's signature)
    for outside, inside in ELSEWHERE.items():
        source[0] = source[0].replace(f"({outside})", f"({inside})")
    source[0] = EXAMPLE.sub(r"(gallery/\1.rst)", source[0])


def _as_rest(app, what, name, obj, options, lines):  # noqa: ARG001
    """Make a docstring ReStructuredText: indented equations become blocks, | stays a bar."""
    above, block = "", False
    for index, line in enumerate(lines):
        if line.strip():
            begins = not lines[index - 1].strip() and not above.startswith((" ", "*"))
            block = line.startswith("    ") and (block or begins)
            if block and begins:
                lines[index - 1] = "\n::\n"
            above = line
        if not block and not line.startswith((">>>", "...")):
            parts = line.split("`")
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[index] = "`".join(parts)
    lines[:] = "\n".join(lines).split("\n")


def setup(app):
    """Connect what is done to pages and docstrings."""
    app.connect("source-read", _add_contents)
    app.connect("source-read", _link_inside)
    app.connect("autodoc-process-docstring", _as_rest, priority=1)
