"""White-box characterization: six parameters of a simulated drive, extracted from response times alone."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from ftlab import figures
from ftlab.papers.frame import Claim, Paper, Results, Size, Table, judge

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from ftlab.characterize.flow import Characterization

DRIVE = "white-box-64g"
SIX = ("block_bytes", "page_bytes", "program_ns", "write_policy", "buffer_ns", "hiding_percent")
# Look-ups of addresses in SRAM, which make the small irregularities of the published curves: a choice.
_BLOCKS = 1024
_LOOKUP_EVERY, _LOOKUP_NS = 37, 2000.0
_NOISE = "metadata looked up at every 37th request, for 2 us"
_KIB = 1024


class Published(NamedTuple):
    """A row of the paper's Table 2."""

    true: float | str
    extracted: float | str
    tolerance: float


TABLE: dict[str, Published] = {
    "block_bytes": Published(128 * _KIB, 128 * _KIB, 0),
    "page_bytes": Published(2 * _KIB, 2 * _KIB, 0),
    "program_ns": Published(200_100, 200_995, 1),
    "write_policy": Published("through", "through", 0),
    "buffer_ns": Published(1_440, 1_430, 1),
    "hiding_percent": Published(100, 99.66, 0.1),
}
THRESHOLD = 101_212.5
_STEPS = {"updates": 256, "sizes": 4}


def _device() -> Any:
    from ftlab._device import Device

    # The paper's model of latency has no host link. No latency depends on the number of blocks.
    return Device.load(DRIVE, "host.link_mb_per_s=0", "host.link_duplex=full", f"geometry.blocks_per_plane={_BLOCKS}")


@functools.cache
def _measured() -> Characterization:
    """What characterization says of the drive without noise."""
    from ftlab.characterize import Flow, SimulatedTarget

    return Flow(SimulatedTarget(_device()), only=SIX).run()


def _logs() -> dict[str, pl.DataFrame]:
    """The two curves of Figure 3, with look-ups, and what was found, which no study keeps."""
    import numpy as np
    import polars as pl

    from ftlab.characterize import Noise, NoiseLevel, SimulatedTarget
    from ftlab.characterize.target import TRIM, WRITE, Batch

    target = Noise(SimulatedTarget(_device()), NoiseLevel(lookup_every=_LOOKUP_EVERY, lookup_ns=_LOOKUP_NS))
    block, page = 256, 4
    base = 64 * block
    target.send(Batch.of(WRITE, base + np.arange(0, block, page), page))
    updates = target.send(Batch.of(WRITE, np.full(6 * block // page, base), page)).latency_ns
    spots = base + (16 + np.arange(64)) * block
    target.send(Batch.of(TRIM, [16 * block + base], 64 * block))
    target.send(Batch.of(WRITE, spots, page))
    target.send(Batch.of(TRIM, spots, page))
    sizes = np.arange(1, 33)
    rows = [
        target.send(Batch.of(WRITE, spots[:32] + repetition * 32 + 32, sizes)).latency_ns for repetition in range(3)
    ]
    found = _measured()
    values = [found.value(name) for name in SIX]
    return {
        "updates": pl.DataFrame({"sectors": (np.arange(updates.size) + 1) * page, "latency_ns": updates}),
        "sizes": pl.DataFrame({"sectors": sizes, "latency_ns": np.median(rows, axis=0)}),
        "found": pl.DataFrame({"parameter": SIX, "value": [None if value is None else str(value) for value in values]}),
    }


def _found(results: Results) -> dict[str, float | str]:
    """Our values by parameter; empty where nothing was run."""
    frame = results.logs.get("found")
    if frame is None:
        return {}
    found: dict[str, float | str] = {}
    for name, value in frame.iter_rows():
        if value is not None:
            found[name] = value if name == "write_policy" else float(value)
    return found


def _period(frame: pl.DataFrame | None, size: float) -> float | None:
    """Sectors between the steps of a curve: what its latency rises by is above ``size``."""
    import numpy as np

    if frame is None:
        return None
    latency, sectors = frame["latency_ns"].to_numpy(), frame["sectors"].to_numpy()
    rises = sectors[1:][np.diff(latency) > size]
    return float(np.median(np.diff(rises))) if rises.size > 1 else None


_MISSING = "was not run"


def _claims(results: Results) -> list[Claim]:
    found = _found(results)
    claims = []
    texts = {
        "block_bytes": "Block size (bytes): updates of one place are slow once in a block",
        "page_bytes": "Page size (bytes): latency rises with each page",
        "program_ns": "Write latency of a page (ns): copies of merges less the read of the array",
        "write_policy": "Write policy: 1 for write-through",
        "buffer_ns": "Data latency of the buffer (ns)",
        "hiding_percent": "Hiding ratio (%)",
    }
    for name, published in TABLE.items():
        ours = found.get(name)
        number = float(ours == "through") if isinstance(ours, str) else ours
        true = 1.0 if isinstance(published.true, str) else float(published.true)
        said = 1.0 if isinstance(published.extracted, str) else float(published.extracted)
        within = (
            f"the true value {true:,g}, within {published.tolerance:g}"
            if published.tolerance
            else "equal to the true value"
        )
        claims.append(
            judge(
                name.replace("_", "-"),
                texts[name],
                said,
                number,
                holds=number is not None and abs(number - true) <= published.tolerance,
                tolerance=within,
                otherwise=_MISSING if number is None else f"the true value is {true:,g}",
            )
        )
    program, buffer = found.get("program_ns"), found.get("buffer_ns")
    ours_threshold = (program + buffer) / 2 if isinstance(program, float) and isinstance(buffer, float) else None
    claims.append(
        judge(
            "threshold",
            "Threshold between the write policies (ns): the mean of write latency and data latency",
            THRESHOLD,
            ours_threshold,
            holds=ours_threshold is not None and abs(ours_threshold / THRESHOLD - 1) <= 0.01,  # noqa: PLR2004 - 1 %
            tolerance="within 1 %; the paper's own values give 101,212.5",
            otherwise=_MISSING,
        )
    )
    for name, text, size in (
        ("updates", "Figure 3(a): sectors of updates from one jump of latency to the next", 1e6),
        ("sizes", "Figure 3(b): sectors of a write from one step of latency to the next", 1e5),
    ):
        measured = _period(results.logs.get(name), size)
        claims.append(
            judge(
                f"figure-{name}",
                text,
                float(_STEPS[name]),
                measured,
                holds=measured == _STEPS[name],
                tolerance="equal",
                otherwise=_MISSING if measured is None else "another period",
            )
        )
    return claims


def _tables(results: Results) -> list[Table]:
    found = _found(results)
    rows = [[name, published.true, published.extracted, found.get(name)] for name, published in TABLE.items()]
    mean = results.mean("misses", "latency_ns.read.mean")
    by_hand = 10_000 + 25_000 + 51_200.0
    check = Table(
        "Random reads of a page that miss the buffer (ns)", ("run", "H + R + X + B (1 - h)"), [[mean, by_hand]]
    )
    return [check, Table("Table 2 of the paper beside ours", ("parameter", "true", "published", "ours"), rows)]


def _figures(results: Results) -> dict[str, Figure]:
    import polars as pl

    drawn = {}
    for name, text in (("updates", "updates of one place"), ("sizes", "one write to a new block")):
        frame = results.logs.get(name)
        if frame is None:
            continue
        shown = frame.select(pl.col("sectors").cast(float), pl.col("latency_ns").cast(float))
        names = {"sectors": f"sectors: {text}"}
        drawn[f"figure-3-{name}"] = figures.line(shown, x="sectors", y="latency_ns", names=names)
    return drawn


def _studies(size: Size) -> list[dict[str, Any]]:
    """Ordinary runs beside it: characterization itself chooses requests by what earlier ones took."""
    drive = {
        "extends": DRIVE,
        "geometry": {"blocks_per_plane": _BLOCKS},
        "host": {"link_mb_per_s": 0, "link_duplex": "full", "arrival": "closed", "queue_depth": 1},
    }
    work = {
        "kind": "uniform",
        "requests": 400 if size == "test" else 20_000,
        "read_fraction": 1.0,
        "request_bytes": 2048,
    }
    return [{"name": "misses", "device": drive, "workload": work}]


_SETUP = (
    f"Drive: preset {DRIVE} with a free host link, and an eighth of its blocks, on which no latency depends.",
    "Scenarios see time stamps alone, never the device file.",
    "Six parameters are asked for; what they need, such as the read time of the array, is found from pairs of reads.",
    f"Figures 3(a) and 3(b): single scenarios, with {_NOISE}.",
)
_ASSUMED = (
    "Read 25 us, transfer 51.2 us, erase 1.5 ms, fixed time 10 us: not published.",
    "The published write latency holds all that flash takes for a page, and merges copy inside a plane.",
    "Data latency: the slope of reads from the buffer. The paper's difference of copyback and write has no sign.",
    "Hiding ratio: overlap over the shorter of both times, from reads that miss. The text gives no formula.",
)

PAPER = Paper(
    name="characterization",
    title="Characterization of a solid-state disk by its response times, as a white box",
    source="Choi, Bang, Park, Chung: Characterization for Solid-State Disk using White Box approach, 2011",
    setup=_SETUP,
    assumed=_ASSUMED,
    studies=_studies,
    claims=_claims,
    tables=_tables,
    figures=_figures,
    logs=_logs,
)
