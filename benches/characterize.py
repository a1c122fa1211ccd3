"""What characterization says of drives drawn by a seed, and of the paper's drive under noise: a line for each seed.

`python benches/characterize.py population 7000 60` judges 60 drives; `noise 0.01 7000 100` the six parameters of the
paper. Both print a line of JSON for each seed as it ends, and counts at the end.

`python benches/characterize.py search page_bytes --seed 1 --state out/search` searches a scenario for a parameter, and
holds it against the hand-made ones on drives that the search never saw. It goes on where it was interrupted.
`judge FILE --seed 1` does the latter with scenarios of a file, which a search or a person has written.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ftlab import Device
from ftlab._outputs import write_whole
from ftlab._progress import progress_bar
from ftlab.characterize import Flow, Noise, NoiseLevel, SimulatedTarget
from ftlab.characterize.automatic.files import recipes, text
from ftlab.characterize.automatic.judge import Comparison, compare
from ftlab.characterize.automatic.search import Search, Settings
from ftlab.characterize.detect import Interval
from ftlab.characterize.population import judge
from ftlab.characterize.scenario import PARAMETERS
from ftlab.characterize.truth import is_right, truths
from ftlab.errors import FtlabError, InputError
from ftlab.papers.characterization import SIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from ftlab.characterize.automatic import Recipe

# What is promised of times of the paper's drive, and of its hiding.
ROOM = {"program_ns": 0.01, "buffer_ns": 0.02}
HIDING = {0.01: 2.0, 0.05: 10.0}
MEAN, P99 = 0.05, 0.2


def population(seed: int) -> dict[str, Any]:
    """A drive of the population."""
    began = time.process_time()
    return judge(seed).document | {"cpu_seconds": round(time.process_time() - began, 1)}


def summary(lines: list[dict[str, Any]]) -> None:
    """Counts over the population."""
    verdicts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        for name, verdict in line["verdicts"].items():
            verdicts[name][verdict] += 1
            verdicts["all"][verdict] += 1
            if PARAMETERS[name].exact:
                verdicts["all sizes and words"][verdict] += 1
    for name, each in verdicts.items():
        found = each["right"] + each["wrong"]
        print(f"{name}: {found} of {each.total()} found, {each['wrong']} of them wrong")
    for quantity, room in (("mean", MEAN), ("p99", P99)):
        near = [
            bool(line["errors"])
            and all(abs(error) <= room for name, error in line["errors"].items() if name.endswith(quantity))
            for line in lines
        ]
        print(f"{quantity} within {room:.0%} under all workloads: {sum(near)} of {len(near)} models")


@cache
def white_box() -> SimulatedTarget:
    """The paper's drive, which takes a while to fill."""
    return SimulatedTarget("white-box-64g")


def noise(seed: int, sigma: float) -> dict[str, Any]:
    """The six parameters of the paper, under the noise of a seed."""
    true = truths(Device.load("white-box-64g"))
    began = time.process_time()
    found = Flow(Noise(white_box().fork(), NoiseLevel(sigma, 0.01, seed=seed)), only=SIX, seed=seed).run()
    line: dict[str, Any] = {"seed": seed, "cpu_seconds": round(time.process_time() - began, 1)}
    for name in SIX:
        each, truth = found.findings[name], true[name]
        near = each.status == "found" and is_right(each, truth)
        if isinstance(each.value, Interval) and isinstance(truth, float):
            room = HIDING.get(sigma, 2.0) if name == "hiding_percent" else ROOM[name] * truth
            near = abs(each.value.value - truth) <= room
        line[name] = {"status": each.status, "near": near, "holds": is_right(each, truth), "value": str(each.value)}
    return line


def noise_summary(lines: list[dict[str, Any]]) -> None:
    """Counts over seeds."""
    for name in SIX:
        counts = Counter(line[name]["status"] for line in lines)
        near, holds = (sum(line[name][key] for line in lines) for key in ("near", "holds"))
        print(f"{name}: {dict(counts)}, {near} near enough, {holds} hold the truth")


def options(words: list[str]) -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(prog="characterize.py", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="what", required=True)

    def command(name: str, does: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=does.__doc__, description=does.__doc__)
        added.set_defaults(does=does)
        return added

    command("population", judge_population)
    under = command("noise", judge_noise)
    under.add_argument("sigma", type=float, help="relative deviation of a time; one in a hundred is an outlier")
    for seeds in (commands.choices["population"], under):
        seeds.add_argument("first", type=int, help="first seed")
        seeds.add_argument("count", type=counted, help="how many seeds")
    usual = Settings("page_bytes")
    searched = command("search", search)
    searched.add_argument("parameter", help="what is searched for; `ftlab characterize --list` has them")
    searched.add_argument("--train", type=int, default=usual.train, help="drives to search on")
    searched.add_argument("--confirm", type=int, default=usual.confirm, help="more drives, for the best recipes")
    searched.add_argument("--candidates", type=int, default=usual.candidates, help="recipes drawn at random")
    searched.add_argument("--rounds", type=int, default=usual.rounds, help="generations of the refinement")
    searched.add_argument("--out", type=Path, metavar="FILE", help="write the scenario and its figures there")
    of_file = command("judge", judge_files)
    of_file.add_argument("file", type=Path, help="scenarios, as `search --out` writes them, or one as TOML")
    for automatic in (searched, of_file):
        automatic.add_argument("--seed", type=int, default=usual.seed, help="seed of drives and choices")
        automatic.add_argument("--held-out", type=counted, default=24, help="drives to judge on")
        automatic.add_argument("--state", type=Path, metavar="DIR", help="keep what is known there, and go on from it")
    return parser.parse_args(words)


def counted(word: str) -> int:
    """A number of things, at least one."""
    if not word.isdecimal() or int(word) == 0:
        raise argparse.ArgumentTypeError(f"{word}: expected a whole number from 1")
    return int(word)


def table(comparison: Comparison) -> None:
    """The comparison, a line for each scenario."""
    print("| scenario | right | wrong | unknown | requests | device time (ms) | written (MiB) | parameters |")
    print("|---|---|---|---|---|---|---|---|")
    for row in comparison.rows:
        each = row.document()
        cells = [each[key] for key in ("right", "wrong", "unknown")]
        cells += [f"{each['requests']:,}", f"{each['target_ms']:,.1f}", f"{each['written_mib']:,.1f}", row.finds]
        print(f"| {row.name} | {' | '.join(map(str, cells))} |")


def judged(recipe: Recipe, asked: argparse.Namespace) -> Comparison:
    """The comparison of a recipe, which is printed as well."""
    with progress_bar(f"judge {recipe.parameter}", "drives") as tell:
        comparison = compare(recipe, seed=asked.seed, held_out=asked.held_out, folder=asked.state, watch=tell)
    table(comparison)
    print(f"{comparison.separated} of {comparison.twins} pairs of twins separated")
    print("better than the hand-made ones" if comparison.beats else "not better than the hand-made ones")
    return comparison


def search(asked: argparse.Namespace) -> None:
    """Search a scenario for a parameter, and judge it on drives that the search never saw."""
    settings = Settings(asked.parameter, asked.seed, asked.train, asked.confirm, asked.candidates, asked.rounds)
    with progress_bar(f"search {settings.parameter}", "recipes") as tell:
        winner = Search(settings, asked.state, tell).run()
    if not winner.useful:
        print("no recipe was right more often than harmful and separated half of the twins")
        return
    print(winner.recipe.to_toml())
    written = text(settings, winner, judged(winner.recipe, asked))
    if asked.out is not None:
        write_whole(asked.out, written.encode())


def judge_files(asked: argparse.Namespace) -> None:
    """Hold the scenarios of a file against the hand-made ones."""
    try:
        content = asked.file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{asked.file}: {error}: expected scenarios as TOML") from error
    for recipe in recipes(content, str(asked.file)):
        print(recipe.to_toml())
        judged(recipe, asked)


def judge_population(asked: argparse.Namespace) -> None:
    """Characterize drives that seeds draw, and hold what is found against the truth."""
    judge_seeds(asked, population, summary)


def judge_noise(asked: argparse.Namespace) -> None:
    """Find the six parameters of the paper's drive, under the noise of seeds."""
    judge_seeds(asked, partial(noise, sigma=asked.sigma), noise_summary)


def judge_seeds(
    asked: argparse.Namespace,
    work: Callable[[int], dict[str, Any]],
    ended: Callable[[list[dict[str, Any]]], None],
) -> None:
    """Print a line for each seed as it ends, and what they come to."""
    lines = []
    for seed in range(asked.first, asked.first + asked.count):
        lines.append(work(seed))
        print(json.dumps(lines[-1]), flush=True)
    ended(lines)


def main(words: list[str]) -> int:
    """Do what is asked for: the exit status."""
    asked = options(words)
    try:
        asked.does(asked)
    except FtlabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        goes_on = asked.what in {"search", "judge"} and asked.state
        print("interrupted; the same command goes on" if goes_on else "interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
