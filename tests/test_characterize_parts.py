"""Characterization: collection, buses that whole pages cross, flash that is no buffer, and values beside each other."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ftlab import Device
from ftlab.characterize import Flow, SimulatedTarget, detect
from ftlab.characterize.describe import describe
from ftlab.characterize.detect import Interval
from ftlab.characterize.report import state
from ftlab.characterize.scenario import Declined, Estimate, Scenario
from ftlab.characterize.target import READ, Times
from ftlab.characterize.truth import is_right, truths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ftlab.characterize import Batch

DRIVE = """
[geometry]
channels = 2
ways = 2
planes = 1
blocks_per_plane = 100
pages_per_block = 32
page_bytes = 4096
[timing]
read_us = 50
program_us = 300
erase_us = 2000
bus_mb_per_s = 200
[ftl]
over_provisioning = 0.15
[precondition]
kind = "fill"
"""
COLLECTION = ("gc_unit_bytes", "gc_onset_bytes", "over_provisioning", "volumes")


def test_spare_bytes_on_the_bus_are_part_of_its_true_rate() -> None:
    true = truths(Device("msr-ssd"))["bus_mb_per_s"]
    assert true == pytest.approx(40 * 4096 / 4224)
    assert truths(Device("msr-ssd").set("timing.transfer_spare=false"))["bus_mb_per_s"] == 40


def changed(*changes: str) -> Device:
    return Device.parse(DRIVE).set(*changes)


class WholePages(SimulatedTarget):
    """A drive whose reads bring whole pages over the bus, whatever is wanted."""

    page = 8

    def send(self, batch: Batch) -> Times:
        """Widen the reads."""
        first = batch.lba // self.page * self.page
        last = -(-(batch.lba + batch.sectors) // self.page) * self.page
        read = batch.op == READ
        lba, sectors = np.where(read, first, batch.lba), np.where(read, last - first, batch.sectors)
        return super().send(replace(batch, lba=lba, sectors=sectors))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("channels", "ways"), [(2, 2), (1, 3), (3, 2)])
def test_a_bus_that_whole_pages_cross_is_no_free_one(channels: int, ways: int) -> None:
    drive = changed(f"geometry.channels={channels}", f"geometry.ways={ways}", "geometry.blocks_per_plane=200")
    found = Flow(WholePages(drive), only=("channels", "ways", "read_ns", "bus_mb_per_s")).run()
    assert (found.value("channels"), found.value("ways")) == (channels, ways)
    assert found.value("read_ns") == pytest.approx(50_000, abs=2)
    assert found.value("bus_mb_per_s") == pytest.approx(200, rel=1e-3)


def test_a_unit_on_each_bus_leaves_an_assumption_in_the_reason() -> None:
    found = Flow(WholePages(changed("geometry.channels=4", "geometry.ways=1")), only=("channels", "read_ns")).run()
    assert found.value("channels") is None
    assert "unless each of the 4 units has its own" in found.findings["read_ns"].reason


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "changes", [(), ("ftl.striping=dynamic",), ("geometry.planes=2", "geometry.blocks_per_plane=60")]
)
def test_collection_is_found(changes: tuple[str, ...]) -> None:
    drive = changed(*changes)
    found, true = Flow(SimulatedTarget(drive), only=COLLECTION).run(), truths(drive)
    for name in ("gc_unit_bytes", "volumes"):
        assert found.value(name) == true[name], name
    # A row of pages is not resolved.
    onset = found.findings["gc_onset_bytes"].value
    assert isinstance(onset, Interval)
    assert onset.holds(float(true["gc_onset_bytes"]))
    spare = found.findings["over_provisioning"]
    assert spare.status == "found" if not changes else spare.status in {"found", "unknown"}
    # The model has as many blocks and planes as the drive.
    _, model, _ = describe(found, drive.logical_bytes // 512)
    assert model.physical_bytes == drive.physical_bytes


@pytest.mark.parametrize("kind", ["bast", "block"])
def test_merges_are_no_collection(kind: str) -> None:
    drive = changed(f"ftl.kind={kind}", *(["ftl.log_blocks=4"] if kind == "bast" else []))
    found = Flow(SimulatedTarget(drive), only=COLLECTION).run()
    statuses = {name: each.status for name, each in found.findings.items()}
    assert statuses["gc_onset_bytes"] == statuses["volumes"] == "not_applicable"
    assert statuses["over_provisioning"] == "unknown"
    if kind == "bast":
        assert found.value("gc_unit_bytes") == truths(drive)["gc_unit_bytes"]
    else:
        assert statuses["gc_unit_bytes"] == "not_applicable"


def test_the_erase_of_a_layer_that_moves_blocks_is_found() -> None:
    found = Flow(SimulatedTarget(changed("ftl.kind=block")), only=("erase_ns",)).run()
    assert found.value("erase_ns") == pytest.approx(2_000_000, rel=1e-3)


def test_one_unit_of_flash_is_no_memory() -> None:
    drive = changed("geometry.channels=1", "geometry.ways=1", "geometry.blocks_per_plane=400")
    found = Flow(SimulatedTarget(drive), only=("buffer_bytes", "page_bytes", "channels", "read_ns")).run()
    assert (found.value("buffer_bytes"), found.value("page_bytes"), found.value("channels")) == (0, 4096, 1)
    assert found.value("read_ns") == pytest.approx(50_000, abs=2)


def test_the_buffer_and_what_it_hides_are_found() -> None:
    drive = changed("buffer.kind=lru", "buffer.bytes=2097152", "buffer.access_us=2", "buffer.hiding=0.25")
    found = Flow(SimulatedTarget(drive), only=("buffer_ns", "hiding_percent")).run()
    assert found.value("buffer_ns") == pytest.approx(2000, abs=1)
    assert found.value("hiding_percent") == pytest.approx(25, abs=0.2)


@pytest.mark.parametrize(
    "changes",
    [
        ("map_cache.kind=dftl", "map_cache.bytes=16384"),
        ("cell.kind=mlc", "timing.read_us={lsb=40,msb=75}", "timing.program_us={lsb=300,msb=900}"),
    ],
)
def test_what_is_faster_flash_is_no_buffer(changes: tuple[str, ...]) -> None:
    found = Flow(SimulatedTarget(changed(*changes)), only=("buffer_bytes", "read_buffer_bytes")).run()
    assert [found.value(name) or 0 for name in ("buffer_bytes", "read_buffer_bytes")] == [0, 0]


@pytest.mark.long
def test_slow_and_fast_pages_are_no_blocks() -> None:
    drive = Device.load("flexonenand")
    found, true = Flow(SimulatedTarget(drive)).run().findings, truths(drive)
    assert "slow and fast pages" in found["block_bytes"].reason
    assert all(each.status != "found" or is_right(each, true[name]) for name, each in found.items())


@pytest.mark.long
def test_what_is_seen_of_hidden_erases_is_no_larger_block() -> None:
    # Of eight erases in a row, two are seen: the others end before their planes have their turn again.
    changes = ("geometry.planes=2", "timing.independent_planes=true", "geometry.pages_per_block=64")
    times = ("timing.program_us=500", "timing.erase_us=3000", "ftl.over_provisioning=0.2", "ftl.striping=dynamic")
    drive = changed(*changes, *times, "geometry.blocks_per_plane=64", "precondition.kind=none")
    found, true = Flow(SimulatedTarget(drive)).run().findings, truths(drive)
    assert "some erases may be hidden" in found["block_bytes"].reason
    assert all(each.status != "found" or is_right(each, true[name]) for name, each in found.items() if name in true)


def made(said: Callable[[], Sequence[Estimate | Declined]]) -> Flow:
    """A flow of one scenario."""
    scenario = Scenario(
        name="made",
        finds=("read_ns", "erase_ns"),
        needs=(),
        assumes="",
        sends="",
        estimator="",
        drive_writes="",
        run=lambda _bench, _effort: said(),
    )
    return Flow(SimulatedTarget(changed()), only=("read_ns", "erase_ns"), scenarios=(scenario,))


def test_an_impossible_value_leaves_those_beside_it() -> None:
    good, bad = Estimate("read_ns", Interval.around(50_000, 1)), Estimate("erase_ns", Interval.around(-5, 1))
    flow = made(lambda: [bad, good])
    found = flow.run().findings
    assert {name: each.status for name, each in found.items()} == {"read_ns": "found", "erase_ns": "unknown"}
    assert "a time that it follows from is wrong" in found["erase_ns"].reason
    again = made(list)
    again.resume(json.loads(json.dumps(state(flow.result))))
    assert again.run().document()["parameters"] == flow.result.document()["parameters"]


def test_a_parameter_that_is_declined_has_its_reason() -> None:
    flow = made(lambda: [Estimate("read_ns", Interval.around(50_000, 1)), Declined("erase_ns", "copies are in it")])
    assert "copies are in it" in flow.run().findings["erase_ns"].reason


class Coarse(SimulatedTarget):
    """A drive whose clock has coarse steps."""

    def send(self, batch: Batch) -> Times:
        """Round the stamps."""
        times = super().send(batch)
        return Times(times.start_ns // 1000 * 1000, times.end_ns // 1000 * 1000)


def test_the_step_of_a_clock_does_not_outlive_its_flow() -> None:
    drive = changed("host.overhead_us=50")
    found = Flow(Coarse(drive), only=("host_overhead_ns",)).run().findings["host_overhead_ns"]
    assert isinstance(found.value, Interval)
    assert found.value.half >= 500
    assert detect.rounding_ns() == detect.RESOLUTION_NS


@pytest.mark.long
def test_nothing_is_sent_beyond_a_small_drive() -> None:
    # Reads of two lengths leave runs undecided, which are tried again with more pairs.
    times = ("timing.read_us={lsb=40, msb=70}", "timing.program_us={lsb=300, msb=1100}")
    drive = changed("cell.kind=mlc", "cell.page_order=adjacent", *times)
    found = Flow(SimulatedTarget(drive), only=("chunk_bytes",)).run()
    told = str(found.findings["chunk_bytes"])
    assert "runs have no length" in told
    assert "refuses" not in told


SLOW_LINK = ("timing.read_us=25", "host.link_mb_per_s=15", "host.overhead_us=50")
ONE_DIE = ("geometry.channels=1", "geometry.ways=1", "precondition.kind=none")
MLC = ("cell.kind=mlc", "timing.program_us={lsb=500, msb=1200}", "timing.erase_us=3000", "precondition.kind=none")
BUFFER = ("buffer.kind=lru", "buffer.bytes=1MiB", "buffer.access_us=2")
HIDING = (*BUFFER, "buffer.hiding=0.5", "host.link_mb_per_s=600")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("keys", "unknown"),
    [
        (SLOW_LINK, {"page_bytes", "channels", "read_ns"}),
        (("geometry.page_bytes=16384", "timing.read_us=14", "host.link_mb_per_s=20"), {"page_bytes", "read_ns"}),
        ((*ONE_DIE, "geometry.planes=2", "timing.independent_planes=true"), {"block_bytes", "erase_ns"}),
        ((*ONE_DIE, "geometry.planes=4", "timing.independent_planes=true"), {"block_bytes", "erase_ns"}),
        ((*MLC, "ftl.kind=bast"), {"erase_ns"}),
        ((*MLC, "ftl.kind=fast"), {"erase_ns"}),
        ((*HIDING, "buffer.mb_per_s=3000"), {"link_mb_per_s", "read_ns"}),
        ((*HIDING, "buffer.kind=bplru"), {"link_mb_per_s"}),
        ((*BUFFER, "buffer.write=through"), set()),
        (("buffer.kind=lru", "buffer.bytes=4096", "buffer.access_us=2"), {"buffer_bytes", "read_buffer_bytes"}),
        (("map_cache.kind=dftl", "map_cache.bytes=8192", "precondition.kind=none"), {"link_mb_per_s"}),
        (("timing.command_us=2", "ftl.kind=block", "precondition.kind=none"), set()),
    ],
)
def test_what_hides_a_part_of_a_drive_makes_it_unknown_and_not_wrong(keys: tuple[str, ...], unknown: set[str]) -> None:
    drive = changed("geometry.blocks_per_plane=256", "host.overhead_us=5", "host.link_mb_per_s=300", *keys)
    found = Flow(SimulatedTarget(drive)).run()
    true = truths(drive)
    wrong = {
        name: (finding.value, true[name])
        for name, finding in found.findings.items()
        if name in true and finding.status == "found" and not is_right(finding, true[name])
    }
    assert not wrong
    assert {name for name in unknown if found.findings[name].status == "found"} == set()
    assert all(finding.status != "conflict" for name, finding in found.findings.items() if name != "program_ns")


def test_a_size_that_is_no_multiple_of_a_page_has_a_model() -> None:
    drive = changed("geometry.channels=3", "geometry.page_bytes=8192", "geometry.mapping_unit_bytes=2048")
    target = SimulatedTarget(drive)
    assert target.capacity * 512 % 8192
    text, model, assumed = describe(Flow(target, only=("page_bytes",)).run(), target.capacity)
    assert "mapping_unit_bytes = 4096  # assumed" in text
    assert "mapping_unit_bytes" in assumed
    assert model.logical_bytes == target.capacity * 512
