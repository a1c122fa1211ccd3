"""Numbers that a message advises: they are accepted, and the next one is not."""

from __future__ import annotations

import re
from typing import Any

import pytest

import ftlab
from ftlab import _native

IDEAL = ftlab.Device.load("ideal-page")
# Of layers that map blocks: the keys that change how many log blocks they keep.
BLOCK_MAPPED = [
    {"kind": row["name"], **keys}
    for row in _native.schemes()
    if row["key"] == "ftl.kind" and row["name"] not in ("page", "rsftl")
    for keys in ({}, {"log_blocks": 100})
    if not (keys and row["name"] == "block")
]


@pytest.mark.parametrize("keys", BLOCK_MAPPED, ids=lambda keys: " ".join(map(str, keys.values())))
def test_the_most_logical_pages_that_are_named_fit(keys: dict[str, Any]) -> None:
    with pytest.raises(ftlab.ConfigError, match="logical_pages") as refused:
        IDEAL.with_(ftl={**keys, "logical_pages": 1 << 20})
    most = int(re.search(r"at most (\d+)", str(refused.value))[1])
    assert IDEAL.with_(ftl={**keys, "logical_pages": most}).to_dict()["ftl"]["logical_pages"] == most
    block = 64 * keys.get("cluster_memories", 1)
    with pytest.raises(ftlab.ConfigError, match=r"logical_pages|log_blocks"):
        IDEAL.with_(ftl={**keys, "logical_pages": most + block})


@pytest.mark.parametrize(("section", "kind", "what"), [("buffer", "lru", "buffer"), ("nvm", "cdm", "cache")])
def test_a_cache_without_memory_is_noted(section: str, kind: str, what: str) -> None:
    [note] = IDEAL.with_(**{section: {"kind": kind}}).notes
    assert f'{section}.kind = "{kind}": has no effect with {section}.bytes = 0: there is no {what}' in note
    assert IDEAL.with_(**{section: {"kind": kind, "bytes": "1MiB"}}).notes == ()


def test_a_capacitor_without_anything_to_save_is_noted() -> None:
    power = {"capacitor": True}
    small = {"kind": "lru", "bytes": "1MiB"}
    for buffer in (None, {**small, "write": "through"}):
        device = IDEAL.with_(power=power, **({"buffer": buffer} if buffer else {}))
        [note] = device.notes
        assert "power.capacitor = true: has no effect without a buffer that writes back" in note
    assert IDEAL.with_(power=power, buffer=small).notes == ()
