"""Packages of the Claude Code CLI in an npm registry: find, download, verify, unpack. Standard library alone.

The registry is the one in npm's settings (environment, then the user's `.npmrc`), else the public one. Proxies and certificates come from
the usual variables. `scripts/install_cli.py` loads this file by its path, before any package is installed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import os
import platform
import re
import shutil
import ssl
import tarfile
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PUBLIC_REGISTRY = "https://registry.npmjs.org/"
SCOPE = "@anthropic-ai"
TRIES = 3
TIMEOUT = 60
CHUNK = 1 << 18
BINARY = "package/claude"
_MOST_METADATA = 64 * 1024 * 1024
_ALGORITHMS = ("sha512", "sha384", "sha256")
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?")


class InstallError(Exception):
    """The CLI could not be installed; the text says why and what to do."""


class Package(NamedTuple):
    """One version of a package. `integrity` is the checksum of the archive, as npm writes it: `sha512-` and base64."""

    version: str
    url: str
    integrity: str


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
    settings = _user_settings(names)
    return next((settings[name] for name in names if settings.get(name)), None)


def _user_settings(names: Iterable[str]) -> dict[str, str]:
    user_file = npm_variable("userconfig") or "~/.npmrc"
    try:
        lines = Path(user_file).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    settings = {}
    for line in lines:
        key, separator, value = line.partition("=")
        # Other keys are not read.
        if separator and key.strip() in names:
            settings[key.strip()] = os.path.expandvars(value.strip().strip("\"'"))
    return settings


def registry() -> str:
    """Return the address of the configured registry, without a slash at its end."""
    return (npm_setting(f"{SCOPE}:registry", "registry") or PUBLIC_REGISTRY).rstrip("/")


def tarball_url(package: str, version: str) -> str:
    """Return the address of a package's archive in the configured registry."""
    return f"{registry()}/{package}/-/{package.rpartition('/')[2]}-{version}.tgz"


def certificates() -> ssl.SSLContext:
    """Return the system's trust, widened by the file that Node and npm are set to trust."""
    context = ssl.create_default_context()
    for extra in (os.environ.get("NODE_EXTRA_CA_CERTS"), npm_setting("cafile")):
        if extra and Path(extra).is_file():
            context.load_verify_locations(extra)
    return context


def find_package(package: str, wanted: str) -> Package:
    """Return a version of a package, or that of a tag such as `latest`; raise InstallError if the registry lacks it or its checksum."""
    url = f"{registry()}/{package.replace('/', '%2F')}"
    try:
        with _open(url, {"accept": "application/vnd.npm.install-v1+json, application/json;q=0.9"}) as answer:
            metadata = json.loads(answer.read(_MOST_METADATA))
        versions, tags = metadata["versions"], metadata.get("dist-tags") or {}
        version = tags.get(wanted, wanted)
        dist = (versions.get(version) or {}).get("dist") or {}
    except (OSError, http.client.HTTPException) as error:
        raise InstallError(_unreachable(url, error)) from error
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise InstallError(
            f"The answer of {_shown(url)} is not the metadata of a package. Check npm's `registry` setting."
        ) from error
    if not isinstance(version, str) or not _VERSION.fullmatch(version) or version not in versions:
        known = ", ".join([*map(str, tags), *map(str, list(versions)[-5:])])
        raise InstallError(
            f"{package} has no version {wanted!r}. The first is {next(iter(versions), 'none')}, the last are {known}.\n"
            f"For older ones run `npm install -g {SCOPE}/claude-code@{wanted}`; they need Node.js."
        )
    integrity = _strongest(str(dist.get("integrity") or ""))
    if not integrity:
        raise InstallError(f"The registry has no checksum for {package} {version}, so it was not installed.")
    address = str(dist.get("tarball") or "")
    elsewhere = urllib.parse.urlsplit(address).hostname != urllib.parse.urlsplit(registry()).hostname
    return Package(version, tarball_url(package, version) if elsewhere else address, integrity)


def download(
    url: str,
    target: BinaryIO,
    integrity: str,
    pause: float = 1,
    *,
    progress: Callable[[int, int | None], None],
    note: Callable[[str], None],
) -> int:
    """Write the contents of `url` to `target`, and check them; return the number of bytes.

    Args:
        target: a binary file that can seek.
        pause: seconds to wait before the second try; one `pause` more before each further one.
        progress: called with the bytes so far, and all bytes if known.

    Raises:
        InstallError: it could not be read, or has another checksum.
    """
    algorithm, _, expected = integrity.partition("-")
    for attempt in range(1, TRIES + 1):
        target.seek(0)
        target.truncate()
        digest = hashlib.new(algorithm)
        done = 0
        try:
            with _open(url) as answer:
                total = int(answer.headers.get("content-length") or 0) or None
                while chunk := answer.read(CHUNK):
                    target.write(chunk)
                    digest.update(chunk)
                    done += len(chunk)
                    progress(done, total)
            if total is not None and done != total:
                raise http.client.IncompleteRead(b"", total - done)
        except (OSError, http.client.HTTPException) as error:
            permanent = isinstance(error, urllib.error.HTTPError) and error.code in (401, 403, 404)
            if permanent or attempt == TRIES:
                raise InstallError(_unreachable(url, error)) from error
            note(f"The download broke off ({error}); trying again")
            time.sleep(attempt * pause)
            continue
        found = base64.b64encode(digest.digest()).decode()
        if not hmac.compare_digest(found, expected):
            raise InstallError(
                f"The checksum of {_shown(url)} is wrong, so nothing was installed.\n"
                f"  expected {integrity}\n  received {algorithm}-{found}"
            )
        return done
    raise AssertionError


def extract(archive: BinaryIO, target: Path) -> None:
    """Extract the executable from a package's archive; `target` appears whole or not at all."""
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
    raise InstallError(f"The package has no file {BINARY}: its layout is not one that Hackamore knows.")


def _open(url: str, headers: dict[str, str] | None = None) -> Any:
    if not url.startswith(("https://", "http://")):
        raise InstallError(f"npm's `registry` setting must begin with https:// or http://, got {_shown(url)!r}.")
    request = urllib.request.Request(url, headers=headers or {})  # noqa: S310 - checked above
    if token := _token(url):
        # Not sent to the target of a redirect.
        request.add_unredirected_header("authorization", f"Bearer {token}")
    try:
        return urllib.request.urlopen(request, timeout=TIMEOUT, context=certificates())  # noqa: S310
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection
        raise


def _token(url: str) -> str | None:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        return None
    path = parts.path.split("/")
    names = [f"//{parts.netloc}{'/'.join(path[:end])}/:_authToken" for end in range(len(path), 0, -1)]
    settings = _user_settings(names)
    return next((settings[name] for name in names if settings.get(name)), None)


def _strongest(integrity: str) -> str:
    found = {part.partition("-")[0]: part.partition("?")[0] for part in integrity.split()}
    return next((found[name] for name in _ALGORITHMS if name in found), "")


def _shown(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _unreachable(url: str, error: BaseException) -> str:
    return f"Could not download {_shown(url)}: {error}\nCheck the network, the proxy variables and npm's `registry` setting."
