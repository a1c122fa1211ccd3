"""``python -m ftlab`` is the command ``ftlab``."""

from ftlab.cli import main

# Processes that a study starts import this too.
if __name__ == "__main__":
    main()
