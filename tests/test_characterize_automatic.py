"""Automatic scenarios: the grammar, its interpreter against drives computed by hand, and the search."""

from __future__ import annotations

import json
import re
import runpy
import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from conftest import ROOT
from ftlab.characterize import Flow
from ftlab.characterize.automatic import Amount, Recipe, drives, scenario_of
from ftlab.characterize.automatic.drives import Cost, Drive, Verdict, held_out_seed, training_seed, twin
from ftlab.characterize.automatic.files import read, recipes, text
from ftlab.characterize.automatic.genes import ALLELES, Genome
from ftlab.characterize.automatic.grammar import ESTIMATORS, unit_of
from ftlab.characterize.automatic.judge import Comparison, Row, compare
from ftlab.characterize.automatic.search import Result, Search, Settings
from ftlab.characterize.detect import Interval
from ftlab.characterize.population import draw
from ftlab.characterize.scenario import PARAMETERS
from ftlab.characterize.scenarios import SCENARIOS, trimmed_reads
from ftlab.characterize.target import FLUSH, READ, WRITE, Batch, Times
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RECIPE = Recipe(
    parameter="page_bytes",
    warm_up="fill",
    region=Amount(1, "mib"),
    ops=("read",),
    address="stride",
    stride=Amount(64, "kib"),
    offset=Amount(0, "sector"),
    size=Amount(1, "sector"),
    sweep="size",
    points="linear",
    unit=Amount(1, "sector"),
    most=32,
    depth=1,
    gap_us=0,
    steps=3,
    timed="sum",
    estimator="steps",
    threshold=5,
    otherwise="unknown",
    less=(),
)
NAMES = {"page_bytes", "run_bytes", "host_overhead_ns", "link_sector_ns", "bus_sector_ns", "read_ns"}


@dataclass
class ByHand:
    """A drive of eight sectors a page, whose latencies anybody can compute; `kept` sectors of the newest are fast."""

    name: str = "by hand"
    capacity: int = 64 << 11
    features: Mapping[str, Any] = field(default_factory=lambda: {"trim": True})
    sent: list[Batch] = field(default_factory=list)
    writes: int = 0
    newest: int = 0
    kept: int = 0

    def latency(self, op: int, lba: int, sectors: int, busy: dict[int, int]) -> int:
        """1 us, 100 ns a sector; 50 us for each page that is read, after others of its unit; the 64th write erases."""
        if op == FLUSH:
            return 500
        if op == WRITE:
            self.newest = lba + sectors
            self.writes += 1
            return 20_000 + (900_000 if self.writes % 64 == 0 else 0)
        if lba >= self.newest - self.kept:
            return 1000
        pages = (lba + sectors - 1) // 8 - lba // 8 + 1
        unit = lba // 8 % 6
        waited = busy.get(unit, 0)
        busy[unit] = waited + 50_000 * pages
        return 1000 + 100 * sectors + 50_000 * pages + waited

    def send(self, batch: Batch) -> Times:
        """One instant after the other."""
        self.sent.append(batch)
        now, start, end = 0, [], []
        busy: dict[int, int] = {}
        instants = np.arange(len(batch)) * 10**9 if batch.at_ns is None else batch.at_ns
        for op, lba, sectors, at in zip(
            batch.op.tolist(), batch.lba.tolist(), batch.sectors.tolist(), instants.tolist(), strict=True
        ):
            busy = busy if at == now else {}
            now = at
            start.append(at)
            end.append(at + self.latency(op, lba, sectors, busy))
        return Times(np.array(start, dtype=float), np.array(end, dtype=float))

    def idle(self, ns: int) -> None:
        """Nothing goes on."""

    def flush(self) -> float:
        """Nothing is held."""
        return 500.0

    def trim(self, lba: int, sectors: int) -> float:
        """Nothing is forgotten."""
        return float(lba + sectors) * 0

    def fork(self) -> ByHand:
        """It is not copied."""
        return self


def told(recipe: Recipe, known: Mapping[str, Interval | str] | None = None, *, kept: int = 0) -> tuple[Any, ByHand]:
    """What a recipe says of the drive by hand, and the drive."""
    drive = ByHand(kept=kept)
    flow = Flow(drive, only=(recipe.parameter,), scenarios=(scenario_of(recipe),))
    flow.result.known = dict(known or {})
    return flow.run().findings[recipe.parameter], drive


def test_a_recipe_is_text_and_back() -> None:
    assert Recipe.parse(RECIPE.to_toml()) == RECIPE
    assert Recipe.from_document(json.loads(json.dumps(RECIPE.document()))) == RECIPE


@pytest.mark.parametrize("parameter", ["page_bytes", "program_ns", "channels"])
def test_whatever_genes_are_drawn_is_text_and_back(parameter: str) -> None:
    genome = Genome(parameter, NAMES)
    random = np.random.default_rng(2)
    recipes, estimators = 0, set()
    for _ in range(300):
        try:
            recipe = genome.recipe(random.integers(ALLELES, size=len(genome.names)).tolist())
        except ConfigError:
            continue
        recipes += 1
        estimators.add(recipe.estimator)
        assert Recipe.parse(recipe.to_toml()) == recipe
        assert set(recipe.needs) <= NAMES | {"read_buffer_bytes"}
    assert recipes > 250
    assert estimators == {name for name, (unit, _) in ESTIMATORS.items() if unit == unit_of(parameter)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ops": ["raed"]}, "ops = 'raed': expected read, write, trim, flush; did you mean 'read'?"),
        ({"ops": []}, r"ops = \[\]: expected one to 4"),
        ({"gap_us": -1}, "gap_us = -1: expected a whole number from 0"),
        ({"steps": 0}, "steps = 0: expected a whole number from 1"),
        ({"size": "1 pag"}, "size: unit = 'pag': .* did you mean 'page'"),
        ({"size": "page"}, "size = 'page': expected a number and a unit"),
        ({"estimator": "level"}, "estimator = 'level': gives ns, page_bytes is byte: steps, dips"),
        ({"estimator": "stesp"}, "did you mean 'steps'"),
        ({"sweep": "distance"}, "depth = 1: expected 2 or more"),
        ({"parameter": "page_byte"}, "did you mean 'page_bytes'"),
        ({"parameter": "write_policy"}, "no estimator of the grammar gives it"),
        ({"speed": 1}, "key = 'speed'"),
        ({"ops": "read"}, "ops = 'read': expected a list"),
    ],
)
def test_what_is_no_recipe_is_refused_in_one_sentence(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as error:
        Recipe.from_document(RECIPE.document() | change)
    assert "\n" not in str(error.value)


def test_nothing_and_half_of_a_recipe_are_refused() -> None:
    with pytest.raises(ConfigError, match="found nothing"):
        Recipe.parse("")
    with pytest.raises(ConfigError, match="warm_up: is missing"):
        Recipe.parse('parameter = "page_bytes"')
    with pytest.raises(ConfigError, match="scenario: "):
        Recipe.parse("=")


def test_steps_over_size_are_the_page() -> None:
    found, drive = told(RECIPE)
    assert (found.status, found.value.value) == ("found", 4096)
    reads = drive.sent[-1]
    assert set(reads.op.tolist()) == {READ}
    assert reads.sectors.tolist() == list(range(1, 33)) * 3 or len(drive.sent) > 3
    assert {lba % 128 for lba in reads.lba.tolist()} == {0}


def test_levels_and_slopes_are_times_less_what_is_known() -> None:
    host, link = Interval.around(1000, 1), Interval.around(100, 0.01)
    level = replace(
        RECIPE, parameter="read_ns", sweep="none", points="linear", most=1, estimator="level", less=("host", "link")
    )
    found, _ = told(level, {"host_overhead_ns": host, "link_sector_ns": link})
    assert found.value.value == pytest.approx(50_000)
    pages = {"page_bytes": Interval(4096, 4096, 4096), "link_sector_ns": link}
    slope = replace(level, sweep="size", unit=Amount(1, "page"), most=4, estimator="slope", less=("link",))
    found, _ = told(slope, pages)
    assert found.value.value == pytest.approx(50_000)
    assert told(level)[0].status == "unknown"


def test_what_waits_at_one_instant_has_the_period_of_units() -> None:
    far = replace(
        RECIPE,
        parameter="channels",
        address="random",
        stride=Amount(4, "kib"),
        sweep="distance",
        unit=Amount(4, "kib"),
        most=24,
        depth=2,
        gap_us=1000,
        timed="last",
        estimator="coarse",
        steps=9,
    )
    found, drive = told(far)
    assert found.value.value == 6
    at = drive.sent[-1].at_ns
    assert at is not None
    assert np.unique(at, return_counts=True)[1].tolist() == [2] * (at.size // 2)
    read = replace(far, parameter="read_ns", estimator="classes")
    assert told(read)[0].value.value == pytest.approx(50_000)


def test_updates_have_a_rhythm_and_its_height() -> None:
    updates = replace(
        RECIPE,
        parameter="block_bytes",
        ops=("write", "flush"),
        address="fixed",
        size=Amount(4, "kib"),
        sweep="none",
        points="linear",
        most=1,
        steps=1024,
        estimator="rhythm",
    )
    assert told(updates)[0].value.value == 64 * 4096
    height = replace(updates, parameter="erase_ns", estimator="height")
    assert told(height)[0].value.value == pytest.approx(900_000)


def test_a_jump_is_zoomed_into() -> None:
    """200 sectors are kept: between 64 and 128 KiB, then to two KiB."""
    age = replace(
        RECIPE,
        parameter="buffer_bytes",
        sweep="age",
        points="zoom",
        unit=Amount(64, "kib"),
        most=8,
        estimator="last_before",
        steps=1,
    )
    found, drive = told(age, kept=200)
    assert found.value.value == 200 * 512
    assert len({batch.lba.size for batch in drive.sent if set(batch.op.tolist()) == {READ}}) == 2
    assert told(replace(age, estimator="first_after"), kept=200)[0].value.value == 204 * 512
    assert told(replace(age, otherwise="zero"))[0].value.value == 0


def test_no_jump_is_what_the_recipe_says() -> None:
    flat = replace(RECIPE, most=8, parameter="chunk_bytes")
    assert told(flat)[0].status == "unknown"
    assert told(replace(flat, otherwise="zero"))[0].value.value == 0
    page = {"page_bytes": Interval(8192, 8192, 8192)}
    assert told(replace(flat, otherwise="page"), page)[0].value.value == 8192
    assert "needs page_bytes" in told(replace(flat, otherwise="page"))[0].reason


def test_drives_to_judge_on_are_none_to_search_on() -> None:
    numbers, seeds = range(500), range(1, 4)
    training = {training_seed(seed, number) for seed in seeds for number in numbers}
    held_out = {held_out_seed(seed, number) for seed in seeds for number in numbers}
    assert not training & held_out
    assert len(training) == len(held_out) == len(numbers) * len(seeds)


@pytest.mark.parametrize(
    "parameter", ["page_bytes", "mapping_unit_bytes", "block_bytes", "channels", "ways", "read_ns", "program_ns"]
)
def test_twins_differ_in_one_parameter(parameter: str) -> None:
    related = {"block_bytes": {"gc_unit_bytes"}, "page_bytes": {"chunk_bytes"}}
    # What follows from sizes: spare space is a number of blocks.
    follows = {"over_provisioning", "gc_onset_bytes", "gc_unit_bytes", "volumes", "chunk_bytes", "mapping_unit_bytes"}
    seen = 0
    for seed in range(training_seed(3, 0), training_seed(3, 6), 2):
        drive = Drive.of(draw(seed))
        other = twin(drive, parameter)
        if other is None:
            continue
        seen += 1
        differ = {name for name, value in drive.true.items() if other.true.get(name) != value}
        assert parameter in differ
        assert differ - {parameter} - related.get(parameter, set()) <= follows
    assert seen


def verdicts(right: int, wrong: int, cost: Cost) -> tuple[Verdict, ...]:
    words = ["right"] * right + ["wrong"] * wrong + ["unknown"] * (10 - right - wrong)
    return tuple(Verdict(word, None, cost) for word in words)


def test_only_what_is_better_beats() -> None:
    cheap, dear, mixed = Cost(10, 1e6, 100), Cost(20, 2e6, 100), Cost(30, 1e6, 100)
    hand = Row("hand", verdicts(8, 1, dear))
    assert Row("", verdicts(8, 1, cheap)).beats(hand)
    assert Row("", verdicts(9, 0, mixed)).beats(hand)
    assert not Row("", verdicts(8, 1, mixed)).beats(hand)
    assert not Row("", verdicts(8, 2, cheap)).beats(hand)
    assert not Row("", verdicts(7, 0, cheap)).beats(hand)
    assert not hand.beats(hand)


def test_what_says_the_same_of_twins_is_a_guess() -> None:
    cheap, dear = Cost(10, 1e6, 100), Cost(20, 2e6, 100)
    found, hand = Row("", verdicts(8, 1, cheap)), Row("hand", verdicts(8, 1, dear))
    assert Comparison(found, (hand,), hand, 4, 4).beats
    assert Comparison(found, (hand,), hand, 0, 0).beats
    assert not Comparison(found, (hand,), hand, 1, 4).beats
    guess, told_apart = (Result(RECIPE, verdicts(10, 0, cheap), separated, (10, 4), 1.0) for separated in (0, 4))
    honest = Result(RECIPE, verdicts(6, 0, dear), 4, (10, 4), 0.6)
    assert not guess.useful
    assert told_apart.rank < honest.rank < guess.rank
    assert told_apart.score < honest.score < guess.score


SMALL = Settings("host_overhead_ns", seed=4, train=1, confirm=0, candidates=9, rounds=1)
# The plan until the parameter is found: the rest takes many seconds.
PLAN = SCENARIOS[: SCENARIOS.index(trimmed_reads.SCENARIO) + 1]


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the plan says of the training drives, which takes seconds."""
    folder = tmp_path_factory.mktemp("references")
    for number in range(SMALL.train):
        drive = Drive.of(draw(training_seed(SMALL.seed, number)))
        drives.keep(drive, drive.reference(PLAN), folder)
    return folder


def state(folder: Path) -> Path:
    return folder / "host_overhead_ns-4.jsonl"


def test_a_search_is_that_of_its_seed_and_goes_on_where_it_ended(
    references: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[int] = set()
    judge = Drive.judge

    def watched(self: Drive, *rest: Any) -> Verdict:
        seen.add(self.drawn.seed)
        return judge(self, *rest)

    monkeypatch.setattr(drives.Drive, "judge", watched)
    whole, cut = (shutil.copytree(references, tmp_path / name) for name in ("whole", "cut"))
    first = Search(SMALL, whole).run()
    assert seen
    assert all(seed % 2 == 0 for seed in seen)
    # Cut off in the middle of a line, as a kill may leave it.
    lines = state(whole).read_bytes().split(b"\n")
    state(cut).write_bytes(b"\n".join([*lines[:5], lines[5][:20]]))
    again = Search(SMALL, cut)
    assert again.run() == first
    assert state(cut).read_bytes() == state(whole).read_bytes()
    assert again.run() == first
    assert Search(replace(SMALL, seed=5, rounds=0), None).settings.seed == 5


def test_an_interrupted_search_goes_on(references: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(references, tmp_path / "state")

    def interrupt(what: str, _share: float | None, count: int) -> None:
        if what == "random recipes" and count == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Search(SMALL, folder, interrupt).run()
    assert len(state(folder).read_bytes().splitlines()) == 6
    assert Search(SMALL, folder).run() == Search(SMALL, shutil.copytree(references, tmp_path / "other")).run()


def test_the_state_of_another_search_is_refused(references: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(references, tmp_path / "state")
    state(folder).write_text(json.dumps({"parameter": "page_bytes"}) + "\n")
    with pytest.raises(ConfigError, match="found the state of parameter page_bytes; expected parameter host_overhead"):
        Search(SMALL, folder).run()
    state(folder).write_text("?")
    with pytest.raises(ConfigError, match="expected the state of a search"):
        Search(SMALL, folder).run()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"parameter": "page_size"}, "did you mean 'page_bytes'"),
        ({"train": 0}, "train = 0: expected a whole number from 1"),
        ({"confirm": -1}, "confirm = -1: expected a whole number from 0"),
        ({"rounds": -1}, "rounds = -1: expected a whole number from 0"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        replace(SMALL, **change)


def test_what_was_found_is_text_and_back() -> None:
    rows = [Row(name, verdicts(8, 1, Cost(10, 1e6, 100))) for name in ("found", "hand", "all")]
    result = Result(RECIPE, verdicts(9, 0, Cost(10, 1e6, 100)), 2, (10, 4), 0.5)
    written = text(Settings("page_bytes"), result, Comparison(rows[0], (rows[1],), rows[2], 3, 4))
    (found,) = read(written, "search")
    assert (found.recipe, found.beats, found.name) == (RECIPE, False, "automatic-page-bytes")
    assert found.training["right"] == 9
    assert found.held_out["hand"]["wrong"] == 1
    assert recipes(written, "search") == recipes(RECIPE.to_toml(), "mine") == (RECIPE,)
    with pytest.raises(ConfigError, match="search: KeyError"):
        read("[[scenario]]", "search")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["search", "page_byte"], "did you mean 'page_bytes'"),
        (["search", "page_bytes", "--candidates", "0"], "candidates = 0: expected a whole number from 1"),
        (["judge", "nowhere.toml"], "nowhere.toml: .*expected scenarios as TOML"),
    ],
)
def test_the_command_says_what_is_wrong(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = runpy.run_path(str(ROOT / "benches" / "characterize.py"))["main"]
    assert command(words) == 2
    error = capsys.readouterr().err
    assert re.search(said, error)
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required: what"),
        (["population", "1"], "the following arguments are required: count"),
        (["population", "1", "0"], "0: expected a whole number from 1"),
        (["noise", "much", "1", "1"], "invalid float value: 'much'"),
        (["seach", "page_bytes"], "invalid choice: 'seach'"),
    ],
)
def test_what_was_not_asked_for_rightly_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = runpy.run_path(str(ROOT / "benches" / "characterize.py"))["main"]
    with pytest.raises(SystemExit) as ended:
        command(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.long
def test_a_real_search_finds_a_scenario_that_holds_on_drives_it_never_saw(tmp_path: Path) -> None:
    settings = Settings("host_overhead_ns", seed=6, train=4, confirm=4, candidates=300, rounds=4)
    winner = Search(settings, tmp_path).run()
    comparison = compare(winner.recipe, seed=6, held_out=6, folder=tmp_path)
    assert winner.count("right") >= 6
    assert comparison.found.count("wrong") <= 1
    assert comparison.found.count("right") >= 4
    (found,) = read(text(settings, winner, comparison), "search")
    assert found.recipe == winner.recipe
    assert found.beats == comparison.beats
    assert PARAMETERS[found.recipe.parameter].unit == "ns"
