"""Install the pinned Claude Code CLI into `.dev/claude/<version>/claude`, with nothing but the standard library.

Run as `python scripts/install_cli.py`. Prints the path of the CLI to stdout, everything else to stderr. The npm
registry is the one that npm is configured for (environment, then `.npmrc` of the user), else the public one; proxies
and certificates are taken from the usual variables. What is downloaded must have the checksum that `pinned_cli.toml`
names, or nothing is installed.

Exit codes: 0 installed or already there, 1 the download failed, 3 there is no CLI for this platform.
"""

# ruff: noqa: T201 - a script talks by printing

from __future__ import annotations

import importlib.util
import os
import sys
import tarfile
import tempfile
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

PROJECT = Path(__file__).resolve().parent.parent


def _npm() -> ModuleType:
    """Return `hackamore.cli.npm`, which needs no package, whether Hackamore is installed or not."""
    place = PROJECT / "src" / "hackamore" / "cli" / "npm.py"
    specification = importlib.util.spec_from_file_location("hackamore_cli_npm", place)
    assert specification is not None and specification.loader is not None  # noqa: S101, PT018 - a file
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


npm = _npm()
InstallError = npm.InstallError
platform_name = npm.platform_name


def read_pin(project: Path = PROJECT) -> dict[str, Any]:
    """Return the contents of `pinned_cli.toml`."""
    return tomllib.loads((project / "pinned_cli.toml").read_text(encoding="utf-8"))


class Progress:
    """A bar on a terminal; two lines elsewhere."""

    def __init__(self, what: str, total: int | None) -> None:
        self.what = what
        self.total = total
        self.started = time.monotonic()
        self.drawn = 0.0
        self.on_terminal = sys.stderr.isatty()
        if not self.on_terminal:
            size = f" ({total / 1e6:.0f} MB)" if total else ""
            print(f"{what}{size} ...", file=sys.stderr, flush=True)

    def at(self, done: int, total: int | None = None) -> None:
        """Show how far it is, at most ten times a second."""
        self.total = total
        now = time.monotonic()
        if not self.on_terminal or (now - self.drawn < 0.1 and done != self.total):
            return
        self.drawn = now
        if self.total:
            filled = 30 * done // self.total
            bar = "#" * filled + "-" * (30 - filled)
            text = f"[{bar}] {100 * done // self.total:3d} % of {self.total / 1e6:.0f} MB"
        else:
            text = f"{done / 1e6:.0f} MB"
        print(f"\r\x1b[K{self.what} {text}", end="", file=sys.stderr, flush=True)

    def done(self, text: str) -> None:
        """Replace the bar by a last line."""
        seconds = time.monotonic() - self.started
        print(f"{chr(13) + chr(27) + '[K' if self.on_terminal else ''}{text} in {seconds:.1f} s", file=sys.stderr)


def install(project: Path = PROJECT, platform: str | None = None, pause: float = 1) -> Path:
    """Return the path of the pinned CLI, installed if it was not there.

    Raises:
        InstallError: it could not be downloaded, or is not what was pinned.
        LookupError: there is none for this platform.
    """
    pin = read_pin(project)
    target = project / ".dev" / "claude" / str(pin["version"]) / "claude"
    if os.access(target, os.X_OK):
        return target
    name = platform or platform_name()
    if name not in pin["platforms"]:
        raise LookupError(
            f"There is no pinned Claude Code CLI for {name}, only for {', '.join(pin['platforms'])}.\n"
            "Set HACKAMORE_TEST_CLI to a CLI of your own to run the tests that need one; without it they are skipped."
        )
    chosen = pin["platforms"][name]
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=target.parent) as archive:
        url = npm.tarball_url(chosen["package"], pin["version"])
        progress = Progress("Downloading the Claude Code CLI", None)
        size = npm.download(
            url,
            archive,
            chosen["integrity"],
            pause,
            progress=progress.at,
            note=lambda text: print(f"\n{text}", file=sys.stderr),
        )
        progress.done(f"Downloaded {size / 1e6:.0f} MB")
        progress = Progress("Unpacking it", None)
        npm.extract(archive, target)
        progress.done(f"Installed Claude Code CLI {pin['version']}")
    return target


def main() -> int:
    """Install, and say where."""
    try:
        print(install())
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return 3
    except (InstallError, OSError, tarfile.TarError) as error:
        print(f"The Claude Code CLI was not installed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped; nothing was installed.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
