"""Program and erase time, from merges that copy more or fewer pages: the paper's way."""

from __future__ import annotations

import numpy as np

from ftlab.characterize.bench import MIB, Array, Bench
from ftlab.characterize.detect import Interval, line
from ftlab.characterize.scenario import Effort, Estimate, NotApplicableError, Plot, Scenario, UndecidedError
from ftlab.characterize.scenarios.updates import rhythm
from ftlab.characterize.scenarios.writes import unhidden
from ftlab.characterize.target import SECTOR_BYTES

# Shares of a block that are valid: never all of it, or the log block takes its place.
_SHARES = (1, 2, 4, 6, 7)
_PARTS = 8
_MERGES = 8
# Pages are of one class if they take as long, up to this share of what a merge takes.
_SAME = 0.03
# Medians of noise are this far apart at most, in median deviations of a round by the root of the rounds.
_BEYOND_NOISE = 12.0
# A merge of this many blocks erases the old block and the log block.
_ERASES = 2


def _merge_costs(bench: Bench, effort: Effort, page: int, block: int) -> dict[float, np.ndarray]:
    """Extra time of merges by the pages that they copy."""
    costs: dict[float, np.ndarray] = {}
    merges = max(_MERGES, effort.repetitions)
    for share in _SHARES:
        valid = block * share // _PARTS
        base = bench.region(4 * MIB)
        bench.trim(base, 4 * MIB)
        places = base + np.arange(valid + merges * block) % valid * page
        latency = bench.durable_writes(places, page)[valid + block :]
        found = rhythm(latency, (block,))
        if found is None or found.period != block or found.width != 1:
            raise UndecidedError("merges do not come once in a block", repetitions=2)
        folded = latency[: latency.size // block * block].reshape(-1, block)
        phase = int(np.argmax(np.median(folded, axis=0)))
        costs[float(valid)] = folded[:, phase] - found.ordinary.value
        bench.known["_ordinary"] = found.ordinary
    return costs


def _run(bench: Bench, effort: Effort) -> list[Estimate]:
    if bench.known.get("translation") != "bast":
        raise NotApplicableError("updates are not kept in log blocks of one block each")
    page_bytes = bench.number("page_bytes")
    page, block = int(page_bytes) // SECTOR_BYTES, int(bench.number("block_bytes") / page_bytes)
    costs = _merge_costs(bench, effort, page, block)
    intercept, slope = line(costs).coefficients
    read, bus = bench.interval("read_ns"), bench.interval("bus_sector_ns")
    if read is None or bus is None:
        raise UndecidedError("read and transfer times are not known")
    ordinary = bench.known.pop("_ordinary", None)
    host, link = bench.interval("host_overhead_ns"), bench.interval("link_sector_ns")
    if host is None or link is None or not isinstance(ordinary, Interval):
        raise UndecidedError("fixed time, link and an ordinary write are not known")
    back = bench.known.get("write_policy") == "back"
    hidden = (bench.interval("buffer_ns") or Interval(0.0, 0.0, 0.0)) if back else unhidden(bench)
    # A durable write is two requests: the write, and the flush.
    flash = ordinary - host * 2 - link * page - hidden
    transfer = bus * page
    copy = slope - read
    forms = {
        "apart": (copy - transfer * 2, flash - transfer),
        "apart, copied inside": (copy, flash - transfer),
        "included, copied inside": (copy, flash),
    }
    word, (program, _) = min(forms.items(), key=lambda form: abs(form[1][0].value - form[1][1].value))
    room = max(0.02 * flash.value, 4 * program.half, flash.half)
    if abs(program.value - forms[word][1].value) > room:
        raise UndecidedError("a copy is neither read and program nor with transfers", repetitions=4)
    points = {k: values.tolist() for k, values in costs.items()}
    plot = Plot(
        "pages copied",
        "extra time of the merge (ns)",
        {"merges": ([k for k in points for _ in points[k]], [y for k in points for y in points[k]])},
    )
    # Where transfers are too short to be told apart, all forms say the same.
    word = word if transfer.value > 2 * room else "apart"
    return [
        Estimate("program_ns", program, plot=plot, note=f"transfer {word}"),
        Estimate("erase_ns", intercept * (1 / _ERASES), plot=plot, note="two erases of a merge"),
        Estimate("program_form", word),
        Estimate("copy_ns", slope),
    ]


def _classes(rounds: Array) -> tuple[float, float] | None:
    """What pages of a block take that are fast or slow in all rounds; ``None`` where noise would differ as much."""
    middles = np.median(rounds, axis=0)
    low, high = (float(np.quantile(middles, share)) for share in (0.1, 0.9))
    noise = float(np.median(np.abs(rounds - middles))) / np.sqrt(rounds.shape[0])
    return (low, high) if high - low > _BEYOND_NOISE * noise else None


def _switch(bench: Bench, effort: Effort) -> list[Estimate]:
    """Blocks that are overwritten in order: the log block takes the place of the old one, which is erased."""
    if bench.known.get("translation") not in {"bast", "fast"}:
        raise NotApplicableError("updates are not kept in log blocks")
    page_bytes = bench.number("page_bytes")
    page, block = int(page_bytes) // SECTOR_BYTES, int(bench.number("block_bytes") / page_bytes)
    base = bench.region(max(4 * MIB, block * page * SECTOR_BYTES))
    bench.fill(base, max(4 * MIB, block * page * SECTOR_BYTES))
    rounds = max(_MERGES, effort.repetitions)
    latency = bench.durable_writes(base + np.arange((rounds + 1) * block) % block * page, page)[block:]
    found = rhythm(latency, (block,))
    if found is None or found.period != block or found.width != 1:
        raise UndecidedError("overwriting in order has no rhythm of a block", repetitions=2)
    extra = found.slow - found.ordinary
    classes = _classes(latency[: latency.size // block * block].reshape(-1, block))
    if classes is not None and classes[1] - classes[0] > _SAME * extra.value:
        # Which of the pages the slow one is, nothing tells.
        seen = f"pages take {classes[0]:,.0f} to {classes[1]:,.0f} ns"
        raise UndecidedError(f"{seen}, and which of them waits for the erase is not known")
    plot = Plot(
        "page", "time until durable (ns)", {"in order": (list(range(2 * block)), latency[: 2 * block].tolist())}
    )
    return [Estimate("erase_ns", extra, plot=plot)]


FULL = Scenario(
    name="merges-of-k-pages",
    finds=("program_ns", "erase_ns"),
    needs=(
        "page_bytes",
        "block_bytes",
        "translation",
        "read_ns",
        "bus_sector_ns",
        "host_overhead_ns",
        "link_sector_ns",
    ),
    assumes="A full merge copies the valid pages of a block and erases two blocks (the paper, 6.3).",
    sends="trimmed blocks of which an eighth to seven eighths are written, again and again, until they are merged",
    estimator="weighted least squares over copied pages: slope less the read of the array; half of the intercept",
    drive_writes="about 50 blocks",
    run=_run,
)
SWITCH = Scenario(
    name="switch-merges",
    finds=("erase_ns",),
    needs=("page_bytes", "block_bytes", "translation"),
    assumes="A log block that holds a whole block in order takes its place, and one block is erased.",
    sends="a block, overwritten in order again and again",
    estimator="slow writes less ordinary ones, means without outliers",
    drive_writes="about 16 blocks",
    run=_switch,
)
