"""What a run measured."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ftlab import _outputs as outputs
from ftlab import _warned as warned
from ftlab._checks import checked
from ftlab._rows import as_html, as_text
from ftlab._signals import import_whole
from ftlab._units import count_text, throughput_text, time_text
from ftlab._workload import Trace, Workload

if TYPE_CHECKING:
    import tempfile
    from collections.abc import Mapping

    import numpy as np
    import polars as pl
    from matplotlib.figure import Figure

    from ftlab._device import Device
    from ftlab._explaining import Explanation


def inputs_of(workload: Any) -> list[Path]:
    """The files that a workload is read from, as far as it says so."""
    if isinstance(workload, Trace):
        return [workload.path]
    if isinstance(workload, Workload) and "trace" in workload.to_dict():
        return [Path(workload.to_dict()["trace"])]
    return []


def repeated_by(device: Device, workload: Any) -> dict[str, str]:
    """What repeats a run beside its options, as text files by name.

    ``device.toml`` with every parameter, and ``workload.toml`` or ``trace.txt``. The last has the trace's path;
    ``workload.toml`` stands beside it if there is more to say about reading the trace. A table has none.
    """
    files = {"device.toml": device.to_toml()}
    if isinstance(workload, Workload):
        files["workload.toml"] = workload.to_toml()
    elif isinstance(workload, Trace):
        files["trace.txt"] = f"{workload.path.resolve()}\n"
        if len(workload.keys()) > 1:
            # The path alone would not repeat the run.
            files["workload.toml"] = workload.to_toml()
    return files


def _arrays(columns: Mapping[str, tuple[str, bytes]]) -> dict[str, np.ndarray[Any, Any]]:
    import numpy as np

    return {name: np.frombuffer(data, dtype=kind) for name, (kind, data) in columns.items()}


class Result:
    """What a run measured: the summary document, latencies, a time series, and a row per request on demand.

    Attributes:
        device: The device that was run.
        workload: The workload that was run: a trace, a workload, or a table.
        interrupted: Whether Ctrl-C ended the run.
    """

    @checked
    def __init__(
        self,
        *,
        device: Device,
        workload: Any,
        summary_json: str,
        series: Mapping[str, tuple[str, bytes]] | None,
        coarse_series: Mapping[str, tuple[str, bytes]] | None = None,
        requests_log: Path | None,
        interrupted: bool,
        options: Mapping[str, Any] | None = None,
        keep: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        """Made by :func:`ftlab.run`."""
        self.device = device
        self.workload = workload
        #: The summary document as JSON, as the run gave it.
        self.summary_json = summary_json
        self.interrupted = interrupted
        self._options = dict(options or {})
        self._series = series
        self._coarse_series = coarse_series
        self._request_log = requests_log
        # A temporary request log lives as long as its result.
        self._keep = keep

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """The summary document (schema 1, see ``docs/reference/summary.md``)."""
        found: dict[str, Any] = json.loads(self.summary_json)
        return found

    @property
    def partial(self) -> bool:
        """Whether the run ended before its workload did."""
        return bool(self.summary["partial"])

    @property
    def write_amplification(self) -> float | None:
        """Mapping units programmed for each one that the host wrote; ``None`` when it wrote nothing."""
        measured = self.summary.get("write_amplification")
        return None if measured is None else float(measured["total"])

    @property
    def latency(self) -> pl.DataFrame:
        """Latency by operation: a row each for all, read, write, trim and flush.

        Columns are ``op``, ``count``, and times such as ``mean_ns`` and ``p99_ns``, which are null where there was no
        such request. Empty without timing.
        """
        import polars as pl

        rows = [
            {"op": op, **(values if values["count"] else dict.fromkeys(values) | {"count": 0})}
            for op, values in self.summary.get("latency_ns", {}).items()
        ]
        frame = pl.DataFrame(rows, infer_schema_length=None)
        return frame.rename({name: f"{name}_ns" for name in frame.columns if name not in {"op", "count"}})

    @property
    def series(self) -> pl.DataFrame | None:
        """The time series, one row an interval; ``None`` when none was asked for."""
        import polars as pl

        columns = self.series_arrays()
        return None if columns is None else pl.DataFrame(columns)

    @property
    def coarse_series(self) -> pl.DataFrame:
        """The time series that every run keeps: as :attr:`series` without the columns of parts, in 256 rows at most."""
        import polars as pl

        return pl.DataFrame(self.coarse_series_arrays())

    @property
    def warnings(self) -> list[dict[str, Any]]:
        """What a reader of the numbers must know: dictionaries with ``code``, ``text``, ``advice`` and ``found``."""
        return list(self.summary.get("warnings", []))

    def series_arrays(self) -> dict[str, np.ndarray[Any, Any]] | None:
        """The time series as NumPy arrays by column; ``None`` when none was asked for."""
        return None if self._series is None else _arrays(self._series)

    def coarse_series_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The time series that every run keeps as NumPy arrays by column."""
        return _arrays(self._coarse_series or {})

    @property
    def requests(self) -> pl.DataFrame | None:
        """A row for every completed request, in order of completion; ``None`` without ``requests_log``."""
        import polars as pl

        return None if self._request_log is None else pl.read_parquet(self._request_log.read_bytes())

    @property
    def requests_log(self) -> Path | None:
        """The Parquet file of :attr:`requests`."""
        return self._request_log

    @checked
    def explain(
        self,
        *,
        slowest: int | None = None,
        percentile: float | None = None,
        request: int | None = None,
        op: str | None = None,
    ) -> Explanation:
        """Say where the time of slow requests went: see :func:`ftlab.explain`.

        Raises:
            ConfigError: The run kept no request log, or the choice is out of range.
            InputError: There is no such request.
        """
        import dataclasses

        from ftlab._explaining import explain
        from ftlab.errors import ConfigError

        requests = self.requests
        if requests is None:
            raise ConfigError("the run kept no request log: run it with requests_log=True")
        chosen: dict[str, Any] = {"slowest": slowest, "percentile": percentile, "request": request, "op": op}
        found = explain(requests, device=self.device, **chosen)
        return dataclasses.replace(found, partial=self.partial, warnings=tuple(self.warnings))

    def plot(self) -> Figure:
        """Draw write amplification, throughput and latency over time.

        Raises:
            ConfigError: The run kept no time series.
        """
        from ftlab._plot import plot

        return plot(self)

    def files(self) -> dict[str, str]:
        """What the run was and what it measured, as text files by name.

        ``summary.json``, ``run.json`` (seed and options), ``device.toml`` (every parameter, so that the run can be
        repeated), and ``workload.toml`` or ``trace.txt``. The last has the trace's path; ``workload.toml`` stands
        beside it if there is more to say about reading the trace.
        """
        return {
            "summary.json": json.dumps(self.summary, indent=2) + "\n",
            "run.json": json.dumps(self._options, indent=2) + "\n",
            **repeated_by(self.device, self.workload),
        }

    @checked
    def write(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the result into a directory.

        The files that :meth:`files` gives, with a request log ``requests.parquet``, and with a time series
        ``series.parquet``, ``plot.png`` and ``plot.svg``.
        They take the place of another result in one step; other files there are kept.

        Args:
            folder: The directory.
            overwrite: Also write into one that has files and no result, or over the trace of the run.

        Raises:
            ConfigError: The directory has other files and no result, or the trace of the run is one of these files.
        """
        folder = Path(folder)
        outputs.check(
            folder, outputs.RESULT, inputs=inputs_of(self.workload), called="the trace of the run", overwrite=overwrite
        )
        with outputs.whole_folder(folder, outputs.RESULT) as place:
            log = self._request_log
            if log is not None and log.exists():
                kept = place / "requests.parquet"
                if log.resolve() == (folder / kept.name).resolve():
                    os.link(log, kept)
                else:
                    import shutil

                    shutil.copyfile(log, kept)
            self._write_files(place)
            self._draw(place)

    def _write_files(self, folder: Path) -> None:
        """Write everything but the plot, and the request log, which is written during the run."""
        for name, text in self.files().items():
            # A path need not be text.
            (folder / name).write_bytes(text.encode(errors="surrogateescape"))
        series = self.series
        if series is not None:
            with (folder / "series.parquet").open("wb") as file:
                series.write_parquet(file)

    def _draw(self, folder: Path) -> None:
        """Draw the plot, where there is a series. Whoever interrupts that finds nothing drawn."""
        series = self.series
        if series is None or not series.height:
            return
        import_whole("ftlab._plot")
        from ftlab.figures.saving import write

        files = [folder / "plot.png", folder / "plot.svg"]
        try:
            write(self.plot(), files, dpi=150)
        except KeyboardInterrupt:
            for file in files:
                file.unlink(missing_ok=True)
            raise

    def to_dict(self) -> dict[str, Any]:
        """A copy of the summary document."""
        copy: dict[str, Any] = json.loads(json.dumps(self.summary))
        return copy

    def stand_in_rows(self) -> list[tuple[str, str]]:
        """What the workload stands for, and whether it was generated; empty when it is no stand-in."""
        stand_in = self.summary.get("stand_in")
        if stand_in is None:
            return []
        recording = stand_in.get("recording")
        if recording is not None:
            return [("recording", f"{stand_in['stands_for']} ({recording})")]
        uncalibrated = stand_in.get("uncalibrated")
        told = "" if uncalibrated is None else f"; uncalibrated: {uncalibrated}"
        return [("stand-in for", f"{stand_in['stands_for']}; generated, not recorded{told}")]

    def rows(self) -> list[tuple[str, str]]:
        """The main numbers as pairs of name and text, with units."""
        summary = self.summary
        host = summary["host"]
        rows = [
            ("device", str(summary["device"])),
            ("workload", str(summary["workload"])),
            *self.stand_in_rows(),
            ("requests completed", f"{count_text(host['completed'])} of {count_text(host['requests'])}"),
        ]
        if "latency_ns" in summary:
            rows.append(("throughput", throughput_text(host)))
            for op in ("read", "write"):
                latency = summary["latency_ns"][op]
                if latency["count"]:
                    texts = (f"{name} {time_text(latency[name])}" for name in ("mean", "p50", "p99", "p999", "max"))
                    rows.append((f"{op} latency", ", ".join(texts)))
        if "write_amplification" in summary:
            rows.append(("write amplification", f"{summary['write_amplification']['total']:.3f}"))
        wear = summary["wear"]
        rows.append(("erases per block", f"mean {wear['erase_mean']:.2f}, max {wear['erase_max']}"))
        rows += [(f"warning ({code})", f"{text}; {advice}") for code, text, advice in warned.lines(summary)]
        return rows

    def __repr__(self) -> str:
        """The main numbers."""
        title = "ftlab.Result (partial)" if self.partial else "ftlab.Result"
        return as_text(title, self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), "partial: the run ended early" if self.partial else None)
