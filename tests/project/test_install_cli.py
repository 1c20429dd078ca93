"""The installer of the pinned CLI, against a registry on the loopback interface."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import os
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

PROJECT = Path(__file__).resolve().parents[2]
PLATFORMS = ("linux-x64", "linux-arm64", "linux-x64-musl", "linux-arm64-musl", "darwin-x64", "darwin-arm64")


@pytest.fixture(scope="module")
def installer() -> ModuleType:
    specification = importlib.util.spec_from_file_location("install_cli", PROJECT / "scripts" / "install_cli.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class Registry:
    """Answers every request with `payload`; remembers the paths."""

    def __init__(self) -> None:
        self.payload = archive({"package/claude": b"#!/bin/sh\necho hello\n", "package/package.json": b"{}"})
        self.cut = 0
        self.status = 200
        self.paths: list[str] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.paths.append(self.path)
                self.send_response(registry.status)
                self.send_header("content-length", str(len(registry.payload)))
                self.end_headers()
                cut, registry.cut = registry.cut, 0
                self.wfile.write(registry.payload[: len(registry.payload) - cut])

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/npm"

    @property
    def integrity(self) -> str:
        return "sha512-" + base64.b64encode(hashlib.sha512(self.payload).digest()).decode()


@pytest.fixture
def registry() -> Iterator[Registry]:
    registry = Registry()
    thread = threading.Thread(target=registry.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield registry
    registry.server.shutdown()
    thread.join()
    registry.server.server_close()


def archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as package:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            package.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def project(tmp_path: Path, registry: Registry, installer: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.lower().startswith("npm_config") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("npm_config_registry", registry.url)
    pin(tmp_path, registry.integrity)
    return tmp_path


def pin(project: Path, integrity: str) -> None:
    text = f'version = "1.2.3"\n[platforms.linux-x64]\npackage = "@scope/cli-linux-x64"\nintegrity = "{integrity}"\n'
    (project / "pinned_cli.toml").write_text(text)


def test_it_installs_an_executable_once(project: Path, registry: Registry, installer: ModuleType) -> None:
    path = installer.install(project, "linux-x64", pause=0)

    assert path == project / ".dev" / "claude" / "1.2.3" / "claude"
    assert path.read_bytes().startswith(b"#!/bin/sh")
    assert os.access(path, os.X_OK)
    assert [entry.name for entry in path.parent.iterdir()] == ["claude"]
    assert installer.install(project, "linux-x64", pause=0) == path
    assert registry.paths == ["/npm/@scope/cli-linux-x64/-/cli-linux-x64-1.2.3.tgz"]


def test_a_wrong_checksum_installs_nothing(project: Path, installer: ModuleType) -> None:
    pin(project, "sha512-AAAA")

    with pytest.raises(installer.InstallError, match=r"checksum of .* is wrong, so nothing was installed"):
        installer.install(project, "linux-x64", pause=0)
    assert not list((project / ".dev" / "claude" / "1.2.3").iterdir())


def test_a_download_that_breaks_off_is_tried_again(project: Path, registry: Registry, installer: ModuleType) -> None:
    registry.cut = 20

    assert installer.install(project, "linux-x64", pause=0).is_file()
    assert len(registry.paths) == 2


def test_a_missing_package_is_said_at_once(project: Path, registry: Registry, installer: ModuleType) -> None:
    registry.status = 404

    with pytest.raises(installer.InstallError, match=r"404.*\n.*npm's `registry` setting"):
        installer.install(project, "linux-x64", pause=0)
    assert len(registry.paths) == 1


def test_a_package_of_another_layout_is_said(project: Path, registry: Registry, installer: ModuleType) -> None:
    registry.payload = archive({"package/README.md": b""})
    pin(project, registry.integrity)

    with pytest.raises(installer.InstallError, match="no file package/claude"):
        installer.install(project, "linux-x64", pause=0)


def test_a_platform_without_a_cli_is_told_what_there_is(project: Path, installer: ModuleType) -> None:
    with pytest.raises(LookupError, match="no pinned Claude Code CLI for freebsd-x64, only for linux-x64"):
        installer.install(project, "freebsd-x64")


@pytest.mark.parametrize(
    ("system", "machine", "musl", "expected"),
    [
        ("Linux", "x86_64", False, "linux-x64"),
        ("Linux", "aarch64", True, "linux-arm64-musl"),
        ("Darwin", "arm64", False, "darwin-arm64"),
        ("FreeBSD", "amd64", False, "freebsd-x64"),
    ],
)
def test_platforms_are_named_as_npm_names_them(
    installer: ModuleType, system: str, machine: str, expected: str, *, musl: bool
) -> None:
    assert installer.platform_name(system, machine, musl=musl) == expected


def test_the_registry_may_come_from_the_npmrc_of_the_user(
    project: Path, installer: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("npm_config_registry")
    public = installer.npm.tarball_url("@anthropic-ai/cli", "1.0.0")
    (project / ".npmrc").write_text("//host/:_authToken=x\nregistry = https://mirror.example/npm/\n")
    mirrored = installer.npm.tarball_url("@anthropic-ai/cli", "1.0.0")

    assert public == "https://registry.npmjs.org/@anthropic-ai/cli/-/cli-1.0.0.tgz"
    assert mirrored == "https://mirror.example/npm/@anthropic-ai/cli/-/cli-1.0.0.tgz"


def test_every_platform_is_pinned_with_a_whole_checksum(installer: ModuleType) -> None:
    pinned = installer.read_pin()
    assert set(pinned["platforms"]) == set(PLATFORMS)
    for name, platform in pinned["platforms"].items():
        assert platform["package"] == f"@anthropic-ai/claude-code-{name}"
        algorithm, _, checksum = platform["integrity"].partition("-")
        assert (algorithm, len(base64.b64decode(checksum))) == ("sha512", 64)
