"""A study from Python: what spare space buys, from the file beside this one to a table of means over seeds."""

import tempfile
from pathlib import Path

import polars as pl

import ftlab


def main() -> None:
    """Run the study into a store, and ask it twice: with Polars and with SQL."""
    study = ftlab.Study.load(Path(__file__).with_name("spare_space.toml"))
    with tempfile.TemporaryDirectory() as folder:
        store = ftlab.Store(folder)
        frame = ftlab.study(study, out=store)
        amplification = pl.col("write_amplification.total")
        means = frame.group_by("workload", "ftl.gc", "ftl.over_provisioning", maintain_order=True).agg(
            mean=amplification.mean(), stdev=amplification.std()
        )
        print(means)
        # A run that is in the store is never run again.
        ftlab.study(study, out=store)
        print(
            store.sql('SELECT workload, max("write_amplification.total") AS worst FROM study GROUP BY ALL ORDER BY 1')
        )


if __name__ == "__main__":
    main()
