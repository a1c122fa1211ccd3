"""A result as a short table that a person reads in one look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape

from ftlab import _warned as warned
from ftlab._running import fills_by_formula
from ftlab._units import bytes_text, count_text, throughput_text, time_text
from ftlab.cli.output import console, print_lines, table

if TYPE_CHECKING:
    from rich.console import Console

    from ftlab._result import Result

_EXPLANATIONS = {
    "throughput": "Requests completed for each second of simulated time, and the data they moved.",
    "latency": (
        "From handing a request to the drive until it is done. p99 is the time that 99 of 100 requests stay below: "
        "collections and queues show there first, while the median (p50) hardly moves."
    ),
    "write amplification": (
        "Flash pages programmed for each page that the host wrote, and why. Flash cannot overwrite: the drive "
        "gathers old copies and must move what is still valid (gc) before it can erase a block. A host share above 1 "
        "comes from requests smaller than a flash page: without a write buffer each programs a page of its own."
    ),
    "merges": (
        "Log blocks that were brought together with data blocks. A switch only changes the table, a partial merge "
        "copies what the log block lacks, and a full merge copies a whole logical block."
    ),
    "write buffer": (
        "Pages that were in the buffer when they were asked for, and what left it for flash. A write waits when no "
        "frame is free: evictions and the queues of the dies are what it waits for."
    ),
    "non-volatile cache": (
        "Pages that were in the cache when the buffer or the host asked for them, and what left it for flash."
    ),
    "GC victims": "Blocks that garbage collection emptied, and the valid pages that had to be copied out of each.",
    "mapping cache": (
        "The table of where data lies is in flash, and memory holds a part of it: what is missing is read first, and "
        "changed parts are written back. The time is what that takes on an idle drive, for each lookup."
    ),
    "wear": "How often blocks were erased; flash endures a limited number of erases.",
    "die time": "What the flash dies were busy with: the share that is not the host's is the price of the above.",
    "parallelism": "How many channels (buses) and dies worked at the same time, on average.",
    "preconditioning": "State of the drive before the measured run: an empty drive would look far too good.",
    "verified": "Every sector read was compared with the newest data written to it.",
}


def _by_cause(values: dict[str, float], digits: int) -> str:
    parts = [f"{name} {value:.{digits}f}" for name, value in values.items() if name != "total" and value]
    return " + ".join(parts)


# The share of requests beyond each percentile, and how many these must be: as the warning `few_samples` has it.
_BEYOND = {"p50": 0.5, "p90": 0.1, "p99": 0.01, "p999": 0.001}
_LEAST_BEYOND = 10
_FEW = "~"


def _print_latency(summary: dict[str, Any], out: Console) -> None:
    """Print the table of latencies, in which percentiles of too few requests are marked."""
    names = ("mean", "p50", "p90", "p99", "p999", "max")
    headings = ("latency", "requests", "mean", "p50", "p90", "p99", "p99.9", "max")

    def mark(name: str, count: int) -> str:
        return _FEW if name in _BEYOND and count * _BEYOND[name] < _LEAST_BEYOND else ""

    measured = {op: each for op, each in summary["latency_ns"].items() if each["count"] and op != "all"}
    rows = [
        (op, count_text(each["count"]), *(mark(name, each["count"]) + time_text(each[name]) for name in names))
        for op, each in measured.items()
    ]
    print_lines(table(headings, rows, right=headings[1:]))
    if any(mark(name, each["count"]) for each in measured.values() for name in names):
        out.print(f"{_FEW} fewer than ten requests were slower: another seed may give another value")


def _flash(summary: dict[str, Any]) -> list[tuple[str, str]]:
    wear = summary["wear"]
    share = wear.get("rated_share_used")
    erases = f"erases per block: mean {wear['erase_mean']:.2f}, min {wear['erase_min']}, max {wear['erase_max']}"
    rated = f" ({100 * share:.3g} % of the rated cycles)" if share is not None else ""
    return [_collections(summary), ("wear", erases + rated)]


def _collections(summary: dict[str, Any]) -> tuple[str, str]:
    """What gained space: collections, or merges of log blocks."""
    if "merges" in summary:
        merges = summary["merges"]
        kinds = ", ".join(f"{count_text(merges[kind])} {kind}" for kind in ("switch", "partial", "full"))
        logs = f"{count_text(merges['log_blocks'])} log blocks; " if merges["log_blocks"] else ""
        return "merges", f"{logs}{kinds}; {count_text(merges['pages_copied'])} pages copied"
    gc = summary["gc"]
    if not gc["collections"]:
        return "GC victims", "none"
    copied = gc["pages_copied"] / gc["collections"]
    return "GC victims", f"{count_text(gc['collections'])} blocks, {copied:.1f} valid pages copied from each"


def _memories(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """What memory beside flash has done: the write buffer and the non-volatile cache."""
    lines = []
    if buffer := summary.get("buffer"):
        evicted = f"{count_text(buffer['events'])} evictions, {count_text(buffer['pages_evicted'])} pages to flash"
        text = f"{_hits(buffer)}; {evicted}"
        if (wait := buffer.get("mean_wait_ns")) is not None:
            text += f"; wait for a frame {time_text(wait)}"
        lines.append(("write buffer", text))
    if nvm := summary.get("nvm"):
        written = nvm["evictions_host_dirty"] + nvm["evictions_collector_dirty"]
        lines.append(("non-volatile cache", f"{_hits(nvm)}; {count_text(written)} pages to flash"))
    return lines


def _hits(memory: dict[str, Any]) -> str:
    return f"{100 * memory['hit_ratio']:.2f} % of pages hit"


def facts(result: Result) -> list[tuple[str, str]]:
    """The lines of the report: heading and text."""
    summary = result.summary
    host = summary["host"]
    lines = []
    if "latency_ns" in summary:
        span = f" over {time_text(summary['simulated_ns'])} of simulated time" if summary["simulated_ns"] else ""
        lines.append(("throughput", throughput_text(host) + span))
    amplification = summary.get("write_amplification")
    if amplification and amplification["total"]:
        lines.append(("write amplification", f"{amplification['total']:.3f} = {_by_cause(amplification, 3)}"))
    # The model of a mapping cache alone has no flash.
    if result.device.to_dict().get("model") != "mapping_cache":
        lines += _flash(summary)
    lines += _memories(summary)
    cache = summary.get("map_cache")
    if cache:
        hits = f"{100 * cache['hit_ratio']:.2f} % of {count_text(cache['lookups'])} lookups hit"
        cost = f"{time_text(cache['mean_penalty_ns'])} for each on average"
        flash = (
            f"{count_text(cache['flash_reads'])} reads and {count_text(cache['flash_programs'])} programs of its pages"
        )
        lines.append(("mapping cache", f"{cache['kind']}, {bytes_text(cache['bytes'])}: {hits}, {cost}; {flash}"))
    busy = summary.get("busy_ns")
    if busy and busy["total"]:
        shares = (f"{name} {100 * ns / busy['total']:.1f} %" for name, ns in busy.items() if name != "total" and ns)
        lines.append(("die time", ", ".join(shares)))
    parallelism = summary.get("parallelism")
    if parallelism:
        shape = result.device.to_dict()["geometry"]
        dies = shape["channels"] * shape["ways"] * shape["dies"]
        if result.device.to_dict()["timing"]["independent_planes"]:
            dies, what = dies * shape["planes"], "planes"
        else:
            what = "dies"
        channels = f"{parallelism['mean_busy_channels']:.2f} of {shape['channels']} channels"
        lines.append(("parallelism", f"{channels} and {parallelism['mean_busy_dies']:.2f} of {dies} {what} busy"))
    before = summary.get("precondition")
    if before:
        unit = result.device.to_dict()["geometry"]
        written = before["pages_written"] * (unit["mapping_unit_bytes"] or unit["page_bytes"])
        lines.append(("preconditioning", f"{before['kind']}: {bytes_text(written)} written{_goal(result, before)}"))
    verify = summary.get("verify")
    if verify:
        agree = "tables agree" if verify["tables_agree"] else "TABLES DISAGREE"
        text = f"{count_text(verify['reads_checked'])} sectors read, {count_text(verify['mismatches'])} mismatches"
        lines.append(("verified", f"{text}, {agree}"))
    return lines


def _goal(result: Result, before: dict[str, Any]) -> str:
    """What is to be said when preconditioning has not reached its goal."""
    if before["reached"]:
        return ""
    device = result.device.to_dict()
    unit = device["geometry"]["mapping_unit_bytes"] or device["geometry"]["page_bytes"]
    most = device["precondition"].get("max_drive_writes", 1.0) * result.device.logical_bytes
    if before["pages_written"] * unit >= int(most / unit) * unit:
        return ", its goal was NOT reached within precondition.max_drive_writes"
    return ", then it ENDED EARLY: its goal was not reached"


def _fill(result: Result) -> str:
    """How the drive was filled."""
    if fills_by_formula(result.device, verify="verify" in result.summary):
        return "A formula stands for the fill: it takes no time, and memory only where requests touch the drive."
    return (
        "The fill was written, which takes time and memory. A formula cannot stand for it with verification, "
        "block-mapped layers, mapping caches, LSB backup, whole requests, placements other than `stripe`, planes "
        "that are compared (`plane_choice`), or a buffer or cache that brings units of several planes to one page."
    )


def show(result: Result, *, explain: bool) -> None:
    """Print a result."""
    summary = result.summary
    host = summary["host"]
    out = console()
    workload, device = escape(summary["workload"]), escape(summary["device"])
    size = f"{bytes_text(result.device.logical_bytes)} of {bytes_text(result.device.physical_bytes)} flash"
    out.print(f"[bold]{workload}[/bold] on [bold]{device}[/bold] ({size}), seed {summary['seed']}")
    for heading, text in result.stand_in_rows():
        out.print(f"[bold]{heading}[/bold]: {escape(text)}")
    counts = [f"{count_text(host['requests'])} requests"]
    counts += [f"{count_text(host[name])} {name}" for name in ("reads", "writes", "trims", "flushes") if host[name]]
    counts += [f"{count_text(host[name])} {name}" for name in ("rejected", "unfinished") if host[name]]
    if skipped := host.get("skipped_records"):
        counts.append(f"{count_text(skipped)} bad records skipped")
    out.print(", ".join(counts) + f"; simulated in {summary['wall_seconds']:.2f} s")
    if result.partial:
        out.print("[bold red]partial[/bold red]: the run ended before its workload did")
    if "latency_ns" in summary:
        out.print()
        _print_latency(summary, out)
        if explain:
            out.print(f"  [dim]{_EXPLANATIONS['latency']}[/dim]")
    out.print()
    for heading, text in facts(result):
        out.print(f"[cyan]{heading:<20}[/cyan] {text}")
        if explain:
            more = f" {_fill(result)}" if heading == "preconditioning" else ""
            out.print(f"  [dim]{_EXPLANATIONS[heading]}{more}[/dim]\n")
    for code, text, advice in warned.lines(summary):
        # What the head of the table says already needs no line.
        if code != "stand_in":
            out.print()
            out.print(f"[bold yellow]warning[/bold yellow] ({code}): {escape(text)}")
            out.print(f"  {escape(advice)}")
