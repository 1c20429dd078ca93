"""`hackamore install-cli` against a registry on the loopback interface."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hackamore.cli.npm import platform_name
from tests.cli.command import Command

NAME = f"@anthropic-ai/claude-code-{platform_name()}"


def archive(text: str, name: str = "package/claude") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as package:
        member = tarfile.TarInfo(name)
        member.size = len(text.encode())
        package.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


class Registry:
    """Has some versions of the CLI's package; remembers paths and tokens."""

    def __init__(self) -> None:
        self.archives = {
            version: archive(f"#!/bin/sh\necho '{version} (Claude Code)'\n") for version in ("9.8.6", "9.8.7", "9.9.0")
        }
        self.integrity: str | None = None
        self.paths: list[str] = []
        self.tokens: set[str | None] = set()
        self.host = ""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.paths.append(self.path)
                registry.tokens.add(self.headers.get("authorization"))
                body = registry.answer(self.path)
                self.send_response(404 if body is None else 200)
                self.send_header("content-length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/npm"

    def answer(self, path: str) -> bytes | None:
        if path == f"/npm/{NAME.replace('/', '%2F')}":
            return json.dumps({"dist-tags": {"latest": "9.8.7"}, "versions": self.versions()}).encode()
        for version, payload in self.archives.items():
            if path == f"/npm/{NAME}/-/{NAME.rpartition('/')[2]}-{version}.tgz":
                return payload
        return None

    def versions(self) -> dict[str, Any]:
        versions = {}
        for version, payload in self.archives.items():
            checksum = base64.b64encode(hashlib.sha512(payload).digest()).decode()
            file = f"{NAME.rpartition('/')[2]}-{version}.tgz"
            versions[version] = {
                "dist": {
                    "tarball": f"{self.host or self.url}/{NAME}/-/{file}",
                    "integrity": f"sha512-{checksum}" if self.integrity is None else self.integrity,
                }
            }
        return versions


@pytest.fixture
def registry() -> Iterator[Registry]:
    registry = Registry()
    thread = threading.Thread(target=registry.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield registry
    registry.server.shutdown()
    thread.join()
    registry.server.server_close()


@pytest.fixture
def hackamore(tmp_path: Path, registry: Registry) -> Command:
    command = Command(tmp_path, "")
    command.environment |= {"npm_config_registry": registry.url, "PATH": "/bin:/usr/bin"}
    return command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home" / ".local" / "share" / "hackamore" / "claude"


def versions_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_the_latest_version_is_installed_and_found(hackamore: Command, folder: Path) -> None:
    ran = hackamore("install-cli")
    link = folder / "current" / "claude"
    assert (ran.code, ran.text) == (0, f"{link}\n"), ran.errors
    assert "Installed Claude Code 9.8.7" in ran.errors
    assert "checksum verified" in ran.errors
    assert os.access(link, os.X_OK)
    assert os.readlink(folder / "current") == "9.8.7"
    assert versions_in(folder) == ["9.8.7", "current"]

    facts = json.loads(hackamore("doctor", "--json").text)["cli"]
    assert (facts["path"], facts["source"], facts["version"]) == (str(link), "install-cli", "9.8.7")
    assert f"9.8.7 ({link})" in hackamore("version").text


def test_another_version_replaces_it_and_the_last_one_stays(
    hackamore: Command, folder: Path, registry: Registry
) -> None:
    for version in ("9.8.6", "9.8.7", "9.9.0"):
        assert hackamore("install-cli", version).code == 0
    assert versions_in(folder) == ["9.8.7", "9.9.0", "current"]
    assert os.readlink(folder / "current") == "9.9.0"

    downloads = len(registry.paths)
    ran = hackamore("install-cli", "9.8.7")
    assert "Claude Code 9.8.7 is already installed." in ran.errors
    assert os.readlink(folder / "current") == "9.8.7"
    assert len(registry.paths) == downloads + 1
    assert hackamore("install-cli", "9.8.7", "--force").code == 0
    assert len(registry.paths) == downloads + 3


def test_data_folder_of_the_user(hackamore: Command, tmp_path: Path) -> None:
    hackamore.environment["XDG_DATA_HOME"] = str(tmp_path / "data")
    assert hackamore("install-cli").text == f"{tmp_path}/data/hackamore/claude/current/claude\n"


@pytest.mark.parametrize(
    ("integrity", "says"),
    [("sha512-AAAA", "is wrong, so nothing was installed"), ("", "has no checksum"), ("md5-AAAA", "has no checksum")],
)
def test_wrong_and_missing_checksums_install_nothing(
    hackamore: Command, folder: Path, registry: Registry, integrity: str, says: str
) -> None:
    registry.integrity = integrity
    ran = hackamore("install-cli")
    assert (ran.code, ran.text) == (1, "")
    assert says in ran.errors
    assert not (folder / "current").exists()
    assert not [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else True


def test_a_failed_update_leaves_what_is_there(hackamore: Command, folder: Path, registry: Registry) -> None:
    assert hackamore("install-cli", "9.8.6").code == 0
    registry.archives["9.8.7"] = archive("?", "package/README.md")
    ran = hackamore("install-cli")
    assert ran.code == 1
    assert "has no file package/claude" in ran.errors
    assert os.readlink(folder / "current") == "9.8.6"


def test_a_version_that_the_registry_does_not_have(hackamore: Command) -> None:
    ran = hackamore("install-cli", "1.0.33")
    assert ran.code == 1
    assert "has no version '1.0.33'. The first is 9.8.6" in ran.errors
    assert "npm install -g @anthropic-ai/claude-code@1.0.33" in ran.errors
    assert hackamore("install-cli", "../../x").code == 2


def test_no_registry(hackamore: Command) -> None:
    for address, says in (("http://127.0.0.1:9/", "Could not download"), ("file:///etc", "must begin with https://")):
        hackamore.environment["npm_config_registry"] = address
        ran = hackamore("install-cli")
        assert ran.code == 1
        assert says in ran.errors
        assert "Traceback" not in ran.errors


def test_a_tarball_address_of_another_host_is_not_used(hackamore: Command, registry: Registry) -> None:
    registry.host = "https://registry.invalid"
    assert hackamore("install-cli").code == 0


def test_the_token_of_npmrc_is_sent_to_its_registry(hackamore: Command, registry: Registry, tmp_path: Path) -> None:
    del hackamore.environment["npm_config_registry"]
    host = registry.url.removeprefix("http:")
    (tmp_path / "home" / ".npmrc").write_text(f"registry={registry.url}\n{host}/:_authToken=${{TOKEN}}\n")
    ran = hackamore("install-cli", env={"TOKEN": "sesame"})
    assert ran.code == 0
    assert registry.tokens == {"Bearer sesame"}
    assert "sesame" not in ran.text + ran.errors


def test_a_cli_in_path_comes_first_and_the_command_warns(hackamore: Command, tmp_path: Path) -> None:
    other = tmp_path / "bin" / "claude"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    hackamore.environment["PATH"] += f":{other.parent}"
    ran = hackamore("install-cli")
    assert ran.code == 0
    assert f"Hackamore finds another CLI first: {other} (PATH)" in ran.errors
    assert "HACKAMORE_CLI_PATH=" in ran.errors


def test_on_a_terminal(hackamore: Command) -> None:
    shown = hackamore.on_terminal("install-cli").text
    assert "Installed Claude Code 9.8.7" in shown
