"""The version of the CLI: parsing, the table of contract section 6, and the memory."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hackamore._engine.launch.discovery import (
    MINIMUM_ONE_SHOT,
    MINIMUM_SESSION,
    VersionCache,
    VersionFailure,
    check,
)
from hackamore._engine.launch.versions import CLIVersion
from hackamore.errors import UnknownVersionError, UnsupportedCLIVersionError, VersionDetectionError
from tests.support.reaching import mostly, reached, reaching

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.1.328 (Claude Code)", (2, 1, 328)),
        ("2.1.328 (Claude Code)\n", (2, 1, 328)),
        ("claude v1.2.3-beta.4+build", (1, 2, 3)),
        ("warning: something 5\n10.20.30", (10, 20, 30)),
        ("1.2.3 and 4.5.6", (1, 2, 3)),
        ("(1.2.3)", (1, 2, 3)),
        ("1.2", None),
        ("1.2.", None),
        ("", None),
        ("v1", None),
        ("one.two.three", None),
        ("\u0662.\u0661.\u0663", None),
        ("1" * 5_000 + ".2.3", None),
    ],
)
def test_the_first_three_numbers_count(text: str, version: Any) -> None:
    assert CLIVersion.parse(text) == version


@reaching
@given(
    st.text(),
    mostly(st.lists(st.integers(0, 10**6).map(str), min_size=3, max_size=4).map(".".join), st.text()),
    st.text(),
)
def test_any_output_parses_or_does_not(before: str, version: str, after: str) -> None:
    found = CLIVersion.parse(f"{before} {version} {after}")
    if found is not None:
        reached()
        assert ".".join(map(str, found)) in f"{before} {version} {after}"


def test_the_minimums() -> None:
    assert MINIMUM_ONE_SHOT == (1, 0, 0)
    assert MINIMUM_SESSION == (2, 0, 0)


SPAWN = VersionFailure("spawn", "Permission denied")
SLOW = VersionFailure("timeout", "no answer in 30 s")


@pytest.mark.parametrize(
    ("answer", "policy", "outcome"),
    [
        ("2.0.0", "strict", []),
        ("2.0.0", "permissive", []),
        ("1.9.9", "strict", UnsupportedCLIVersionError),
        ("1.9.9", "permissive", UnsupportedCLIVersionError),
        ("hello", "strict", UnknownVersionError),
        ("hello", "permissive", ["UNPARSABLE_CLI_VERSION"]),
        ("", "strict", UnknownVersionError),
        (SPAWN, "strict", VersionDetectionError),
        (SPAWN, "permissive", ["VERSION_DETECTION_FAILED"]),
        (SLOW, "strict", ["VERSION_DETECTION_FAILED"]),
        (SLOW, "permissive", ["VERSION_DETECTION_FAILED"]),
        ("1.9.9", "skip", []),
        ("hello", "skip", []),
        (SPAWN, "skip", []),
        (SLOW, "skip", []),
    ],
)
def test_the_table_of_answers_and_policies(answer: Any, policy: Any, outcome: Any) -> None:
    if isinstance(outcome, list):
        assert [warning.code for warning in check(answer, policy, (2, 0, 0))] == outcome
    else:
        with pytest.raises(outcome):
            check(answer, policy, (2, 0, 0))


def test_a_version_that_is_too_old_names_both() -> None:
    with pytest.raises(UnsupportedCLIVersionError) as caught:
        check("0.2.99 (Claude Code)")
    assert (caught.value.detected, caught.value.minimum) == ("0.2.99", "1.0.0")


# -- the memory


@pytest.fixture
def cli(tmp_path: Path) -> Path:
    path = tmp_path / "claude"
    path.write_text("one", encoding="utf-8")
    return path


def test_a_version_is_remembered_in_memory_and_in_the_file(tmp_path: Path, cli: Path) -> None:
    file = tmp_path / "cache" / "hackamore" / "versions.json"
    cache = VersionCache(str(file))
    assert cache.get(str(cli)) is None
    cache.put(str(cli), "2.1.328 (Claude Code)\n")
    assert cache.get(str(cli)) == "2.1.328"
    assert VersionCache(str(file)).get(str(cli)) == "2.1.328"
    assert [entry.name for entry in file.parent.iterdir()] == ["versions.json"]
    assert file.parent.stat().st_mode & 0o077 == 0


def test_a_changed_executable_is_asked_again(tmp_path: Path, cli: Path) -> None:
    cache = VersionCache(None)
    cache.put(str(cli), "1.2.3")
    link = tmp_path / "link"
    link.symlink_to(cli)
    assert cache.get(str(link)) == "1.2.3"
    os.utime(cli, ns=(1, 1))
    assert cache.get(str(cli)) is None
    cache.put(str(cli), "1.2.4")
    cli.write_text("longer", encoding="utf-8")
    os.utime(cli, ns=(1, 1))
    assert cache.get(str(cli)) is None


def test_what_is_no_version_or_no_file_is_not_remembered(tmp_path: Path, cli: Path) -> None:
    file = tmp_path / "versions.json"
    cache = VersionCache(str(file))
    cache.put(str(cli), "hello")
    cache.put(str(tmp_path / "missing"), "1.2.3")
    assert not file.exists()
    assert cache.get(str(tmp_path / "missing")) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b'{"versions": 5}', b'{"versions": {"a": 5, "b": "x"}}', b"[" * 100_000, b"null"],
)
def test_a_broken_file_costs_nothing_but_the_question(tmp_path: Path, cli: Path, content: bytes) -> None:
    file = tmp_path / "versions.json"
    file.write_bytes(content)
    cache = VersionCache(str(file))
    assert cache.get(str(cli)) is None
    cache.put(str(cli), "1.2.3")
    assert VersionCache(str(file)).get(str(cli)) == "1.2.3"


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path, cli: Path) -> None:
    (tmp_path / "file").touch()
    cache = VersionCache(str(tmp_path / "file" / "hackamore" / "versions.json"))
    cache.put(str(cli), "1.2.3")
    assert cache.get(str(cli)) == "1.2.3"
    (tmp_path / "taken" / "versions.json").mkdir(parents=True)
    cache = VersionCache(str(tmp_path / "taken" / "versions.json"))
    cache.put(str(cli), "1.2.3")
    assert cache.get(str(cli)) == "1.2.3"
    assert [entry.name for entry in (tmp_path / "taken").iterdir()] == ["versions.json"]


def test_two_processes_keep_each_others_entries_and_the_file_stays_small(tmp_path: Path) -> None:
    file = tmp_path / "versions.json"
    paths = []
    for number in range(VersionCache.LIMIT + 5):
        path = tmp_path / f"claude{number}"
        path.touch()
        paths.append(str(path))
        VersionCache(str(file)).put(str(path), f"1.0.{number}")
    assert len(json.loads(file.read_bytes())["versions"]) == VersionCache.LIMIT
    assert VersionCache(str(file)).get(paths[-1]) == f"1.0.{len(paths) - 1}"
    assert VersionCache(str(file)).get(paths[-2]) == f"1.0.{len(paths) - 2}"
    assert VersionCache(str(file)).get(paths[0]) is None


@pytest.mark.parametrize(
    ("environment", "file"),
    [
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/hackamore/versions.json"),
        ({"HOME": "/h"}, "/h/.cache/hackamore/versions.json"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/hackamore/versions.json"),
        ({"HOME": "relative"}, None),
        ({}, None),
    ],
)
def test_the_file_is_in_the_users_cache_folder(environment: dict[str, str], file: str | None) -> None:
    assert VersionCache.in_user_folder(environment).file == file


def test_an_executable_whose_name_is_no_unicode_is_remembered(tmp_path: Path) -> None:
    file = str(tmp_path / "versions.json")
    for number, name in enumerate((b"caf\xe9", "caf\xe9".encode())):
        path = os.path.join(str(tmp_path), os.fsdecode(name))
        with open(path, "w", encoding="utf-8"):
            os.utime(path, ns=(1, 1))
        assert VersionCache(file).get(path) is None
        VersionCache(file).put(path, f"1.0.{number}")
        assert VersionCache(file).get(path) == f"1.0.{number}"


def test_what_is_known_already_is_not_written_again(tmp_path: Path, cli: Path) -> None:
    file = tmp_path / "versions.json"
    cache = VersionCache(str(file))
    cache.put(str(cli), "1.2.3")
    file.unlink()
    cache.put(str(cli), "claude 1.2.3")
    assert not file.exists()
    cache.put(str(cli), "1.2.4")
    assert VersionCache(str(file)).get(str(cli)) == "1.2.4"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            VersionFailure("timeout", "no\x1b answer"),
            (
                "VERSION_DETECTION_FAILED",
                "The version of the Claude Code CLI is unknown: no\\x1b answer",
                {"kind": "timeout", "reason": "no\x1b answer"},
            ),
        ),
        (
            "what is it?",
            (
                "UNPARSABLE_CLI_VERSION",
                "No version number in the output of `claude --version`: 'what is it?'",
                {"output": "what is it?"},
            ),
        ),
    ],
)
def test_a_warning_shows_what_was_answered(answer: Any, said: tuple[str, str, dict[str, str]]) -> None:
    (warning,) = check(answer, "permissive", (2, 0, 0))
    assert (warning.code, warning.message, warning.context) == said


@pytest.mark.parametrize("answer", ["y" * 5_000, VersionFailure("spawn", "y" * 5_000)])
def test_a_warning_has_an_end(answer: Any) -> None:
    (warning,) = check(answer, "permissive", (2, 0, 0))
    assert len(warning.message) < 400
