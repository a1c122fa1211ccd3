"""The report of a paper: Markdown, one self-contained page of HTML, and figures as SVG, PDF and PNG."""

from __future__ import annotations

import base64
import html
import re
from typing import TYPE_CHECKING

from ftlab import _outputs as outputs
from ftlab._reporting.page import LONG, NAME, SENTENCE, asset, on_paper
from ftlab.figures import save
from ftlab.papers.frame import VERDICTS, Done, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

# Verdicts as they are read on white and, at night, on the dark sheet of `page.css`; pictures keep their white sheet.
_STYLE = (
    ":root{--good:#17692c;--half:#7a5000;--bad:#a31515}"
    "@media screen and (prefers-color-scheme:dark){:root{--good:#7ee787;--half:#e3b341;--bad:#ff8a80}}"
    "figure img{max-width:100%;background:#fff;border-radius:4px}"
    ".reproduced{color:var(--good)}.direction{color:var(--half)}.not_reproduced{color:var(--bad)}"
    "@media screen{td{min-width:4em}}"
    "@media screen and (width < 40rem){table:not(.cards) td:first-child{min-width:11rem}"
    # Their letters would be too small to read: they scroll.
    "figure{overflow-x:auto}figure img{max-width:38rem}}"
)
_CLAIMS = "Claims"
_NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?")
_WORDS = {
    "reproduced": "reproduced",
    "direction": "direction only",
    "not_reproduced": "not reproduced",
    "not_run": "not run",
}


def number(value: float | str | None) -> str:
    """A value of a table: counts with separators, others with up to six digits behind the point.

    >>> number(1929239), number(0.593438), number(2.84), number(200100.0000001), number(101212.5), number(None)
    ('1,929,239', '0.593438', '2.84', '200,100', '101,212.5', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def verdict_counts(verdicts: Sequence[str]) -> str:
    """How many claims have which verdict, in words."""
    counts = [(verdicts.count(verdict), _WORDS[verdict]) for verdict in VERDICTS]
    return ", ".join(f"{count} {words}" for count, words in counts if count) or "no claims"


def _claims_table(done: Done) -> Table:
    columns = ("claim", "published", "measured", "verdict", "reason")
    rows = [
        (claim.text, number(claim.published), number(claim.measured), _WORDS[claim.verdict], claim.reason)
        for claim in done.claims
    ]
    return Table(_CLAIMS, columns, rows)


def _lists(done: Done) -> list[tuple[str, Sequence[str]]]:
    paper = done.paper
    lists: list[tuple[str, Sequence[str]]] = [("Setup", paper.setup), ("What is assumed", paper.assumed)]
    if done.errors:
        lists.append(("Runs that failed", done.errors))
    return lists


def _how(done: Done) -> str:
    command = f"ftlab papers {done.paper.name}{'' if done.size == 'full' else ' --quick'}"
    if done.size == "test":
        return "Run in the size for tests: its numbers mean nothing."
    return f"Made by `{command}`; every run with all its keys is in the result store `store`."


def _markdown(done: Done, tables: Sequence[Table], figures: Sequence[str]) -> str:
    lines = [f"# {done.paper.title}", "", f"Source: {done.paper.source}", ""]
    lines += [f"**{verdict_counts([claim.verdict for claim in done.claims])}.** {_how(done)}", ""]
    for title, items in _lists(done):
        lines += [f"## {title}", "", *(f"- {item}" for item in items), ""]
    for table in (_claims_table(done), *tables):
        lines += [f"## {table.title}", "", f"| {' | '.join(table.columns)} |", f"|{'---|' * len(table.columns)}"]
        cells = ([number(cell).replace("|", r"\|") for cell in row] for row in table.rows)
        lines += [*(f"| {' | '.join(row)} |" for row in cells), ""]
    lines += [f"![{name}](figures/{name}.png)" for name in figures]
    return "\n".join(lines).rstrip() + "\n"


def _cell(cell: float | str | None, column: str) -> str:
    kinds = {words: verdict for verdict, words in _WORDS.items()}
    text = html.escape(number(cell))
    kind = ""
    if isinstance(cell, str) and cell in kinds:
        kind = f' class="{kinds[cell]}"'
    elif _is_number(cell):
        kind = ' class="n"'
    elif len(text) > LONG:
        kind = ' class="long"'
    return f'<td data-label="{html.escape(column)}"{kind}>{text}</td>'


def _head_class(column: str) -> str:
    """The class of a heading over numbers."""
    return ' class="n wordy"' if len(column) > NAME else ' class="n"'


def _cards(table: Table) -> bool:
    """Whether rows are cards on a narrow page: those of claims, and of tables with sentences."""
    return table.title == _CLAIMS or any(len(number(cell)) > SENTENCE for row in table.rows for cell in row[1:])


def _is_number(cell: float | str | None) -> bool:
    """Whether a cell is aligned as a number.

    >>> [_is_number(cell) for cell in (1.5, None, "-", "1,024", "-3.2", "16 KiB", "PC", "")]
    [True, True, True, True, True, False, False, False]
    """
    return not isinstance(cell, str) or cell == "-" or _NUMBER.fullmatch(cell) is not None


def _html(done: Done, tables: Sequence[Table], pictures: Mapping[str, bytes]) -> str:
    title = html.escape(done.paper.title)
    counts = html.escape(verdict_counts([claim.verdict for claim in done.claims]))
    parts = [f"<h1>{title}</h1>", f"<p>Source: {html.escape(done.paper.source)}</p>"]
    how = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(_how(done)))
    parts.append(f"<p><strong>{counts}.</strong> {how}</p>")
    for heading, items in _lists(done):
        entries = "".join(f"<li>{html.escape(item)}</li>" for item in items)
        parts.append(f"<h2>{heading}</h2><ul>{entries}</ul>")
    for table in (_claims_table(done), *tables):
        # A heading stands over its numbers.
        numeric = [all(_is_number(row[at]) for row in table.rows) for at in range(len(table.columns))]
        head = "".join(
            f'<th scope="col"{_head_class(column) if is_number else ""}>{html.escape(column)}</th>'
            for column, is_number in zip(table.columns, numeric, strict=True)
        )
        rows = "\n".join(f"<tr>{''.join(map(_cell, row, table.columns))}</tr>" for row in table.rows)
        title_of = html.escape(table.title)
        cards = ' class="cards"' if _cards(table) else ""
        paper = on_paper(table.columns, [[number(cell) for cell in row] for row in table.rows], numeric)
        grid = f"<table{cards}{paper}><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table>"
        wide = f'<div class="wide" tabindex="0" role="region" aria-label="{title_of}">{grid}</div>'
        parts.append(f"<h2>{title_of}</h2>{wide}")
    for name, svg in pictures.items():
        source = base64.b64encode(svg).decode()
        parts.append(f'<figure><img alt="{html.escape(name)}" src="data:image/svg+xml;base64,{source}"></figure>')
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{title}</title><link rel="icon" href="data:,"><style>{asset("page.css")}{_STYLE}</style>'
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(parts) + "\n</body></html>\n"


def write_report(done: Done, tables: Sequence[Table], figures: Mapping[str, Figure]) -> None:
    """Write ``report.md``, ``report.html`` and ``figures`` into the folder of a paper."""
    pictures = {}
    for name, figure in figures.items():
        files = {path.suffix: path for path in save(figure, done.folder / "figures" / name, overwrite=True)}
        pictures[name] = files[".svg"].read_bytes()
    outputs.write_whole(done.folder / "report.md", _markdown(done, tables, list(figures)).encode())
    outputs.write_whole(done.folder / "report.html", _html(done, tables, pictures).encode())
