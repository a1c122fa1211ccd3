"""`ftlab config explain`, and the pages of all keys: both say what the code decides."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from conftest import ROOT, inside
from ftlab import Device, Workload, _native
from ftlab import _keys as keys
from ftlab.errors import ConfigError

EVERY = [*keys.keys("device").values(), *keys.keys("workload").values()]


def explained(*words: str) -> Any:
    ran = inside("config", "explain", *words, "--json")
    assert ran.status == 0, ran.err
    return ran.json


def test_a_key_is_explained_in_words() -> None:
    out = inside("config", "explain", "ftl.gc_choices").out
    assert out == (
        "ftl.gc_choices, a key of device files\nCandidates that are drawn.\n\n"
        "values      whole number\ndefault     10\nreason      ten draws come close to greedy (Van Houdt, 2013).\n"
        "limits      must be at least 1; must be at most 65536\nonly with   ftl.gc = d_choices\n"
        "example     ftl.gc_choices = 11   (as in the preset mqsim)\n"
    )
    striping = inside("config", "explain", "striping").out
    assert 'default     "dynamic"' in striping
    assert "  static    The logical address decides" in striping
    assert "as drives of today do it" in striping


def test_a_key_is_explained_as_json() -> None:
    found = explained("host.queue_depth")
    assert found == {
        "key": "host.queue_depth", "file": "device", "meaning": "Requests in the drive at a time.", "unit": None,
        "values": "whole number", "choices": [], "default": 1, "required": False,
        "default_reason": "one, so that a latency is that of a request alone.",
        "read_by": ['host.arrival = "closed"'], "limits": ["must be from 1 to 65536"],
        "example": "host.queue_depth = 16", "example_from": "tlc-aged",
        "elsewhere": ["fio: iodepth", "MQSim: Average_No_of_Reqs_in_Queue"],
    }  # fmt: skip
    theta = explained("workload.theta")
    assert (theta["key"], theta["limits"]) == ("workload.theta", ["must be above 0 and below 10"])
    assert theta["read_by"] == ['workload.kind = "zipf"']
    assert explained("geometry.channels")["required"]
    assert "drives of today" in explained("ftl.striping")["default_reason"]
    assert {each["name"] for each in explained("ftl.gc")["choices"]} >= {"greedy", "cost_benefit"}
    assert explained("timing.erase_us")["unit"] == "microseconds"


def test_sections_and_everything_are_listed() -> None:
    power = {each["key"] for each in explained("power")}
    assert power == {"power.atomic", "power.capacitor", "power.trim"}
    assert "power.trim" in inside("config", "explain", "power").out
    listed = inside("config", "explain").out
    assert all(name in listed for name in ("geometry", "workload.db", "device file", "workload file"))
    assert {each["key"] for each in explained()} == {key.name for key in EVERY}
    assert {each["key"] for each in explained("workload.db")} >= {"workload.db.pool_fraction"}


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("ftl.gc_choice", 'a key or a section of a device or workload file; did you mean "ftl.gc_choices"?'),
        ("timng.read_us", 'did you mean "timing.read_us"?'),
        ("geometri", 'did you mean "geometry"?'),
        ("striping_", 'did you mean "ftl.striping"?'),
        ("bytes", "bytes: 3 keys end so, expected one of buffer.bytes, map_cache.bytes, nvm.bytes"),
        ("numjobs", "numjobs: a word of fio, and no key here: requests come from one source"),
        ("x" * 5000, "no key of this name"),
        ("", "expected a key or a section"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_answered(key: str, said: str) -> None:
    ran = inside("config", "explain", key)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err
    assert len(ran.err) < 2000


def test_every_key_has_a_meaning() -> None:
    assert len(EVERY) > 300
    assert [key.name for key in EVERY if not key.meaning] == []


def test_every_default_has_its_reason() -> None:
    with_default = [key for key in EVERY if key.default_text() and not key.required]
    assert len(with_default) > 200
    assert [key.name for key in with_default if not key.default_reason] == []
    for key in EVERY:
        # A sentence that is no part of the meaning, which says the value itself where the schema cannot.
        assert not re.search(r"Default:|Default is", key.meaning), key.name
        if key.default_reason:
            assert re.fullmatch(r"\S.*\.", key.default_reason), key.name
            assert len(key.default_reason.split()) <= 25, key.name


def test_limits_are_those_of_the_checker() -> None:
    ranges = 0
    for key in EVERY:
        for text in keys.limits(key):
            found = re.fullmatch(r"must be from (\d+) to (\d+)", text)
            base = keys._base(key)
            if found is None or base is None:
                continue
            ranges += 1
            for value in (int(found[1]) - 1, int(found[2]) + 1):
                assert keys._refusal(base, f"{key.name}={value}") is not None, (key.name, value)
            assert keys._refusal(base, f"{key.name}={found[1]}") != text
    assert ranges >= 15


def test_examples_of_presets_stand_there() -> None:
    shown = 0
    for key in EVERY:
        line, preset = keys.example(key)
        if preset is None:
            continue
        assert line is not None
        shown += 1
        loaded: Any = Device.load(preset) if key.file == "device" else Workload.load(preset)
        if key.section == "workload":
            loaded = loaded.set(line.replace(" = ", "=", 1))
        assert loaded is not None
    assert shown > 120


def test_the_pages_have_every_key() -> None:
    for file, page in (("device", "device-keys.md"), ("workload", "workload-keys.md")):
        text = (ROOT / "docs" / "reference" / page).read_text()
        parts = dict(re.findall(r"^## `\[+([\w.]+)\]+`\n(.*?)(?=^## |^<!-- end)", text, re.MULTILINE | re.DOTALL))
        for key in keys.keys(file).values():  # type: ignore[arg-type]  # one of the two
            if key.section and not key.section.startswith("workload.fitted"):
                assert f"| `{key.name.rpartition('.')[2]}` |" in parts[key.section], key.name


def test_words_of_others_are_explained_on_their_pages() -> None:
    words = _native.foreign_words()
    for tool in ("fio", "MQSim", "FEMU"):
        page = (ROOT / "docs" / "guides" / f"coming-from-{tool.lower()}.md").read_text()
        theirs = [word for each, word, _, _ in words if each == tool]
        assert len(theirs) > 10
        assert all(f"| `{word}` |" in page for word in theirs)
        # The whole name of a key is code.
        assert re.findall(r"`\.\w+", page) == []
    # Some are names of ours as well, and asked for with their section.
    own = {name.rpartition(".")[2] for name in {**keys.keys("workload"), **keys.keys("device")}}
    for tool, their_word, has_key, ours in words:
        word = f"workload.{their_word}" if their_word in own else their_word
        named = re.findall(r"\b[a-z_]+(?:\.[a-z_]+)+", ours)
        if not has_key:
            assert all(isinstance(keys.find(name), keys.Key) for name in named), word
            said = inside("config", "explain", word).err
            assert f"{word}: a word of {tool}, and no key here: {ours}" in " ".join(said.split())
            continue
        assert named, word
        assert all(isinstance(keys.find(name), keys.Key) for name in named), word
        ran = inside("config", "explain", word)
        # Long sentences have two lines.
        assert " ".join(ran.out.split()).startswith(f"{word} is a word of {tool}: ftlab has {ours}"), word
        assert f"{named[0]}, a key of " in ran.out


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("iodepth", 'iodepth is a word of fio: ftlab has host.queue_depth, with host.arrival = "closed"'),
        (
            "geometry.Flash-Channel_Count",
            "geometry.Flash-Channel_Count is a word of MQSim: ftlab has geometry.channels",
        ),
        (
            "Flash_Channel_Width",
            "Flash_Channel_Width is a word of MQSim: ftlab has timing.bus_mb_per_s, which is its bytes times the MT/s",
        ),
        ("secs_per_pg", "secs_per_pg is a word of FEMU: ftlab has geometry.page_bytes: so many sectors of 512 bytes"),
        ("luns_per_ch", "luns_per_ch is a word of FEMU: ftlab has geometry.ways"),
    ],
)
def test_a_word_of_another_tool_explains_the_key(word: str, said: str) -> None:
    ran = inside("config", "explain", word)
    assert (ran.status, ran.err) == (0, "")
    first, rest = ran.out.split("\n\n", 1)
    assert " ".join(first.split()).startswith(said)
    key = rest.partition(",")[0]
    assert key in said
    assert rest == inside("config", "explain", key).out
    told = inside("config", "explain", word, "--json")
    assert told.json == explained(key)
    assert " ".join(told.err.split()).startswith(said)


def test_only_a_key_of_ours_is_found_by_its_name() -> None:
    with pytest.raises(ConfigError, match=r"^bs: a word of fio: ftlab has workload\.request_bytes$"):
        keys.find("bs")
    # Of page_bytes a latency is made, and not the other way round.
    assert ("FEMU", "ch_xfer_lat") not in keys.elsewhere("geometry.page_bytes")
    assert ("FEMU", "secs_per_pg") in keys.elsewhere("geometry.page_bytes")


@pytest.mark.parametrize("word", ["numjobs", "ioengine", "size", "runtime", "direct", "time_based"])
def test_words_for_which_there_is_no_key_are_answered(word: str) -> None:
    err = inside("config", "explain", word).err
    assert "a word of fio, and no key here" in err
    named = [name for name in re.findall(r"\b[a-z]+\.[a-z_]+", err) if name != "config.explain"]
    assert all(isinstance(keys.find(name), keys.Key) for name in named)


def test_what_the_shell_is_offered_can_be_set() -> None:
    offered = keys.settable()
    assert {"ftl.gc", "timing.read_us", "workload.theta", "workload.db.pool_fraction"} <= set(offered)
    drive, load = Device("tlc-small"), Workload.load("zipf")
    for name in offered:
        target: Any = load if name.startswith("workload.") else drive
        # Wrong for every key, and never unknown.
        with pytest.raises(ValueError, match=r"^((?!unknown key).)*$"):
            target.set(f"{name}={json.dumps({'no such key': [[]]})}")
