"""Block size, where runs on one unit are longer than a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ftlab.characterize.detect import Interval
from ftlab.characterize.scenario import Effort, Estimate, NotApplicableError, Scenario, UndecidedError

if TYPE_CHECKING:
    from ftlab.characterize.bench import Bench


# Stripes may have chunks of a few pages; no block has so few.
_LEAST_PAGES = 16


def _run(bench: Bench, _: Effort) -> list[Estimate]:
    run, page = bench.number("run_bytes"), bench.number("page_bytes")
    if run <= page or bench.number("units", 0.0) == 1:
        raise NotApplicableError("runs are pages")
    pages = run / page
    if pages < _LEAST_PAGES or pages != int(pages) or int(pages) & (int(pages) - 1):
        raise UndecidedError(f"a run of {pages:g} pages is a chunk of a stripe, or a block of very few pages")
    return [Estimate("block_bytes", Interval(run, run, run), 0.96, note="the run of bytes on one unit")]


SCENARIO = Scenario(
    name="runs-as-blocks",
    finds=("block_bytes",),
    needs=("run_bytes", "page_bytes"),
    assumes="A layer that keeps more than a page on one unit maps by blocks.",
    sends="nothing: it uses what the pairs of runs said",
    estimator="the run, where it has 16 pages or more",
    drive_writes="none",
    run=_run,
)
