"""Elements of pictures as SVG text, pure. Law: everything in them is escaped except markup."""

from __future__ import annotations

from markupsafe import Markup, escape


def element(name: str, content: str = "", **attributes: str) -> Markup:
    """Return an element; of an attribute an underscore at the end is left out, others are dashes."""
    named = "".join(
        f' {each.rstrip("_") if each == "class_" else each.replace("_", "-")}="{escape(value)}"'
        for each, value in attributes.items()
        if value
    )
    return Markup(f"<{name}{named}>{escape(content)}</{name}>")  # noqa: S704 - each value of it is escaped


def coordinate(value: float) -> str:
    """Return a coordinate with one decimal."""
    return f"{value:.1f}".removesuffix(".0")
