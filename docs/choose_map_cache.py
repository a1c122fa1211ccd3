"""Which mapping cache for which memory and workload: real recordings on a full drive, for the page of the guides.

`python docs/choose_map_cache.py --traces FOLDER --write` runs all and puts the tables into
guides/choose-a-mapping-cache.md; without `--write` it prints them. Without recordings at hand it takes the one of this
project. `--out DIR` keeps the runs: only what is missing is run.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import polars as pl

import ftlab
from ftlab.analysis.intervals import student
from ftlab.papers.recordings import CLOSED_UP, recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Ten thousand requests are too few for a p99 of both operations.
WITHOUT = ("Financial1, first 10,000",)
OWN = {
    "path": str(Path(__file__).parent.parent / "examples/recording/phone.csv.zst"),
    "format": "csv",
    "label": "smartphone, a minute",
    "transform": [CLOSED_UP],
}
# The mapping table of the drive takes 1 MiB: 1/32, 1/16 and 1/4 of it.
MEMORY_KIB = (32, 64, 256)
SCHEMES = {
    "DFTL": {"kind": "dftl"},
    "whole pages": {"kind": "full_page"},
    "S-FTL": {"kind": "sftl"},
    "TPFTL": {"kind": "tpftl"},
    "LeaFTL": {"kind": "leaftl"},
    "score board": {"kind": "bsb"},
    "ghosts": {"kind": "ghosts"},
}
IDEAL = "all in memory"
READ, WRITE, WEAR = "latency_ns.read.p99", "latency_ns.write.p99", "write_amplification.total"
BLOCKS = 120
# Fewer have no p99 that says anything.
LEAST = 1000
CONFIDENCE = 0.95


PAGE = Path(__file__).parent / "guides" / "choose-a-mapping-cache.md"
BEGIN, END = "<!-- written by docs/choose_map_cache.py: do not edit -->", "<!-- end of what is written -->"


def drive(blocks: int, **map_cache: Any) -> dict[str, Any]:
    """Describe a drive with 16 planes, 1 GiB, written over at random until its write amplification is steady."""
    return {
        "extends": "tlc-small",
        "geometry": {"blocks_per_plane": blocks, "pages_per_block": 44},
        "map_cache": map_cache,
        "host": {"arrival": "open", "out_of_range": "wrap", "unsorted_times": "clamp"},
        "precondition": {"kind": "steady", "pattern": "uniform", "tolerance": 0.02, "max_drive_writes": 10},
    }


def studies(traces: Sequence[dict[str, Any]], seeds: int, blocks: int = BLOCKS) -> list[dict[str, Any]]:
    """Describe all runs: every scheme with every memory under every recording, and the whole table in memory."""
    # Of the drive before the recording begins: recordings are what they are.
    shared = {"trace": list(traces), "seeds": list(range(1, seeds + 1))}
    least = MEMORY_KIB[0] << 10
    cached = [{**drive(blocks, **keys, bytes=least), "label": label} for label, keys in SCHEMES.items()]
    axes = {"map_cache.bytes": [kib << 10 for kib in MEMORY_KIB]}
    return [
        {"name": "ideal", "device": [{**drive(blocks, kind="ideal"), "label": IDEAL}], **shared},
        {"name": "cached", "device": cached, "axes": axes, **shared},
    ]


def recordings(folder: Path | None, requests: int) -> list[dict[str, Any]]:
    """Give the recordings that are at hand, each moved together to the chunks that it touches."""
    return [{**trace, "requests": requests} for trace in recorded(WITHOUT, folder) or [OWN]]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Give the mean and half the width of its interval by Student's t."""
    count = len(values)
    mean = sum(values) / count
    if count == 1:
        return mean, math.nan
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1) / count)
    return mean, student(count - 1, CONFIDENCE) * spread


def told(mean: float, half: float, digits: int) -> str:
    """Write a mean with its interval."""
    return f"{mean:.{digits}f}" if math.isnan(half) else f"{mean:.{digits}f} ± {half:.{digits}f}"


def of(frame: pl.DataFrame, metric: str) -> Callable[[str, str, int], dict[int, float]]:
    """Give a metric of a scheme under a recording with a memory, by seed. Nothing of runs with too few requests."""
    count = {READ: "host.reads", WRITE: "host.writes"}.get(metric)
    kept = frame.filter(pl.col("status") == "done")
    kept = kept if count is None else kept.filter(pl.col(count) >= LEAST)

    def values(scheme: str, trace: str, kib: int) -> dict[int, float]:
        rows = kept.filter(device=scheme, trace=trace)
        if scheme != IDEAL:
            rows = rows.filter(pl.col("map_cache.bytes") == kib << 10)
        return dict(rows.select("seed", pl.col(metric).cast(float)).sort("seed").iter_rows())

    return values


def over_ideal(frame: pl.DataFrame) -> list[list[str]]:
    """Compare each scheme with the whole table in memory: the geometric mean over recordings, with its interval."""
    rows = []
    traces = frame["trace"].unique(maintain_order=True).to_list()
    for kib in MEMORY_KIB:
        for scheme in SCHEMES:
            cells = []
            for metric in (READ, WRITE, WEAR):
                values = of(frame, metric)
                logs = []
                for trace in traces:
                    here, ideal = values(scheme, trace, kib), values(IDEAL, trace, kib)
                    # Seeds pair: the same drive, but for its cache.
                    pairs = [math.log(here[seed] / ideal[seed]) for seed in here if ideal.get(seed)]
                    logs += [sum(pairs) / len(pairs)] if pairs else []
                if not logs:
                    cells.append("")
                    continue
                mean, half = interval(logs)
                low, high = math.exp(mean - half), math.exp(mean + half)
                cells.append(f"{math.exp(mean):.2f}" + ("" if math.isnan(half) else f" ({low:.2f} to {high:.2f})"))
            rows.append([f"{kib} KiB", scheme, *cells])
    return rows


def best(frame: pl.DataFrame) -> list[list[str]]:
    """Name, for each recording and memory, the schemes that no other one beats, and what they do."""
    rows = []
    for trace in frame["trace"].unique(maintain_order=True).to_list():
        for kib in MEMORY_KIB:
            cells = []
            for metric, scale, digits in ((READ, 1e-3, 0), (WRITE, 1e-3, 0), (WEAR, 1, 3)):
                values = of(frame, metric)
                found = {scheme: values(scheme, trace, kib) for scheme in SCHEMES}
                at = {scheme: each for scheme, each in found.items() if each}
                if not at:
                    cells.append("")
                    continue
                first = min(at, key=lambda scheme: interval([*at[scheme].values()])[0])
                level = [scheme for scheme in at if scheme == first or not _worse(at[scheme], at[first])]
                cells.append(
                    f"{', '.join(level)}: {told(*interval([scale * value for value in at[first].values()]), digits)}"
                )
            rows.append([trace, f"{kib} KiB", *cells])
    return rows


def _worse(one: dict[int, float], other: dict[int, float]) -> bool:
    """Whether one is larger beyond what seeds make: the interval of the differences lies above 0."""
    mean, half = interval([one[seed] - other[seed] for seed in one if seed in other])
    return mean > (0 if math.isnan(half) else half)


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, help="folder of recordings (default: as for `ftlab paper`)")
    parser.add_argument("--requests", type=int, default=100_000, help="of each recording at most (default: 100,000)")
    parser.add_argument("--seeds", type=int, default=3, help="drives for each (default: 3)")
    parser.add_argument("--blocks", type=int, default=BLOCKS, help="of a plane (default: 120, a drive of 1 GiB)")
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    parser.add_argument("--out", help="where runs are kept (default: nowhere)")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as nowhere:
        store = ftlab.Store(chosen.out or nowhere)
        described = studies(recordings(chosen.traces, chosen.requests), chosen.seeds, chosen.blocks)
        frame = pl.concat([ftlab.study(each, out=store) for each in described], how="diagonal_relaxed")
    for error in frame.filter(pl.col("status") == "error").select("device", "map_cache.bytes", "error").unique().rows():
        click.echo(f"not run: {error}", err=True)
    quantities = ("read p99", "write p99", "write amplification")
    tables = [
        markdown(("memory", "scheme", *quantities), over_ideal(frame)),
        markdown(("recording", "memory", "read p99, us", "write p99, us", quantities[2]), best(frame)),
    ]
    if not chosen.write:
        click.echo("\n\n".join(tables))
        return
    parts = PAGE.read_text().split(BEGIN)
    if len(parts) != len(tables) + 1:
        sys.exit(f"{PAGE}: found {len(parts) - 1} places for tables, expected {len(tables)}")
    texts = [
        f"{BEGIN}\n\n{table}\n\n{END}{part.partition(END)[2]}" for table, part in zip(tables, parts[1:], strict=True)
    ]
    PAGE.write_text(parts[0] + "".join(texts))


if __name__ == "__main__":
    main()
