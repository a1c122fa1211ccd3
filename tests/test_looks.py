"""Reports, figures and the site as they are seen: at two widths, light and dark, in Chromium.

Part of the long tests (`make test-long`). Skipped where PyQt6-WebEngine is not installed: `make looks` installs it.
With `FTLAB_LOOKS=DIR`, pictures of the pages are kept in DIR.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ftlab as package
from conftest import ROOT

if "FTLAB_LONG" not in os.environ:
    pytest.skip("opens a browser: part of the long tests", allow_module_level=True)
pytest.importorskip("PyQt6.QtWebEngineCore", reason="PyQt6-WebEngine is not installed: `make looks` installs it")

WIDTHS = (1280, 400)
SCHEMES = ("light", "dark")
STUDY = {
    "name": "spare",
    "device": "ideal-page",
    "workload": ["uniform", {"kind": "hotcold", "label": "skewed"}],
    "set": {"geometry": {"blocks_per_plane": 64, "pages_per_block": 16}, "workload.requests": 2000},
    "axes": {"ftl.gc": ["greedy", "fifo", "random"], "ftl.over_provisioning": [0.1, 0.2, 0.4]},
    "repetitions": 2,
}
SITE_PAGES = ("", "guides/tutorial/", "reference/device-keys/", "reference/schemes/", "guides/questions/")


def run_report(folder: Path) -> Path:
    changes = ("geometry.blocks_per_plane=64", "host.arrival=closed", "host.queue_depth=8")
    device = package.Device.load("tlc-small").set(*changes)
    workload = package.Workload(kind="zipf", requests=20_000, read_fraction=0.3)
    result = package.run(device, workload, requests_log=folder / "requests.parquet", series=100)
    return package.report(result, out=folder / "run.html")


def study_report(folder: Path) -> Path:
    store = package.Store(folder / "store")
    package.study(STUDY, out=store)
    return package.report(store)


def paper_report(folder: Path) -> Path:
    from ftlab.papers import PAPERS, run_paper

    return run_paper(PAPERS["reference"], folder / "papers", "test").folder / "report.html"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    makers = {"run": run_report, "study": study_report, "paper": paper_report}
    return {name: make(tmp_path_factory.mktemp(name)).as_uri() for name, make in makers.items()}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of the site, served as `make site` says: its search does not run from files."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("MkDocs is not installed: `make site` installs it")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)

    class Silent(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("localhost", 0), functools.partial(Silent, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()


def seen(pages: dict[str, str], width: int, scheme: str, **options: Any) -> list[dict[str, Any]]:
    """What the browser says of pages, which it has a process of its own for."""
    asked = {
        "scheme": scheme,
        "pictures": os.environ.get("FTLAB_LOOKS"),
        "pages": [
            {"name": f"{name}-{width}-{scheme}", "url": url, "width": width, **options} for name, url in pages.items()
        ],
    }
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "browse.py"],
        input=json.dumps(asked), capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def assert_well(page: dict[str, Any], width: int, scheme: str, home: str) -> None:
    name, look = page["name"], page["look"]
    assert page["loaded"], name
    # The search of the site says when it is ready.
    assert [line for line in page["console"] if not line.startswith("InfoMessageLevel")] == [], name
    assert [url for url in page["requests"] if not url.startswith((home, "data:", "blob:"))] == [], name
    assert look["dark"] == (scheme == "dark"), name
    # A page that has a dark form shows it.
    assert (sum(look["sheet"][:3]) < 200) == (scheme == "dark"), (name, look["sheet"])
    assert look["width"] <= width, name
    assert look["texts"] > 30, name
    assert look["pale"] == [], name
    assert look["wide"] == [], name
    assert look["overlapping"] == [], name
    assert look["broken"] == [], name
    assert all(shapes > 10 for shapes in look["figures"].values()), (name, look["figures"])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_reports_can_be_read(reports: dict[str, str], width: int, scheme: str) -> None:
    found = seen(reports, width, scheme)
    for page in found:
        assert_well(page, width, scheme, "file://")
    figures = {page["name"].partition("-")[0]: page["look"]["figures"] for page in found}
    assert {"latency", "causes", "drive"} <= set(figures["run"])
    assert len(figures["run"]) >= 8
    assert set(figures["study"]) == {"study"}
    assert found[-1]["look"]["pictures"] >= 1


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_site_can_be_read(site: str, width: int, scheme: str) -> None:
    pages = {path.strip("/").replace("/", "-") or "home": site + path for path in SITE_PAGES}
    for page in seen(pages, width, scheme):
        assert_well(page, width, scheme, site)


def test_paper_is_light_and_has_every_page(reports: dict[str, str], tmp_path: Path) -> None:
    for page in seen(reports, WIDTHS[0], "light", paper=str(tmp_path)):
        assert page["pdf"] is not None, page["name"]
        printed = Path(page["pdf"]).read_bytes()
        assert printed.startswith(b"%PDF")
        assert len(re.findall(rb"/Type\s*/Page\b", printed)) >= 2, page["name"]
