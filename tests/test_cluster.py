"""Studies on a Ray cluster: the same table as on threads, whatever becomes of nodes, drivers and files.

Needs Ray (`make ray`); the cluster is two nodes of one processor each on this machine.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ftlab
from conftest import FTLAB, TERMINAL, Ran, inside
from ftlab.studies import run_study
from ftlab.studies.shipping import MOST_BYTES

LONG = "FTLAB_LONG" in os.environ
HAS_RAY = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not HAS_RAY, reason="Ray is not installed: make ray")
without_ray = pytest.mark.skipif(HAS_RAY, reason="Ray is installed")

RUNS = 10_000 if LONG else 300
STORE_BYTES, MEMORY_BYTES = 80 << 20, 300 << 20
STUDY = """
name = "small"
device = "ideal-page"
workload = {{ kind = "uniform", requests = {requests} }}
seeds = {{ from = 1, to = {runs}, step = 1 }}
[set]
geometry = {{ blocks_per_plane = 32, pages_per_block = 8 }}
precondition.kind = "fill"
[options]
timing = false
"""


def written(folder: Path, runs: int, requests: int = 200, more: str = "") -> Path:
    path = folder / "small.toml"
    path.write_text(more + STUDY.format(runs=runs, requests=requests))
    return path


def text_of(store: Path) -> str:
    return ftlab.Store(store).frame().write_csv()


# Without a cluster


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--address", "auto"), "--address goes with --executor ray"),
        (("--ship-traces",), "--ship-traces goes with --executor ray"),
        (("--executor", "ray", "--jobs", "2"), "--jobs counts threads"),
        (("--executor", "rai"), "'rai' is not one of"),
    ],
)
def test_options_of_another_executor_are_refused(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    ran = inside("study", "run", written(tmp_path, 2), "--out", tmp_path / "out", *arguments)
    assert ran.status == 2
    assert message in ran.err


@without_ray
def test_without_ray_the_extra_is_named(tmp_path: Path) -> None:
    ran = inside("study", "run", written(tmp_path, 2), "--out", tmp_path / "out", "--executor", "ray")
    assert ran.status == 2
    assert "pip install 'ftlab[ray]'" in ran.err


def test_where_ray_cannot_be_loaded_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    ran = inside("study", "run", written(tmp_path, 2), "--out", tmp_path / "out", "--executor", "ray")
    assert ran.status == 2
    assert "executor = 'ray': needs Ray" in ran.err
    assert "pip install 'ftlab[ray]'" in ran.err
    assert inside("study", "run", tmp_path / "small.toml", "--out", tmp_path / "out").status == 0


@pytest.mark.parametrize("address", ["", "10.0.0.1", "host:", "host:0", "host:99999", "ray://host:1", "a b:1"])
def test_addresses_that_are_none_are_refused(tmp_path: Path, address: str) -> None:
    from ftlab.studies.ray import RayExecutor

    with pytest.raises(ftlab.ConfigError, match=r"address = '.*': expected 'auto' or HOST:PORT"):
        RayExecutor(address)
    assert not (tmp_path / "out").exists()


@needs_ray
@pytest.mark.parametrize("listens", [False, True])
def test_an_address_without_a_cluster_is_told_within_ten_seconds(tmp_path: Path, listens: bool) -> None:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        if listens:
            place.listen()
        address = f"127.0.0.1:{place.getsockname()[1]}"
        line = [FTLAB, "study", "run", written(tmp_path, 2), "--out", tmp_path / "out", "--executor", "ray"]
        began = time.monotonic()
        done = subprocess.run([*line, "--address", address], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2, done.stderr
    assert f"address = '{address}': no cluster within 10 s" in done.stderr
    assert "Traceback" not in done.stderr
    # Ten seconds, and those that Python and Ray take to load on a machine with other work.
    assert time.monotonic() - began < 25


# On a cluster


class Nodes:
    """A cluster whose nodes come and go."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "object_store_memory": STORE_BYTES, "include_dashboard": False},
        )
        self.address: str = self._cluster.address
        self.nodes = [self.add(), self.add()]

    def add(self, **options: Any) -> Any:
        options = {"memory": MEMORY_BYTES, **options}
        return self._cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES, **options)

    def kill(self, node: Any) -> None:
        """Kill all processes of a node at once."""
        processes = [info.process.pid for infos in node.all_processes.values() for info in infos]
        children = [pid for pid, parent in parents().items() if parent in processes]
        for process in [*processes, *children]:
            os.kill(process, signal.SIGKILL)

    def gone(self, node: Any) -> None:
        """Forget a node that was killed, and have as many as before."""
        self._cluster.remove_node(node, allow_graceful=False)
        self.nodes.remove(node)
        self.nodes.append(self.add())

    def remove(self, node: Any) -> None:
        self._cluster.remove_node(node)

    def close(self) -> None:
        self._cluster.shutdown()


def parents() -> dict[int, int]:
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    return found


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    if not HAS_RAY:
        pytest.skip("Ray is not installed: make ray")
    # Where other work leaves it no processor for half a minute, Ray gives up.
    for attempt in range(3):
        try:
            cluster = Nodes()
            break
        except Exception:
            if attempt == 2:
                raise
    yield cluster
    cluster.close()


def start(nodes: Nodes, path: Path, out: Path, *more: str, **environment: str) -> subprocess.Popen[str]:
    line = [FTLAB, "study", "run", path, "--out", out, "--executor", "ray", "--address", nodes.address, *more]
    return subprocess.Popen(
        [str(word) for word in line],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **TERMINAL, **environment},
    )


def ended(process: subprocess.Popen[str], timeout: float = 180) -> Ran:
    out, err = process.communicate(timeout=timeout)
    assert "Traceback" not in err, err
    return Ran(process.returncode, out, err)


def on_cluster(nodes: Nodes, path: Path, out: Path, *more: str) -> Ran:
    return ended(start(nodes, path, out, *more))


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The table of the small study, by threads."""
    folder = tmp_path_factory.mktemp("threads")
    run_study(ftlab.Study.load(written(folder, RUNS)), ftlab.Store(folder / "out"))
    return text_of(folder / "out")


def test_the_table_is_that_of_threads(nodes: Nodes, tmp_path: Path, threads: str) -> None:
    path, out = written(tmp_path, RUNS), tmp_path / "out"
    began = time.monotonic()
    ran = on_cluster(nodes, path, out)
    assert ran.status == 0, ran.err
    assert time.monotonic() - began < 60
    assert f"{RUNS} runs, {RUNS} executed now" in ran.err
    assert text_of(out) == threads
    assert "0 executed now" in on_cluster(nodes, path, out).err


def finished(out: Path) -> int:
    return len(ftlab.Store(out).states()) if (out / "store.json").exists() else 0


def test_a_killed_node_loses_nothing_and_doubles_nothing(nodes: Nodes, tmp_path: Path) -> None:
    # Long enough for the kill to be in the middle.
    path, out = written(tmp_path, 2000 if LONG else 150, 20_000), tmp_path / "out"
    process = start(nodes, path, out)
    while process.poll() is None and finished(out) < 20:
        time.sleep(0.05)
    victim = nodes.nodes[0]
    nodes.kill(victim)
    before = finished(out)
    ran = ended(process)
    nodes.gone(victim)
    assert ran.status == 0, ran.err
    count = 2000 if LONG else 150
    assert before < count
    assert f"{count} runs, {count} executed now" in ran.err
    run_study(ftlab.Study.load(path), ftlab.Store(tmp_path / "whole"))
    assert text_of(out) == text_of(tmp_path / "whole")
    keys = ftlab.Store(out).sql("SELECT count(*) AS n, count(DISTINCT key) AS keys FROM runs")
    assert keys.rows() == [(count, count)]


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_the_next_driver_runs_only_what_is_missing(nodes: Nodes, tmp_path: Path, end: signal.Signals) -> None:
    path, out = written(tmp_path, 150, 20_000), tmp_path / "out"
    process = start(nodes, path, out)
    while process.poll() is None and finished(out) < 20:
        time.sleep(0.05)
    process.send_signal(end)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (-signal.SIGKILL if end == signal.SIGKILL else 130), err
    there = finished(out)
    assert 20 <= there < 150
    if end == signal.SIGINT:
        assert f"{there} of 150 runs have ended and are kept" in err
    ran = on_cluster(nodes, path, out)
    assert ran.status == 0, ran.err
    assert f"150 runs, {150 - there} executed now" in ran.err


def test_a_second_driver_is_refused_and_other_parts_are_not(nodes: Nodes, tmp_path: Path) -> None:
    path, out = written(tmp_path, 60), tmp_path / "out"
    with ftlab.Store(out).claim("small.1-2"):
        second = on_cluster(nodes, path, out, "--part", "1/2")
        assert second.status == 2
        assert f"study 'small.1-2' is driven by process {os.getpid()} on" in second.err
        other = start(nodes, path, out, "--part", "2/2")
        assert ended(other).status == 0
    # Nobody has to take a lock away, also after a kill.
    both = [start(nodes, path, out, "--part", "1/2"), start(nodes, path, out, "--part", "2/2")]
    assert [ended(each).status for each in both] == [0, 0]
    again = on_cluster(nodes, path, out)
    assert "60 runs, 0 executed now" in again.err


def test_a_run_that_no_node_has_memory_for_is_named_and_the_others_run(nodes: Nodes, tmp_path: Path) -> None:
    path, out = written(tmp_path, 1, more=""), tmp_path / "out"
    text = path.read_text().replace("blocks_per_plane = 32, ", "")
    path.write_text(text + "[axes]\ngeometry.blocks_per_plane = [32, 4000000]\n")
    ran = on_cluster(nodes, path, out)
    assert ran.status == 2
    assert "geometry.blocks_per_plane = 4000000, seed 1: needs up to" in ran.err
    assert "and the largest node, " in ran.err
    assert "offers 300.0 MiB" in ran.err
    assert ftlab.Store(out).frame()["status"].to_list() == ["done", "error"]


def trace_study(folder: Path, trace: Path) -> Path:
    path = folder / "traced.toml"
    path.write_text(
        f"device = 'ideal-page'\ntrace = '{trace}'\n[set]\nhost.out_of_range = 'wrap'\n"
        "geometry = { blocks_per_plane = 32, pages_per_block = 8 }\nprecondition.kind = 'fill'\n"
        "[axes]\nftl.gc = ['greedy', 'fifo']\n"
    )
    return path


def write_trace(path: Path, requests: int) -> Path:
    rows = [f"{at},w,{at * 7 % 500 * 8},8" for at in range(requests)]
    path.write_text("\n".join(["arrival_ns,op,lba,sectors", *rows]) + "\n")
    return path


def test_a_worker_without_the_trace_is_named_and_runs_later(nodes: Nodes, tmp_path: Path) -> None:
    # All nodes are this machine: the trace goes after the driver has described it, and before a worker reads it.
    trace, out = write_trace(tmp_path / "t.csv", 500), tmp_path / "out"
    path = trace_study(tmp_path, trace)

    program = (
        "import sys, pathlib, ftlab.studies as s\nfrom ftlab.studies.ray import RayExecutor\n"
        "class Taking(s.Watch):\n"
        "    def begin(self, *_):\n        pathlib.Path(sys.argv[3]).rename(sys.argv[3] + '.away')\n"
        "with RayExecutor(sys.argv[4]) as executor:\n"
        "    done = s.run_study(s.Study.load(sys.argv[1]), s.Store(sys.argv[2]), executor=executor, watch=Taking())\n"
        "print('\\n'.join(error for _, error in done.errors))\n"
    )
    line = [sys.executable, "-c", program, path, out, trace, nodes.address]
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    errors = done.stdout.splitlines()
    assert len(errors) == 2
    assert all(error.startswith("node ") and f"{trace}: No such file" in error for error in errors), errors
    Path(f"{trace}.away").rename(trace)
    ran = on_cluster(nodes, path, out, "--retry")
    assert ran.status == 0, ran.err
    assert "2 runs, 2 executed now" in ran.err


def test_a_fleet_on_a_cluster_is_that_of_threads(nodes: Nodes, tmp_path: Path) -> None:
    rows = [f"{at},w,{at * 7 % (40 + at % 30) * 8},8,{at % 30}" for at in range(6_000)]
    (tmp_path / "t.csv").write_text("\n".join(["arrival_ns,op,lba,sectors,stream", *rows]) + "\n")
    path = trace_study(tmp_path, tmp_path / "t.csv")
    path.write_text("volumes = 'all'\n" + path.read_text())
    ran = on_cluster(nodes, path, tmp_path / "out")
    assert "60 runs, 60 executed now" in ran.err
    run_study(ftlab.Study.load(path), ftlab.Store(tmp_path / "threads"))
    assert text_of(tmp_path / "out") == text_of(tmp_path / "threads")


SHIPPING = """
import sys, pathlib, ftlab.studies as s
from ftlab.studies.ray import RayExecutor
with RayExecutor(sys.argv[2], ship_traces=True) as executor:
    runs = s.Study.load(sys.argv[1]).runs()
    executor.prepare(runs[0].description)
    # All nodes are this machine, which has it no longer.
    pathlib.Path(sys.argv[3]).unlink()
    futures = [executor.submit(run.description) for run in runs]
    executor.flush()
    for outcome in (future.result(60) for future in futures):
        print(outcome.status, outcome.error, (outcome.summary or {}).get("host", {}).get("requests"))
"""


def test_traces_are_sent_to_each_node_once(nodes: Nodes, tmp_path: Path) -> None:
    home = tmp_path / "node"
    home.mkdir()
    # More than one piece.
    trace = write_trace(tmp_path / "t.csv", 600_000)
    assert trace.stat().st_size > 8 << 20
    path = trace_study(tmp_path, trace)
    text = path.read_text().replace("['greedy', 'fifo']", "['greedy', 'fifo', 'random']")
    path.write_text(text + "ftl.over_provisioning = [0.2, 0.3]\n[options]\ntiming = false\nrequests = 1000\n")
    other = nodes.add(env_vars={"TMPDIR": str(home)})
    for node in nodes.nodes:
        nodes.remove(node)
    try:
        line = [sys.executable, "-c", SHIPPING, path, nodes.address, trace]
        done = subprocess.run([str(word) for word in line], capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == ["done None 1000"] * 6
        [log] = home.glob("ftlab-traces-*/*/.sent")
        assert log.read_text() == "t.csv\n"
    finally:
        nodes.nodes = [nodes.add(), nodes.add()]
        nodes.remove(other)


@needs_ray
def test_a_trace_that_is_too_large_to_send_is_refused(nodes: Nodes, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", 10)
    with trace.open("ab") as file:
        file.truncate(MOST_BYTES + 1)
    path = trace_study(tmp_path, trace)
    ran = on_cluster(nodes, path, tmp_path / "out", "--ship-traces")
    assert ran.status == 2
    assert "ship_traces (--ship-traces): found 1.0 GiB, expected at most 1.0 GiB" in ran.err


PRETENDING = "import ftlab._native as n\nn.__engine__ = '0.0.0+another'\n"
LATE = "import time\n_time = time.time\ntime.time = lambda: _time() + 7200\n"


@pytest.mark.parametrize(
    ("site", "message"),
    [
        (PRETENDING, r"found ftlab 0\.0\.0\+another, expected ftlab"),
        (LATE, r"its clock is 7[12][0-9][0-9] s ahead of the driver's, expected at most 60 s: set it"),
    ],
    ids=["engine", "clock"],
)
def test_another_engine_and_a_wrong_clock_are_refused(nodes: Nodes, tmp_path: Path, site: str, message: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(site)
    odd = nodes.add(env_vars={"PYTHONPATH": str(tmp_path)})
    try:
        path, out = written(tmp_path, RUNS), tmp_path / "out"
        ran = on_cluster(nodes, path, out)
        assert ran.status == 2, ran.err
        assert re.search(f"node .*: {message}", ran.err), ran.err
    finally:
        nodes.remove(odd)


def test_errors_of_runs_are_results_and_not_tried_again(nodes: Nodes, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", 20)
    trace.write_text(trace.read_text() + "5,w,nonsense,8\n")
    ran = on_cluster(nodes, trace_study(tmp_path, trace), tmp_path / "out")
    assert ran.status == 1
    assert "2 failed" in ran.err
    again = on_cluster(nodes, tmp_path / "traced.toml", tmp_path / "out")
    assert (again.status, "2 runs, 0 executed now" in again.err) == (1, True)
    rows = json.loads(on_cluster(nodes, tmp_path / "traced.toml", tmp_path / "out", "--json").out)
    assert [row["status"] for row in rows] == ["error", "error"]
