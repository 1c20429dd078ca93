"""git as workspaces run it: what it inherits, what its failures say, and which of them are worth another attempt."""

from __future__ import annotations

import errno
import os
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from hackamore.errors import WorkspaceError
from hackamore.fleet import git as module
from hackamore.fleet.git import Git
from hackamore.fleet.sites import explained
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPACE = "Free some space, or pass `to=` a folder on another disk."


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Git]:
    """Return a function of a shell script that returns a git which is this script."""

    def make(script: str) -> Git:
        path = tmp_path / "git"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(module, "_program", lambda: str(path))
        return Git(("-C", "/w"), patience(20))

    return make


@pytest.mark.parametrize(
    ("script", "text", "retryable"),
    [
        ("echo 'fatal: bad.' >&2; exit 128", "failed with exit code 128: fatal: bad. Do it.", False),
        ("printf 'fatal: no caf\\351.' >&2; exit 128", "failed with exit code 128: fatal: no caf\ufffd. Do it.", False),
        ("exit 2", "failed with exit code 2: no message. Do it.", False),
        ("exit 1", "failed with exit code 1: no message. Do it.", False),
        ("kill -9 $$", "was ended by signal 9: no message. Do it.", True),
        ("echo 'a: No space left on device' >&2; exit 1", f"failed with exit code 1: a: No space left on device. {SPACE}", True),
        ("echo 'a: Disk quota exceeded' >&2; exit 1", f"failed with exit code 1: a: Disk quota exceeded. {SPACE}", True),
        (
            "printf \"fatal: 'x.lock': File exists.\\n\\nAdvice\\n\" >&2; exit 1",
            "failed with exit code 1: fatal: 'x.lock': File exists. If no git runs in this repository, delete that lock file.",
            True,
        ),
        (
            "echo 'fatal: failed to read worktrees/a/commondir: Success' >&2; exit 1",
            "failed with exit code 1: fatal: failed to read worktrees/a/commondir: Success. If no git runs in this repository, delete that "
            "file.",
            True,
        ),
    ],
)  # fmt: skip
def test_failures_name_the_fix(
    fake: Callable[[str], Git], script: str, text: str, retryable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    with pytest.raises(WorkspaceError) as caught:
        fake(script).run("log", "-1", hint="Do it.")
    assert str(caught.value) == f"`git log` in /w {text}"
    assert caught.value.retryable == retryable


def test_the_end_of_a_long_message_is_shown(fake: Callable[[str], Git]) -> None:
    with pytest.raises(WorkspaceError) as caught:
        fake("head -c 5000 /dev/zero | tr '\\0' x >&2; echo END >&2; exit 3").run("log")
    assert str(caught.value).endswith("xEND.")
    assert 1000 < len(str(caught.value)) < 1100


def test_exit_codes_that_are_answers(fake: Callable[[str], Git]) -> None:
    assert fake("echo yes; exit 0").ask("x") == (0, b"yes\n")
    assert fake("echo no; exit 1").ask("x") == (1, b"no\n")
    assert fake("echo other; exit 5").ask("x", codes=(5,)) == (5, b"other\n")
    assert fake("cat").run("x", stdin=b"given") == b"given"
    with pytest.raises(WorkspaceError):
        fake("exit 0").ask("x", codes=(5,))


def test_a_lock_that_is_released_is_waited_for(
    fake: Callable[[str], Git], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    # Not `time.sleep` itself: `subprocess` waits with it too, for a git that has closed its pipes and not ended yet.
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=time.monotonic, sleep=pauses.append))
    script = f"echo x >> {tmp_path}/tries; [ $(wc -l < {tmp_path}/tries) -gt 7 ] && exit 0; echo \"'a.lock': File exists\" >&2; exit 128"
    assert fake(script).run("x") == b""
    assert pauses == pytest.approx([0.01, 0.02, 0.04, 0.08, 0.16, 0.25, 0.25])


def test_git_inherits_who_its_user_is_and_no_repository(
    fake: Callable[[str], Git], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {
        "GIT_CONFIG_GLOBAL": "/g", "GIT_CONFIG_SYSTEM": "/s", "GIT_CONFIG_NOSYSTEM": "1", "GIT_EXEC_PATH": "/e", "GIT_SSH": "s",
        "GIT_SSH_COMMAND": "c", "GIT_SSL_CAINFO": "/ca", "GIT_ASKPASS": "a", "GIT_AUTHOR_NAME": "A", "GIT_COMMITTER_EMAIL": "e",
        "MY_GIT_DIR": "mine",
    }  # fmt: skip
    others = (
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_CONFIG_COUNT",
        "GIT_AUTHOR_DATE",
        "GIT_TRACE",
        "GIT_SSHX",
        "GIT_EXEC_PATH_2",
    )
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name, value in {**kept, **dict.fromkeys(others, "x"), "LC_ALL": "de_DE"}.items():
        monkeypatch.setenv(name, value)
    lines = dict(line.split("=", 1) for line in fake("env").run("x").decode().splitlines() if "=" in line)
    assert {name: value for name, value in lines.items() if "GIT_" in name} == {**kept, "GIT_TERMINAL_PROMPT": "0"}
    assert lines["LC_ALL"] == "C"


def test_no_hooks_and_no_daemons(fake: Callable[[str], Git]) -> None:
    words = fake('printf "%s\\n" "$@"').run("log", "-1").decode().split()
    assert words[:2] == ["-C", "/w"]
    assert words[-2:] == ["log", "-1"]
    assert words[2:-2:2] == ["-c"] * 6
    assert {"core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false"} <= set(
        words[3:-2:2]
    )


@pytest.mark.parametrize(
    ("code", "where", "fix", "retryable"),
    [
        (errno.ENOSPC, "/x", SPACE, True),
        (errno.EDQUOT, b"/x", SPACE, True),
        (errno.EACCES, "/x", "Give this user the right to write there, or pass another `to=`.", False),
        (errno.EROFS, None, "Give this user the right to write there, or pass another `to=`.", False),
        (errno.EPERM, 5, "Give this user the right to write there, or pass another `to=`.", False),
        (errno.EMFILE, "/x", "Repair the cause and run the task again.", True),
        (errno.EIO, "/x", "Repair the cause and run the task again.", False),
    ],
)
def test_failures_of_the_file_system_name_the_fix(code: int, where: Any, fix: str, retryable: bool) -> None:
    with pytest.raises(WorkspaceError) as caught, explained("a"):
        raise OSError(code, "It failed", where)
    named = " (/x)" if where in ("/x", b"/x") else ""
    assert str(caught.value) == f"The workspace of the task 'a' failed: It failed{named}. {fix}"
    assert caught.value.retryable == retryable
