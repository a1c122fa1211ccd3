"""What an addition costs: each folder of `examples/extend` is applied to a copy of the sources, counted and built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXTEND = ROOT / "examples" / "extend"
ADDITIONS = sorted(path.parent.name for path in EXTEND.glob("*/addition.toml"))
# What the workspace needs to be built.
SOURCES = (
    "Cargo.toml",
    "Cargo.lock",
    "rustfmt.toml",
    "crates",
    "benches",
    "devices",
    "docs",
    "examples",
    "tests",
    "workloads",
)
LONG = "FTLAB_LONG" in os.environ
CARGO = shutil.which("cargo") or "cargo"
# As all tests are built: what is compiled of libraries is shared.
PROFILE = ("--release", "--config", str(ROOT / "tests" / "profile.toml"))


def _description(name: str) -> dict[str, Any]:
    return tomllib.loads((EXTEND / name / "addition.toml").read_text(encoding="utf-8"))


def _inserts(description: dict[str, Any]) -> list[dict[str, str]]:
    """What is put into files that are there: the line of a list, or several lines of one file."""
    return [*([description["line"]] if "line" in description else []), *description.get("insert", [])]


def _copy(name: str) -> Path:
    """A copy of the sources under the folder of what is built, where no change of it is taken for one of ours."""
    copy = ROOT / "target" / "extend" / name
    for source in SOURCES:
        target = copy / source
        if (ROOT / source).is_dir():
            # Times are kept, so that cargo builds again only what has changed.
            ignore = shutil.ignore_patterns("__pycache__", "target", "golden")
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(ROOT / source, target, ignore=ignore)
        else:
            copy.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / source, target)
    # Packages of another version share the folder of what is built, and what is built of libraries, with ours.
    manifest = copy / "Cargo.toml"
    text = manifest.read_text(encoding="utf-8")
    version = f'version = "0.0.0-extend-{name.replace("_", "-")}"'
    changed = re.sub(r'(?<=\[workspace.package\]\n)version = "[^"]+"', version, text)
    assert changed != text
    manifest.write_text(changed, encoding="utf-8")
    return copy


def _apply(name: str, copy: Path) -> None:
    description = _description(name)
    assert set(description) <= {"file", "line", "insert", "contract"}, name
    if "file" in description:
        target = copy / description["file"]["to"]
        assert not target.exists(), f"{name}: {target} is there already"
        shutil.copy2(EXTEND / name / description["file"]["copy"], target)
    if "line" in description:
        assert "\n" not in description["line"]["text"], f"{name}: more than a line"
    for insert in _inserts(description):
        changed = copy / insert["file"]
        before = changed.read_text(encoding="utf-8").split("\n")
        assert before.count(insert["after"]) == 1, f"{name}: {insert['after']!r} is not in {insert['file']} once"
        at = before.index(insert["after"]) + 1
        lines = insert["text"].strip("\n").split("\n")
        changed.write_text("\n".join([*before[:at], *lines, *before[at:]]), encoding="utf-8")


def _touched(copy: Path) -> dict[str, list[str]]:
    """Files of the copy that are new or other than ours, with the lines that they have and ours have not."""
    touched: dict[str, list[str]] = {}
    for path in (path for source in SOURCES for path in (copy / source, *(copy / source).rglob("*")) if path.is_file()):
        name = path.relative_to(copy)
        if str(name) in {"Cargo.toml", "Cargo.lock"}:
            continue
        new = path.read_bytes()
        old = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        if old == new:
            continue
        kept = iter(old.splitlines())
        following = next(kept, None)
        more = []
        for line in new.splitlines():
            if line == following:
                following = next(kept, None)
            else:
                more.append(line.decode())
        assert following is None, f"{name} has lost lines"
        touched[str(name)] = more if (ROOT / name).is_file() else []
    return touched


# In place of the compiler for our own crates, but not for their build scripts, which run: it stops where code would be
# made. `cargo check` would check all libraries as well, which are compiled already.
CHECK = r"""#!/bin/sh
case " $* " in *" --crate-name build_script_build "*) exec "$@" ;; esac
for argument; do
  shift
  case $argument in
  --emit=*) argument=--emit=dep-info,metadata ;;
  # A program is given libraries whole, which ours are not.
  *=*.rlib) [ -e "${argument#*=}" ] || argument=${argument%.rlib}.rmeta ;;
  esac
  set -- "$@" "$argument"
done
exec "$@"
"""


def _cargo(copy: Path, *arguments: str, **variables: str) -> None:
    environment = os.environ | {"CARGO_TARGET_DIR": str(ROOT / "target")} | variables
    done = subprocess.run(
        [CARGO, arguments[0], *PROFILE, "--offline", "--quiet", *arguments[1:]],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ADDITIONS)
def test_an_addition_is_one_file_and_a_line_at_most(name: str) -> None:
    description = _description(name)
    expected = {"addition.toml"} | ({description["file"]["copy"]} if "file" in description else set())
    assert {path.name for path in (EXTEND / name).iterdir()} == expected
    copy = _copy(name)
    _apply(name, copy)
    touched = _touched(copy)
    new = [file for file in touched if not (ROOT / file).is_file()]
    changed = {file: lines for file, lines in touched.items() if (ROOT / file).is_file()}
    assert new == ([description["file"]["to"]] if "file" in description else [])
    inserts = _inserts(description)
    # A new file has its line in a list, or what is there already changes in one place.
    assert len({insert["file"] for insert in inserts}) == 1, name
    assert not ("file" in description and "insert" in description), name
    assert changed == {inserts[0]["file"]: [line for each in inserts for line in each["text"].strip("\n").split("\n")]}
    assert f"| `{name}` |" in (EXTEND / "README.md").read_text(encoding="utf-8")
    if LONG:
        _cargo(copy, "test", *description["contract"]["test"])
    shutil.rmtree(copy)


@pytest.mark.long
def test_all_additions_together_build(tmp_path: Path) -> None:
    assert ADDITIONS
    copy = _copy("all")
    for name in ADDITIONS:
        _apply(name, copy)
    check = tmp_path / "check"
    check.write_text(CHECK)
    check.chmod(0o755)
    # Of one package alone, libraries would have other features, and be compiled again.
    _cargo(copy, "build", "--workspace", "--bin", "ftlab-bench", RUSTC_WORKSPACE_WRAPPER=str(check))
