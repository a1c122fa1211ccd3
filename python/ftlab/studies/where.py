"""Filters of studies: expressions over the values of axes, in a small part of Python."""

from __future__ import annotations

import ast
import operator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from ftlab._checks import shown
from ftlab.studies.values import numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

MOST_CONDITIONS = 100
# As many as take up to half a minute. A count, not a clock: what is refused is so on every machine.
MOST_STEPS = 20_000_000
_LONGEST = 2000
_DEEPEST = 100
# A float has no larger numbers, and fewer digits.
_MOST_BITS = 1024
_MOST_DIGITS = 400


def _number(value: Any) -> Any:
    """A number that stays small: what grows from it cannot take memory or time."""
    if not isinstance(value, int | float):
        raise TypeError(f"found {shown(value)}, expected a number")
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ValueError(f"found a number of {value.bit_length():,} bits, expected at most {_MOST_BITS:,}")
    return value


def _round(value: Any, digits: Any = None) -> Any:
    if digits is not None and not (isinstance(digits, int) and abs(digits) <= _MOST_DIGITS):
        raise ValueError(f"round: found {shown(digits)} digits, expected a whole number of at most {_MOST_DIGITS}")
    return round(_number(value), digits)


_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"abs": abs, "min": min, "max": max, "round": _round}
_EXPECTED = "names of axes, numbers, strings, comparisons, in, and, or, not, + - * / // %, abs, min, max, round"


def _name(node: ast.expr) -> str | None:
    """The dotted name that a node stands for."""
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(path)]) if isinstance(node, ast.Name) else None


def check_steps(conditions: Iterable[Where], points: int) -> None:
    """Refuse conditions that take too long for these points.

    Raises:
        ValueError: They do.
    """
    steps = points * sum(condition.steps for condition in conditions)
    if steps > MOST_STEPS:
        raise ValueError(f"the conditions take {steps:,} steps for {points:,} runs, expected at most {MOST_STEPS:,}")


def _alike(key: str, value: Any, other: Any) -> Any:
    """A value as it is compared with a number: ``"64KiB"`` is one, as in an axis."""
    if isinstance(value, list):
        return [_alike(key, each, other) for each in value]
    is_number = isinstance(other, int | float) and not isinstance(other, bool)
    return numbers_of(key, [value])[0] if is_number and isinstance(value, str) else value


class Where:
    """A condition that a run must meet, such as ``ftl.gc != "fifo" or workload.read_fraction >= 0.5``.

    >>> where = Where("ftl.gc in ('greedy', 'fifo') and host.queue_depth * 2 <= 16")
    >>> where.holds({"ftl.gc": "fifo", "host.queue_depth": 8})
    True
    """

    def __init__(self, text: str, names: Collection[str] | None = None) -> None:
        """Read a condition.

        Args:
            text: The condition.
            names: The names that it may use; any when ``None``.

        Raises:
            ValueError: It is none; the message names the column.
        """
        self.text = text
        self.steps = 0
        if len(text) > _LONGEST:
            raise ValueError(f"the condition has {len(text)} characters, at most {_LONGEST} are read")
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            column = getattr(error, "offset", None)
            raise ValueError(f"{text!r}{f', column {column}' if column else ''}: no condition: {error}") from None
        try:
            self._check(self._tree, names, 0)
        except RecursionError:
            raise ValueError(f"{text!r}: is nested deeper than {_DEEPEST} levels") from None

    def _refuse(self, node: ast.AST, why: str) -> ValueError:
        column = getattr(node, "col_offset", 0) + 1 + len(self.text) - len(self.text.lstrip())
        return ValueError(f"{self.text!r}, column {column}: {why}")

    def _check(self, node: ast.expr, names: Collection[str] | None, depth: int) -> None:  # noqa: C901 - as _value
        if depth > _DEEPEST:
            raise RecursionError
        self.steps += 1
        name = _name(node)
        if name is not None:
            if names is not None and name not in names:
                near = get_close_matches(name, list(names), 1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; axes: {', '.join(names) or 'none'}"
                raise self._refuse(node, f"{name} is no axis of this study{hint}")
            return
        match node:
            case ast.Constant(value=bool() | int() | float() | str()):
                parts: list[ast.expr] = []
            case ast.BoolOp(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
                pass
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
                parts = [operand]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                parts = [left, right]
            case ast.Compare(left=left, ops=ops, comparators=rest) if all(type(op) in _COMPARISONS for op in ops):
                parts = [left, *rest]
            case ast.Call(func=ast.Name(id=function), args=parts, keywords=[]) if function in _FUNCTIONS:
                pass
            case _:
                raise self._refuse(node, f"found {ast.unparse(node)}, expected {_EXPECTED}")
        for part in parts:
            self._check(part, names, depth + 1)

    def _value(self, node: ast.expr, values: Mapping[str, Any]) -> Any:  # noqa: C901 - a line for each kind of node
        name = _name(node)
        if name is not None:
            return values[name]
        match node:
            case ast.Constant(value=value):
                return value
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return [self._value(part, values) for part in parts]
            case ast.BoolOp(op=op, values=parts):
                return (all if isinstance(op, ast.And) else any)(bool(self._value(part, values)) for part in parts)
            case ast.UnaryOp(op=unary, operand=operand):
                return _UNARY[type(unary)](self._value(operand, values))
            case ast.BinOp(left=left, op=binary, right=right):
                sides = (_number(self._value(side, values)) for side in (left, right))
                return _ARITHMETIC[type(binary)](*sides)
            case ast.Call(func=function, args=parts):
                return _FUNCTIONS[str(_name(function))](*(self._value(part, values) for part in parts))
            case ast.Compare(left=left, ops=ops, comparators=rest):
                before, key = self._value(left, values), _name(left) or ""
                for comparison, right in zip(ops, rest, strict=True):
                    after, key = self._value(right, values), key or _name(right) or ""
                    before, after = _alike(key, before, after), _alike(key, after, before)
                    if not _COMPARISONS[type(comparison)](before, after):
                        return False
                    before = after
                return True
        raise AssertionError(node)

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Tell whether the condition holds for the values of axes.

        Raises:
            ValueError: It cannot be computed for them.
        """
        try:
            return bool(self._value(self._tree, values))
        except (TypeError, ArithmeticError, ValueError) as error:
            named = ", ".join(f"{name} = {shown(value)}" for name, value in values.items())
            raise ValueError(f"{self.text!r} cannot be computed for {named}: {error}") from error
