"""The command ``ftlab``, which is ``python -m ftlab`` as well."""

from __future__ import annotations

import atexit
import contextlib
import gc
import sys


def main() -> None:
    """Run the command line and exit with its status."""
    if sys.argv[1:] == ["--version"] and sys.stdout is not None:
        # Scripts ask for it at every start: it does not wait for the command line to be imported.
        # What cannot be written is told by that.
        with contextlib.suppress(OSError):
            from ftlab import __version__

            sys.stdout.write(f"ftlab, version {__version__}\n")
            sys.stdout.flush()
            return
    # A process that ends need not look for cycles among all that it imported: a tenth of the time of a small run.
    atexit.register(gc.freeze)
    try:
        from ftlab import cli
    except KeyboardInterrupt:
        # Nothing was begun yet. The status is that of the command line.
        sys.exit(130)
    cli.main()


# Processes that a study starts import this too.
if __name__ == "__main__":
    main()
