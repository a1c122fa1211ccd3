"""What all pages are made of: numbers that say where they come from, tables, charts, and the templates."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape

from ftlab import _labels as labels
from ftlab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2 import Environment

_PACKAGE = "ftlab._reporting"
_CODE = re.compile(r"`([^`]+)`")
# More points than this cannot be distinguished on a screen, and make the page heavy.
MOST_POINTS = 2_000


@dataclass(frozen=True)
class Num:
    """A number of a page.

    Attributes:
        text: As it is shown.
        source: Where it comes from: a key of the summary, or a formula of keys.
        raw: All its digits.
        key: The key, where it is one.
    """

    text: str
    source: str
    raw: str
    key: str | None = None


Cell = str | Num

SENTENCE = 60
"""Characters from which on a cell is wider than a narrow page."""


LONG = 24
"""Characters from which on a cell of words is kept from being a word wide."""
NAME = 14
"""Characters from which on it is kept on one line, or on few."""

# Characters of a row that a sheet of A4 has room for: in letters as large as they should be, and as small as they may.
_EASY, _MOST = 100, 150
_FOLDED = 130
# The padding of a cell, in characters.
_PADDING = 1.4
# The least characters of a line in a cell that is kept from being a word wide, as `page.css` has them for paper.
_LONG_LINE, _NAME_LINE = 19, 13
# Letters of headings are bold.
_BOLD = 1.1
_BREAKS = re.compile(r"[\s-]+")


def _line(text: str, *, number: bool, folded: bool) -> float:
    """The least characters of a line that a cell of a table takes on paper."""
    if number and not folded:
        return len(text)
    word = max(map(len, _BREAKS.split(text)))
    if number:
        return word
    return max(word, _LONG_LINE if len(text) > LONG else _NAME_LINE if len(text) > NAME else 0)


def on_paper(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> Markup:
    """Give the attributes with which a table is no wider than a sheet of paper, where nothing can be scrolled to.

    Letters get smaller as far as they can be read. Beyond that numbers are folded at their spaces, then words broken.

    Args:
        columns: The headings.
        rows: The texts of the cells.
        numbers: Whether each column holds numbers.

    >>> on_paper(["a", "b"], [["x", "1"]], [False, True])
    Markup('')
    >>> on_paper(["a"] * 20, [["12.5 ms"] * 20], [True] * 20)
    Markup(' data-paper="folded" style="--chars: 130"')
    """

    def wide(*, folded: bool) -> float:
        return sum(
            max(
                _BOLD * max(map(len, _BREAKS.split(column))),
                *(_line(row[at], number=numbers[at], folded=folded) for row in rows),
                0,
            )
            + _PADDING
            for at, column in enumerate(columns)
        )

    chars, kind = wide(folded=False), ""
    if chars <= _EASY:
        return Markup()
    if chars > _MOST:
        # In larger letters most numbers would be folded, and not only those of the widest columns.
        chars, kind = max(wide(folded=True), _FOLDED), "folded"
    if chars > _MOST:
        chars, kind = _MOST, "folded broken"
    named = Markup(' data-paper="{}"').format(kind) if kind else Markup()
    return named + Markup(' style="--chars: {}"').format(f"{chars:.0f}")


@dataclass(frozen=True)
class Table:
    """A table of a page.

    Columns beyond the first hold numbers, unless ``words`` names them. ``query`` gives the same from the store.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    words: Sequence[str] = ()
    id: str = ""
    query: str = ""

    @property
    def cards(self) -> bool:
        """Whether rows are cards on a narrow page: sentences would be scrolled away there, and make rows high."""
        return any(isinstance(cell, str) and len(cell) > SENTENCE for row in self.rows for cell in row[1:])

    @property
    def on_paper(self) -> Markup:
        """The attributes with which it is no wider than paper: see :func:`on_paper`."""
        texts = [[cell if isinstance(cell, str) else cell.text for cell in row] for row in self.rows]
        numbers = [at > 0 and column not in self.words for at, column in enumerate(self.columns)]
        return on_paper(self.columns, texts, numbers)


@dataclass(frozen=True)
class Axis:
    """An axis of a chart: values are in the unit of ``key``, the page chooses how they are shown, up to ``most``."""

    key: str
    name: str = ""
    scale: str = "linear"
    most: float | None = None

    def plain(self) -> dict[str, Any]:
        """As the script of the page reads it."""
        base, factor = labels.quantity(self.key)
        name = self.name or labels.name(self.key)
        return {"name": name, "base": base, "factor": factor, "scale": self.scale, "most": self.most}


@dataclass(frozen=True)
class Chart:
    """A chart of a page.

    Attributes:
        id: Unique on the page.
        title: What it shows.
        x: The horizontal axis.
        y: The vertical axis.
        series: Each with ``name``, ``data`` and how it is drawn.
        note: How to read it, and where its numbers come from.
        group: Charts of a group zoom together.
        kind: ``"lines"`` or ``"bars"`` (stacked shares, categories on the vertical axis).
        categories: The names of bars.
    """

    id: str
    title: str
    x: Axis
    y: Axis
    series: Sequence[Mapping[str, Any]]
    note: str = ""
    group: str = ""
    kind: str = "lines"
    categories: Sequence[str] = ()

    def plain(self) -> dict[str, Any]:
        """As the script of the page reads it."""
        return {
            "id": self.id,
            "title": self.title,
            "kind": self.kind,
            "group": self.group,
            "x": self.x.plain(),
            "y": self.y.plain(),
            "categories": list(self.categories),
            "series": [dict(each) for each in self.series],
        }


@dataclass(frozen=True)
class Numbers:
    """Numbers of a summary document by dotted key; each that is asked for knows its key."""

    values: Mapping[str, Any]

    def __contains__(self, key: str) -> bool:
        """Whether the summary has it."""
        return key in self.values

    def __getitem__(self, key: str) -> Any:
        """The value of a key.

        Raises:
            InputError: The summary has none.
        """
        try:
            return self.values[key]
        except KeyError:
            raise InputError(f"summary.json: has no {key}, which this ftlab writes") from None

    def get(self, key: str) -> Any:
        """The value of a key; ``None`` where the summary has none."""
        return self.values.get(key)

    def num(self, key: str) -> Num:
        """Show a value."""
        value = self[key]
        text = ("no", "yes")[value] if isinstance(value, bool) else labels.value_text(key, value)
        return Num(text, key, raw_text(value), key)

    def share(self, part: float, whole: float, formula: str) -> Num:
        """Show a share that is no number of the summary, as a percentage."""
        value = part / whole if whole else 0.0
        return Num(f"{100 * value:.3g} %", formula, raw_text(value))


def raw_text(value: Any) -> str:
    """All digits of a value, as in JSON.

    >>> raw_text(0.1), raw_text([1, 2]), raw_text("a")
    ('0.1', '[1, 2]', '"a"')
    """
    import json

    return json.dumps(value)


def clean(values: Sequence[float] | np.ndarray[Any, Any]) -> list[float | int | None]:
    """Numbers for the script of a page: six digits, and nothing for what is no number.

    >>> clean([1.0, 2 / 3, float("nan")])
    [1, 0.666667, None]
    """
    found: list[float | int | None] = []
    for value in np.asarray(values, dtype=float).tolist():
        if not math.isfinite(value):
            found.append(None)
        elif value.is_integer() and abs(value) < 2**53:
            found.append(int(value))
        else:
            found.append(float(f"{value:.6g}"))
    return found


def asset(name: str) -> str:
    """Give the text of a file in ``assets``."""
    return files(_PACKAGE).joinpath("assets", name).read_text(encoding="utf-8")


def _marked(text: str) -> Markup:
    """A text in which words in backticks are code.

    >>> str(_marked("`ftlab explain` says more, <b>"))
    '<code>ftlab explain</code> says more, &lt;b&gt;'
    """
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - it has been escaped


def _sentence(text: str) -> str:
    """A text with a capital letter, as a sentence begins.

    >>> _sentence("set `a.b`"), _sentence("`a.b` is set"), _sentence("")
    ('Set `a.b`', '`a.b` is set', '')
    """
    return text[:1].upper() + text[1:]


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(_PACKAGE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    # In the order in which it was made.
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.globals.update(asset=asset, sentence_length=SENTENCE, long_length=LONG, name_length=NAME)
    environment.filters.update(marked=_marked, sentence=_sentence)
    return environment


def render(template: str, data: Mapping[str, Any], **context: Any) -> str:
    """Make a page.

    Args:
        template: The file in ``templates``.
        data: For the script of the page.
        context: For the template.
    """
    steps = {base: [list(step) for step in steps] for base, steps in labels.STEPS.items()}
    return _environment().get_template(template).render(data={"steps": steps, **data}, **context)
