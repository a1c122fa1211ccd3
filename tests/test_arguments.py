"""Arguments of other types than those that public functions are annotated with."""

from __future__ import annotations

import inspect
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

import ftlab
from ftlab import _checks, _transform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Called for each request: it checks its arguments itself.
OF_ITS_OWN = {"Session.submit"}


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function and method, with its name."""
    for module in (ftlab, ftlab.analysis, ftlab.figures, _transform):
        for name in getattr(module, "__all__", ["Transformable"]):
            each = getattr(module, name)
            if inspect.isfunction(each):
                yield name, each
            elif inspect.isclass(each) and not issubclass(each, Exception):
                for of, method in vars(each).items():
                    function = getattr(method, "__func__", method)
                    # What a dataclass makes is not called by users.
                    is_written = inspect.isfunction(function) and function.__code__.co_filename.endswith(".py")
                    if is_written and (of == "__init__" or not of.startswith("_")):
                        yield f"{name}.{of}", function


def checkable(function: Callable[..., Any]) -> list[str]:
    """The names of arguments whose types can be told from their annotations."""
    parameters = inspect.signature(function).parameters.values()
    return [
        each.name
        for each in parameters
        if each.kind is not inspect.Parameter.VAR_KEYWORD
        and isinstance(each.annotation, str)
        and each.annotation not in ("int", "int | None")
        and _checks._kinds(each.annotation)
    ]


FUNCTIONS = {name: each for name, each in public() if checkable(each) and name not in OF_ITS_OWN}


def test_there_are_many() -> None:
    assert {"run", "study", "merge", "Device.set", "Store.series", "analysis"} - set(FUNCTIONS) == {"analysis"}
    assert len(FUNCTIONS) > 60


@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_types_are_refused_by_name(name: str) -> None:
    function = FUNCTIONS[name]
    of = inspect.signature(function).parameters
    for argument in checkable(function):
        wrong = object()
        # An object stands for self, or for the class.
        args = [None] if "." in name else []
        keys = {argument: wrong}
        if of[argument].kind is inspect.Parameter.VAR_POSITIONAL:
            positional = [p for p in of.values() if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
            args, keys = [*["text"] * len(positional), wrong], {}
        with pytest.raises(ftlab.ConfigError, match=rf"^{argument} = <object object at .*>: expected "):
            function(*args, **keys)


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("str | os.PathLike[str] | None", "a text, a path or None"),
        ("Sequence[Trace | str | os.PathLike[str]]", "a list of Traces, texts or paths"),
        ("str | Sequence[str | os.PathLike[str]]", "a text or a list of texts or paths"),
        ("Literal['all'] | int", "'all' or a whole number"),
        ("Watch | Literal[False] | None", "a Watch, False or None"),
    ],
)
def test_annotations_are_read(annotation: str, expected: str) -> None:
    kinds = _checks._kinds(annotation)
    assert kinds is not None
    assert _checks._either([text for _, text in kinds]) == expected


def test_what_only_the_function_can_tell_is_not_checked() -> None:
    assert _checks._kinds("Trace | Workload | str | os.PathLike[str] | Any") is None
    assert _checks._kinds("Mapping[str, Sequence[Any]] | None") is None


def test_lists_are_looked_into_and_texts_are_none(tmp_path: Path) -> None:
    with pytest.raises(ftlab.ConfigError, match=r"^traces = 'a.csv': expected a list of Traces, texts or paths$"):
        ftlab.merge("a.csv", tmp_path / "out.csv")
    with pytest.raises(ftlab.ConfigError, match=r"^traces = \['a.csv', 3\]: expected a list"):
        ftlab.merge(["a.csv", 3], tmp_path / "out.csv")
    # What can be gone through only once is not looked into.
    with pytest.raises(ftlab.InputError, match=r"a.csv: no such file"):
        ftlab.merge((tmp_path / name for name in ("a.csv", "b.csv")), tmp_path / "out.csv")


def test_what_stands_for_the_same_is_taken(tmp_path: Path) -> None:
    spec = {"device": "ideal-page", "workload": {"kind": "uniform", "requests": 500}}
    store = ftlab.Store(tmp_path)
    ftlab.study(spec, out=store)
    # A dictionary is a list of its keys.
    assert store.records(store.records()).keys() == store.records().keys()
    session = ftlab.Session(ftlab.Device("ideal-page").set("precondition.kind=none"), verify=np.True_)
    assert session.submit("write", 0, 8, fua=np.True_) == 0
    with pytest.raises(ftlab.InputError, match=r"^fua = 1: expected True or False$"):
        session.submit("write", 0, 8, fua=1)
    with pytest.raises(ftlab.ConfigError, match=r"^source = None: expected a text, a path or a Device$"):
        ftlab.Device(None)


def test_numbers_and_tables_of_other_packages_are_taken() -> None:
    device = ftlab.Device("ideal-page").with_(ftl=MappingProxyType({"gc": "fifo"}))
    assert device.to_dict()["ftl"]["gc"] == "fifo"
    workload = ftlab.Workload(kind="uniform", requests=500)
    kept = ftlab.run(device, workload, requests_log=np.True_, series=np.int64(100))
    assert (kept.requests.height, kept.series.height) == (500, 5)
    left = ftlab.run(device, workload, requests_log=np.False_, series=np.False_)
    assert (left.requests, left.series) == (None, None)
    assert ftlab.run(device, workload, series=np.True_).series is not None


@pytest.mark.parametrize(
    "values", [pl.Series([0.1, 0.2]), (space / 10 for space in (1, 2)), np.array([0.1, 0.2]), {0.1: "", 0.2: ""}.keys()]
)
def test_an_axis_is_any_list(values: Any) -> None:
    study = ftlab.Study({"device": "ideal-page", "workload": "uniform", "axes": {"ftl.over_provisioning": values}})
    assert study.spec["axes"]["ftl.over_provisioning"] == [0.1, 0.2]


def test_a_key_of_another_type_takes_nothing_from_a_store(tmp_path: Path) -> None:
    spec = {"device": "ideal-page", "workload": {"kind": "uniform", "requests": 500}}
    key = ftlab.study(spec, out=tmp_path / "store")["key"][0]
    store = ftlab.Store(tmp_path / "store")
    for wrong in (3, key.encode(), None):
        with pytest.raises(ftlab.ConfigError, match=r"^key = .*: expected a text$"):
            store.series(wrong)
    with pytest.raises(ftlab.ConfigError, match=r"^keys = \[3\]: expected a list of texts$"):
        store.coarse_series([3])
    series = store.series(key)
    assert series is not None
    assert series.height > 0
    assert not (tmp_path / "store" / "damaged").exists()


def test_a_value_that_no_file_can_hold_is_named_by_its_key() -> None:
    with pytest.raises(ftlab.ConfigError, match=r"^kind = b'uniform': expected a number, a string"):
        ftlab.Workload(kind=b"uniform")
    with pytest.raises(ftlab.ConfigError, match=r"^wear.limits\[1\] = \{3\}: expected a number"):
        ftlab.Device("ideal-page").with_(wear={"limits": [1, {3}]})
