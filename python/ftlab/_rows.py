"""Names and texts of what a result says, as prompts and notebooks show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def as_text(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Give rows as the ``repr`` of an object."""
    return "\n".join([f"<{title}", *(f"  {name}: {text}" for name, text in rows)]) + ">"


def as_html(rows: Iterable[tuple[str, str]], caption: str | None = None) -> str:
    """Give rows as a table of HTML."""
    import html

    left = "style='text-align:left'"
    lines = (f"<tr><th {left}>{html.escape(name)}</th><td {left}>{html.escape(text)}</td></tr>" for name, text in rows)
    title = "" if caption is None else f"<caption>{html.escape(caption)}</caption>"
    return f"<table>{title}{''.join(lines)}</table>"
