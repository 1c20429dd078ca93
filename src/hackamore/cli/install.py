"""`hackamore install-cli`: the Claude Code CLI out of the npm registry, into a folder of the user."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hackamore import find_cli
from hackamore.cli import npm
from hackamore.cli.running import FAILED, NOT_STARTED
from hackamore.errors import OptionsError, StartError
from hackamore.storage.places import installed_cli

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hackamore.cli.terminal import Terminal

_WANTED = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")
_PLATFORMS = ("linux-x64", "linux-arm64", "linux-x64-musl", "linux-arm64-musl", "darwin-x64", "darwin-arm64")
_RETRY_SECONDS = 1.0


def install_cli(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Install a version, make it the one that Hackamore finds, return the exit code."""
    wanted = given.get("version") or "latest"
    if not _WANTED.fullmatch(wanted):
        raise OptionsError(f"VERSION must be a version or a tag, got {wanted!r}. Try `latest`.", field="version")
    link = installed_cli(os.environ, os.path.expanduser("~"))
    if link is None:
        raise OptionsError("HOME is not an absolute path. Set HOME or XDG_DATA_HOME.", field="version")
    name = npm.platform_name()
    if name not in _PLATFORMS:
        terminal.error(f"There is no Claude Code CLI for {name}, only for {', '.join(_PLATFORMS)}.")
        return NOT_STARTED
    try:
        _install(wanted, name, Path(link), bool(given.get("force")), terminal)
    except (npm.InstallError, OSError, tarfile.TarError) as error:
        terminal.error(f"The Claude Code CLI was not installed. {error}")
        return FAILED
    return 0


def _install(wanted: str, name: str, link: Path, force: bool, terminal: Terminal) -> None:
    def progress(done: int, total: int | None) -> None:
        of = f" of {total / 1e6:.0f}" if total else ""
        terminal.working(f"Downloading {done / 1e6:.0f}{of} MB,")

    current = link.parent
    folder = current.parent
    with terminal.spinning("Asking the registry"):
        package = npm.find_package(f"{npm.SCOPE}/claude-code-{name}", wanted)
    target = folder / package.version / "claude"
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if force or not os.access(target, os.X_OK):
        started = time.monotonic()
        with tempfile.TemporaryFile(dir=target.parent) as archive:
            with terminal.spinning("Downloading"):
                size = npm.download(
                    package.url, archive, package.integrity, _RETRY_SECONDS, progress=progress, note=terminal.warning
                )
            with terminal.spinning("Unpacking"):
                npm.extract(archive, target)
        seconds = time.monotonic() - started
        text = f"Installed Claude Code {package.version} ({size / 1e6:.0f} MB, checksum verified, {seconds:.1f} s)."
    else:
        text = f"Claude Code {package.version} is already installed."
    before = os.readlink(current) if current.is_symlink() else None
    _point(current, package.version)
    _remove_others(folder, {package.version, before})
    terminal.note(f"{terminal.tick} {text}", "green")
    terminal.line(str(link))
    _say_what_is_found(link, terminal)


def _point(current: Path, version: str) -> None:
    new = current.with_name(f".current-{os.getpid()}-{os.urandom(4).hex()}")
    os.symlink(version, new)
    try:
        os.replace(new, current)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def _remove_others(folder: Path, kept: set[str | None]) -> None:
    """Remove older versions; the one before stays, because sessions may still use it."""
    for entry in folder.iterdir():
        if entry.name not in kept and entry.name[:1].isdigit() and entry.is_dir() and not entry.is_symlink():
            with suppress(OSError):
                shutil.rmtree(entry)


def _say_what_is_found(link: Path, terminal: Terminal) -> None:
    try:
        found = find_cli()
    except StartError as error:
        terminal.warning(str(error))
        return
    if found.path != str(link):
        terminal.warning(
            f"Hackamore finds another CLI first: {found.path} ({found.source}). To use the new one, set "
            f"HACKAMORE_CLI_PATH={link} or pass cli_path=."
        )
    else:
        terminal.note("Log in once: run the CLI above and type /login, or set ANTHROPIC_API_KEY.", "dim")
