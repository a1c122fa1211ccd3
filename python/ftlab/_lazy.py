"""Names that are imported when they are first asked for: a command does not wait for what it does not use."""

from __future__ import annotations

import importlib

# As `typing` has it: importing that takes longer than all else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def names_of(package: str, modules: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """What a package's ``__getattr__`` is (PEP 562): a name comes from the module that defines it.

    Args:
        package: Name of the package.
        modules: The names that each of its modules defines. A module is asked for itself unless it begins with an
            underscore.
    """
    defined_in = {name: module for module, names in modules.items() for name in names}

    def named(name: str) -> Any:
        if name in defined_in:
            return getattr(importlib.import_module(f"{package}.{defined_in[name]}"), name)
        if name in modules and not name.startswith("_"):
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return named
