"""Sentences out of Markdown, docstrings, help texts and doc comments, for `test_words.py`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

# What is generated is checked where it comes from.
_GENERATED = re.compile(r"<!-- generated.*?<!-- end of the generated part -->", re.DOTALL)
_BULLET = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
_HEADINGS = ("Args:", "Attributes:", "Returns:", "Raises:", "Yields:")
_ARGUMENT = re.compile(r"\s+\**\w+(?: \([^)]*\))?: ")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|cf|vs|et al|No|Fig|approx)\.$")


class Sentence(NamedTuple):
    """One sentence, and where the block of text begins that has it."""

    place: str
    text: str

    def words(self) -> int:
        """Words, of which a name in back-quotes is one."""
        return sum(1 for token in self.text.split() if any(character.isalnum() for character in token))


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs, list items, cells of tables and headings, each with its line."""
    text = _GENERATED.sub(_blank, text)
    text = re.sub(r"^( *)(```+).*?^\1\2", _blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", _blank, text, flags=re.DOTALL)
    begin, parts = 0, list[str]()
    for number, line in enumerate([*text.split("\n"), ""], 1):
        bare = line.strip()
        row = bare.startswith("|")
        alone = (
            row or bare.startswith("#") or bare.endswith("::") or bare in ("Args:", "Returns:", "Raises:", "Yields:")
        )
        if parts and (not bare or alone or _BULLET.match(line) or _ARGUMENT.match(line)):
            yield begin, " ".join(parts)
            parts = []
        if row:
            for cell in re.split(r"(?<!\\)\|", bare.strip("|")):
                yield number, cell
        elif alone:
            yield number, bare
        elif bare:
            begin = begin if parts else number
            parts.append(_BULLET.sub("", line, count=1).strip() if not parts else bare)


def sentences(text: str, place: str, first_line: int = 1) -> Iterator[Sentence]:
    """Each sentence of a text: up to a full stop, a question mark or an exclamation mark."""
    for line, block in blocks(text):
        flat = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", block)
        flat = re.sub(r"``[^`]+``|`[^`]+`", "CODE", flat)
        begin = ""
        for piece in re.split(r"(?<=[.!?])[)\"'*_]*\s+", flat):
            begin = f"{begin} {piece}".strip()
            if _ABBREVIATION.search(begin):
                continue
            if begin:
                yield Sentence(f"{place}:{first_line + line - 1}", begin)
            begin = ""
        if begin:
            yield Sentence(f"{place}:{first_line + line - 1}", begin)


def of_page(path: Path, root: Path, *, tables: bool = True) -> Iterator[Sentence]:
    """Sentences of a Markdown page, without its generated parts and its code."""
    text = path.read_text(encoding="utf-8")
    if not tables:
        text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
    yield from sentences(text, str(path.relative_to(root)))


def of_docstrings(path: Path, root: Path) -> Iterator[Sentence]:
    """Sentences of the docstrings of a Python file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text:
                # Programs in docstrings are code.
                text = re.sub(r"^ *>>>.*?(?=^ *$|\Z)", _blank, text, flags=re.DOTALL | re.MULTILINE)
                yield from sentences(text, str(path.relative_to(root)), node.body[0].lineno)


def of_doc_comments(path: Path, root: Path) -> Iterator[Sentence]:
    """Sentences of the `///` and `//!` comments of a Rust file."""
    kept: list[str] = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        comment = re.match(r"\s*//[/!] ?(.*)", line)
        kept.append(comment[1] if comment else "")
    yield from sentences("\n".join(kept), str(path.relative_to(root)))


def of_help(name: str, command: click.Command) -> Iterator[Sentence]:
    """Sentences of the help of a command and of all below it."""
    yield from sentences((command.help or "").replace("\b", ""), f"{name} --help")
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield from sentences(parameter.help or "", f"{name} {parameter.opts[0]}")
    if isinstance(command, click.Group):
        for below, each in command.commands.items():
            yield from of_help(f"{name} {below}", each)
