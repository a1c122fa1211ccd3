"""What ftlab is built on comes from the official registries, and has a licence that asks for little."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from importlib import metadata
from typing import Any

import pytest
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import Requirement

from conftest import ROOT

REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"
RULES = tomllib.loads((ROOT / "tests" / "licences.toml").read_text())
EXCEPTIONS: dict[str, dict[str, str]] = RULES["exceptions"]
REQUIREMENTS = ("requirements.txt", "requirements-dev.txt")
# Installed by those who want it, with the package that tells whether they do.
OPTIONAL = {
    "requirements-ray.txt": "ray",
    "requirements-site.txt": "mkdocs",
    "requirements-looks.txt": "pyqt6-webengine",
    "requirements-wheel.txt": "ziglang",
}


def allows(expression: str | None, allowed: list[str]) -> bool:
    """Whether one may have what has this licence: of OR one part will do, of AND all parts must."""
    try:
        # Old crates write a slash where they mean OR.
        canonical = canonicalize_license_expression((expression or "").replace("/", " OR "))
    except InvalidLicenseExpression:
        return False
    tokens = re.findall(r"[()]|[^\s()]+", canonical)

    def one() -> bool:
        token = tokens.pop(0)
        if token == "(":  # noqa: S105 - a bracket
            result = either()
            tokens.pop(0)
            return result
        if tokens[:1] == ["WITH"]:
            token = f"{token} {tokens.pop(0)} {tokens.pop(0)}"
        return token in allowed

    def both() -> bool:
        result = one()
        while tokens[:1] == ["AND"]:
            tokens.pop(0)
            # Not in one expression with `and`: the rest must be read in any case.
            more = one()
            result = result and more
        return result

    def either() -> bool:
        result = both()
        while tokens[:1] == ["OR"]:
            tokens.pop(0)
            more = both()
            result = result or more
        return result

    return either()


def refused(name: str, licence: str | None) -> str | None:
    """What is wrong with the licence of a package."""
    if name in EXCEPTIONS:
        licence = EXCEPTIONS[name]["licence"]
        return None if allows(licence, [*RULES["allowed"], licence]) else f"{name}: {licence} is no licence"
    return None if allows(licence, RULES["allowed"]) else f"{name}: {licence} is not allowed"


def strange(lock: dict[str, Any], ours: set[str]) -> list[str]:
    """Packages of a lock file that come from elsewhere, or could be changed unnoticed."""
    found = []
    for package in lock["package"]:
        name, source = package["name"], package.get("source")
        if source is None and name not in ours:
            found.append(f"{name}: from a folder")
        elif source not in {None, REGISTRY}:
            found.append(f"{name}: from {source}")
        elif source is not None and not re.fullmatch("[0-9a-f]{64}", package.get("checksum", "")):
            found.append(f"{name}: no checksum")
    return found


@pytest.fixture(scope="module")
def crates() -> dict[str, Any]:
    """What cargo knows of all crates; it asks nobody for it."""
    command = ["cargo", "metadata", "--offline", "--locked", "--format-version", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    described: dict[str, Any] = json.loads(done.stdout)
    return described


def test_crates_come_from_the_registry(crates: dict[str, Any]) -> None:
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    members = set(crates["workspace_members"])
    ours = {package["name"] for package in crates["packages"] if package["id"] in members}
    assert strange(lock, ours) == []
    # None is left out: a crate of another system is compiled there.
    names = {(package["name"], package["version"]) for package in lock["package"]}
    assert names == {(package["name"], package["version"]) for package in crates["packages"]}


def test_licences_of_crates_are_allowed(crates: dict[str, Any]) -> None:
    assert len(crates["packages"]) > 50
    assert [told for each in crates["packages"] if (told := refused(each["name"], each["license"]))] == []


def is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def pinned(*, absent: bool = False) -> list[Requirement]:
    """The requirements that this system needs; optional ones where they are installed, or where `absent` ones count."""
    names = [*REQUIREMENTS, *(file for file, package in OPTIONAL.items() if absent or is_installed(package))]
    lines = [line for name in names for line in (ROOT / name).read_text().splitlines()]
    requirements = [Requirement(line) for line in lines if line and not line.lstrip().startswith("#")]
    return [each for each in requirements if each.marker is None or each.marker.evaluate()]


def licence_of(package: metadata.Distribution) -> str | None:
    """What a Python package says of its licence: an expression, a name, or classifiers."""
    told = package.metadata
    for name in ("License-Expression", "License"):
        text = told.get(name, "")
        try:
            canonicalize_license_expression(text)
        except InvalidLicenseExpression:
            continue
        return str(text)
    classifiers = [
        text.rpartition(" :: ")[2] for text in told.get_all("Classifier") or [] if text.startswith("License ")
    ]
    known = [RULES["classifiers"].get(text, text) for text in classifiers]
    return " AND ".join(f"({text})" for text in known) or None


def test_python_packages_come_from_the_registry() -> None:
    # A line of another kind, such as an address or an option, is no requirement, and is told as such.
    for each in pinned():
        assert each.url is None, each
        assert re.fullmatch(r"==[0-9][^,*]*", str(each.specifier)), each
        # Where it was installed from, unless that was an index.
        assert metadata.distribution(each.name).read_text("direct_url.json") is None, each


def test_licences_of_python_packages_are_allowed() -> None:
    requirements = pinned()
    assert len(requirements) > 30
    found = [refused(each.name, licence_of(metadata.distribution(each.name))) for each in requirements]
    assert [told for told in found if told] == []


def test_exceptions_are_needed_and_have_reasons(crates: dict[str, Any]) -> None:
    names = {each["name"] for each in crates["packages"]} | {each.name for each in pinned(absent=True)}
    assert set(EXCEPTIONS) <= names
    assert all(each["reason"] for each in EXCEPTIONS.values())
    for name in filter(is_installed, EXCEPTIONS):
        licence = licence_of(metadata.distribution(name))
        assert not allows(licence, RULES["allowed"]), f"{name}: {licence} is allowed anyway"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("mit", True),
        ("GPL-3.0-only", False),
        ("LGPL-2.1-or-later", False),
        ("MIT OR GPL-3.0-only", True),
        ("GPL-3.0-only OR MIT", True),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-3.0-only AND MIT", False),
        ("MIT/Apache-2.0", True),
        ("(MIT OR GPL-3.0-only) AND Zlib", True),
        ("MIT OR Zlib AND GPL-3.0-only", True),
        ("(MIT OR Zlib) AND (GPL-3.0-only OR AGPL-3.0-only)", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("GPL-2.0-only WITH Classpath-exception-2.0", False),
        ("MIT WITH LLVM-exception", False),
        ("UNKNOWN", False),
        ("see the file", False),
        ("", False),
        (None, False),
    ],
)
def test_expressions_are_understood(expression: str | None, expected: bool) -> None:
    assert allows(expression, RULES["allowed"]) == expected


def test_what_is_not_allowed_is_named() -> None:
    assert refused("copyleft", "GPL-3.0-only") == "copyleft: GPL-3.0-only is not allowed"
    assert refused("silent", None) == "silent: None is not allowed"
    assert refused("pathspec", "whatever it says") is None
    good = {"name": "good", "source": REGISTRY, "checksum": "0" * 64}
    packages = [
        good,
        {"name": "ours"},
        {"name": "theirs"},
        {**good, "name": "forked", "source": "git+https://example.org/forked#1234"},
        {**good, "name": "mirrored", "source": "registry+https://example.org/index"},
        {**good, "name": "unsealed", "checksum": ""},
    ]
    assert strange({"package": packages}, {"ours"}) == [
        "theirs: from a folder",
        "forked: from git+https://example.org/forked#1234",
        "mirrored: from registry+https://example.org/index",
        "unsealed: no checksum",
    ]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_long_tests_have_every_package_that_tests_ask_for() -> None:
    # `make wheel` and `make targets` alone have use for Zig.
    needed = OPTIONAL.keys() - {"requirements-wheel.txt"}
    command = ["make", "--dry-run", "--always-make", "--no-print-directory", "test-long"]
    steps = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert needed <= set(re.findall(r"--requirement (\S+)", steps))
