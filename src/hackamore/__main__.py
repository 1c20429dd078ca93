"""`python -m hackamore` is the command `hackamore`."""

from __future__ import annotations

from hackamore.cli import main

if __name__ == "__main__":
    main()
