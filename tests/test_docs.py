"""The documentation says what the code does."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest

import ftlab
from conftest import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
GENERATE: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "generate.py"))


def test_the_generated_parts_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"run `make docs`: {done.stdout}"


def test_numbers_of_a_console_cannot_go_stale() -> None:
    page = "```toml\n# my.toml\nextends = 'ideal-page'\n```\n\n```console\n$ ftlab config check my.toml\n{}\n```\n"
    true = page.format(
        "my.toml: a valid device: <ftlab.Device my: 3.5 GiB of 4.0 GiB flash, 1 channels x 1 ways x 1 dies x 1 planes>"
    )
    assert GENERATE["with_consoles"](page.format("my.toml: a valid device")) == true
    assert GENERATE["with_consoles"](true) == true
    for path in GENERATE["CONSOLES"]:
        blocks = re.findall(r"```console\n\$ ftlab [^\n]*\n[^$`]", path.read_text())
        assert blocks, path


@pytest.mark.parametrize("name", ["victim_policy", "mapping_cache"])
def test_guides_show_the_additions_that_are_compiled(name: str) -> None:
    folder = ROOT / "examples" / "extend" / name
    added = tomllib.loads((folder / "addition.toml").read_text())
    page = (ROOT / "docs" / "guides" / f"add-a-{name.replace('_', '-')}.md").read_text()
    assert (folder / added["file"]["copy"]).read_text() in page
    assert added["line"]["text"] in page
    assert added["line"]["file"] in page
    assert added["file"]["to"] in page


def test_every_command_has_a_page_with_all_its_options() -> None:
    for name, command in GENERATE["_commands"](GENERATE["cli"], "ftlab").items():
        page = (ROOT / "docs" / "reference" / "commands" / f"{name.split()[1]}.md").read_text()
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--"):
                    assert option in page, (name, option)
        assert command.help, name
        silent = [each.name for each in command.params if isinstance(each, click.Option) and not each.help]
        assert silent == [], name


def flat(document: dict[str, Any]) -> set[str]:
    keys = set(document)
    for value in document.values():
        keys |= flat(value) if isinstance(value, dict) else set()
    return keys


def test_every_key_of_a_summary_is_explained() -> None:
    device = ftlab.Device.load("ideal-page").set(
        "geometry.blocks_per_plane=64", "host.arrival=open", "host.outstanding=2", "cell.rated_pe_cycles=9",
        "map_cache.kind=bsb", "map_cache.bytes=16KiB",
    )  # fmt: skip
    summary = ftlab.run(device, ftlab.Workload(kind="uniform", requests=100), verify=True).summary
    # Names of windows and of kinds of content.
    for key in ("windows", "scores", "content_bytes"):
        assert summary["map_cache"].pop(key), key
    summary["map_cache"].update(windows={}, scores={}, content_bytes={})
    page = (ROOT / "docs" / "reference" / "summary.md").read_text()
    missing = sorted(key for key in flat(summary) if not re.search(rf"`(\w+\.)?{key}[`.]", page))
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) + re.findall(r'src="([^"]+)"', text):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def anchors(page: Path) -> set[str]:
    """What a link into a page may name: its headings, as they are shown on the web."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_headings(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", page.read_text()):
        if "://" not in target:
            assert anchor in anchors(page.parent / target if target else page), (target, anchor)


def test_the_readme_is_short_and_shows_a_run() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 65
    [picture] = re.findall(r'<img src="([^"]+)"', text)
    assert (ROOT / picture).stat().st_size < 100_000


def test_pages_are_of_one_kind() -> None:
    """A guide stops early; what is long is a concept, a note, or generated."""
    kinds = {path.parent.name for path in (ROOT / "docs").rglob("*.md")}
    assert kinds == {"docs", "guides", "concepts", "reference", "commands", "notes"}
    for page in (ROOT / "docs" / "guides").glob("*.md"):
        assert page.name.startswith("add-a-") or len(page.read_text().splitlines()) <= 150, page.name


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if page.parent == ROOT else pytest.mark.long) for page in PAGES],
    ids=lambda page: page.name,
)
def test_files_and_programs_in_the_pages_work(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(toml|python)\n(.*?)```", page.read_text(), re.DOTALL)
    for language, text in blocks:
        if language == "python":
            exec(compile(text, str(page), "exec"), {})  # noqa: S102 - our own page
            continue
        document = tomllib.loads(text)
        name = re.match(r"# (\S+\.toml)", text)
        if name:
            (tmp_path / name[1]).write_text(text)
        if "axes" in document:
            (tmp_path / "block.toml").write_text(text)
            ftlab.Study.load(tmp_path / "block.toml").runs()
        elif "geometry" in document:
            ftlab.Device.parse(text, page.name)
        elif "workload" in document:
            (tmp_path / "block.toml").write_text(text)
            if "trace" not in document["workload"]:
                ftlab.Workload.load(tmp_path / "block.toml")


def test_public_names_are_documented() -> None:
    for name in ftlab.__all__:
        thing = getattr(ftlab, name)
        if isinstance(thing, str):
            continue
        assert thing.__doc__, name
        for member, value in vars(thing).items() if isinstance(thing, type) else ():
            if not member.startswith("_") and (callable(value) or isinstance(value, property | classmethod)):
                assert value.__doc__, f"{name}.{member}"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples_run(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(program), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.long
def test_the_tables_of_the_choice_of_a_cache_can_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    program = runpy.run_path(str(ROOT / "docs" / "choose_map_cache.py"))
    # As few runs as tell the two tables from others.
    program["main"].__globals__.update(MEMORY_KIB=(32,), SCHEMES={"S-FTL": {"kind": "sftl"}, "DFTL": {"kind": "dftl"}})
    program["main"](["--traces", "nowhere", "--blocks", "28", "--requests", "300", "--seeds", "2"])
    told = capsys.readouterr().out
    for scheme in ("S-FTL", "DFTL"):
        assert len(re.findall(rf"^\| 32 KiB \| {scheme} \|  \|  \| \d\.\d\d \|$", told, re.MULTILINE)) == 1
    # Each is named with a mean and an interval, but where the requests are too few for a p99.
    named = re.findall(r"^\| smartphone.*$", told, re.MULTILINE)
    assert len(named) == 1
    for line in named:
        assert re.fullmatch(r"\| [^|]+ \| \d+ KiB \|  \|  \| [^|]+: \d+\.\d{3} ± \d+\.\d{3} \|", line), line
    places = program["PAGE"].read_text().count(program["BEGIN"])
    assert places == program["PAGE"].read_text().count(program["END"]) == 2


def test_the_tests_that_pages_name_exist() -> None:
    page = (ROOT / "docs" / "notes" / "pitfalls.md").read_text()
    sources = [*ROOT.glob("crates/*/src/**/*.rs"), *ROOT.glob("crates/*/tests/*.rs"), *ROOT.glob("tests/*.py")]
    file, found = "", 0
    for named, test in re.findall(r"`([\w./-]*)::(\w+)`", page):
        file = named or file
        texts = [path.read_text() for path in sources if str(path).endswith("/" + file)]
        assert any(re.search(rf"\b(fn|def) {test}\(", text) for text in texts), f"{file}::{test}"
        found += 1
    assert found > 30


def test_every_page_is_within_reach_of_the_readme() -> None:
    seen: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen:
            continue
        seen.add(page)
        targets = re.findall(r"\]\(([^)#]+\.md)\)", page.read_text())
        todo += [(page.parent / target).resolve() for target in targets if "://" not in target]
    assert [page.name for page in PAGES if page not in seen] == []


def test_the_citation_names_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    [version] = re.findall(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert f"\nversion: {version}\n" in text
    for key in ("cff-version: 1.2.0", "message: ", "title: ", "authors:", "license: Apache-2.0"):
        assert key in text
