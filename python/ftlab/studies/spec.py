"""Descriptions of studies: a TOML file or a dictionary becomes a list of fully determined runs."""

from __future__ import annotations

import itertools
import json
import os
import re
import tomllib
from collections.abc import Iterator, KeysView, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ftlab import _native
from ftlab._checks import checked, shown, utf8, whole
from ftlab._device import Device
from ftlab._plain import to_json
from ftlab._running import series_interval
from ftlab._tables import is_table
from ftlab._workload import Trace, Workload, recording_of, uncalibrated
from ftlab.errors import ConfigError, FtlabError, InputError
from ftlab.studies.description import (
    OPTIONS,
    Contents,
    Description,
    canonical,
    describe,
    device_text,
    files_of,
    key_of,
)
from ftlab.studies.store import StudyRecord, StudyRun, check_name, now
from ftlab.studies.values import MOST_VALUES, RANGE_KEYS, is_range, numbers_of, range_values
from ftlab.studies.where import MOST_CONDITIONS, Where, check_steps

KEYS = (
    "name",
    "description",
    "device",
    "workload",
    "trace",
    "volumes",
    "set",
    "axes",
    "zip",
    "where",
    "seeds",
    "repetitions",
    "options",
)
_SOURCES = ("device", "workload", "trace")
# What the volumes of a trace are an axis of, and what else says how they are read.
VOLUME = "workload.volume"
_READING = ("workload.trace", "workload.format", "workload.skip_bad", "workload.volumes")
_MOST_RUNS = 1_000_000
_MOST_PROBLEMS = 10


@dataclass(frozen=True)
class Run:
    """A run of a study.

    Attributes:
        values: What each axis says, in the order of the axes.
        seed: Its seed.
        description: The run as data; ``None`` when no drive or workload can be made of these values.
        key: Its key in a store.
        error: Why it cannot be described.
    """

    values: tuple[Any, ...]
    seed: int | None
    description: Description | None
    key: str
    error: str | None = None


@dataclass(frozen=True)
class _Value:
    """A value of an axis: what it is, how tables call it, and where it was written."""

    value: Any
    label: Any
    place: str


@dataclass
class _Spec:
    """A description while it is read."""

    name: str
    folder: Path
    places: dict[str, str] = field(default_factory=dict)

    def place(self, key: str) -> str:
        """Where a key was written: file, line and column, or its name in a dictionary."""
        found = self.places.get(key)
        while found is None and "." in key and self.places:
            key = key.rsplit(".", 1)[0]
            found = self.places.get(key)
        return found or (self.name if self.places else f"{self.name}: {key}")

    def refuse(self, key: str, why: str) -> ConfigError:
        """What to raise about a key."""
        place = self.place(key)
        return ConfigError(f"{place}: {why}" if place.endswith(f": {key}") else f"{place}: {key}: {why}")


def _near(name: str, names: Any, what: str) -> str:
    near = get_close_matches(name, list(names), 1)
    return f"; did you mean {near[0]!r}?" if near else f"; {what}: {', '.join(names)}"


def _plain(value: Any) -> Any:
    """What a value of a description is as plain data: devices, workloads and traces become their tables."""
    if isinstance(value, Device):
        return value.to_dict()
    if isinstance(value, Workload):
        mark = {} if value.stand_in is None else {"stand_in": value.stand_in}
        return {"name": value.name, **mark, **value.to_dict()}
    if isinstance(value, Trace):
        return _plain(value.keys())
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | range | Iterator | KeysView):
        return [_plain(each) for each in value]
    # Arrays have the one, columns of Polars the other.
    for plain in ("tolist", "to_list"):
        if hasattr(value, plain):
            return _plain(getattr(value, plain)())
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if is_table(value):
        raise ConfigError(
            "a table of requests cannot be part of a study, whose runs are data that go anywhere: "
            "write it to a file (Parquet, CSV) and name that as the trace"
        )
    return value


def _spread(table: Mapping[str, Any]) -> dict[str, Any]:
    """Tables nested as their dotted keys say: ``{"ftl.gc": 1}`` is ``{"ftl": {"gc": 1}}``."""
    nested: dict[str, Any] = {}
    for key, value in table.items():
        *path, last = key.split(".")
        here = nested
        for step in path:
            here = here.setdefault(step, {})
        if isinstance(here.get(last), dict) and isinstance(value, dict):
            here[last] |= value
        else:
            here[last] = value
    return nested


def _is_path(text: str) -> bool:
    return "/" in text or os.sep in text or text.endswith(".toml")


class Study:
    """A study: what is run, and in which order its table stands.

    Attributes:
        name: Its name.
        description: What it is about.
        axes: Names of its axes.
        spec: What it was made from, as plain data.
    """

    @checked
    def __init__(self, spec: Mapping[str, Any], name: str = "study") -> None:
        """Read a study from a dictionary with the keys of a study file.

        Devices, workloads and traces may be objects of this package. Paths are taken from the current folder.

        Args:
            spec: The description (``docs/reference/studies.md``).
            name: What errors call it, and its name if it has none.

        Raises:
            ConfigError: It is wrong.
        """
        self._read(_Spec(name, Path()), _plain(spec))

    @classmethod
    @checked
    def load(cls, path: str | os.PathLike[str]) -> Study:
        """Read a study file. Paths in it are taken from its folder.

        Raises:
            ConfigError: It cannot be read or is wrong; the message has line, column and key.
        """
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror or error}") from error
        except UnicodeDecodeError:
            raise ConfigError(f"{path}: is not UTF-8 text, expected a TOML file") from None
        places = _native.places(text, utf8(path))
        try:
            spec = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            # Device files may have what TOML 1.1 brought, such as tables in braces over several lines.
            place = re.fullmatch(r"(?P<what>.*) \(at line (?P<line>\d+), column (?P<column>\d+)\)", str(error))
            at = f":{place['line']}:{place['column']}" if place else ""
            what = place["what"] if place else error
            raise ConfigError(f"{path}{at}: is not TOML 1.0, as study files are: {what}") from None
        study = cls.__new__(cls)
        study._read(_Spec(os.fspath(path), path.parent, places), spec)  # noqa: SLF001 - one module
        return study

    def _read(self, where: _Spec, spec: dict[str, Any]) -> None:
        for key in spec:
            if key not in KEYS:
                raise where.refuse(key, f"no key of a study{_near(key, KEYS, 'keys')}")
        self._where = where
        self.spec: dict[str, Any] = json.loads(to_json(spec))
        self.name = str(spec.get("name", Path(where.name).stem))
        self.description = str(spec.get("description", ""))
        check_name(self.name)
        self._base = {key: spec[key] for key in _SOURCES if key in spec}
        self._read_axes(spec)
        self._layers = self._read_set(spec.get("set", {}))
        self._options = self._checked_options(spec.get("options", {}), "options")
        self.seeds = self._read_seeds(spec)
        self._where_to = self._read_where(spec.get("where", []))

    # What the file says

    def _read_axes(self, spec: dict[str, Any]) -> None:
        axes: dict[str, list[_Value]] = {}
        # A list of devices, workloads or traces is an axis too.
        for key in _SOURCES:
            if isinstance(self._base.get(key), list):
                axes[key] = self._axis(key, self._base.pop(key), key)
        self._fleet = spec.get("volumes")
        if self._fleet is not None:
            self._check_fleet(axes)
            # They are known when the trace has been read.
            axes[VOLUME] = []
        self._read_table(spec.get("axes", {}), axes)
        if "workload" in {*axes, *self._base} and "trace" in {*axes, *self._base}:
            raise self._where.refuse("trace", "the study has a workload and a trace: state one of them")
        for key in ("device", "workload"):
            if not {key, "trace" if key == "workload" else key} & {*axes, *self._base}:
                also = " or a trace" if key == "workload" else ""
                raise ConfigError(f"{self._where.name}: {key}: state a {key}{also}")
        self.axes = tuple(axes)
        self._values = axes
        self._groups = self._read_zip(spec.get("zip", []))
        for group in self._groups:
            self._check_distinct(group)

    def _check_distinct(self, group: tuple[str, ...]) -> None:
        """Refuse values that come again: tables and analyses could not separate their runs from those before."""
        known: set[str] = set()
        called: set[str] = set()
        for values in zip(*(self._values[name] for name in group), strict=True):
            texts = {canonical([_even(each.value) for each in values])}
            if not any(isinstance(each.value, dict) for each in values):
                # 64KiB and 65536 are one value.
                texts.add(canonical([_even(each.label) for each in values]))
            if texts & known:
                told = ", ".join(f"{name} = {shown(each.value)}" for name, each in zip(group, values, strict=True))
                raise ConfigError(f"{values[0].place}: {told} is stated twice: it would give the same runs again")
            known |= texts
            names = canonical([each.label for each in values])
            if names in called:
                told = " and ".join(shown(each.label) for each in values)
                raise ConfigError(
                    f"{values[0].place}: another value of {', '.join(group)} is called {told} too: tables could not "
                    "separate their runs. Give each a label of its own"
                )
            called.add(names)

    def _read_table(self, table: Any, axes: dict[str, list[_Value]]) -> None:
        """Add the axes of ``[axes]``."""
        if not isinstance(table, dict):
            raise self._where.refuse("axes", "expected a table of keys and lists")
        for name, value, written in self._axis_tables(table, "", "axes"):
            if name in axes:
                twice = "volumes states it" if name == VOLUME else "this axis is stated twice"
                raise self._where.refuse(written, twice)
            if self._fleet is not None and name in _READING:
                raise self._where.refuse(written, "volumes are those of one trace, read in one way: state it in set")
            if name in self._base:
                raise self._where.refuse(written, f"{name} is stated above as well: leave one out")
            axes[name] = self._axis(name, value, written)

    def _check_fleet(self, axes: dict[str, list[_Value]]) -> None:
        """Refuse volumes that are no number, or of what is not one trace."""
        wanted = self._fleet
        if wanted != "all" and (not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1):
            raise self._where.refuse(
                "volumes", f'found {shown(wanted)}, expected "all", or how many of the largest, such as 20'
            )
        if "trace" in axes or "trace" not in self._base:
            found = "a list of them" if "trace" in axes else "none"
            raise self._where.refuse("volumes", f"are those of one trace: found {found}, expected trace = PATH")
        trace = self._base["trace"]
        if isinstance(trace, dict) and "volume" in trace:
            raise self._where.refuse("trace.volume", "volumes states it: leave one out")

    def _axis_tables(self, table: dict[str, Any], prefix: str, written: str) -> Iterator[tuple[str, Any, str]]:
        for key, value in table.items():
            name, place = f"{prefix}{key}", f"{written}.{key}"
            if isinstance(value, dict) and not is_range(value):
                if set(value) & {"to", "step", "count"} & set(RANGE_KEYS) or not value:
                    raise self._where.refuse(place, "expected a list of values, or a range that has from")
                yield from self._axis_tables(value, f"{name}.", place)
            else:
                yield name, value, place

    def _axis(self, name: str, value: Any, written: str) -> list[_Value]:
        if is_range(value):
            if name in _SOURCES:
                raise self._where.refuse(written, "expected a list")
            try:
                values = range_values(value)
            except ValueError as error:
                raise self._where.refuse(written, str(error)) from None
            return [_Value(each, each, self._where.place(written)) for each in values]
        if not isinstance(value, list):
            raise self._where.refuse(
                written, f"found {value!r}, expected a list of values or a range; one value for all runs belongs to set"
            )
        if not 0 < len(value) <= MOST_VALUES:
            raise self._where.refuse(written, f"expected 1 to {MOST_VALUES:,} values, found {len(value)}")
        label = _label if name in _SOURCES else _scheme_label
        # Names are names, also when they look like sizes.
        are_names = name in (*_SOURCES, "name", "description") or any(isinstance(each, dict) for each in value)
        labels = [label(each) for each in value]
        given = enumerate(zip(value, labels if are_names else numbers_of(name, labels), strict=True))
        return [_Value(each, called, self._where.place(f"{written}.{index}")) for index, (each, called) in given]

    def _read_zip(self, groups: Any) -> list[tuple[str, ...]]:
        """Groups of axes that move together, in the order of the axes; each other axis is a group of its own."""
        if not isinstance(groups, list):
            raise self._where.refuse("zip", 'expected lists of axes such as [["a", "b"]]')
        if groups and all(isinstance(group, str) for group in groups):
            groups = [groups]
        member: dict[str, tuple[str, ...]] = {}
        for index, group in enumerate(groups):
            place = f"zip.{index}"
            if not isinstance(group, list) or len(group) < 2:  # noqa: PLR2004 - one axis alone is not zipped
                raise self._where.refuse(place, "expected a list of two axes or more")
            for name in group:
                if name not in self._values:
                    raise self._where.refuse(place, f"{name} is no axis{_near(str(name), self.axes, 'axes')}")
                if name in member or group.count(name) > 1:
                    raise self._where.refuse(place, f"{name} is zipped twice")
                if name == VOLUME and self._fleet is not None:
                    raise self._where.refuse(place, f"{name} is one of a fleet, which moves with nothing")
            lengths = {name: len(self._values[name]) for name in group}
            if len(set(lengths.values())) > 1:
                found = ", ".join(f"{name} has {length}" for name, length in lengths.items())
                raise self._where.refuse(place, f"zipped axes need as many values each: {found}")
            member |= dict.fromkeys(group, tuple(group))
        return list(dict.fromkeys(member.get(name, (name,)) for name in self.axes))

    def _read_set(self, table: Any) -> list[tuple[str, dict[str, Any], str]]:
        """Changes for all runs, each with its section and its place."""
        if not isinstance(table, dict):
            raise self._where.refuse("set", "expected a table of keys and values")
        layers = []
        for section, keys in _spread(table).items():
            items = keys.items() if isinstance(keys, dict) else [("", keys)]
            for key, value in items:
                dotted = f"{section}.{key}" if key else section
                place = f"set.{dotted}"
                if dotted in self.axes:
                    raise self._where.refuse(place, "is an axis as well: leave one out")
                layers.append((section, {key: value} if key else value, self._where.place(place)))
        return layers

    def _checked_options(self, options: Any, written: str) -> dict[str, Any]:
        if not isinstance(options, dict):
            raise self._where.refuse(written, "expected a table")
        for key, value in options.items():
            self._check_option(key, value, f"{written}.{key}")
        interval = series_interval(options.get("series"))
        if interval is not None and interval[0] == "ns" and not options.get("timing", True):
            why = "states a simulated time, but timing = false leaves the clock out: state a number of requests"
            raise self._where.refuse(f"{written}.series", why)
        return {key: self._option(key, value) for key, value in options.items()}

    def _check_option(self, key: str, value: Any, written: str) -> None:
        if key not in OPTIONS:
            raise self._where.refuse(written, f"no option{_near(key, OPTIONS, 'options')}")
        if key in {"timing", "verify"} and not isinstance(value, bool):
            raise self._where.refuse(written, f"found {value!r}, expected true or false")
        if key == "requests":
            try:
                whole("requests", value, 1)
            except ConfigError as error:
                raise self._where.refuse(written, str(error)) from None
        if key == "series":
            try:
                series_interval(value)
            except ConfigError as error:
                raise self._where.refuse(written, str(error)) from None

    @staticmethod
    def _option(key: str, value: Any) -> Any:
        if key == "series" and isinstance(value, bool):
            return "auto" if value else None
        return value

    def _read_seeds(self, spec: dict[str, Any]) -> list[int | None]:
        if "seeds" in spec and "repetitions" in spec:
            raise self._where.refuse("repetitions", "seeds are stated too: state one of them")
        if "repetitions" in spec:
            count = spec["repetitions"]
            if not isinstance(count, int) or isinstance(count, bool) or not 0 < count <= MOST_VALUES:
                raise self._where.refuse("repetitions", f"found {count!r}, expected a whole number above 0")
            return list(range(1, count + 1))
        if "seeds" not in spec:
            return [None]
        seeds = spec["seeds"]
        if isinstance(seeds, int) and not isinstance(seeds, bool):
            seeds = [seeds]
        if is_range(seeds):
            try:
                seeds = range_values(seeds)
            except ValueError as error:
                raise self._where.refuse("seeds", str(error)) from None
        right = isinstance(seeds, list) and all(
            isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 1 << 64 for seed in seeds
        )
        if not right or not seeds:
            raise self._where.refuse("seeds", f"found {seeds!r}, expected whole numbers from 0 to 2^64 - 1")
        if len(set(seeds)) < len(seeds):
            raise self._where.refuse("seeds", "a seed is stated twice: it would give the same run again")
        return list(seeds)

    def _read_where(self, conditions: Any) -> list[Where]:
        if isinstance(conditions, str):
            conditions = [conditions]
        if not isinstance(conditions, list) or not all(isinstance(each, str) for each in conditions):
            raise self._where.refuse("where", "expected a condition such as 'ftl.gc != \"fifo\"', or a list of them")
        if len(conditions) > MOST_CONDITIONS:
            raise self._where.refuse(
                "where", f"found {len(conditions):,} conditions, expected at most {MOST_CONDITIONS}"
            )
        found = []
        for index, text in enumerate(conditions):
            try:
                found.append(Where(text, [*self.axes, "seed"]))
            except ValueError as error:
                raise self._where.refuse(f"where.{index}", str(error)) from None
        return found

    # What follows from it

    def _known(self, maker: _Maker) -> dict[str, list[_Value]]:
        """The axes, with the volumes of the trace."""
        if self._fleet is None:
            return self._values
        place = self._where.place("volumes")
        found = maker.volumes()
        if self._fleet != "all" and self._fleet > len(found):
            raise self._where.refuse(
                "volumes", f"found {self._fleet}, and the trace has {len(found)}: state a smaller number, or all"
            )
        # Of volumes with as many requests, those with the lower numbers.
        count = len(found) if self._fleet == "all" else self._fleet
        largest = sorted(found, key=lambda volume: (-volume[1], volume[0]))[:count]
        return {**self._values, VOLUME: [_Value(number, number, place) for number, _ in sorted(largest)]}

    def _points(self, axes: dict[str, list[_Value]]) -> list[tuple[dict[str, _Value], int | None]]:
        """The grid: the last axis varies fastest, and seeds faster."""
        counts = [len(axes[group[0]]) for group in self._groups]
        total = len(self.seeds)
        for count in counts:
            total *= count
        if total > _MOST_RUNS:
            raise ConfigError(f"{self._where.name}: the grid has {total:,} runs; at most {_MOST_RUNS:,} make sense")
        try:
            check_steps(self._where_to, total)
        except ValueError as error:
            raise self._where.refuse("where", str(error)) from None
        points = []
        for choice in itertools.product(*(range(count) for count in counts)):
            chosen = {
                name: axes[name][index] for group, index in zip(self._groups, choice, strict=True) for name in group
            }
            values = {name: chosen[name] for name in self.axes}
            labels = {name: value.label for name, value in values.items()}
            for seed in self.seeds:
                try:
                    kept = all(where.holds({**labels, "seed": seed}) for where in self._where_to)
                except ValueError as error:
                    raise self._where.refuse("where", str(error)) from None
                if kept:
                    points.append((values, seed))
        if not points:
            raise self._where.refuse("where", "no run is left")
        return points

    def runs(self, contents: Contents | None = None) -> list[Run]:
        """Give its runs, in the order of the table.

        A value that fits no run is a mistake. Values that contradict each other in some runs only give a run with an
        error.

        Args:
            contents: Remembers hashes of traces.

        Raises:
            ConfigError: A value is wrong.
            InputError: A trace cannot be read.
        """
        maker = _Maker(self, contents or Contents())
        axes = self._known(maker)
        # Of an axis that states volumes by number, the runs share a pass as well.
        maker.fleet = len(axes.get(VOLUME, ())) > 1
        points = self._points(axes)
        runs: list[Run] = []
        fit: set[tuple[str, int]] = set()
        shared, text = None, ""
        problems: list[tuple[dict[str, _Value], FtlabError]] = []
        for values, seed in points:
            labels = tuple(value.label for value in values.values())
            try:
                description = maker.description(values, seed)
            except FtlabError as error:
                problems.append((values, error))
                essence = canonical([list(labels), seed, str(error)])
                runs.append(Run(labels, _named(seed), None, f"none-{hash_text(essence)}", str(error)))
                continue
            fit |= {(name, id(value)) for name, value in values.items()}
            # Runs that share a device have the same object.
            device = description["device"]
            if device is not shared:
                shared, text = device, device_text(device)
            runs.append(Run(labels, _named(description["seed"]), description, key_of(description, text)))
        mistakes = [
            error
            for values, error in problems
            if not fit or any((name, id(value)) not in fit for name, value in values.items())
        ]
        if mistakes:
            texts = list(dict.fromkeys(line for error in mistakes for line in str(error).splitlines()))
            more = [f"... and {len(texts) - _MOST_PROBLEMS} more"] if len(texts) > _MOST_PROBLEMS else []
            kind = InputError if all(isinstance(error, InputError) for error in mistakes) else ConfigError
            raise kind("\n".join([*texts[:_MOST_PROBLEMS], *more]))
        return runs

    def record(self, runs: list[Run]) -> StudyRecord:
        """Give what a store keeps of it."""
        return StudyRecord(
            name=self.name,
            description=self.description,
            axes=self.axes,
            runs=tuple(StudyRun(run.key, run.values, run.seed, run.error) for run in runs),
            spec=self.spec,
            saved=now(),
        )

    def __repr__(self) -> str:
        """Name and shape."""
        shape = " x ".join(
            "volumes"
            if group == (VOLUME,) and self._fleet is not None
            else f"{len(self._values[group[0]])} {'+'.join(group)}"
            for group in self._groups
        )
        seeds = f" x {len(self.seeds)} seeds" if len(self.seeds) > 1 else ""
        return f"<ftlab.Study {self.name}: {shape or 'one run'}{seeds}>"


def hash_text(text: str) -> str:
    """Hash a text."""
    import hashlib

    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _named(seed: int | None) -> int:
    """What tables call a seed: a run without one takes that of the default. 0 is a seed like any other."""
    return 1 if seed is None else seed


def _label(value: Any) -> Any:
    """What tables call a value of an axis: its label or name when it is a table."""
    if isinstance(value, dict):
        for key in ("label", "name"):
            if key in value:
                return str(value[key])
        if isinstance(value.get("trace"), str):
            return Path(value["trace"]).name
    return json.dumps(value) if isinstance(value, dict | list) else value


def _even(value: Any) -> Any:
    """A value in which numbers that are equal are written alike: 1.0 as 1."""
    if isinstance(value, dict):
        return {key: _even(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_even(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _scheme_label(value: Any) -> Any:
    """What tables call a scheme with its keys: ``tafp(window_bytes=64)``."""
    if not isinstance(value, dict) or "label" in value or not isinstance(value.get("kind"), str):
        return _label(value)
    keys = ", ".join(f"{key}={_label(each)}" for key, each in value.items() if key != "kind")
    return f"{value['kind']}({keys})" if keys else value["kind"]


def _unlabelled(value: Any) -> Any:
    """A scheme without the name that tables call it."""
    if isinstance(value, dict) and isinstance(value.get("kind"), str):
        return {key: each for key, each in value.items() if key != "label"}
    return value


# Name, keys, files of the trace, and what is stood for with the name of its recording.
_Requests = tuple[str, dict[str, Any], list[dict[str, Any]] | None, list[str | None] | None]


class _Maker:
    """Makes descriptions; what runs have in common is made once."""

    def __init__(self, study: Study, contents: Contents) -> None:
        self._study = study
        self._where = study._where  # noqa: SLF001 - one module
        self._contents = contents
        self._made: dict[str, Any] = {}
        # Whether runs take a volume each of one trace.
        self.fleet = False

    def _once(self, what: str, arguments: Any, make: Any) -> Any:
        key = what + canonical(arguments)
        if key not in self._made:
            try:
                self._made[key] = make()
            except FtlabError as error:
                self._made[key] = error
        found = self._made[key]
        if isinstance(found, FtlabError):
            raise found
        return found

    def description(self, values: dict[str, _Value], seed: int | None) -> Description:
        """Describe a run."""
        layers = list(self._study._layers)  # noqa: SLF001 - one module
        sources: dict[str, tuple[Any, str]] = {
            name: (value, self._where.place(name))
            for name, value in self._study._base.items()  # noqa: SLF001 - one module
        }
        options = dict(self._study._options)  # noqa: SLF001 - one module
        for name, value in values.items():
            if name in _SOURCES:
                sources[name] = (value.value, value.place)
                continue
            section, _, key = name.partition(".")
            keys = _unlabelled(value.value)
            layers.append((section, _spread({key: keys}) if key else keys, value.place))
        device_layers, workload_layers = [], []
        for section, keys, place in layers:
            if section == "options":
                if not isinstance(keys, dict):
                    raise ConfigError(f"{place}: options: expected a key, such as options.verify")
                for key, each in keys.items():
                    self._option(key, each, place)
                    options[key] = Study._option(key, each)  # noqa: SLF001 - one module
            elif section == "workload":
                workload_layers.append((keys, place))
            elif section == "seed":
                raise ConfigError(f"{place}: seed: is no axis; state seeds or repetitions")
            else:
                device_layers.append(({section: keys}, place))
        device = self._device(*sources["device"], device_layers)
        source = sources.get("trace") or sources["workload"]
        name, keys, trace, stand_in = self._workload(*source, workload_layers, recorded="trace" in sources)
        fleet = self.fleet and trace is not None and isinstance(keys.get("volume"), int)
        return describe(device, (name, keys), trace, stand_in, seed, options, fleet=fleet)

    def volumes(self) -> list[tuple[int, int]]:
        """The volumes of the trace of a fleet with the number of requests of each."""
        place = self._where.place("trace")
        layers = [
            (keys, where)
            for section, keys, where in self._study._layers  # noqa: SLF001 - one module
            if section == "workload"
        ]
        _, keys, trace, _ = self._workload(
            self._study._base["trace"],  # noqa: SLF001 - one module
            place,
            layers,
            recorded=True,
        )
        if trace is None:
            raise ConfigError(f"{place}: trace: has no file, and volumes are those of one")
        if keys.get("volumes") is not None:
            raise ConfigError(
                f"{place}: workload.volumes: says where several volumes lie, and a run of a fleet has one"
            )
        try:
            return self._contents.volumes_of(keys["trace"], keys["format"], keys.get("skip_bad") or 0)
        except InputError as error:
            raise InputError(f"{place}: {error}") from None

    def _option(self, key: str, value: Any, place: str) -> None:
        try:
            self._study._check_option(key, value, f"options.{key}")  # noqa: SLF001 - one module
        except ConfigError as error:
            text = str(error)
            raise ConfigError(f"{place}: {text[text.index('options.') :]}") from None

    def _path(self, text: str) -> str:
        return os.fspath(self._where.folder / text)

    def _device(self, source: Any, place: str, layers: list[tuple[dict[str, Any], str]]) -> dict[str, Any]:
        def make() -> dict[str, Any]:
            base = self._once("device ", [source, place], lambda: self._base_device(source, place))
            return Device(base.layered([(to_json(keys), where) for keys, where in layers])).to_dict()

        made: dict[str, Any] = self._once("drive ", [source, layers], make)
        return made

    def _base_device(self, source: Any, place: str) -> _native.Device:
        try:
            if isinstance(source, str):
                return _native.Device.load(self._path(source) if _is_path(source) else source)
            if isinstance(source, dict):
                table = {key: value for key, value in source.items() if key not in {"extends", "label"}}
                if "extends" not in source:
                    return _native.Device.from_json(to_json(_spread(table)), place)
                base = self._base_device(source["extends"], place)
                return base.layered([(to_json(_spread(table)), place)])
        except ConfigError as error:
            text = str(error)
            raise (error if text.startswith(place) else ConfigError(f"{place}: device: {text}")) from None
        raise ConfigError(
            f"{place}: device: found {source!r}, expected a preset's name, a file, or a table of sections"
        )

    def _workload(
        self, source: Any, place: str, layers: list[tuple[dict[str, Any], str]], *, recorded: bool
    ) -> _Requests:
        def make() -> _Requests:
            base, stand_in = self._once(
                "base ", [source, place, recorded], lambda: self._base_workload(source, place, recorded)
            )
            checked = [(keys if isinstance(keys, dict) else {"": keys}, where) for keys, where in layers]
            workload = Workload._of(base.layered([(to_json(keys), where) for keys, where in checked]))  # noqa: SLF001 - one module
            keys = workload.to_dict()
            trace = None
            if keys.get("trace") is not None:
                # A path that an axis states is taken from the folder of the study, as the others are.
                if any("trace" in layer for layer, _ in checked):
                    keys["trace"] = self._path(keys["trace"])
                keys["trace"] = os.path.abspath(keys["trace"])  # noqa: PTH100 - links stay as they are
                keys["format"], trace = self._once(
                    "files ", [keys["trace"], keys.get("format")], lambda: self._files(keys, place)
                )
            if stand_in is not None and stand_in[1] is None:
                why = uncalibrated(workload.to_dict(), str(stand_in[0]))
                stand_in = [*stand_in, why] if why else stand_in
            return workload.name, keys, trace, stand_in

        made: _Requests = self._once("load ", [source, layers, recorded], make)
        return made

    def _files(self, keys: dict[str, Any], place: str) -> tuple[str, list[dict[str, Any]]]:
        path = keys["trace"]
        try:
            found = keys.get("format") or _native.trace_info(path, None)[0]
            return found, files_of(path, found, self._contents)
        except InputError as error:
            raise InputError(f"{place}: {error}") from None

    def _base_workload(
        self, source: Any, place: str, recorded: bool
    ) -> tuple[_native.Workload, list[str | None] | None]:
        what = "trace" if recorded else "workload"
        try:
            if recorded and isinstance(source, str):
                source = {"trace": source}
            elif isinstance(source, str):
                workload = Workload.load(self._path(source) if _is_path(source) else source)
                return self._stood_for(workload._native, workload.stand_in, place)  # noqa: SLF001 - one module
            if isinstance(source, dict):
                own = {"extends", "label", "name", "stand_in"}
                keys = {key: value for key, value in source.items() if key not in own}
                if recorded and "path" in keys:
                    keys["trace"] = keys.pop("path")
                name = source.get("name")
                if isinstance(keys.get("trace"), str):
                    keys["trace"] = self._path(keys["trace"])
                    name = name or Path(keys["trace"]).name
                if "extends" not in source:
                    made = _native.Workload.from_json(to_json(keys), place, name)
                    return self._stood_for(made, source.get("stand_in"), place)
                base, stand_in = self._base_workload(source["extends"], place, recorded=False)
                return base.layered([(to_json(keys), place)]), stand_in
        except ConfigError as error:
            text = str(error)
            raise (error if text.startswith(place) else ConfigError(f"{place}: {what}: {text}")) from None
        expected = "a path" if recorded else "a preset's name, a file, or a table of keys"
        raise ConfigError(f"{place}: {what}: found {source!r}, expected {expected}")

    @staticmethod
    def _stood_for(
        workload: _native.Workload, stand_in: dict[str, Any] | None, place: str
    ) -> tuple[_native.Workload, list[str | None] | None]:
        """The recording that a workload stands for, where it is at hand, and the mark of a stand-in."""
        if stand_in is None:
            return workload, None
        recording = recording_of(stand_in)
        if recording is None:
            return workload, [stand_in["for"], None]
        # By name only: where it lies must not show in results.
        made = _native.Workload.from_json(to_json(recording.keys()), place, recording.name)
        return made, [stand_in["for"], recording.name]
