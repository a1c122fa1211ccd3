"""From results to the file of a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ftlab import _outputs as outputs
from ftlab._checks import checked, utf8
from ftlab._reporting.data import RunData, from_folder, from_result, from_store
from ftlab._result import Result
from ftlab.errors import ConfigError
from ftlab.studies import Store

if TYPE_CHECKING:
    import os

_FILE = "report.html"


def _opened(source: Path) -> RunData | Store:
    """A folder as what it is: of a run, or a store of studies."""
    outputs.restore(source)
    if not source.is_dir():
        raise ConfigError(f"{source}: {'is a file' if source.exists() else 'no such directory'}, expected a directory")
    if (source / "store.json").is_file():
        return Store(utf8(source), create=False)
    if (source / "verdicts.json").is_file():
        raise ConfigError(
            f"{source}: the folder of a paper, whose report is {source / _FILE}; its runs are in {source / 'store'}"
        )
    if (source / "summary.json").is_file():
        return from_folder(source)
    inside = sorted(path.parent.name for mark in ("store.json", "summary.json") for path in source.glob(f"*/{mark}"))
    hint = f"; one level down there are: {', '.join(inside)}" if inside else ""
    raise ConfigError(
        f"{source}: no results: it has neither summary.json (`ftlab run --out`) nor store.json "
        f"(`ftlab study run`){hint}"
    )


@checked
def report(
    source: Result | Store | str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    study: str | None = None,
    run: str | None = None,
    title: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a report: one page of HTML that needs no network and no other file.

    The same results give the same bytes.

    Args:
        source: A result, a store of studies, or the directory of either (``ftlab run --out``, ``ftlab study run``).
        out: The file. Default: ``report.html`` in the directory of the results, or in the current one.
        study: Which study of a store. Default: the newest.
        run: The key of a run in a store, or how it begins: a report of this run instead of a study.
        title: The title. Default: what was run.
        overwrite: Also write over a file that is no report of ftlab's.

    Returns:
        The file.

    Raises:
        ConfigError: There are no such results, or the file is there and is no report of ftlab's.
        InputError: A file of the results cannot be read.
    """
    from ftlab._reporting.run import run_page
    from ftlab._reporting.study import study_page

    folder = Path()
    found: Result | Store | RunData
    if isinstance(source, Result | Store):
        found = source
    else:
        folder = Path(source)
        found = _opened(folder)
    if isinstance(found, Store):
        folder = found.folder
    path = folder / _FILE if out is None else Path(out)
    outputs.check(path, outputs.PAGE, overwrite=overwrite)
    if isinstance(found, Store):
        if study is not None and run is not None:
            raise ConfigError("give a study or a run, not both: the report is about one of them")
        page = study_page(found, study, title) if run is None else run_page(from_store(found, run), title)
    else:
        if study is not None or run is not None:
            raise ConfigError("a study or a run is chosen from a store of studies; this is the result of one run")
        page = run_page(from_result(found) if isinstance(found, Result) else found, title)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error
    # A path in the page need not be text.
    outputs.write_whole(path, page.encode(errors="replace"))
    return path
