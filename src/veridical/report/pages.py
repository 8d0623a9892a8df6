"""Render all pages from templates. They have no scripts, load nothing, and escape every text.

The Content-Security-Policy of a page allows only its own style sheet, by hash. Foreign text would therefore be harmless
even if the escaping had a bug.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from veridical.records.strings import visible
from veridical.report.judgement_view import number

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def _environment(package: str) -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("veridical.report")]),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.filters["visible"] = visible
    return environment


def render(template: str, *, package: str = "veridical.report", **values: Any) -> str:
    """Render a template, which is a part of a page or a style sheet. Values in HTML are escaped.

    The template is in the folder `templates` of `package`. It may also extend and include the templates of
    `veridical.report`.
    """
    return _environment(package).get_template(template).render(values).strip()


def render_page(template: str, *styles: str, title: str, **values: Any) -> str:
    """Render a page from a template that extends `page.html`. The style sheet is `page.css` followed by `styles`."""
    style = "\n".join([render("page.css"), *(style for style in styles if style)])
    style_hash = b64encode(sha256(style.encode()).digest()).decode()
    return render(template, title=visible(title), style=style, style_hash=style_hash, **values) + "\n"
