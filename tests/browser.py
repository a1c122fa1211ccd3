"""A browser for tests: Qt's Chromium, which `make looks` installs, in a process of its own (`browse.py`)."""

from __future__ import annotations

import functools
import http.server
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LOOK = (HERE / "look.js").read_text()
# What is looked for in a page, by every script that does.
FIND = """
const all = (selector) => [...document.querySelectorAll(selector)];
const one = (selector, at = 0) => all(selector).at(at);
const labelled = (text) => all("label, [aria-label]").filter((each) => (each.getAttribute("aria-label")
  ?? [...each.childNodes].filter((node) => node.nodeType === 3 || node.matches("span")).map((node) => node.textContent)
    .join(" ")).trim().startsWith(text)).map((each) => each.control ?? each)[0];
"""


class Page:
    """A page that is open."""

    def __init__(self, browser: Browser, number: int) -> None:
        self._browser, self._number = browser, number

    def _do(self, what: str, **arguments: Any) -> Any:
        return self._browser.ask(do=what, page=self._number, **arguments)

    def run(self, function: str, *arguments: Any) -> Any:
        """Give what a function in the page returns: it may use what `FIND` defines."""
        given = ", ".join(json.dumps(each) for each in arguments)
        # What closes a script may end in a comment.
        return self._do("run", script=f"(() => {{ {FIND}; return (\n{function}\n)({given}); }})()")

    def wait_for(self, function: str, *arguments: Any, seconds: float = 60) -> Any:
        """Give what a function in the page returns, once it is true."""
        end = time.monotonic() + seconds
        while not (value := self.run(function, *arguments)):
            assert time.monotonic() < end, f"never true: {function}"
            self._do("pause", milliseconds=100)
        return value

    def look(self) -> dict[str, Any]:
        """What `look.js` measures, with the whole page in the window."""
        self._do("stretch")
        found: dict[str, Any] = self.run(LOOK)
        self._do("shrink")
        return found

    @property
    def console(self) -> list[str]:
        """What scripts said; the search of a site says when it is ready."""
        return [line for line in self._do("heard")["console"] if not line.startswith("InfoMessageLevel")]

    @property
    def requests(self) -> list[str]:
        """Every address that was asked for."""
        return list(self._do("heard")["requests"])

    def wait_until_it_says(self, what: str, seconds: float = 60) -> None:
        """Wait for a message of a script."""
        end = time.monotonic() + seconds
        while not any(what in line for line in self._do("heard")["console"]):
            assert time.monotonic() < end, f"never said: {what}"
            self.pause(100)

    def text(self) -> str:
        """Give what there is to be read, also where no scripts run."""
        return str(self._do("text"))

    def pause(self, milliseconds: int = 200) -> None:
        """Let the page work."""
        self._do("pause", milliseconds=milliseconds)

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of an element in the window, which is scrolled to it."""
        x, y, width, height = self.run(
            """(selector) => {
              one(selector).scrollIntoView({ block: "center", behavior: "instant" });
              const box = one(selector).getBoundingClientRect();
              return [box.x, box.y, box.width, box.height];
            }""",
            selector,
        )
        return x, y, width, height

    def mouse(self, selector: str, *steps: tuple[str, float, float]) -> None:
        """Use the mouse in an element, at shares of its size."""
        x, y, width, height = self.box(selector)
        self._do("mouse", steps=[(what, x + width * across, y + height * down) for what, across, down in steps])

    def click(self, selector: str) -> None:
        """Click into the middle of an element."""
        self.mouse(selector, ("move", 0.5, 0.5), ("press", 0.5, 0.5), ("release", 0.5, 0.5))

    def key(self, name: str) -> None:
        """Press a key, by its name in Qt: `Space`, `Return`, `Escape`, `A`."""
        self._do("key", name=name)

    def write(self, text: str) -> None:
        """Type a text where the cursor stands."""
        self._do("write", text=text)

    def choose(self, label: str, value: str) -> None:
        """Choose of a list what has this value."""
        done = self.run(
            """(label, value) => {
              const list = labelled(label);
              list.value = value;
              list.dispatchEvent(new Event("input", { bubbles: true }));
              list.dispatchEvent(new Event("change", { bubbles: true }));
              return list.value;
            }""",
            label,
            value,
        )
        assert done == value, f"{label} has no {value}"

    def picture(self, path: Path) -> None:
        """Keep a picture of the whole page. Its folder is made, as Qt says nothing where there is none."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._do("picture", path=str(path))
        assert path.is_file(), f"{path}: no picture was written"

    def print(self, path: Path, size: str = "A4") -> bytes:
        """Print to a file, and give what is in it."""
        self._do("paper", path=str(path), size=size)
        return path.read_bytes()

    def close(self) -> None:
        """Close the page."""
        self._do("close")


class Browser:
    """A process with pages, all of one colour scheme."""

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        self._process = subprocess.Popen(
            [sys.executable, HERE / "browse.py", scheme],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, **asked: Any) -> Any:
        """Give the answer of the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the browser ended with status {self._process.wait()}"
        told: dict[str, Any] = json.loads(line)
        assert "error" not in told, told["error"]
        return told["value"]

    @contextmanager
    def page(self, url: str, width: int = 1280, height: int = 900, *, scripts: bool = True) -> Iterator[Page]:
        """Open a page for a while."""
        opened = Page(self, self.ask(do="open", url=url, width=width, height=height, scripts=scripts))
        try:
            yield opened
        finally:
            opened.close()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the files of a folder, and give their address."""

    class Silent(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Silent, directory=str(folder))
    with http.server.ThreadingHTTPServer(("localhost", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://localhost:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
