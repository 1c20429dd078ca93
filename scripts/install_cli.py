"""Install the pinned Claude Code CLI into `.dev/claude/<version>/claude`, with nothing but the standard library.

Run as `python scripts/install_cli.py`. Prints the path of the CLI to stdout, everything else to stderr. The npm
registry is the one that npm is configured for (environment, then `.npmrc` of the user), else the public one; proxies
and certificates are taken from the usual variables. What is downloaded must have the checksum that `pinned_cli.toml`
names, or nothing is installed.

Exit codes: 0 installed or already there, 1 the download failed, 3 there is no CLI for this platform.
"""

# ruff: noqa: T201 - a script talks by printing

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import platform
import shutil
import ssl
import sys
import tarfile
import tempfile
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, BinaryIO

PROJECT = Path(__file__).resolve().parent.parent
PUBLIC_REGISTRY = "https://registry.npmjs.org/"
SCOPE = "@anthropic-ai"
TRIES = 3
TIMEOUT = 60
CHUNK = 1 << 18
BINARY = "package/claude"


class InstallError(Exception):
    """The CLI could not be installed; the text says why and what to do."""


def read_pin(project: Path = PROJECT) -> dict[str, Any]:
    """Return the contents of `pinned_cli.toml`."""
    return tomllib.loads((project / "pinned_cli.toml").read_text(encoding="utf-8"))


def platform_name(system: str | None = None, machine: str | None = None, *, musl: bool | None = None) -> str:
    """Return this platform as npm packages name it, for example `linux-x64-musl`."""
    system = (system or platform.system()).lower()
    machine = (machine or platform.machine()).lower()
    processor = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(machine, machine)
    if musl is None:
        musl = system == "linux" and platform.libc_ver()[0] != "glibc" and any(Path("/lib").glob("ld-musl-*"))
    return f"{system}-{processor}{'-musl' if musl else ''}"


def npm_variable(name: str) -> str | None:
    """Return an npm setting from the environment, where npm takes both spellings."""
    return os.environ.get(f"npm_config_{name}") or os.environ.get(f"NPM_CONFIG_{name.upper()}")


def npm_setting(*names: str) -> str | None:
    """Return the first of these settings that npm would use: from the environment, else from the user's `.npmrc`."""
    for name in names:
        if value := npm_variable(name):
            return value
    user_file = npm_variable("userconfig") or "~/.npmrc"
    try:
        lines = Path(user_file).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    settings = {}
    for line in lines:
        key, separator, value = line.partition("=")
        # Other keys, tokens among them, are none of our business.
        if separator and key.strip() in names:
            settings[key.strip()] = os.path.expandvars(value.strip().strip("\"'"))
    return next((settings[name] for name in names if settings.get(name)), None)


def tarball_url(package: str, version: str) -> str:
    """Return the address of a package's archive in the configured registry."""
    registry = npm_setting(f"{SCOPE}:registry", "registry") or PUBLIC_REGISTRY
    return f"{registry.rstrip('/')}/{package}/-/{package.rpartition('/')[2]}-{version}.tgz"


def certificates() -> ssl.SSLContext:
    """Return the system's trust, widened by the file that Node and npm are told to trust."""
    context = ssl.create_default_context()
    for extra in (os.environ.get("NODE_EXTRA_CA_CERTS"), npm_setting("cafile")):
        if extra and Path(extra).is_file():
            context.load_verify_locations(extra)
    return context


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

    def at(self, done: int) -> None:
        """Show how far it is, at most ten times a second."""
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


def download(url: str, target: BinaryIO, integrity: str, pause: float = 1) -> None:
    """Write the contents of `url` to `target`, and check them. Before each new try, wait `pause` seconds longer.

    Raises:
        InstallError: it could not be read, or is not what was pinned.
    """
    algorithm, _, expected = integrity.partition("-")
    for attempt in range(1, TRIES + 1):
        target.seek(0)
        target.truncate()
        digest = hashlib.new(algorithm)
        try:
            # The scheme comes from npm's configuration, as npm itself would use it.
            with urllib.request.urlopen(url, timeout=TIMEOUT, context=certificates()) as answer:  # noqa: S310
                total = int(answer.headers.get("content-length") or 0) or None
                progress = Progress("Downloading the Claude Code CLI", total)
                done = 0
                while chunk := answer.read(CHUNK):
                    target.write(chunk)
                    digest.update(chunk)
                    done += len(chunk)
                    progress.at(done)
            if total is not None and done != total:
                raise http.client.IncompleteRead(b"", total - done)
        except (OSError, http.client.HTTPException) as error:
            permanent = False
            if isinstance(error, urllib.error.HTTPError):
                permanent = error.code in (401, 403, 404)
                error.close()  # it holds the connection
            if permanent or attempt == TRIES:
                raise InstallError(
                    f"Could not download {url}: {error}\n"
                    "Check the network, the proxy variables and npm's `registry` setting."
                ) from error
            print(f"\nThe download broke off ({error}); trying again", file=sys.stderr)
            time.sleep(attempt * pause)
            continue
        progress.done(f"Downloaded {done / 1e6:.0f} MB")
        found = base64.b64encode(digest.digest()).decode()
        if found != expected:
            raise InstallError(
                f"What came from {url} is not the pinned CLI, nothing was installed.\n"
                f"  expected {integrity}\n  received {algorithm}-{found}\n"
                "If the version was just changed, put the new checksums into pinned_cli.toml."
            )
        return


def extract(archive: BinaryIO, target: Path) -> None:
    """Take the executable out of a package's archive; `target` appears whole or not at all."""
    archive.seek(0)
    with tarfile.open(fileobj=archive, mode="r:gz") as package:
        for member in package:
            if member.name == BINARY and (source := package.extractfile(member)) is not None:
                descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".claude-")
                try:
                    with os.fdopen(descriptor, "wb") as unfinished:
                        shutil.copyfileobj(source, unfinished, 1 << 20)
                    os.chmod(name, 0o755)  # noqa: S103 - as executables are
                    os.replace(name, target)
                except BaseException:
                    Path(name).unlink(missing_ok=True)
                    raise
                return
    raise InstallError(f"The package has no file {BINARY}; its layout changed, scripts/install_cli.py must follow")


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
            "Set BRIDLE_TEST_CLI to a CLI of your own to run the tests that need one; without it they are skipped."
        )
    chosen = pin["platforms"][name]
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=target.parent) as archive:
        download(tarball_url(chosen["package"], pin["version"]), archive, chosen["integrity"], pause)
        progress = Progress("Unpacking it", None)
        extract(archive, target)
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
