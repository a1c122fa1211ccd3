"""What a paper is, how its claims are judged, and how it is run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ftlab import _outputs as outputs
from ftlab.errors import InputError
from ftlab.studies import Store, Study, run_study

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import polars as pl
    from matplotlib.figure import Figure

    from ftlab._statistics import TraceStats
    from ftlab.studies import Watch

# As published; of at most two minutes on two cores; of seconds, for tests.
Size = Literal["full", "quick", "test"]
Verdict = Literal["reproduced", "direction", "not_reproduced", "not_run"]
VERDICTS: tuple[Verdict, ...] = ("reproduced", "direction", "not_reproduced", "not_run")
_VERDICTS_FILE = "verdicts.json"
# Its store is there from the first run on.
_FOLDER = outputs.Kind("a paper", lambda path: (path / "store" / "store.json").is_file(), (_VERDICTS_FILE,))


@dataclass(frozen=True)
class Claim:
    """A published claim and what became of it.

    Attributes:
        id: Short name, unique in its paper.
        text: What is claimed.
        published: The published value; ``None`` where the claim has words only.
        measured: Ours; ``None`` where nothing was measured.
        verdict: ``reproduced`` (within the tolerance that ``reason`` states), ``direction`` (another size, the same
            finding), or ``not_reproduced``. ``not_run`` is none of them: nothing was measured.
        reason: Why.
    """

    id: str
    text: str
    published: float | None
    measured: float | None
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Table:
    """A table of a report; ``None`` is what was not measured."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | None]]


class Results:
    """What the studies of a paper measured."""

    def __init__(
        self,
        frames: Mapping[str, pl.DataFrame],
        size: Size,
        statistics: Mapping[str, TraceStats] | None = None,
        logs: Mapping[str, pl.DataFrame] | None = None,
    ) -> None:
        """Take the table of each study, the statistics of workloads, and the logs of commands, each by its name."""
        self.frames, self.size = dict(frames), size
        self.statistics, self.logs = dict(statistics or {}), dict(logs or {})

    def rows(self, study: str, **where: Any) -> pl.DataFrame:
        """The finished runs of a study whose axes have these values; of none if the study was not run."""
        import polars as pl

        frame = self.frames.get(study, pl.DataFrame({"status": []}, schema={"status": pl.String}))
        frame = frame.filter(pl.col("status") == "done")
        for axis, value in where.items():
            if frame.height:
                frame = frame.filter(pl.col(axis) == value)
        return frame

    def mean(self, study: str, column: str, **where: Any) -> float | None:
        """The mean of a column over the runs that :meth:`rows` gives, which differ in their seeds."""
        frame = self.rows(study, **where)
        if not frame.height or column not in frame.columns:
            return None
        mean = frame[column].cast(float).mean()
        return float(mean) if isinstance(mean, float) else None

    @property
    def errors(self) -> list[str]:
        """What went wrong in runs."""
        return [
            f"{name}: {error}"
            for name, frame in self.frames.items()
            for error in frame.filter(frame["status"] == "error")["error"].to_list()
        ]


@dataclass(frozen=True)
class Paper:
    """A paper.

    Attributes:
        name: What the command line calls it.
        title: What it is about.
        source: Where the claims are published.
        setup: How its experiments are repeated here.
        assumed: What the source leaves open, and what is taken instead.
        studies: Its studies (``docs/reference/studies.md``), each with a name of its own.
        claims: Its claims, judged.
        tables: Further tables of its report.
        figures: Figures of its report, by file name.
        statistics: Statistics of its workloads that its claims need, by name.
        logs: Every command of its examples of a few requests, which no store keeps, by name.
    """

    name: str
    title: str
    source: str
    setup: tuple[str, ...]
    assumed: tuple[str, ...]
    studies: Callable[[Size], list[dict[str, Any]]]
    claims: Callable[[Results], list[Claim]]
    tables: Callable[[Results], list[Table]]
    figures: Callable[[Results], dict[str, Figure]]
    statistics: Callable[[Size], dict[str, TraceStats]] = field(default=lambda _: {})
    logs: Callable[[], dict[str, pl.DataFrame]] = field(default=dict)


@dataclass(frozen=True)
class Done:
    """A paper that was run.

    Attributes:
        paper: The paper.
        size: How much of it was run.
        claims: Its claims, judged.
        errors: What went wrong in runs.
        executed: Runs that were executed now; the others were in the store.
        folder: Where its report is.
    """

    paper: Paper
    size: Size
    claims: list[Claim]
    errors: list[str]
    executed: int
    folder: Path


def judge(
    id: str,
    text: str,
    published: float | None,
    measured: float | None,
    *,
    holds: bool,
    tolerance: str,
    direction: bool = False,
    otherwise: str,
) -> Claim:
    """Judge a claim.

    Args:
        id: Short name of the claim, unique in its paper.
        text: The claim.
        published: The published value; ``None`` where the paper gives words.
        measured: What was found; ``None`` if it was not measured, which is ``not_run``.
        holds: Whether what was measured meets the claim within its tolerance.
        tolerance: The tolerance in words, the reason of ``reproduced``.
        direction: Whether it at least shows the same finding.
        otherwise: The likely reason where it does not hold, or why it could not be measured.

    >>> judge("a", "is 2", 2, 2.1, holds=abs(2.1 - 2) < 0.2, tolerance="within 0.2", otherwise="").verdict
    'reproduced'
    >>> judge("a", "is 2", 2, None, holds=True, tolerance="", direction=True, otherwise="was not run").verdict
    'not_run'
    """
    verdict: Verdict = "not_run" if measured is None else "not_reproduced"
    if measured is not None and holds:
        verdict = "reproduced"
    elif measured is not None and direction:
        verdict = "direction"
    return Claim(id, text, published, measured, verdict, tolerance if verdict == "reproduced" else otherwise)


def claims_json(name: str, title: str, claims: Sequence[Claim]) -> dict[str, Any]:
    """A paper and its claims, as ``ftlab papers --json`` shows them."""
    return {"name": name, "title": title, "claims": [asdict(claim) for claim in claims]}


def last_claims(paper: Paper, home: Path) -> tuple[Size, list[Claim]] | None:
    """What the last run of a paper found, with its size; ``None`` if it has not been run into ``home``.

    Raises:
        InputError: The file of verdicts is damaged.
    """
    path = home / paper.name / _VERDICTS_FILE
    if not path.is_file():
        return None
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return kept["size"], [Claim(**claim) for claim in kept["claims"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: {error}: expected what `ftlab papers` wrote; run the paper again") from error


def run_paper(
    paper: Paper, home: Path, size: Size = "full", *, watch: Watch | None = None, overwrite: bool = False
) -> Done:
    """Run what is missing of a paper, judge its claims, and write its report into ``home/NAME``.

    Args:
        paper: The paper.
        home: The folder of reports. Results are kept in ``store`` inside the paper's own folder: running it again goes
            on from there.
        size: How much is run.
        watch: Hears how its studies go.
        overwrite: Also write into a folder that has files and no paper.

    Raises:
        ConfigError: There is such a folder.
        KeyboardInterrupt: Ctrl-C; runs that had ended are in the store.
    """
    from ftlab.papers.report import write_report

    folder = home / paper.name
    outputs.check(folder, _FOLDER, overwrite=overwrite)
    store = Store(folder / "store")
    frames, executed = {}, 0
    for spec in paper.studies(size):
        study = Study(spec)
        executed += run_study(study, store, watch=watch).executed
        frames[study.name] = store.frame(study.name)
    results = Results(frames, size, paper.statistics(size), paper.logs())
    done = Done(paper, size, paper.claims(results), results.errors, executed, folder)
    write_report(done, paper.tables(results), paper.figures(results))
    kept = {"size": size, **claims_json(paper.name, paper.title, done.claims)}
    outputs.write_whole(folder / _VERDICTS_FILE, json.dumps(kept, indent=2).encode() + b"\n")
    return done
