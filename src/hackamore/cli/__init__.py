"""The command `hackamore`: ask, check the installation, see a demonstration. Needs the extra `cli` (typer and rich).

`FleetDisplay` shows a run of a fleet as `hackamore fleet run` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hackamore.cli.fleet_view import FleetDisplay

__all__ = ["FleetDisplay", "main"]

_NEEDED = frozenset({"typer", "rich", "click"})


def __getattr__(name: str) -> Any:
    if name != "FleetDisplay":
        raise AttributeError(f"module 'hackamore.cli' has no attribute {name!r}")
    try:
        from hackamore.cli.fleet_view import FleetDisplay
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        raise ImportError(
            f"`FleetDisplay` needs the package {error.name!r}: pip install 'hackamore[cli]'", name=error.name
        ) from None
    return FleetDisplay


def main() -> None:
    """Run the command with the arguments of this process and exit."""
    import sys

    try:
        from hackamore.cli.app import run_app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        sys.stderr.write(
            f"The command `hackamore` needs the package {error.name!r}. Install what it needs with:\n\n"
            "    pip install 'hackamore[cli]'\n\nThe library itself works without it.\n"
        )
        sys.exit(2)
    except KeyboardInterrupt:
        # Loading takes a few tenths of a second, and Ctrl-C must also end it.
        sys.exit(130)
    sys.exit(run_app(sys.argv[1:]))
