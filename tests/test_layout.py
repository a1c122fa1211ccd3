"""How the tests themselves are laid out: a test that nobody builds would hold nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from conftest import ROOT

MAINS = sorted([*ROOT.glob("crates/*/tests/main.rs"), *ROOT.glob("tests/validation/tests/main.rs")])


@pytest.mark.parametrize("main", MAINS, ids=lambda path: path.parent.parent.name)
def test_every_file_is_part_of_a_test_program(main: Path) -> None:
    modules = set(re.findall(r"^mod (\w+);", main.read_text(), re.MULTILINE))
    programs = set(
        re.findall(r'^\[\[test\]\]\nname = "(\w+)"', (main.parent.parent / "Cargo.toml").read_text(), re.MULTILINE)
    )
    files = {path.stem for path in main.parent.glob("*.rs")} - {"main"}
    assert "all" in programs
    assert files <= modules | programs
    assert not modules & programs


def test_the_test_programs_were_found() -> None:
    assert len(MAINS) >= 4


def test_targets_that_say_that_they_have_no_tests_have_none() -> None:
    manifests = [path for path in ROOT.glob("**/Cargo.toml") if "test = false" in path.read_text()]
    manifests = [path for path in manifests if "target" not in path.parts]
    assert len(manifests) >= 2
    for manifest in manifests:
        for source in (manifest.parent / "src").glob("**/*.rs"):
            assert "#[test]" not in source.read_text(), source


def test_libraries_without_unit_tests_are_linted_as_they_are_compiled() -> None:
    compiler = (ROOT / "tests" / "rustc").read_text()
    for manifest in [*ROOT.glob("crates/*/Cargo.toml"), *ROOT.glob("tests/*/Cargo.toml")]:
        described = tomllib.loads(manifest.read_text())
        library = described.get("lib", {})
        if library.get("test", True) or "cdylib" in library.get("crate-type", []):
            continue
        name = described["package"]["name"].replace("-", "_")
        assert f'--crate-name {name}"' in compiler, name


def test_every_crate_with_tests_is_checked_strictly() -> None:
    profile = tomllib.loads((ROOT / "tests" / "profile.toml").read_text())["profile"]["release"]
    packages = profile.pop("package")
    folders = [*ROOT.glob("crates/*/Cargo.toml"), *ROOT.glob("tests/*/Cargo.toml")]
    names = {tomllib.loads(path.read_text())["package"]["name"] for path in folders}
    assert len(names) >= 5
    # "*" is every package but ours.
    for settings in [profile, *(profile | packages.get(name, {}) for name in names)]:
        assert settings["debug-assertions"]
        assert settings["overflow-checks"]


def _features(*selection: str) -> dict[str, set[str]]:
    """The features of each package, where these are built."""
    command = [shutil.which("cargo") or "cargo", "tree", "--offline", "--locked", "--prefix", "none", "--no-dedupe"]
    done = subprocess.run(
        [*command, "--format", "{p}|{f}", *selection], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found: dict[str, set[str]] = {}
    for line in filter(None, done.stdout.splitlines()):
        package, features = re.sub(r" \((proc-macro|\*)\)", "", line).split("|")
        found.setdefault(package, set()).add(features)
    return found


def test_libraries_are_compiled_once_for_programs_tests_and_extension() -> None:
    """With other features a library is another one, and all that uses it is compiled again: four minutes."""
    tests = _features("--workspace", "--edges", "normal,build,dev")
    for selection in (("--workspace",), ("--package", "ftlab-py")):
        built = _features(*selection, "--edges", "normal,build")
        assert len(built) > 50
        assert {package: features for package, features in built.items() if features != tests[package]} == {}
