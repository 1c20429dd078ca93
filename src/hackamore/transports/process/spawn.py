"""Starts processes: no shell, a session of their own, and no descriptor left if the start fails.

The pipes are made here. `subprocess.Popen` of some Python versions (3.11.2 is one) loses those that it made before it ran out of
descriptors.
"""

from __future__ import annotations

import errno
import os
import subprocess
from typing import TYPE_CHECKING, Any

from hackamore.errors import SpawnError, escape_terminal

if TYPE_CHECKING:
    from collections.abc import Sequence


def start(
    argv: Sequence[str],
    *,
    stdin: int | None = subprocess.DEVNULL,
    stdout: int | None = subprocess.DEVNULL,
    stderr: int | None = subprocess.DEVNULL,
    **how: Any,
) -> tuple[subprocess.Popen[bytes], dict[str, int]]:
    """Start a process, in a session of its own; return it, and this side's descriptors of its pipes, by name.

    Args:
        stdin, stdout, stderr: `subprocess.DEVNULL`, `PIPE` or `STDOUT`; None for the one of this process.

    Raises:
        OSError, ValueError, LookupError, subprocess.SubprocessError: the process could not be started.
    """
    ends = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
    theirs: dict[str, int] = {}
    ours: dict[str, int] = {}
    try:
        for name, wanted in ends.items():
            if wanted == subprocess.PIPE:
                reading, writing = os.pipe()  # made here, so that a start that runs out of them leaves none
                theirs[name], ours[name] = (reading, writing) if name == "stdin" else (writing, reading)
            elif wanted == subprocess.DEVNULL:
                theirs[name] = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)  # for the same reason
        # A group of its own: Ctrl-C in a terminal reaches the host, which decides, and `killpg` reaches the CLI.
        settings = {"start_new_session": True, **ends, **theirs, **how}
        return subprocess.Popen(argv, bufsize=0, **settings), ours
    except BaseException:
        for descriptor in ours.values():
            os.close(descriptor)
        raise
    finally:
        for descriptor in theirs.values():
            os.close(descriptor)


def popen(argv: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
    """Do the same, and return the process with its pipes as files."""
    process, ours = start(argv, **how)
    for name, descriptor in ours.items():
        setattr(process, name, open(descriptor, "wb" if name == "stdin" else "rb", buffering=0))  # noqa: SIM115 - the process closes them
    return process


_THREADS_HINT = "The limit of threads and processes is reached: end some, or raise it (`ulimit -u`, the pids limit of the container)."
_LIMIT_HINTS = {
    errno.EMFILE: "This process has too many open files: close some, or raise the limit (`ulimit -n`).",
    errno.ENFILE: "The system has too many open files: close some, or raise the limit of the system.",
    errno.EAGAIN: _THREADS_HINT,
    errno.ENOMEM: "Memory is short: end other processes, or raise the memory limit of the container.",
}


def _interpreter_hint(path: str) -> str:
    """Return the advice for a file that exists and whose interpreter does not."""
    try:
        with open(path, "rb") as file:
            first = file.readline(256)
    except OSError:
        first = b""
    if first.startswith(b"#!"):
        named = first[2:].decode("utf-8", "replace").split() or [""]
        return (
            f"The file exists, but its first line names the interpreter {escape_terminal(named[0])!r}, which does not exist. "
            "Install the interpreter, or set `cli_path` to another program."
        )
    return (
        "The file exists, but the loader that it needs does not: it is a program for another C library. "
        "Install the package for this platform (`-musl` on Alpine), or set `cli_path` to another program."
    )


def spawn_error(path: str, cwd: str | None, error: Exception) -> SpawnError:
    """Return the error with its cause: ENOENT can be the program, its interpreter or the working directory."""
    number = error.errno if isinstance(error, OSError) else None
    reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    hint = "" if isinstance(error, OSError) else _THREADS_HINT if "thread" in reason else ""  # "can't start new thread"
    if number in _LIMIT_HINTS:
        hint = _LIMIT_HINTS[number]
    elif cwd is not None and not os.path.isdir(cwd):
        missing = not os.path.exists(cwd)
        reason = f"the working directory {cwd!r} {'does not exist' if missing else 'is not a directory'}"
        hint = "Create it or pass another `cwd`."
    elif isinstance(error, FileNotFoundError) and os.path.exists(path):
        hint = _interpreter_hint(path)
    elif isinstance(error, FileNotFoundError):
        hint = "The file does not exist, or was removed. Correct `cli_path`."
    elif os.path.isdir(path):
        reason = f"{reason} (it is a directory)"
        hint = "`cli_path` must be the path of the program itself."
    elif isinstance(error, PermissionError):
        hint = "Check that the file is executable (`chmod +x`), that its file system allows that, and who may become `user`."
    elif number == errno.ENOEXEC:
        hint = "The file is not a program for this machine. Install the package for this platform and processor, or correct `cli_path`."
    elif number == errno.E2BIG:
        hint = (
            "The arguments and the environment together are too long: use files for long settings and system prompts."
        )
    return SpawnError(path, reason, cwd=cwd, errno=number, hint=hint)
