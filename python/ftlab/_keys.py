"""What every key of device and workload files means, for `ftlab config explain` and the generated pages.

All of it is asked where it is decided. Meaning, type and default come from the schema, and so from the line above the
key in the sources. Which kinds read a key comes from the lists of schemes and kinds, limits from the checker, and
examples from the presets.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import json
import re
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ftlab import _native
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

File = Literal["device", "workload"]
Schema = dict[str, Any]

# As many names as a line holds; the orders of planes are a list of their own.
_MOST_NAMES = 12
# What is tried for a limit: numbers at and beyond what one may want.
_PROBES = ("-1", "0", "0.5", "1.5", "1000000000", "18446744073709551615", "1e300")
# The drive whose limits are told where they depend on the drive.
EXAMPLE_DRIVE = "tlc-small"
# Of the sentences of the checker, those that say what a value may be: others are about the drive as a whole.
_LIMIT = re.compile(r"must |expected a whole number")
_UNITS = (
    ("mb_per_s", "million bytes a second"),
    ("_us", "microseconds"),
    ("_ns", "nanoseconds"),
    ("bytes_per_second", "bytes a second"),
    ("bytes", "bytes"),
    ("_iops", "requests a second"),
    ("_fraction", "share"),
    ("_share", "share"),
    ("_pages", "pages"),
    ("_blocks", "blocks"),
    ("_cycles", "cycles"),
    ("_requests", "requests"),
)
_LONGEST_EXAMPLE = 100
_READERS = re.compile(r"\s*\(A key of [^)]*\)$")
# The last sentence of a key beside its line in the sources, where it has a default.
_REASON = re.compile(r"(?:^|\s)Default: (.*)$")


class Tables:
    """A JSON schema, read as tables of keys."""

    def __init__(self, kind: Literal["device", "workload", "summary"]) -> None:
        """Load the schema of a kind of document."""
        self.root: Schema = json.loads(_native.schema(kind))
        self.definitions: dict[str, Schema] = self.root["$defs"]

    def resolved(self, schema: Schema) -> Schema:
        """What a reference leads to, with the words of the place that refers to it."""
        choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
        if len(choices) == 1:
            return self.resolved({**choices[0], **{key: schema[key] for key in schema if key != "anyOf"}})
        reference = schema.get("$ref")
        if reference is None:
            return schema
        there = self.resolved(self.definitions[reference.rsplit("/", 1)[1]])
        return {**there, **{key: value for key, value in schema.items() if key != "$ref"}}

    def values(self, schema: Schema) -> str:
        """What may stand there, in a few words."""
        names = names_of(schema)
        if names:
            shown = names if len(names) <= _MOST_NAMES else [names[0], "...", names[-1]]
            return ", ".join(name if name == "..." else f"`{name}`" for name in shown)
        several = [self.values(self.resolved(choice)) for choice in schema.get("anyOf", ())]
        if several:
            return " or ".join(dict.fromkeys(each for each in several if each != "null"))
        types = schema.get("type", "table")
        kinds = [kind for kind in ([types] if isinstance(types, str) else types) if kind != "null"]
        if kinds in (["number", "string"], ["integer", "string"]):
            return "number, or text with a unit"
        if kinds == ["array"]:
            return f"list of {self.values(self.resolved(schema.get('items', {})))}"
        return {"object": "table", "integer": "whole number", "string": "text", "boolean": "`true` or `false`"}.get(
            kinds[0], kinds[0]
        )

    def tables(self) -> Iterator[tuple[str, bool, Schema]]:
        """Each table of keys once: its dotted name, whether it is a list of tables, and its schema."""
        seen: list[Schema] = []
        for name, each in self.root["properties"].items():
            schema = self.resolved(each)
            if "properties" in schema:
                yield from self._below(name, False, schema, seen)

    def _below(self, path: str, many: bool, schema: Schema, seen: list[Schema]) -> Iterator[tuple[str, bool, Schema]]:
        seen.append(schema["properties"])
        yield path, many, schema
        for name, each in schema["properties"].items():
            inner = self.resolved(each)
            several = "items" in inner
            inner = self.resolved(inner["items"]) if several else inner
            if "properties" in inner and inner["properties"] not in seen:
                yield from self._below(f"{path}.{name}", many or several, inner, seen)


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def names_of(schema: Schema) -> list[str]:
    """The names that may stand there."""
    if "enum" in schema:
        return [str(name) for name in schema["enum"]]
    return [str(choice["const"]) for choice in schema.get("oneOf", ()) if "const" in choice]


def said(schema: Schema) -> str:
    """The description, on one line."""
    return " ".join(str(schema.get("description", "")).split())


@dataclass(frozen=True)
class Key:
    """A key of a file.

    Attributes:
        name: Dotted, as ``--set`` takes it.
        file: Which files have it.
        meaning: What it means.
        unit: Of a number without a unit of its own; empty for counts and words.
        values: What may stand there.
        default: What holds without it, as it is written; ``None`` when there is no such value.
        required: Whether it must be stated.
        default_reason: Why it is that; empty when there is no default.
        readers: The choices that read it, as they are written; empty when all do.
        choices: Names that it takes, with their meanings.
        listed: Whether it stands in a list of tables, which ``--set`` does not reach.
    """

    name: str
    file: File
    meaning: str
    unit: str
    values: str
    default: str | None
    required: bool
    default_reason: str
    readers: tuple[str, ...]
    choices: Mapping[str, str] = field(hash=False)
    listed: bool

    @property
    def section(self) -> str:
        """The table that it stands in; empty at the top of the file."""
        return self.name.rpartition(".")[0]

    def values_text(self) -> str:
        """What may stand there, with the unit."""
        if not self.unit:
            return self.values
        return f"{self.values}, {'a' if self.unit == 'share' else 'in'} {self.unit}"

    def default_text(self) -> str:
        """What holds without the key, in words; empty when the schema does not say."""
        if self.required:
            return "must be stated"
        if self.default is not None:
            return toml(json.loads(self.default))
        # Keys that may be absent say so themselves: what holds then may depend on others.
        sentences = re.split(r"(?<=[.;]) ", self.meaning)
        return next((each.rstrip(".;") for each in sentences if "when absent" in each), "")

    def readers_text(self, code: str = "") -> str:
        """The choices that read it, in words; empty when all do.

        Args:
            code: What stands around names.
        """
        by_key: dict[str, list[str]] = {}
        for reader in self.readers:
            name, _, value = reader.partition(" = ")
            by_key.setdefault(name, []).append(f"{code}{json.loads(value)}{code}")
        parts = [f"{code}{name}{code} = {_listed(values)}" for name, values in by_key.items()]
        return " or ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """All of it, with limits, an example, and what other tools call it."""
        text, source = example(self)
        return {
            "key": self.name,
            "file": self.file,
            "meaning": self.meaning,
            "unit": self.unit or None,
            "values": self.values.replace("`", ""),
            "choices": [{"name": name, "meaning": meaning} for name, meaning in self.choices.items()],
            "default": None if self.default is None else json.loads(self.default),
            "required": self.required,
            "default_reason": self.default_reason or None,
            "read_by": list(self.readers),
            "limits": list(limits(self)),
            "example": text,
            "example_from": source,
            "elsewhere": [f"{tool}: {word}" for tool, word in elsewhere(self.name)],
        }


def _unit(name: str, values: str) -> str:
    return next((unit for suffix, unit in _UNITS if name.endswith(suffix)), "") if "number" in values else ""


def _meaning(schema: Schema) -> tuple[str, str]:
    """What a key means, and why its default is what it is; the second is empty where there is no reason."""
    text = _READERS.sub("", said(schema))
    found = _REASON.search(text)
    return (text, "") if found is None else (text[: found.start()], found[1])


@functools.cache
def _schemes() -> tuple[dict[str, dict[str, str]], dict[str, list[str]]]:
    """Meanings of the names that choose a scheme, and the choices that read each key, by dotted key."""
    summaries: dict[str, dict[str, str]] = {}
    readers: dict[str, list[str]] = {}
    for row in _native.schemes():
        summaries.setdefault(row["key"], {})[row["name"]] = row["summary"]
        for key in row["keys"]:
            readers.setdefault(key["name"], []).append(f'{row["key"]} = "{row["name"]}"')
    return summaries, readers


@functools.cache
def _kinds() -> dict[str, tuple[str, ...]]:
    """The kinds of workloads that read each key of `[workload]`; of those that all read, none."""
    rows = _native.workload_kinds()
    readers: dict[str, list[str]] = {}
    for row in rows:
        for key in (*row["own_keys"], *row["common_keys"]):
            readers.setdefault(key, []).append(f'workload.kind = "{row["name"]}"')
    return {key: tuple(names) if len(names) < len(rows) else () for key, names in readers.items()}


def _readers(name: str, file: File) -> tuple[str, ...]:
    if file == "device":
        return tuple(_schemes()[1].get(name, ()))
    parts = name.split(".")
    return _kinds().get(parts[1], ()) if parts[0] == "workload" and len(parts) > 1 else ()


def _key(tables: Tables, file: File, path: str, name: str, schema: Schema, *, required: bool, many: bool) -> Key:
    dotted = f"{path}.{name}" if path else name
    each = tables.resolved(schema)
    choices = {
        str(choice["const"]): said(choice)
        for choice in each.get("oneOf", ())
        if "const" in choice and choice.get("description")
    } | _schemes()[0].get(dotted, {})
    (meaning, reason), values = _meaning(each), tables.values(each)
    default = json.dumps(each["default"]) if "default" in each else None
    return Key(
        dotted,
        file,
        meaning,
        _unit(name, values),
        values,
        default,
        required,
        reason,
        _readers(dotted, file),
        choices,
        many,
    )


def _required() -> frozenset[str]:
    """The keys that the checker misses in a drive without them."""
    whole = json.loads(_native.Device.load(EXAMPLE_DRIVE, []).to_json())
    missed = set()
    for section, table in whole.items():
        for key in table if isinstance(table, dict) else ():
            rest = whole | {section: {name: value for name, value in table.items() if name != key}}
            try:
                _native.Device.from_json(json.dumps(rest), EXAMPLE_DRIVE)
            except ConfigError as error:
                if "no default" in str(error):
                    missed.add(f"{section}.{key}")
    return frozenset(missed)


@functools.cache
def keys(file: File) -> dict[str, Key]:
    """Every key of a kind of files by its dotted name: those of the top, then table by table."""
    tables = Tables(file)
    missed = _required() if file == "device" else frozenset()
    made = [
        _key(tables, file, "", name, each, required=False, many=False)
        for name, each in tables.root["properties"].items()
        if "properties" not in tables.resolved(each)
    ]
    for path, many, schema in tables.tables():
        # Of sections the schema does not say it: a file that extends another may leave out any key.
        required = {*schema.get("required", ()), *(name for name in missed if name.rpartition(".")[0] == path)}
        made += [
            _key(tables, file, path, name, each, required=not required.isdisjoint({name, f"{path}.{name}"}), many=many)
            for name, each in schema["properties"].items()
        ]
    return {key.name: key for key in made}


@functools.cache
def sections(file: File) -> dict[str, str]:
    """The tables of a kind of files, with what they are."""
    return {path: _READERS.sub("", said(schema)) for path, _, schema in Tables(file).tables()}


@functools.cache
def _presets(file: File) -> dict[str, dict[str, Any]]:
    """What each preset states, by dotted key."""

    def flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for name, value in table.items():
            yield f"{prefix}{name}", value
            if isinstance(value, dict):
                yield from flat(value, f"{prefix}{name}.")

    return {name: dict(flat(tomllib.loads(text), "")) for name, text in _native.presets(file)}


def toml(value: Any) -> str:
    """A value as it stands in a file, on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_bare(name)} = {toml(each)}" for name, each in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


def _bare(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name) else json.dumps(name)


def example(key: Key) -> tuple[str | None, str | None]:
    """A line with the key, and the preset that has it so: another value than the default where there is one."""
    if key.name in {"name", "description"}:
        return None, None
    stated = [(name, there[key.name]) for name, there in _presets(key.file).items() if key.name in there]
    default = None if key.default is None else json.loads(key.default)
    for name, value in stated:
        if value != default and not isinstance(value, dict | list):
            return f"{key.name} = {toml(value)}", name
    for row in _native.schemes() if key.file == "device" else ():
        for dotted, text, _ in row["contrasts"]:
            if dotted == key.name:
                return f"{key.name} = {text if _is_toml(text) else toml(text)}", None
    value = next((name for name in key.choices if name != default), default)
    for name, there in stated:
        line = f"{key.name} = {toml(there)}"
        if not key.choices and len(line) <= _LONGEST_EXAMPLE:
            return line, name
    plain = value not in (None, "") and not isinstance(value, dict | list)
    return (f"{key.name} = {toml(value)}" if plain else None), None


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(f"x = {text}")
    except tomllib.TOMLDecodeError:
        return False
    return True


@functools.cache
def limits(key: Key) -> tuple[str, ...]:
    """What the checker says of values that it refuses, in its own sentences."""
    if key.choices or key.listed or not re.search("number", key.values):
        return ()
    base = _base(key)
    if base is None:
        return ()
    found: dict[str, None] = {}
    for probe in _PROBES:
        refused = _refusal(base, f"{key.name}={probe}")
        if refused is not None and _LIMIT.match(refused):
            found[refused] = None
    # What a type holds is no limit where there is a nearer one.
    nearer = [text for text in found if not text.startswith("expected ")]
    return tuple(nearer or found)


def _base(key: Key) -> _native.Device | _native.Workload | None:
    """A drive or a workload that reads the key."""
    if key.file == "device":
        drives = (_drive(name, settings) for name, settings in _settings(key))
        return next((drive for drive in drives if drive is not None), None)
    kinds = [reader.split('"')[1] for reader in key.readers] or ["uniform"]
    # Of the kinds that read it, the plainest: others have limits of their own beside it.
    kinds = ["uniform"] if "uniform" in kinds else kinds
    for name, there in _presets("workload").items():
        if there.get("workload.kind") in kinds:
            return _native.Workload.load(name, [])
    try:
        return _native.Workload.parse(f'[workload]\nkind = "{kinds[0]}"\n', "example")
    except ConfigError:
        return None


def _settings(key: Key) -> Iterator[tuple[str, list[str]]]:
    """Presets with changes that may make a drive read the key, the likeliest first."""
    if not key.readers:
        yield EXAMPLE_DRIVE, []
    rows = {f'{row["key"]} = "{row["name"]}"': row for row in _native.schemes()}
    for reader in key.readers:
        row = rows[reader]
        chosen = f"{row['key']}={row['name']}"
        others = [list(more) for dotted, _, more in row["contrasts"] if dotted == key.name]
        for more in (*others, []):
            besides = [text for text in more if text.partition("=")[0] not in {key.name, row["key"]}]
            yield EXAMPLE_DRIVE, [chosen, *besides]
            yield "ideal-page", [chosen, *besides]
    for name, there in _presets("device").items():
        if any(there.get(rows[reader]["key"]) == rows[reader]["name"] for reader in key.readers):
            yield name, []


def _drive(name: str, settings: list[str]) -> _native.Device | None:
    try:
        return _native.Device.load(name, settings)
    except ConfigError:
        return None


def _refusal(base: _native.Device | _native.Workload, text: str) -> str | None:
    """Why an assignment is refused, in words about this key."""
    try:
        base.set([text])
    except ConfigError as error:
        begin = f"--set {text}: "
        lines = str(error.args[0]).splitlines()
        return next((line.removeprefix(begin) for line in lines if line.startswith(begin)), None)
    return None


def elsewhere(name: str) -> list[tuple[str, str]]:
    """What other tools call a key: the tool and its word."""
    words = _native.foreign_words()
    return [(tool, word) for tool, word, has_key, ours in words if has_key and name in re.findall(r"[\w.]+", ours)]


def _letters(word: str) -> str:
    return "".join(letter for letter in word.lower() if letter.isalnum())


def _foreign(name: str) -> tuple[str, bool, str] | None:
    """The tool whose word it is, whether there is a key for it, and the answer; only letters and digits count."""
    last = name.rpartition(".")[2]
    found = [row for row in _native.foreign_words() if _letters(row[1]) == _letters(last)]
    # Of tools that write it alike, the one that writes it so.
    found.sort(key=lambda row: row[1] != last)
    return next(((tool, has_key, ours) for tool, _, has_key, ours in found), None)


def translated(name: str) -> tuple[str, str | None]:
    """The name of a key that a word of another tool stands for, and a sentence that says so.

    What has a meaning here stays as it is, without a sentence.

    >>> translated("iodepth")
    ('host.queue_depth', 'iodepth is a word of fio: ftlab has host.queue_depth, with host.arrival = "closed"')
    >>> translated("ftl.gc")
    ('ftl.gc', None)
    """
    everything = {**keys("workload"), **keys("device")}
    known = {*everything, *sections("device"), *sections("workload"), *(each.rpartition(".")[2] for each in everything)}
    found = None if name in known else _foreign(name)
    if found is None or not found[1]:
        return name, None
    tool, _, ours = found
    return re.split(r"[^\w.]", ours)[0], f"{name} is a word of {tool}: ftlab has {ours}"


def find(name: str) -> list[Key] | Key:
    """What a name stands for: a key, or the keys of a section.

    Args:
        name: Dotted, or the last part of a key alone.

    Raises:
        ConfigError: There is no such key. The message has the nearest, or all that end so.
    """
    everything = {**keys("workload"), **keys("device")}
    inside = [key for key in everything.values() if name and key.section == name]
    if inside:
        return inside
    if name in everything:
        return everything[name]
    ending = [key for key in everything.values() if key.name.rpartition(".")[2] == name]
    if len(ending) == 1:
        return ending[0]
    if ending:
        names = ", ".join(key.name for key in ending)
        raise ConfigError(f"{name}: {len(ending)} keys end so, expected one of {names}")
    foreign = _foreign(name)
    if foreign is not None:
        tool, has_key, ours = foreign
        raise ConfigError(f"{name}: a word of {tool}{': ftlab has' if has_key else ', and no key here:'} {ours}")
    near = _nearest(name, everything)
    hint = f'; did you mean "{near}"?' if near else ""
    raise ConfigError(f"{name}: no key of this name, expected a key or a section of a device or workload file{hint}")


def _nearest(name: str, everything: Mapping[str, Key]) -> str | None:
    names = [*everything, *sections("device"), *sections("workload")]
    close = difflib.get_close_matches(name, names, 1)
    if close:
        return close[0]
    # The section may be the part that is wrong.
    last = {each.rpartition(".")[2]: each for each in reversed(names)}
    close = difflib.get_close_matches(name.rpartition(".")[2], last, 1)
    return last[close[0]] if close else None


def settable() -> list[str]:
    """Every key that ``--set`` takes, dotted, in order."""
    every = itertools.chain(keys("device").values(), keys("workload").values())
    tables = {*sections("device"), *sections("workload")}
    return sorted(key.name for key in every if key.section and not key.listed and key.name not in tables)
