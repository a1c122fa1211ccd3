"""Numbers as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def bytes_text(count: float) -> str:
    """A size in binary units.

    >>> bytes_text(28752740352), bytes_text(512)
    ('26.8 GiB', '512 B')
    """
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.1f} {unit}"
    return f"{count:.0f} B"


def rate_text(bytes_per_second: float) -> str:
    """A data rate in decimal units, as data sheets state them.

    >>> rate_text(40e6), rate_text(512)
    ('40.0 MB/s', '512 B/s')
    """
    for factor, unit in ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")):
        if bytes_per_second >= factor:
            return f"{bytes_per_second / factor:.1f} {unit}"
    return f"{bytes_per_second:.0f} B/s"


# Below this many requests a second, whole numbers would say too little.
_SLOW_IOPS = 10


def iops_text(iops: float) -> str:
    """Requests a second: whole from 10 on, with three digits for the slow pace of a week-long trace.

    >>> iops_text(18324.7), iops_text(0.052795)
    ('18,325 IOPS', '0.0528 IOPS')
    """
    return f"{round(iops):,} IOPS" if iops >= _SLOW_IOPS else f"{iops:.3g} IOPS"


def throughput_text(host: Mapping[str, Any]) -> str:
    """Requests and bytes a second, of the summary's numbers of the host.

    >>> throughput_text({"completed": 7, "iops": 70.0, "bytes_per_second": 7e6})
    '70 IOPS, 7.0 MB/s'
    >>> throughput_text({"completed": 7, "iops": 0.0, "bytes_per_second": 0.0})
    'not measured: requests took no time'
    """
    if host["completed"] and not host["iops"]:
        return "not measured: requests took no time"
    return f"{iops_text(host['iops'])}, {rate_text(host['bytes_per_second'])}"


def time_text(ns: float) -> str:
    """A span of time with three significant digits or more.

    >>> time_text(132511), time_text(2.5e9), time_text(80)
    ('132.5 us', '2.50 s', '80 ns')
    """
    for factor, unit, digits in ((1e9, "s", 2), (1e6, "ms", 2), (1e3, "us", 1)):
        if ns >= factor:
            return f"{ns / factor:,.{digits}f} {unit}"
    return f"{ns:.0f} ns"


def count_text(count: float) -> str:
    """A count with separators.

    >>> count_text(1234567), count_text(0.25)
    ('1,234,567', '0.25')
    """
    return f"{count:,.0f}" if count == int(count) else f"{count:,.2f}"
