"""Open pages in Chromium, by Qt WebEngine, and tell what is seen there: a program of its own.

`test_looks.py` runs it, and asks on standard input:
`{"scheme": "dark", "pages": [{"name": ..., "url": ..., "width": 400}], "pictures": FOLDER}`.
Without `pictures` none are kept; with `"paper": FOLDER` a page is printed as well. Answers with a list of `Seen`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from PyQt6.QtCore import QEventLoop, QTimer, QUrl
from PyQt6.QtGui import QImage, QPainter
from PyQt6.QtWebEngineCore import (
    QWebEnginePage,
    QWebEngineProfile,
    QWebEngineSettings,
    QWebEngineUrlRequestInterceptor,
)
from PyQt6.QtWebEngineWidgets import QWebEngineView
from PyQt6.QtWidgets import QApplication

HEIGHT = 900
# Beyond this a surface is refused; pages that are longer are looked at down to here.
MOST_HEIGHT = 15_000
SETTLED_MS = 400
PATIENCE_MS = 60_000

# What a page looks like to a script in it. Colours are those that were computed, over what lies behind them.
LOOK = r"""
(() => {
  const rgba = (text) => {
    const found = /rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?\)/.exec(text);
    return found ? [+found[1], +found[2], +found[3], found[4] === undefined ? 1 : +found[4]] : null;
  };
  const over = (top, below) => [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3])).concat(1);
  const sheet = matchMedia("(prefers-color-scheme: dark)").matches && CSS.supports("color-scheme", "dark")
    && getComputedStyle(document.documentElement).colorScheme.includes("dark") ? [18, 18, 18, 1] : [255, 255, 255, 1];
  const behind = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const style = getComputedStyle(each);
      const color = rgba(style.backgroundColor);
      if (color && color[3] > 0) layers.push(color);
      if (color && color[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), sheet);
  };
  const light = (color) => {
    const [r, g, b] = color.map((value) => value / 255)
      .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [bright, dim] = [light(one), light(other)].sort((a, b) => b - a);
    return (bright + 0.05) / (dim + 0.05);
  };
  const seen = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true })
    && element.getBoundingClientRect().width > 1;
  const named = (element) => `${element.tagName.toLowerCase()}.${element.getAttribute("class") ?? ""}: `
    + element.textContent.trim().slice(0, 40);
  const pale = [], wide = [], overlapping = [];
  let texts = 0;
  for (const element of document.body.querySelectorAll("*")) {
    if (/^(SCRIPT|STYLE|NOSCRIPT|TITLE|OPTION)$/i.test(element.tagName)) continue;
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !seen(element)) continue;
    texts += 1;
    const style = getComputedStyle(element);
    const drawn = element instanceof SVGElement;
    let below = behind(drawn ? element.ownerSVGElement.parentElement : element);
    if (drawn) {
      const own = rgba(getComputedStyle(element.ownerSVGElement).backgroundColor);
      if (own) below = over(own, below);
      const cell = element.closest(".cell")?.querySelector("rect");
      const fill = cell && rgba(getComputedStyle(cell).fill);
      if (fill) below = over(fill, below);
      // Labels on bars have a box of their own behind them.
      const box = element.previousElementSibling;
      const boxed = !cell && box && box.tagName === "path" && rgba(getComputedStyle(box).fill);
      if (boxed && box.getBoundingClientRect().height < 25) below = over(boxed, below);
    }
    const color = rgba(drawn ? style.fill : style.color);
    const size = parseFloat(style.fontSize);
    // What cannot be pressed may be pale.
    if (element.closest(".disabled, [disabled]")) continue;
    const large = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
    const found = color ? contrast(over(color, below), below) : 0;
    if (found < (large ? 3 : 4.5)) pale.push(`${found.toFixed(2)} ${named(element)}`);
  }
  const scrolls = (element) => {
    for (let each = element.parentElement; each && each !== document.body; each = each.parentElement) {
      if (/auto|scroll|hidden/.test(getComputedStyle(each).overflowX)) return true;
    }
    return false;
  };
  for (const element of document.body.querySelectorAll("*")) {
    const box = element.getBoundingClientRect();
    if (box.width > 1 && (box.right > innerWidth + 1 || box.left < -1) && seen(element) && !scrolls(element)
      && !(element instanceof SVGElement && element.ownerSVGElement)) wide.push(named(element));
  }
  const figures = {};
  for (const place of document.querySelectorAll("[data-chart], svg.drive")) {
    const name = place.dataset.chart ?? "drive";
    const shapes = [...place.querySelectorAll("path, rect, circle, polyline")].filter((each) => {
      const box = each.getBoundingClientRect();
      return box.width + box.height > 1;
    });
    figures[name] = shapes.length;
    const labels = [...place.querySelectorAll("text")].filter((each) => each.textContent.trim() && seen(each));
    const boxes = labels.map((each) => each.getBoundingClientRect());
    for (let one = 0; one < boxes.length; one += 1) {
      for (let other = one + 1; other < boxes.length; other += 1) {
        const [a, b] = [boxes[one], boxes[other]];
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        // Boxes of text are a little higher than its letters.
        if (across > 2 && down > 4) {
          overlapping.push(`${name}: ${labels[one].textContent} / ${labels[other].textContent}`);
        }
      }
    }
  }
  const pictures = [...document.images].filter(seen);
  return JSON.stringify({
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    width: document.documentElement.scrollWidth, window: innerWidth, height: document.documentElement.scrollHeight,
    texts, pale, wide, overlapping, figures, pictures: pictures.length,
    broken: pictures.filter((each) => each.naturalWidth === 0).map((each) => each.src.slice(0, 80)),
    sheet: behind(document.body),
  });
})()
"""


@dataclass
class Seen:
    """What was seen of a page."""

    name: str
    loaded: bool = False
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    look: dict[str, Any] = field(default_factory=dict)
    pdf: str | None = None


class Listening(QWebEngineUrlRequestInterceptor):
    """Hears of every request."""

    def __init__(self, heard: list[str]) -> None:
        super().__init__()
        self.heard = heard

    def interceptRequest(self, info: Any) -> None:  # noqa: N802 - its name there
        self.heard.append(info.requestUrl().toString()[:200])


class Page(QWebEnginePage):
    """Hears what scripts print and complain of."""

    def __init__(self, profile: QWebEngineProfile, heard: list[str]) -> None:
        super().__init__(profile)
        self.heard = heard

    def javaScriptConsoleMessage(self, level: Any, message: str, line: int, source: str) -> None:  # noqa: N802 - its name there
        self.heard.append(f"{level.name}: {message} ({source[-60:]}:{line})")


def pause(milliseconds: int) -> None:
    """Let the browser work."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


def waited(start: Callable[[Callable[..., None]], object]) -> Any:
    """Give what a call back is given, or `None` if it never comes."""
    loop = QEventLoop()
    given: list[Any] = []

    def heard(*values: Any) -> None:
        given.extend(values)
        loop.quit()

    QTimer.singleShot(PATIENCE_MS, loop.quit)
    start(heard)
    if not given:
        loop.exec()
    return given[0] if given else None


class Opened:
    """A page in a window of its own, with a profile of its own."""

    def __init__(self, name: str, width: int) -> None:
        self.seen = Seen(name)
        self.width = width
        self.profile = QWebEngineProfile()
        self.listening = Listening(self.seen.requests)
        self.profile.setUrlRequestInterceptor(self.listening)
        self.page = Page(self.profile, self.seen.console)
        self.view = QWebEngineView()
        self.view.setPage(self.page)
        settings = self.page.settings()
        assert settings is not None
        settings.setAttribute(QWebEngineSettings.WebAttribute.ShowScrollBars, False)
        self.view.resize(width, HEIGHT)
        self.view.show()

    def load(self, url: str) -> None:
        """Open an address, and wait until it has settled."""

        def start(call: Callable[..., None]) -> None:
            self.page.loadFinished.connect(call)
            self.page.load(QUrl(url))

        self.seen.loaded = bool(waited(start))
        pause(SETTLED_MS)

    def run(self, script: str) -> Any:
        """Give the value of a script in the page."""
        return waited(lambda call: self.page.runJavaScript(script, call))

    def look(self) -> None:
        """Measure the page. All of it is in the window, so that all of it is laid out and can be seen."""
        self.height = min(int(self.run("document.documentElement.scrollHeight") or HEIGHT), MOST_HEIGHT)
        self.view.resize(self.width, self.height)
        pause(SETTLED_MS)
        self.seen.look = json.loads(self.run(LOOK) or "{}")
        self.view.resize(self.width, HEIGHT)

    def picture(self, path: Path) -> None:
        """Keep what stands in the window while the page is scrolled through it, one piece below the other."""
        whole = QImage(self.width, self.height, QImage.Format.Format_RGB32)
        whole.fill(0)
        painter = QPainter(whole)
        for top in range(0, self.height, HEIGHT // 2):
            self.run(f"window.scrollTo(0, {top})")
            pause(SETTLED_MS // 2)
            # At the end of the page it scrolls no further.
            painter.drawPixmap(0, int(self.run("window.scrollY")), self.view.grab())
        painter.end()
        whole.save(str(path))

    def paper(self, path: Path) -> None:
        """Print the page to a file."""

        def start(call: Callable[..., None]) -> None:
            self.page.pdfPrintingFinished.connect(call)
            self.page.printToPdf(str(path))

        self.seen.pdf = str(path) if waited(start) else None

    def close(self) -> None:
        """Take the window away, and the page before its profile."""
        self.view.close()
        self.view.deleteLater()
        self.page.deleteLater()


def main() -> None:
    """Open what is asked for, one page after the other."""
    asked = json.load(sys.stdin)
    scheme = {"dark": 0, "light": 1}[asked["scheme"]]
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ["QTWEBENGINE_DISABLE_SANDBOX"] = "1"
    os.environ["QTWEBENGINE_CHROMIUM_FLAGS"] = (
        f"--no-sandbox --disable-gpu --force-color-profile=srgb --blink-settings=preferredColorScheme={scheme}"
    )
    application = QApplication(sys.argv[:1])
    found = []
    for each in asked["pages"]:
        opened = Opened(each["name"], each["width"])
        opened.load(each["url"])
        opened.look()
        if asked.get("pictures"):
            opened.picture(Path(asked["pictures"]) / f"{each['name']}.png")
        if each.get("paper"):
            opened.paper(Path(each["paper"]) / f"{each['name']}.pdf")
        found.append(asdict(opened.seen))
        opened.close()
        application.processEvents()
    json.dump(found, sys.stdout)
    sys.stdout.flush()
    # What is left of the browser need not be taken apart.
    os._exit(0)


if __name__ == "__main__":
    main()
