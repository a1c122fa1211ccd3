"""The native module: everything that it exposes is documented and has a stub, and its classes are frozen."""

from __future__ import annotations

import ast
import inspect
import re

from conftest import ROOT
from ftlab import _native

STUB = ROOT / "python" / "ftlab" / "_native.pyi"


def exposed() -> set[str]:
    names = {name for name in dir(_native) if not name.startswith("_")}
    members = {
        f"{name}.{member}"
        for name in names
        if inspect.isclass(getattr(_native, name))
        for member in vars(getattr(_native, name))
        if not member.startswith("_")
    }
    return names | members | {"__version__", "__engine__"}


def stubbed() -> dict[str, ast.AST]:
    found: dict[str, ast.AST] = {}
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            found[node.name] = node
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            found |= {f"{node.name}.{item.name}": item for item in methods if not item.name.startswith("_")}
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = node
        # An alias of the stub alone begins with one underscore.
        elif (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and not re.match(r"_[^_]", node.target.id)
        ):
            found[node.target.id] = node
    return found


def test_stubs_are_complete_and_true() -> None:
    assert set(stubbed()) == exposed()


def test_stubs_name_the_same_parameters() -> None:
    for name, node in stubbed().items():
        if not isinstance(node, ast.FunctionDef) or "property" in ast.dump(ast.Module(node.decorator_list, [])):
            continue
        function: object = _native
        for part in name.split("."):
            function = getattr(function, part)
        signature = inspect.signature(function)  # type: ignore[arg-type]  # classes and functions alike
        arguments = [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs) if argument.arg != "self"]
        assert arguments == [parameter for parameter in signature.parameters if parameter != "self"], name


def test_everything_is_documented() -> None:
    for name in exposed() - {"__version__", "__engine__"}:
        thing: object = _native
        for part in name.split("."):
            thing = getattr(thing, part)
        assert inspect.getdoc(thing), name


def test_classes_are_frozen() -> None:
    for source in (ROOT / "crates" / "ftlab-py" / "src").glob("*.rs"):
        for options in re.findall(r"#\[pyclass(.*?)\]", source.read_text()):
            assert "frozen" in options, source
