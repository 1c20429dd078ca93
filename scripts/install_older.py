"""Install the earlier Claude Code CLIs that tests run: `.dev/claude/<version>/claude`, and a Node.js if PATH has none.

Run as `python scripts/install_older.py`. Versions and checksums stand in `pinned_cli.toml`. Registry, proxies and certificates are found as
by `scripts/install_cli.py`.

Exit codes: 0 installed or already there, 1 a download failed, 3 a version does not exist for this platform.
"""

# ruff: noqa: T201 - a script talks by printing

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import install_cli
from install_cli import PROJECT, npm, platform_name, read_pin


def install_older(version: str, project: Path = PROJECT, platform: str | None = None) -> Path:
    """Return the path of an earlier CLI, installed if it was not there.

    Args:
        version: a version of the table `older` of `pinned_cli.toml`.
        project: the folder with `pinned_cli.toml`.
        platform: the platform as npm packages name it; None means this one.

    Raises:
        InstallError: it could not be downloaded, or has another checksum.
        LookupError: there is none for this platform.
    """
    target = project / ".dev" / "claude" / version / "claude"
    if os.access(target, os.X_OK):
        return target
    pin = read_pin(project)
    older = pin["older"][version]
    target.parent.mkdir(parents=True, exist_ok=True)
    if "platforms" in older:
        chosen = _for_platform(older["platforms"], f"Claude Code CLI {version}", platform)
        with downloaded(chosen, version, target.parent) as archive:
            npm.extract(archive, target)
        return target
    runtime = node(project, platform)
    with downloaded(older, version, target.parent) as archive:
        unpack(archive, target.parent)
    _write_program(target, f'#!/bin/sh\nexec {shlex.quote(runtime)} {shlex.quote(str(script(target)))} "$@"\n')
    return target


def script(program: Path) -> Path:
    """Return the JavaScript file that an installed earlier CLI runs."""
    return program.parent / "package" / "cli.js"


def node(project: Path = PROJECT, platform: str | None = None) -> str:
    """Return the path of a Node.js: the one in PATH, else the pinned one, installed if it was not there.

    Raises:
        InstallError: it could not be downloaded, or has another checksum.
        LookupError: there is none for this platform.
    """
    if found := shutil.which("node"):
        return found
    pin = read_pin(project)["node"]
    release = str(pin["release"])
    target = project / ".dev" / "node" / release / "node"
    if not os.access(target, os.X_OK):
        chosen = _for_platform(pin["platforms"], f"Node.js {release}", platform)
        target.parent.mkdir(parents=True, exist_ok=True)
        with downloaded(chosen, release, target.parent) as archive:
            unpack(archive, target.parent)
        os.symlink(Path("package", "bin", "node"), target)
    return str(target)


def _for_platform(platforms: dict[str, Any], what: str, platform: str | None) -> Any:
    name = platform or platform_name()
    if name not in platforms:
        raise LookupError(f"There is no pinned {what} for {name}, only for {', '.join(platforms)}.")
    return platforms[name]


def downloaded(chosen: dict[str, str], version: str, folder: Path) -> BinaryIO:
    """Return the archive of a package, checked; the caller closes it."""
    archive: Any = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - the caller closes it
    try:
        npm.download(
            npm.tarball_url(chosen["package"], version),
            archive,
            chosen["integrity"],
            progress=lambda _done, _all: None,
            note=lambda text: print(text, file=sys.stderr),
        )
    except BaseException:
        archive.close()
        raise
    archive.seek(0)
    return archive  # type: ignore[no-any-return]


def unpack(archive: BinaryIO, folder: Path) -> None:
    """Write the files of a package below `folder`; `package` appears whole or not at all."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unpacked-") as unfinished:
        with tarfile.open(fileobj=archive, mode="r:gz") as package:
            for member in package:
                place = PurePosixPath(member.name)
                source = package.extractfile(member) if member.isfile() else None
                if source is None or place.parts[0] != "package" or ".." in place.parts:
                    continue
                file = Path(unfinished, place)
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
                file.chmod(0o755 if member.mode & 0o100 else 0o644)
        shutil.rmtree(folder / "package", ignore_errors=True)
        os.replace(Path(unfinished, "package"), folder / "package")


def _write_program(target: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as unfinished:
        unfinished.write(text)
    os.chmod(unfinished.name, 0o755)  # noqa: S103 - as executables are
    os.replace(unfinished.name, target)


def main() -> int:
    """Install every earlier version; print the paths."""
    status = 0
    for version in read_pin()["older"]:
        try:
            print(install_older(version))
        except LookupError as error:
            print(error.args[0], file=sys.stderr)
            status = status or 3
        except (install_cli.InstallError, OSError, tarfile.TarError) as error:
            print(f"Claude Code CLI {version} was not installed: {error}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
