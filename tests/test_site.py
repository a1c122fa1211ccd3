"""The documentation as a site: whole, of this project alone, and searched by the words of a newcomer.

Skipped where MkDocs is not installed (`make site` installs it). Its search runs as in a browser, by Node.
"""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT

pytest.importorskip("mkdocs", reason="MkDocs is not installed: `make site` installs it")
NODE = shutil.which("node")

# The worker of the site's search, with what a browser has: it loads the index, and answers each query.
SEARCH = """
const fs = require("fs"), vm = require("vm"), folder = process.argv[1], queries = JSON.parse(process.argv[2]);
const answers = [];
const read = name => fs.readFileSync(`${folder}/${name}`, "utf8");
const worker = {
  console: {log() {}, error(text) { throw new Error(text); }},
  postMessage(message) { if (message.results) answers.push(message.results.map(each => each.location)); },
  importScripts(...names) { names.forEach(name => vm.runInContext(read(name), worker)); },
  XMLHttpRequest: class {
    addEventListener(_, heard) { this.heard = heard; }
    open(_, name) { this.name = name; }
    send() { this.responseText = read(this.name); this.heard.call(this); }
  },
};
worker.self = worker;
vm.createContext(worker);
vm.runInContext(read("worker.js"), worker);
worker.onmessage({data: {init: true}});
queries.forEach(query => worker.onmessage({data: {query}}));
console.log(JSON.stringify(answers));
"""

# What a newcomer types, and the pages that answer it.
QUESTIONS = {
    "steady state": ["guides/questions/#when-is-a-drive", "guides/analysis/", "reference/warnings/"],
    "p99": ["guides/questions/#what-are-p99", "guides/explain-latency/"],
    "wrap": ["guides/questions/#what-does-wrap", "reference/device-keys/#host"],
    "QLC": ["guides/questions/#how-do-i-simulate-qlc", "reference/device-keys/#cell"],
    "closed replay": ["guides/questions/#closed-replay", "guides/traces/"],
    "own policy": ["guides/questions/#how-do-i-try-a-policy", "guides/add-a-victim-policy/"],
    "per-request latency": ["guides/questions/#where-is-the-latency", "reference/request-log/"],
    "write buffer": ["guides/questions/#how-do-i-give", "guides/write-buffers/"],
    "citing": ["guides/questions/#how-do-i-cite"],
    "formats": ["guides/questions/#which-formats", "reference/formats/", "guides/traces/"],
}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    # `strict` makes errors of links and headings that lead nowhere.
    assert done.returncode == 0, done.stderr
    return folder


class Loaded(HTMLParser):
    """What a page loads by itself, and where its links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in {"script", "img", "iframe", "source", "video"} and given.get("src"):
            self.loads.append(str(given["src"]))
        elif tag == "link" and given.get("rel") != "canonical" and given.get("href"):
            self.loads.append(str(given["href"]))
        elif tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))


def loaded(page: Path) -> Loaded:
    found = Loaded()
    found.feed(page.read_text(encoding="utf-8"))
    return found


def test_nothing_comes_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 70
    for page in pages:
        for name in loaded(page).loads:
            assert not re.match(r"\w+:|//", name), (page.name, name)
            if page.name != "404.html":
                assert (page.parent / name.split("?")[0]).exists(), (page.name, name)
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import )['\"]?(?:https?:)?//", style.read_text(encoding="utf-8")), style.name
    for script in [*site.rglob("*.js")]:
        assert not re.search(
            r"(?:fetch|import|importScripts|getScript)\(['\"](?:https?:)?//", script.read_text("utf-8")
        ), script.name


def test_links_of_the_site_lead_somewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        for name in loaded(page).links:
            target = name.partition("#")[0]
            if not target or re.match(r"\w+:|/", target):
                continue
            place = (page.parent / target).resolve()
            assert place.is_relative_to(site.resolve()), (page, name)
            assert (place / "index.html").exists() or place.is_file(), (page, name)


def test_every_page_is_in_the_navigation() -> None:
    hooks: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "site" / "hooks.py"))
    listed = {
        page
        for section in hooks["navigation"]()[1:]
        for pages in section.values()
        for each in pages
        for page in each.values()
    }
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages - listed == {"README.md"}


def test_lists_inside_lists_are_lists(site: Path) -> None:
    page = (site / "reference" / "formats" / "index.html").read_text(encoding="utf-8")
    assert re.search(r"<li>Units:\s*<ul>", page)


def test_nothing_is_code_by_chance(site: Path) -> None:
    """Fences have a language; what has none was indented, and is no code."""
    for page in site.rglob("*.html"):
        assert "<pre><code>" not in page.read_text(encoding="utf-8"), page


@pytest.mark.skipif(NODE is None, reason="no Node found: the search of the site was not run")
def test_questions_of_a_newcomer_are_answered_by_the_first_hits(site: Path) -> None:
    assert len(QUESTIONS) == 10
    done = subprocess.run(
        [str(NODE), "-e", SEARCH, str(site / "search"), json.dumps(list(QUESTIONS))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers: list[list[str]] = json.loads(done.stdout)
    missed = {
        query: hits[:3]
        for (query, wanted), hits in zip(QUESTIONS.items(), answers, strict=True)
        if not any(hit.startswith(page) for hit in hits[:3] for page in wanted)
    }
    assert missed == {}
