"""What MkDocs is told about these pages beyond `mkdocs.yml`.

The pages are written to be read in the repository as well: their navigation is `docs/README.md`, and they link to files
beside `docs`. Here such files become part of the site, and links lead there.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markdown import Extension
from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from markdown import Markdown
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
# Where files beside `docs` are in the site.
PROJECT = "project"
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)(?=(?:#[^)\s]*)?\))|(?<=<img src=\")(?!\w+:)([^\"]+)")
_CODE = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_CELL = re.compile(r"<t[hd][^>]*>(.*?)</t[hd]>", re.DOTALL)
# Characters from which on a cell is a sentence, and columns from which on no page has room for one beside the others.
_SENTENCE, _MANY_COLUMNS = 60, 5
_SHOWN_AS_IT_IS = {".png", ".svg", ".zst", ".ipynb"}


class _ListsAsElsewhere(Extension):
    """What is inside a list is indented by two blanks, as everywhere but here."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - its name there
        md.tab_length = 2
        # Its parts have read the length already; those of other extensions are added after this.
        md.build_parser()


def title_of(page: Path) -> str:
    """The first heading of a page, without marks."""
    found = re.search(r"^# (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return re.sub(r"[`*]", "", found[1]) if found else page.stem


def navigation() -> list[dict[str, Any]]:
    """The sections of `docs/README.md` with the pages that they link to, in their order."""
    text = (DOCS / "README.md").read_text(encoding="utf-8")
    sections: list[dict[str, Any]] = [{"Home": "README.md"}]
    for name, body in re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL):
        links = dict.fromkeys(link for link in re.findall(r"\]\(([^)#]+\.md)", body))
        pages = [(link, DOCS / link) for link in links]
        sections.append({name: [{title_of(page): in_site(page.resolve())} for _, page in pages]})
    return sections


def in_site(path: Path) -> str:
    """Where a file of the project is in the site, as MkDocs names sources."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    inner = f"{PROJECT}/{path.relative_to(ROOT).as_posix()}"
    if path.is_dir():
        return f"{inner}/index.md"
    # Browsers save sources, and show texts.
    return inner if path.suffix in {".md", *_SHOWN_AS_IT_IS} else f"{inner}.txt"


def links_of(page: Path) -> set[Path]:
    """The files of the project that a page links to."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    named = {first or second for first, second in _LINK.findall(text)}
    return {path for name in named if (path := (page.parent / name).resolve()).exists()}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give the navigation, and lists as elsewhere."""
    config.nav = navigation()
    extensions: list[Any] = config.markdown_extensions
    extensions.insert(0, _ListsAsElsewhere())
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add what the pages link to and is not below `docs`."""
    todo = [Path(file.abs_src_path) for file in files.documentation_pages() if file.abs_src_path]
    done: set[Path] = set()
    while todo:
        page = todo.pop()
        for path in links_of(page) - done:
            done.add(path)
            if path.is_relative_to(DOCS):
                continue
            if path.is_dir():
                listed = [f"- [{each.name}]({each.name})" for each in sorted(path.iterdir())]
                text = "\n".join([f"# {path.relative_to(ROOT)}", "", *listed, ""])
                files.append(File.generated(config, in_site(path), content=text))
                for each in path.iterdir():
                    done.add(each)
                    files.append(File.generated(config, in_site(each), abs_src_path=str(each)))
                continue
            files.append(File.generated(config, in_site(path), abs_src_path=str(path)))
            if path.suffix == ".md":
                todo.append(path)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - its signature
    """Lead links to where files are in the site."""
    source = page.file.src_uri
    if source.startswith(f"{PROJECT}/"):
        folder = (ROOT / source.removeprefix(f"{PROJECT}/")).parent
    else:
        folder = (DOCS / source).parent

    def led(match: re.Match[str]) -> str:
        target = (folder / match[0]).resolve()
        if not target.exists() or not target.is_relative_to(ROOT):
            return match[0]
        return posixpath.relpath(in_site(target), posixpath.dirname(source) or ".")

    parts = re.split(r"(^ *```.*?^ *```$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if number % 2 else _LINK.sub(led, part) for number, part in enumerate(parts))


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - its signature
    """Let the rows of tables with sentences be cards: those of many columns always, others on narrow pages.

    Beside other columns a sentence would be a word wide, and scrolled away where the page ends.
    """
    return _TABLE.sub(_with_cards, html)


def _with_cards(match: re.Match[str]) -> str:
    """Tell the style sheet the column of each cell, and which are sentences."""
    head, end, body = match[0].partition("</thead>")
    labels = [_text(cell) for cell in _CELL.findall(head)]
    cells = [_text(cell) for cell in _CELL.findall(body)]
    few = 3
    if len(labels) < few or max(map(len, cells), default=0) <= _SENTENCE:
        return match[0]
    # The column that says most needs no name.
    told = max(range(1, len(labels)), key=lambda at: sum(map(len, cells[at :: len(labels)])))
    column = itertools.cycle(range(len(labels)))

    def cell(found: re.Match[str]) -> str:
        at = next(column)
        kinds = {"told": at == told, "name": labels[at] == "name", "wide": len(_text(found[1])) > _SENTENCE}
        kind = " ".join(kind for kind, holds in kinds.items() if holds)
        return f'<td role="cell" data-label="{labels[at]}" class="{kind}">{found[1]}</td>'

    # Roles, as an element that is not displayed as a row is none.
    body = _CELL.sub(cell, body).replace("<tr>", '<tr role="row">')
    kind = "cards" if len(labels) >= _MANY_COLUMNS else "stacked"
    return head.replace("<table>", f'<table class="{kind}" role="table">') + end + body


def _text(cell: str) -> str:
    return re.sub(r"<[^>]*>", "", cell)
