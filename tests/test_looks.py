"""Reports, papers and the site in a browser: at two widths, light and dark, on paper, and used with mouse and keys.

Part of the long tests (`make test-long`). Skipped where PyQt6-WebEngine is not installed: `make looks` installs it.
With `FTLAB_LOOKS=DIR`, pictures of the pages are kept in DIR.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ftlab as package
from browser import Browser, Page, served
from conftest import ROOT

if "FTLAB_LONG" not in os.environ:
    pytest.skip("opens a browser: part of the long tests", allow_module_level=True)

WIDTHS = (1280, 400)
SCHEMES = ("light", "dark")
STUDY = {
    "name": "spare",
    "device": "ideal-page",
    "workload": ["uniform", {"kind": "hotcold", "label": "<b>skewed</b>"}],
    "set": {"geometry": {"blocks_per_plane": 64, "pages_per_block": 16}, "workload.requests": 800},
    "axes": {"ftl.gc": ["greedy", "fifo", "random"], "ftl.over_provisioning": [0.1, 0.2, 0.4]},
    "repetitions": 2,
}
# As many columns as a study may well have: axes of its drive, and all metrics of a clock.
WIDE_STUDY = {
    "name": "wide",
    "device": "tlc-small",
    "workload": ["zipf", {"kind": "hotcold", "label": "skewed"}],
    "set": {
        "geometry": {"blocks_per_plane": 32, "pages_per_block": 16}, "workload.requests": 600,
        "host.arrival": "closed", "precondition.kind": "fill",
    },
    "axes": {
        "ftl.gc": ["greedy", "cost_benefit"], "ftl.over_provisioning": [0.3, 0.4, 0.6], "host.queue_depth": [1, 8],
        "ftl.gc_open_block": ["separate", "shared"],
    },
    "repetitions": 2,
}  # fmt: skip
# The last has tables of 18 columns.
PAPERS = ("reference", "write-amplification", "mapping-cache")
SITE_PAGES = ("", "guides/tutorial/", "reference/device-keys/", "reference/schemes/", "guides/questions/")

# How far to the right the texts of each chart reach when the page is printed: after its own handler.
PRINTED = """() => window.addEventListener("beforeprint", () => {
  window.printed = all(".plot svg").map((drawing) => {
    const left = drawing.getBoundingClientRect().left;
    return Math.max(...[...drawing.querySelectorAll("text")].map((text) => text.getBoundingClientRect().right - left));
  });
})"""

# The room of a sheet of A4 between the margins of `page.css`, in pixels of CSS.
SHEET = 680
# What reaches beyond the sheet, and the smallest letters, with the rules for paper on the screen.
ON_PAPER = """(room) => {
  for (const sheet of document.styleSheets) {
    for (const rule of [...sheet.cssRules].filter((each) => each instanceof CSSMediaRule)) {
      if (rule.media.mediaText === "print") rule.media.mediaText = "all";
      else if (rule.media.mediaText.startsWith("screen")) rule.media.mediaText = "not all";
    }
  }
  document.body.style.width = `${room}px`;
  window.dispatchEvent(new Event("beforeprint"));
  const drawn = (each) => Boolean(each.ownerSVGElement);
  const boxes = all("body *").filter((each) => !drawn(each) && each.checkVisibility() && each.offsetWidth !== 1);
  const told = (each) => `${each.tagName} ${each.getAttribute("class") ?? ""}: ${each.textContent.trim().slice(0, 40)}`;
  const end = document.body.getBoundingClientRect().left + room + 1;
  const lettered = (each) => [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  return {
    wide: boxes.filter((each) => each.getBoundingClientRect().right > end).map(told),
    cut: boxes.filter((each) => getComputedStyle(each).overflowX !== "visible" && each.clientWidth > 0
      && each.scrollWidth > each.clientWidth + 1).map(told),
    small: boxes.filter((each) => lettered(each) && parseFloat(getComputedStyle(each).fontSize) < 7.3).map(told),
  };
}"""


def run_report(folder: Path) -> Path:
    changes = (
        "geometry.blocks_per_plane=24", "geometry.pages_per_block=32", "geometry.channels=4", "geometry.ways=2",
        "host.arrival=closed", "host.queue_depth=8", "precondition.kind=fill",
    )  # fmt: skip
    device = package.Device.load("tlc-small").set(*changes)
    workload = package.Workload(kind="zipf", requests=20_000, read_fraction=0.3)
    result = package.run(device, workload, requests_log=folder / "requests.parquet", series=100)
    return package.report(result, out=folder / "run.html")


def study_report(folder: Path, study: dict[str, Any]) -> Path:
    store = package.Store(folder / "store")
    package.study(study, out=store)
    return package.report(store)


def fleet_report(folder: Path) -> Path:
    """Volumes of a merged trace, each on a drive of its own."""
    parts = []
    for volume in range(24):
        rows = [f"{at * 1000 + volume},{'wr'[at % 2]},{at * 17 % (40 + volume) * 8},8" for at in range(volume + 60)]
        part = folder / f"customer-{volume:02}-of-the-block-storage-service.csv"
        part.write_text("\n".join(["arrival_ns,op,lba,sectors", *rows]) + "\n")
        parts.append(part)
    package.merge(parts, folder / "cloud.csv")
    fleet = {
        "name": "fleet", "device": "ideal-page", "trace": str(folder / "cloud.csv"), "volumes": "all",
        "set": {
            "geometry": {"blocks_per_plane": 32, "pages_per_block": 8}, "precondition.kind": "fill",
            "host.out_of_range": "wrap",
        },
        "axes": {"ftl.gc": ["greedy", "fifo"]}, "repetitions": 2,
    }  # fmt: skip
    package.study(fleet, out=folder / "store")
    return package.report(package.Store(folder / "store"))


def paper_report(name: str, folder: Path) -> Path:
    from ftlab.papers import PAPERS, run_paper

    return run_paper(PAPERS[name], folder / "papers", "test").folder / "report.html"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    papers = {f"paper {name}": paper_report(name, tmp_path_factory.mktemp("paper")) for name in PAPERS}
    run = run_report(tmp_path_factory.mktemp("run"))
    study, wide = (study_report(tmp_path_factory.mktemp("study"), each) for each in (STUDY, WIDE_STUDY))
    fleet = fleet_report(tmp_path_factory.mktemp("fleet"))
    pages = {"run": run, "study": study, "wide": wide, "fleet": fleet, **papers}
    return {name: path.as_uri() for name, path in pages.items()}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of the site, served as `make site` says: its search does not run from files."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("MkDocs is not installed: `make site` installs it")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    with served(folder) as address:
        yield address


def assert_well(name: str, page: Page, width: int, scheme: str, home: str) -> dict[str, Any]:
    look = page.look()
    assert page.console == [], name
    assert [url for url in page.requests if not url.startswith((home, "data:", "blob:"))] == [], name
    assert look["dark"] == (scheme == "dark"), name
    # A page that has a dark form shows it.
    assert (sum(look["sheet"][:3]) < 200) == (scheme == "dark"), (name, look["sheet"])
    assert look["width"] <= width, name
    assert look["texts"] > 30, name
    for fault in ("pale", "wide", "tall", "overlapping", "broken", "strange"):
        assert look[fault] == [], (name, fault)
    assert all(shapes > 10 for shapes in look["figures"].values()), (name, look["figures"])
    if folder := os.environ.get("FTLAB_LOOKS"):
        page.picture(Path(folder) / f"{name}-{width}-{scheme}.png")
    return look


def test_the_folder_of_pictures_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Qt writes nothing where there is none, and says nothing."""

    def save(_: Page, __: str, path: str) -> None:
        if Path(path).parent.is_dir():
            Path(path).touch()

    monkeypatch.setattr(Page, "_do", save)
    page, path = Page.__new__(Page), tmp_path / "not" / "yet" / "run.png"
    page.picture(path)
    assert path.is_file()
    monkeypatch.setattr(Page, "_do", lambda *_, **__: None)
    with pytest.raises(AssertionError, match="no picture was written"):
        page.picture(tmp_path / "other.png")


@pytest.mark.parametrize("browser", SCHEMES, indirect=True)
@pytest.mark.parametrize("width", WIDTHS)
def test_reports_can_be_read(browser: Browser, reports: dict[str, str], width: int) -> None:
    looks = {}
    for name, url in reports.items():
        with browser.page(url, width) as page:
            # Nothing but the page itself is loaded.
            looks[name] = assert_well(name, page, width, browser.scheme, url)
    assert {"latency", "causes", "drive"} <= set(looks["run"]["figures"])
    assert len(looks["run"]["figures"]) >= 8
    assert set(looks["study"]["figures"]) == set(looks["fleet"]["figures"]) == {"study"}
    assert all(looks[f"paper {name}"]["pictures"] >= 1 for name in PAPERS)


@pytest.mark.parametrize("browser", SCHEMES, indirect=True)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_site_can_be_read(browser: Browser, site: str, width: int) -> None:
    for path in SITE_PAGES:
        with browser.page(site + path, width) as page:
            assert_well(path.strip("/").replace("/", "-") or "home", page, width, browser.scheme, site)


def test_the_site_is_searched_from_its_search_box(browser: Browser, site: str) -> None:
    from test_site import QUESTIONS

    missed = {}
    for query, wanted in QUESTIONS.items():
        with browser.page(site) as page:
            page.wait_until_it_says("search ready")
            page.click("[data-bs-target='#mkdocs_search_modal']")
            page.wait_for("() => one('#mkdocs-search-query').checkVisibility()")
            page.click("#mkdocs-search-query")
            page.write(query)
            page.wait_for("() => all('#mkdocs-search-results article').length")
            # Each letter is searched for; the last answer stays.
            page.pause(500)
            hits = page.run("() => all('#mkdocs-search-results article a').map((each) => each.href)")
            assert page.run("() => one('#mkdocs-search-query').value") == query
            assert page.console == []
        if not any(hit.startswith(site + each) for hit in hits[:3] for each in wanted):
            missed[query] = hits[:3]
    assert missed == {}


def marks(page: Page, chart: str) -> int:
    """Lines, points and bars of a chart that can be seen."""
    count: int = page.run(
        """(chart) => all(`[data-chart='${chart}'] svg path`)
          .filter((path) => path.getAttribute("fill") !== "none" || path.getTotalLength() > 0).length""",
        chart,
    )
    return count


def labels(page: Page, chart: str) -> list[str]:
    found: list[str] = page.run(
        "(chart) => all(`[data-chart='${chart}'] svg text`).map((each) => each.textContent)", chart
    )
    return found


def hover(page: Page, chart: str, x: float, y: float) -> str:
    """What is shown where the pointer rests in a chart."""
    page.mouse(f"[data-chart='{chart}']", ("move", x - 0.01, y), ("move", x, y))
    told: str = page.run(
        "(chart) => [...one(`[data-chart='${chart}']`).children].slice(1).map((each) => each.innerText).join('\\n')",
        chart,
    )
    return told


def shown(page: Page, selector: str) -> list[str]:
    """The texts of what can be seen of a kind."""
    found: list[str] = page.run(
        "(selector) => all(selector).filter((each) => each.checkVisibility()).map((each) => each.innerText)", selector
    )
    return found


def test_hovering_tells_values(browser: Browser, reports: dict[str, str]) -> None:
    with browser.page(reports["run"]) as page:
        told = hover(page, "series-iops", 0.5, 0.4)
        assert re.search(r"simulated time [\d.,]+ (s|ms|µs)", told), told
        assert re.search(r"each interval: [\d.,]+ k?IOPS", told), told
        # The nearest point may be one of the median alone.
        found = [hover(page, "series-latency", at / 40, 0.5) for at in range(8, 36)]
        assert any(re.search(r"write, p50 to p99: [\d.]+ (µs|ms) to [\d.]+ (µs|ms)", told) for told in found), found
        told = hover(page, "causes", 0.7, 0.15)
        assert re.search(r"die time, garbage collection\s+[\d.]+ % \([\d.]+ s\)", told), told
        told = hover(page, "latency", 0.5, 0.5)
        assert re.search(r"latency [\d.]+ (µs|ms)\s+(read|write): [\d.]+ %", told), told
        titles = page.run("() => all('svg.drive .cell title').map((each) => each.textContent)")
        assert any(re.match("channel 3, way 1, plane 3: busy [0-9.]+ %", title) for title in titles), titles
        assert page.console == []


def test_series_can_be_switched_off_from_the_keyboard(browser: Browser, reports: dict[str, str]) -> None:
    with browser.page(reports["run"]) as page:
        before = marks(page, "series-latency")
        # A band is drawn as two areas, of which one carries the other.
        page.run("() => one(\"[data-legend='series-latency'] input\").focus()")
        page.key("Space")
        assert marks(page, "series-latency") <= before - 2
        page.key("Space")
        assert marks(page, "series-latency") == before
        # Series of one name in charts that zoom together are switched one by one.
        others = [marks(page, chart) for chart in ("series-wa", "series-latency")]
        all_marks = marks(page, "series-iops")
        page.click("[data-legend='series-iops'] input")
        assert marks(page, "series-iops") < all_marks
        assert [marks(page, chart) for chart in ("series-wa", "series-latency")] == others
        assert page.console == []


def test_dragging_zooms_all_charts_over_time_and_a_double_click_goes_back(
    browser: Browser, reports: dict[str, str]
) -> None:
    with browser.page(reports["run"]) as page:
        charts = ["series-iops", "series-latency", "series-free"]
        before = [labels(page, chart) for chart in charts]
        all_marks = marks(page, "series-iops")
        place = "[data-chart='series-iops']"
        page.mouse(
            place,
            ("move", 0.3, 0.2), ("press", 0.3, 0.2), ("move", 0.35, 0.4), ("move", 0.4, 0.5), ("move", 0.5, 0.7),
            ("release", 0.5, 0.7),
        )  # fmt: skip
        zoomed = [labels(page, chart) for chart in charts]
        assert all(a != b for a, b in zip(before, zoomed, strict=True))
        # What is switched off stays off.
        page.click("[data-legend='series-iops'] input")
        page.mouse(place, ("double", 0.6, 0.5))
        assert [labels(page, chart) for chart in charts[1:]] == before[1:]
        assert marks(page, "series-iops") < all_marks
        page.click("[data-legend='series-iops'] input")
        assert labels(page, charts[0]) == before[0]
        assert marks(page, "series-iops") == all_marks
        assert page.console == []


def test_numbers_lead_to_their_keys(browser: Browser, reports: dict[str, str]) -> None:
    with browser.page(reports["run"]) as page:
        target = page.run("() => one('a.num').getAttribute('href')")
        page.click("a.num")
        assert page.run("() => location.hash") == target
        top = page.run("(id) => document.getElementById(id).getBoundingClientRect().top", target[1:])
        assert 0 <= top < 900


def test_a_study_is_explored(browser: Browser, reports: dict[str, str]) -> None:
    with browser.page(reports["study"]) as page:
        legend = "[data-legend='study'] label"
        assert [each.strip() for each in shown(page, legend)][::2] == ["greedy", "fifo", "random"]
        assert "workload = uniform" in shown(page, "#study-note")[0]
        page.choose("Show", "latency_ns.write.p99")
        assert shown(page, "#study-title") == ["write latency, p99 against over-provisioning"]
        assert any("(ms)" in text or "(µs)" in text for text in labels(page, "study"))
        page.choose("against", "ftl.gc")
        page.choose("coloured by", "workload")
        texts = [each.strip() for each in shown(page, legend)]
        assert texts[0] == "uniform"
        assert "<b>skewed</b>" in texts
        assert {"greedy", "fifo", "random"} <= set(labels(page, "study"))
        page.run("() => all('#controls label.box').find((each) => each.innerText === 'logarithmic').click()")
        assert marks(page, "study") > 10
        assert page.console == []


def test_the_table_of_a_study_is_sorted_and_searched(browser: Browser, reports: dict[str, str]) -> None:
    with browser.page(reports["study"]) as page:
        page.run("() => { one('#table details').open = true }")
        assert len(shown(page, "#grid tbody tr")) == 36
        page.run("() => all('#grid .sort').find((each) => each.innerText === 'write amplification').focus()")
        column = "() => document.activeElement.closest('th').cellIndex + 1"
        cells = f"#grid tbody tr td:nth-child({page.run(column)})"
        page.key("Return")
        rising = [float(text) for text in shown(page, cells)]
        assert rising == sorted(rising)
        page.key("Return")
        assert [float(text) for text in shown(page, cells)] == sorted(rising, reverse=True)
        page.click("#filter")
        page.write("fifo 0.4")
        assert len(shown(page, "#grid tbody tr")) == 4
        assert shown(page, "#count") == ["4 of 36"]
        page.click("#grid tbody tr:not([hidden]) button.details")
        told = shown(page, "dialog")[0]
        assert "write_amplification.total" in told
        assert "ftlab report DIR --run" in told
        page.key("Escape")
        assert shown(page, "dialog") == []
        assert page.console == []


@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_paper_gets_whole_charts(browser: Browser, reports: dict[str, str], paper: str, tmp_path: Path) -> None:
    for name, least in (("run", 5), ("study", 2), (f"paper {PAPERS[0]}", 2)):
        with browser.page(reports[name]) as page:
            page.run(PRINTED)
            printed = page.print(tmp_path / f"{name}.pdf", paper)
            assert printed.startswith(b"%PDF")
            assert len(re.findall(rb"/Type\s*/Page\b", printed)) >= least, name
            reach = page.run("() => window.printed")
            assert all(right <= 660 for right in reach), reach
            assert len(reach) >= (0 if name.startswith("paper") else 1)
            assert page.console == []


def test_nothing_is_cut_on_paper(browser: Browser, reports: dict[str, str]) -> None:
    for name, url in reports.items():
        with browser.page(url, SHEET) as page:
            found = page.run(ON_PAPER, SHEET)
            assert found == {"wide": [], "cut": [], "small": []}, name
            assert page.console == []


def test_without_scripts_there_are_all_numbers(browser: Browser, reports: dict[str, str]) -> None:
    with browser.page(reports["run"], scripts=False) as page:
        text = page.text()
        assert "which this browser does not run" in text
        assert "latency_ns.read.p99" in text
