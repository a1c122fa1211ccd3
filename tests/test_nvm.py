"""Non-volatile caches: what they hit is what statistics of the requests say."""

from __future__ import annotations

import pytest

from conftest import ROOT
from ftlab import Device, Trace, run
from ftlab._statistics import trace_stats

RECORDING = ROOT / "examples" / "recording" / "phone.csv.zst"


def test_hits_are_those_of_the_curve_of_reuse_distances() -> None:
    """Trims are left out: a cache forgets what is trimmed, and the curve does not."""
    trace = Trace(RECORDING).filter(ops=["read", "write"])
    curve = trace_stats(trace, reuse="exact").frames["miss_ratio_curve"]
    misses = dict(zip(curve["cache_pages"], curve["all"], strict=True))
    for kind, frames in (("basic", 1024), ("cdm", 1024), ("cdm", 16_384)):
        # A page that is read has to be somewhere before, or it is not kept.
        keys = {"nvm": {"kind": kind, "bytes": frames * 4096}, "precondition": {"kind": "fill"}}
        drive = Device.load("ideal-page").with_(**keys)
        hits = run(drive, trace, timing=False).summary["nvm"]["hit_ratio"]
        assert hits == pytest.approx(1 - misses[frames], abs=0.001)
        assert hits > 0.02
