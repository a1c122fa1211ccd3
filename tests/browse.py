"""Qt's Chromium, told what to do by `browser.py`: a program of its own, since a process has one colour scheme.

Reads a JSON object a line from standard input, and answers each with a line: `{"value": ...}` or `{"error": ...}`.
`do` names a method of `Opened`, `page` the page that `open` has told of; what else there is are its arguments.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PyQt6.QtCore import QEvent, QEventLoop, QMarginsF, QPoint, QPointF, Qt, QTimer, QUrl
from PyQt6.QtGui import QImage, QMouseEvent, QPageLayout, QPageSize, QPainter
from PyQt6.QtTest import QTest
from PyQt6.QtWebEngineCore import (
    QWebEnginePage,
    QWebEngineProfile,
    QWebEngineSettings,
    QWebEngineUrlRequestInterceptor,
)
from PyQt6.QtWebEngineWidgets import QWebEngineView
from PyQt6.QtWidgets import QApplication, QWidget

# Beyond this a surface is refused; pages that are longer are looked at down to here.
MOST_HEIGHT = 15_000
SETTLED_MS = 400
PATIENCE_MS = 60_000
MARGIN_MM = 15

LEFT = Qt.MouseButton.LeftButton
NONE = Qt.KeyboardModifier.NoModifier


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
    """Give what a call back is given."""
    loop = QEventLoop()
    given: list[Any] = []

    def heard(*values: Any) -> None:
        given.extend(values)
        loop.quit()

    QTimer.singleShot(PATIENCE_MS, loop.quit)
    start(heard)
    if not given:
        loop.exec()
    if not given:
        raise TimeoutError(f"no answer within {PATIENCE_MS} ms")
    return given[0]


def double_click(target: QWidget, at: QPoint) -> None:
    """Click twice in no time: the clicks that QTest makes are too far apart for Chromium."""
    here, everywhere = QPointF(at), QPointF(target.mapToGlobal(at))
    pressed, released = QEvent.Type.MouseButtonPress, QEvent.Type.MouseButtonRelease
    for kind in (pressed, released, pressed, released):
        held = LEFT if kind == pressed else Qt.MouseButton.NoButton
        QApplication.sendEvent(target, QMouseEvent(kind, here, everywhere, LEFT, held, NONE))


class Opened:
    """A page in a window of its own, with a profile of its own."""

    def __init__(self, url: str, width: int, height: int, *, scripts: bool) -> None:
        self.size = width, height
        self.requests: list[str] = []
        self.console: list[str] = []
        self.profile = QWebEngineProfile()
        self.listening = Listening(self.requests)
        self.profile.setUrlRequestInterceptor(self.listening)
        self.page = Page(self.profile, self.console)
        self.view = QWebEngineView()
        self.view.setPage(self.page)
        settings = self.page.settings()
        assert settings is not None
        settings.setAttribute(QWebEngineSettings.WebAttribute.ShowScrollBars, False)
        settings.setAttribute(QWebEngineSettings.WebAttribute.JavascriptEnabled, scripts)
        self.view.resize(width, height)
        self.view.show()
        self.view.activateWindow()
        self.view.setFocus()

        def start(call: Callable[..., None]) -> None:
            self.page.loadFinished.connect(call)
            self.page.load(QUrl(url))

        if not waited(start):
            raise RuntimeError(f"{url} was not loaded")
        pause(SETTLED_MS)

    def target(self) -> QWidget:
        """Give the widget that mouse and keys go to, which Chromium may replace."""
        return self.view.focusProxy() or self.view

    def run(self, script: str) -> Any:
        """Give the value of an expression in the page."""
        wrapped = (
            f"(() => {{ try {{ return JSON.stringify({{value: ({script}) ?? null}}); }}"
            " catch (error) { return JSON.stringify({error: `${error}`}); } })()"
        )
        answer = waited(lambda call: self.page.runJavaScript(wrapped, call))
        if not answer:
            raise RuntimeError(f"not run: {script[:200]}")
        told: dict[str, Any] = json.loads(answer)
        if "error" in told:
            raise RuntimeError(f"{told['error']} in {script[:200]}")
        return told["value"]

    def heard(self) -> dict[str, list[str]]:
        """Give what was requested, and what the page complained of."""
        return {"requests": self.requests, "console": self.console}

    def text(self) -> str:
        """Give the text of the page, which needs no script."""
        return str(waited(self.page.toPlainText))

    def pause(self, milliseconds: int) -> None:
        """Let the page work."""
        pause(milliseconds)

    def stretch(self) -> int:
        """Make the window as high as the page, so that all of it is laid out and can be seen."""
        height = min(int(self.run("document.documentElement.scrollHeight")), MOST_HEIGHT)
        self.view.resize(self.size[0], height)
        pause(SETTLED_MS)
        return height

    def shrink(self) -> None:
        """Give the window its size again."""
        self.view.resize(*self.size)
        pause(SETTLED_MS)

    def mouse(self, steps: list[list[Any]]) -> None:
        """Do what `steps` say one after the other: `[move | press | release | double, x, y]`."""
        for what, x, y in steps:
            target, at = self.target(), QPoint(round(x), round(y))
            if what == "move":
                QTest.mouseMove(target, at)
            elif what == "press":
                QTest.mousePress(target, LEFT, NONE, at)
            elif what == "release":
                QTest.mouseRelease(target, LEFT, NONE, at)
            elif what == "double":
                double_click(target, at)
            else:
                raise ValueError(f"{what} is nothing that a mouse does")
            pause(30)
        pause(SETTLED_MS // 2)

    def key(self, name: str) -> None:
        """Press a key that Qt has a name for."""
        QTest.keyClick(self.target(), Qt.Key[f"Key_{name}"])
        pause(SETTLED_MS // 2)

    def write(self, text: str) -> None:
        """Press the keys of a text."""
        QTest.keyClicks(self.target(), text)
        pause(SETTLED_MS // 2)

    def picture(self, path: str) -> None:
        """Keep what stands in the window while the page is scrolled through it, one piece below the other."""
        width, step = self.size
        height = min(int(self.run("document.documentElement.scrollHeight")), MOST_HEIGHT)
        whole = QImage(width, height, QImage.Format.Format_RGB32)
        whole.fill(0)
        painter = QPainter(whole)
        for top in range(0, height, step // 2):
            self.run(f"window.scrollTo(0, {top})")
            pause(SETTLED_MS // 2)
            # At the end of the page it scrolls no further.
            painter.drawPixmap(0, int(self.run("window.scrollY")), self.view.grab())
        painter.end()
        whole.save(path)

    def paper(self, path: str, size: str) -> None:
        """Print the page to a file, with the margins that `page.css` asks for: Qt takes its own instead."""
        layout = QPageLayout(
            QPageSize(QPageSize.PageSizeId[size]), QPageLayout.Orientation.Portrait,
            QMarginsF(MARGIN_MM, MARGIN_MM, MARGIN_MM, MARGIN_MM), QPageLayout.Unit.Millimeter,
        )  # fmt: skip

        def start(call: Callable[..., None]) -> None:
            self.page.pdfPrintingFinished.connect(lambda _, done: call(done))
            self.page.printToPdf(path, layout)

        if not waited(start):
            raise RuntimeError(f"{Path(path).name} was not printed")

    def close(self) -> None:
        """Take the window away, and the page before its profile."""
        self.view.close()
        self.view.deleteLater()
        self.page.deleteLater()
        pause(0)


def answer(pages: dict[int, Opened], asked: dict[str, Any]) -> Any:
    """Do one thing."""
    what = asked.pop("do")
    if what == "open":
        number = len(pages)
        pages[number] = Opened(**asked)
        return number
    return getattr(pages[asked.pop("page")], what)(**asked)


def main() -> None:
    """Do what standard input says, until its end."""
    scheme = {"dark": 0, "light": 1}[sys.argv[1]]
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ["QTWEBENGINE_DISABLE_SANDBOX"] = "1"
    os.environ["QTWEBENGINE_CHROMIUM_FLAGS"] = (
        f"--no-sandbox --disable-gpu --force-color-profile=srgb --blink-settings=preferredColorScheme={scheme}"
    )
    application = QApplication(sys.argv[:1])
    pages: dict[int, Opened] = {}
    for line in sys.stdin:
        try:
            told = {"value": answer(pages, json.loads(line))}
        except Exception as error:  # noqa: BLE001 - whatever it is, the tests are told
            told = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        application.processEvents()
    # What is left of the browser need not be taken apart.
    os._exit(0)


if __name__ == "__main__":
    main()
