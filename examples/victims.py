"""Which victim policy copies least? Every policy on the same small drive, under uniform and under skewed writes."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import ftlab

POLICIES = ("greedy", "windowed_greedy", "d_choices", "cost_benefit", "fifo", "random")
LOADS = {
    "uniform": ftlab.Workload(kind="uniform", requests=100_000),
    "skewed": ftlab.Workload(kind="hotcold", requests=100_000),
}
DRIVE = ftlab.Device.load("ideal-page", "geometry.blocks_per_plane=512")


def write_amplification(policy: str, load: str) -> float:
    """Run one point of the comparison."""
    result = ftlab.run(DRIVE.with_(ftl={"gc": policy}), LOADS[load], timing=False, series=None)
    return float(result.summary["write_amplification"]["total"])


def main() -> None:
    """Run all points, several at a time: a run releases the interpreter lock."""
    points = list(product(POLICIES, LOADS))
    with ThreadPoolExecutor() as pool:
        values = dict(zip(points, pool.map(lambda point: write_amplification(*point), points), strict=True))
    print("policy".ljust(16), *(load.rjust(8) for load in LOADS))
    for policy in POLICIES:
        print(policy.ljust(16), *(f"{values[policy, load]:8.2f}" for load in LOADS))


if __name__ == "__main__":
    main()
