"""Build the site: ``make docs``. Nothing is fetched from the network, and a warning is an error."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

from numpydoc.xref import DEFAULT_LINKS

import optfair

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))
from reference import autosummary_context  # noqa: E402, F401 - Sphinx reads it

project, author, copyright = "optfair", "the optfair developers", "2026, the optfair developers"
version = release = optfair.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "project_links",
    "reference",
    "llms",
    "check_site",
]
exclude_patterns = ["gallery/*.ipynb", "gallery/**/*.py", "generated", "**sg_execution_times.rst"]
templates_path = ["templates"]
nitpicky = False
suppress_warnings = ["config.cache"]  # autosummary_context holds functions, which Sphinx cannot keep between builds

# -- Markdown ----------------------------------------------------------------------------------------------
myst_enable_extensions = ["amsmath", "attrs_block", "colon_fence", "deflist", "dollarmath", "fieldlist", "substitution"]
myst_heading_anchors = 4  # links to headings, as on code hosts
myst_links_external_new_tab = False

# -- reference ---------------------------------------------------------------------------------------------
autosummary_generate = True
autodoc_typehints = "none"  # types are in the docstrings
default_role = "py:obj"  # `solve` in a docstring is a link, where it names something of ours
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # the templates list them
numpydoc_xref_param_type = True
numpydoc_xref_aliases = {
    "Certificate": "optfair.rule.certificate.Certificate",
    "Determinism": "optfair.rule.determinism.Determinism",
    "Explanation": "optfair.rule.explanation.Explanation",
    "Finding": "optfair.reporting.findings.Finding",
    "MonitorReport": "optfair.monitoring.report.MonitorReport",
    "ScoredFiles": "optfair.storage.scoring.ScoredFiles",
    "Status": "optfair.rule.certificate.Status",
    "Verdict": "optfair.reporting.verdict.Verdict",
    **{name: f"optfair.{name}" for name in optfair.__all__ if name[0].isupper()},
    **{name: name for name in DEFAULT_LINKS if name not in optfair.__all__},  # no links to other projects: no network
}
numpydoc_xref_ignore = "all"  # but for the names above

# Pages that docstrings name: `"Large data" in the user guide`.
guide_titles = {
    "Command line": "guide/command_line",
    "Findings": "guide/findings",
    "Large data": "guide/large_data",
    "Into production": "guide/production",
    "Cores": "guide/practice",
    "Progress": "guide/practice",
    "Joint or factored": "results/choices",
}

# -- gallery -----------------------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",
    "within_subsection_order": "gallery_style.QuestionOrder",
    "capture_repr": ("_repr_html_", "__repr__"),
    "ignore_repr_types": r"matplotlib",
    "matplotlib_animations": False,
    "remove_config_comments": True,
    "show_memory": False,
    "download_all_examples": False,
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib",),
    "image_srcset": ["2x"],
    "thumbnail_size": (480, 330),
    "reset_modules": ("matplotlib", "gallery_style.set_style"),
    "plot_gallery": True,
    "write_computation_times": False,  # that page would load scripts from the network
}
warnings.filterwarnings("ignore", category=optfair.OptFairWarning)  # examples show theirs by printing

# -- pages -------------------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "optfair"
html_static_path = ["static"]
html_css_files = ["site.css", "reference.css"]
html_js_files = ["sortable.js"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "optfair"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "show_nav_level": 1,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_sidebars = {"index": [], "start": [], "changelog": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# -- mathematics: MathJax from a package, one file, no network ------------------------------------------------
MATHJAX = "tex-svg.js"
mathjax_path = f"mathjax/{MATHJAX}"

# -- for programs that read text -----------------------------------------------------------------------------
llms_summary = "Make classifiers with many classes fair to many groups, at the least cost in accuracy, with a proof."


def copy_mathjax(app: Any, error: Exception | None) -> None:
    """Copy MathJax into the pages that were built."""
    if error is None and app.builder.format == "html":
        spec = importlib.util.find_spec("sphinx-mathjax-offline")
        if spec is None or spec.origin is None:
            raise RuntimeError('the site needs sphinx-mathjax-offline: pip install -e ".[docs]"')
        target = Path(app.outdir) / "_static" / "mathjax"
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(spec.origin).parent / "static" / "mathjax" / MATHJAX, target / MATHJAX)


def setup(app: Any) -> None:
    """Register what is ours."""
    app.connect("build-finished", copy_mathjax)
