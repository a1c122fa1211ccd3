"""Filters of studies: expressions over the values of axes, in a small part of Python."""

from __future__ import annotations

import ast
import operator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

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
_FUNCTIONS: dict[str, Callable[..., Any]] = {"abs": abs, "min": min, "max": max, "round": round}
_EXPECTED = "names of axes, numbers, strings, comparisons, in, and, or, not, + - * / // %, abs, min, max, round"
_LONGEST = 2000


def _name(node: ast.expr) -> str | None:
    """The dotted name that a node stands for."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _name(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return None


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
        if len(text) > _LONGEST:
            raise ValueError(f"the condition has {len(text)} characters, at most {_LONGEST} are read")
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            column = getattr(error, "offset", None)
            raise ValueError(f"{text!r}{f', column {column}' if column else ''}: no condition: {error}") from None
        try:
            self._check(self._tree, names)
        except RecursionError:
            raise ValueError(f"{text!r}: too deeply nested") from None

    def _refuse(self, node: ast.AST, why: str) -> ValueError:
        column = getattr(node, "col_offset", 0) + 1 + len(self.text) - len(self.text.lstrip())
        return ValueError(f"{self.text!r}, column {column}: {why}")

    def _check(self, node: ast.expr, names: Collection[str] | None) -> None:
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
            self._check(part, names)

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
                return _ARITHMETIC[type(binary)](self._value(left, values), self._value(right, values))
            case ast.Call(func=function, args=parts):
                return _FUNCTIONS[str(_name(function))](*(self._value(part, values) for part in parts))
            case ast.Compare(left=left, ops=ops, comparators=rest):
                before = self._value(left, values)
                for comparison, right in zip(ops, rest, strict=True):
                    after = self._value(right, values)
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
            named = ", ".join(f"{name} = {value!r}" for name, value in values.items())
            raise ValueError(f"{self.text!r} cannot be computed for {named}: {error}") from error
