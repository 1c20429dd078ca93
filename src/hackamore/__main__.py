"""`python -m bridle` is the command `bridle`."""

from __future__ import annotations

from bridle.cli import main

if __name__ == "__main__":
    main()
