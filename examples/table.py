"""A workload of one's own: requests from NumPy arrays. A log that is appended to beside records that are updated."""

import numpy as np

import ftlab

PAGE_SECTORS = 8
REQUESTS = 50_000


def main() -> None:
    """Make the requests, run them, and look at the slowest."""
    random = np.random.default_rng(1)
    is_log = np.arange(REQUESTS) % 4 == 0
    log = np.cumsum(is_log) % 2_000
    records = 2_000 + random.integers(0, 30_000, REQUESTS)
    table = {
        "arrival_ns": np.arange(REQUESTS) * 2_000_000,
        "op": np.full(REQUESTS, "write"),
        "lba": np.where(is_log, log, records) * PAGE_SECTORS,
        "sectors": np.full(REQUESTS, PAGE_SECTORS),
        "stream": is_log.astype(int),
    }
    device = ftlab.Device.load("ideal-page").set(
        "geometry.blocks_per_plane=640", "host.arrival=open", "ftl.streams=2", "precondition.kind=fill"
    )
    result = ftlab.run(device, table, requests_log=True, series=None)
    print(result)
    print(result.requests.sort("latency_ns", descending=True).head(3))


if __name__ == "__main__":
    main()
