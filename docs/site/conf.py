"""Configuration of Sphinx for the documentation site. `tools/docs.py` runs it."""

from __future__ import annotations

project = "Recollect"
author = "The Recollect authors"
language = "en"

extensions = ["myst_parser", "sphinx_copybutton"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
# Prompts are not copied, and neither is the output of commands.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

html_theme = "furo"
html_title = "Recollect"
html_logo = "icon.svg"
html_favicon = "icon.svg"
html_extra_path = ["extra"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#14695f", "color-brand-content": "#14695f"},
    "dark_css_variables": {"color-brand-primary": "#5cc8b7", "color-brand-content": "#5cc8b7"},
}
highlight_language = "text"
suppress_warnings = ["myst.header"]  # the changelog has a third-level heading first
exclude_patterns = ["extra", "static"]
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
