"""Reports in a real browser: nothing is loaded, nothing is complained of, charts are drawn and can be used.

Part of the long tests (`make test-long`): needs Chromium and playwright, which drives it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import ftlab as package

SIZES = {"desk": (1280, 900), "phone": (390, 844)}
DEVICE = package.Device.load("ideal-page").set(
    "geometry.blocks_per_plane=64", "geometry.pages_per_block=32", "geometry.channels=4", "geometry.ways=2",
    "host.arrival=closed", "host.queue_depth=8",
)  # fmt: skip
STUDY = {
    "name": "spare",
    "device": "ideal-page",
    "workload": ["uniform", {"kind": "hotcold", "label": "<b>skewed</b>"}],
    "set": {"geometry": {"blocks_per_plane": 64, "pages_per_block": 16}, "workload.requests": 800},
    "axes": {"ftl.gc": ["greedy", "fifo", "random"], "ftl.over_provisioning": [0.1, 0.2, 0.4]},
    "repetitions": 2,
}


# How far to the right the texts of each chart reach when the page is printed: after its own handler.
PRINTED = """
window.addEventListener("beforeprint", () => {
  window.printed = [...document.querySelectorAll(".plot svg")].map((drawing) => {
    const left = drawing.getBoundingClientRect().left;
    return Math.max(...[...drawing.querySelectorAll("text")].map((text) => text.getBoundingClientRect().right - left));
  });
});
"""


@dataclass
class Opened:
    """A page, and what it did while it was opened."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def marks(self, chart: str) -> int:
        """Lines, points and bars of a chart that can be seen."""
        count = self.page.evaluate(
            "id => [...document.querySelectorAll(`[data-chart='${id}'] svg path`)]"
            ".filter(path => path.getAttribute('fill') !== 'none' || path.getTotalLength() > 0).length",
            chart,
        )
        return int(count)

    def charts(self) -> list[str]:
        found = self.page.eval_on_selector_all("[data-chart]", "all => all.map(each => each.dataset.chart)")
        return [str(each) for each in found]

    def hover(self, chart: str, x: float, y: float) -> str:
        """What is shown where the pointer rests in a chart, at shares of its size."""
        place = self.page.locator(f"[data-chart='{chart}']")
        place.scroll_into_view_if_needed()
        box = place.bounding_box()
        self.page.mouse.move(box["x"] + box["width"] * x - 3, box["y"] + box["height"] * y)
        self.page.mouse.move(box["x"] + box["width"] * x, box["y"] + box["height"] * y)
        self.page.wait_for_timeout(150)
        return str(place.evaluate("place => [...place.children].slice(1).map(each => each.innerText).join('\\n')"))


def opened(browser: Any, path: Path, size: str = "desk", **options: Any) -> Opened:
    width, height = SIZES[size]
    found = Opened(browser.new_page(viewport={"width": width, "height": height}, **options))
    found.page.on("console", lambda message: found.complaints.append(message.text))
    found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
    found.page.on("request", lambda request: found.requests.append(request.url))
    found.page.goto(path.as_uri())
    found.page.wait_for_timeout(200)
    return found


@pytest.fixture(scope="module")
def run_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    workload = package.Workload(kind="zipf", requests=6_000, read_fraction=0.3)
    result = package.run(DEVICE, workload, requests_log=folder / "requests.parquet", series=50)
    return package.report(result, out=folder / "report.html")


@pytest.fixture(scope="module")
def study_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = package.Store(tmp_path_factory.mktemp("study") / "store")
    package.study(STUDY, out=store)
    return package.report(store)


@pytest.fixture(
    scope="module", params=["run", "study", *[f"paper {name}" for name in ("reference", "write-amplification")]]
)
def any_page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    kind, _, name = request.param.partition(" ")
    if kind == "paper":
        from ftlab.papers import PAPERS, run_paper

        return run_paper(PAPERS[name], tmp_path_factory.mktemp("papers"), "test").folder / "report.html"
    page: Path = request.getfixturevalue(f"{kind}_page")
    return page


@pytest.mark.parametrize("size", SIZES)
def test_a_page_opens_without_complaints_and_loads_nothing(browser: Any, any_page: Path, size: str) -> None:
    shown = opened(browser, any_page, size)
    assert shown.complaints == []
    assert shown.requests == [any_page.as_uri()]
    # Nothing hangs over the side: what is wide scrolls by itself.
    assert shown.page.evaluate("document.documentElement.scrollWidth") == SIZES[size][0]
    for chart in shown.charts():
        assert shown.marks(chart) > 10, chart
    pictures = shown.page.eval_on_selector_all("img", "all => all.map(each => each.naturalWidth)")
    assert all(width > 0 for width in pictures)
    assert shown.charts() or pictures
    if any_page.name == "report.html" and "paper" not in str(any_page):
        cells = shown.page.eval_on_selector_all(".plot svg text", "all => all.map(each => each.textContent)")
        assert not [text for text in cells if re.search(r"NaN|undefined|null|\[object", text)]
    shot = shown.page.screenshot(full_page=True)
    assert len(shot) > 20_000
    shown.page.close()


def test_hovering_tells_values(browser: Any, run_page: Path) -> None:
    shown = opened(browser, run_page)
    told = shown.hover("series-iops", 0.5, 0.4)
    assert re.search(r"simulated time [\d.,]+ (s|ms|µs)", told), told
    assert re.search(r"each interval: [\d.,]+ k?IOPS", told), told
    assert re.search(r"die time, garbage collection\s+[\d.]+ % \([\d.]+ s\)", shown.hover("causes", 0.3, 0.15))
    assert re.search(r"latency [\d.]+ (µs|ms)\s+(read|write): [\d.]+ %", shown.hover("latency", 0.5, 0.5))
    assert "channel 3, way 1: busy" in shown.page.locator("svg.drive .cell title").nth(7).text_content()
    assert shown.complaints == []
    shown.page.close()


def test_series_can_be_switched_off_from_the_keyboard(browser: Any, run_page: Path) -> None:
    shown = opened(browser, run_page)
    before = shown.marks("series-latency")
    box = shown.page.locator("[data-legend='series-latency'] input").last
    box.focus()
    shown.page.keyboard.press("Space")
    shown.page.wait_for_timeout(100)
    without = shown.marks("series-latency")
    assert without < before - 50
    shown.page.keyboard.press("Space")
    shown.page.wait_for_timeout(100)
    assert shown.marks("series-latency") == before
    # Series of one name in charts that zoom together are switched one by one.
    others = [shown.marks(chart) for chart in ("series-wa", "series-latency")]
    shown.page.locator("[data-legend='series-iops'] input").first.uncheck()
    shown.page.wait_for_timeout(100)
    assert [shown.marks(chart) for chart in ("series-wa", "series-latency")] == others
    assert shown.complaints == []
    shown.page.close()


def labels_of(shown: Opened, chart: str) -> list[str]:
    found = shown.page.eval_on_selector_all(
        f"[data-chart='{chart}'] svg text", "all => all.map(each => each.textContent)"
    )
    return [str(each) for each in found]


def test_dragging_zooms_all_charts_over_time_and_a_double_click_goes_back(browser: Any, run_page: Path) -> None:
    shown = opened(browser, run_page)
    charts = ["series-iops", "series-latency", "series-free"]
    before = [labels_of(shown, chart) for chart in charts]
    place = shown.page.locator("[data-chart='series-iops']")
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    across, down = (lambda share: box["x"] + box["width"] * share), (lambda share: box["y"] + box["height"] * share)
    shown.page.mouse.move(across(0.3), down(0.2))
    shown.page.mouse.down()
    shown.page.mouse.move(across(0.4), down(0.5), steps=5)
    shown.page.mouse.move(across(0.5), down(0.7), steps=5)
    shown.page.mouse.up()
    shown.page.wait_for_timeout(200)
    zoomed = [labels_of(shown, chart) for chart in charts]
    assert all(a != b for a, b in zip(before, zoomed, strict=True))
    # What is switched off stays off.
    all_marks = shown.marks("series-iops")
    shown.page.locator("[data-legend='series-iops'] input").first.click()
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    shown.page.mouse.dblclick(across(0.6), down(0.5))
    shown.page.wait_for_timeout(200)
    assert [labels_of(shown, chart) for chart in charts] == before
    assert shown.marks("series-iops") < all_marks
    assert shown.complaints == []
    shown.page.close()


def test_numbers_lead_to_their_keys(browser: Any, run_page: Path) -> None:
    shown = opened(browser, run_page)
    link = shown.page.locator("a.num").first
    target = link.get_attribute("href")
    link.click()
    assert shown.page.url.endswith(target)
    assert shown.page.locator(f"[id='{target[1:]}']").is_visible()
    shown.page.close()


def test_a_study_is_explored(browser: Any, study_page: Path) -> None:
    shown = opened(browser, study_page)
    page = shown.page
    legend = page.locator("[data-legend='study'] label").all_inner_texts()
    assert legend[::2] == ["greedy", "fifo", "random"]
    assert "workload = uniform" in page.locator("#study-note").inner_text()
    page.get_by_label("Show", exact=True).select_option("latency_ns.write.p99")
    assert page.locator("#study-title").inner_text() == "write latency, p99 against over-provisioning"
    assert any("(ms)" in text or "(µs)" in text for text in labels_of(shown, "study"))
    page.get_by_label("against", exact=True).select_option("ftl.gc")
    page.get_by_label("coloured by", exact=True).select_option("workload")
    assert page.locator("[data-legend='study'] label").first.inner_text() == "uniform"
    assert "<b>skewed</b>" in page.locator("[data-legend='study']").inner_text()
    assert {"greedy", "fifo", "random"} <= set(labels_of(shown, "study"))
    page.get_by_label("logarithmic").check()
    assert shown.marks("study") > 10
    # The table.
    rows = page.locator("#grid tbody tr:visible")
    assert rows.count() == 36
    page.get_by_role("button", name="write amplification").click()
    first, last = (float(rows.nth(at).locator("td.n").first.inner_text()) for at in (0, 35))
    assert first < last
    page.get_by_role("button", name="write amplification").press("Enter")
    assert float(rows.nth(0).locator("td.n").first.inner_text()) == last
    page.locator("#filter").fill("fifo 0.4")
    assert rows.count() == 4
    assert page.locator("#count").inner_text() == "4 of 36"
    # A run.
    page.get_by_role("button", name=re.compile("Details of run")).first.click()
    dialog = page.locator("dialog")
    assert dialog.is_visible()
    assert "write_amplification.total" in dialog.inner_text()
    assert "ftlab report DIR --run" in dialog.inner_text()
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert shown.complaints == []
    page.close()


@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_paper_gets_whole_charts(browser: Any, run_page: Path, study_page: Path, paper: str, tmp_path: Path) -> None:
    for path, least in ((run_page, 5), (study_page, 2)):
        shown = opened(browser, path)
        shown.page.evaluate(PRINTED)
        pdf = shown.page.pdf(path=tmp_path / "page.pdf", format=paper)
        assert pdf.startswith(b"%PDF")
        assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= least
        printed = shown.page.evaluate("window.printed")
        assert printed
        assert all(right <= 660 for right in printed), printed
        assert shown.complaints == []
        shown.page.close()


def test_without_scripts_there_are_all_numbers(browser: Any, run_page: Path) -> None:
    shown = opened(browser, run_page, java_script_enabled=False)
    text = shown.page.locator("body").inner_text()
    assert "which this browser does not run" in text
    assert "latency_ns.read.p99" in text
    shown.page.close()
