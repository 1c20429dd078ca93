"""The first bytes to another machine: a command line that says nothing, a loader, the settings of this start, the supervisor.

Variables, options and prompts are on stdin alone: command lines can be read by other users of a machine. Options that the CLI takes on
its own command line become files in a private folder over there, if they may hold secrets.
"""

from __future__ import annotations

import os
import re
import secrets
from functools import cache
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from hackamore._engine.launch.discovery import HOME_PLACES, SYSTEM_PLACES
from hackamore._engine.launch.encode import ROWS_BY_NAME
from hackamore.errors import OptionsError
from hackamore.options.environment import CHILD_ID, NOT_INHERITED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hackamore.transports.base import LaunchPlan

MARK = "HACKAMORE_REMOTE_ID"
"""The variable by which the supervisor recognises a CLI and its descendants. Not `CHILD_ID`: a link to this machine has that of its own."""
_AS_FILE = {
    "--settings": "--settings",
    "--mcp-config": "--mcp-config",
    "--system-prompt": "--system-prompt-file",
    "--append-system-prompt": "--append-system-prompt-file",
}
"""Flags whose value may be a file, and the flag for that (2.1.330)."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class First(NamedTuple):
    """The first bytes of a link.

    Attributes:
        bootstrap: the program for `sh -c` over there. Every shell reads it alike in single quotes: it has no quote, backslash or `!`.
        data: the bytes to send before anything else.
        tag: the beginning of the supervisor's words.
    """

    bootstrap: str
    data: bytes
    tag: str


class Graces(NamedTuple):
    """Seconds, as the supervisor counts them.

    Attributes:
        silence: without a sign of life from this side.
        grace: for the CLI to end by itself after the end of its input.
        kill: for the CLI to end after SIGTERM.
        loading: without anything that arrives, while all this is being loaded.
    """

    silence: int
    grace: int
    kill: int
    loading: int


@cache
def _text(name: str) -> str:
    return files("hackamore.transports.remote").joinpath(name).read_text("ascii")


def loaded(program: str, tag: str, seconds: int) -> tuple[str, bytes]:
    """Return the bootstrap for a shell program of any length, and the bytes that bring the program."""
    body = os.fsencode(program)
    name = f"hackamore-{secrets.token_hex(8)}"
    loader = f"H_TAG={tag} H_NAME={name} H_SIZE={len(body)} H_PATIENCE={seconds}\n{_text('loader.sh')}"
    # One byte at a time: what follows belongs to others. `read` would do the same, and not on every shell.
    return f'eval "$(dd bs=1 count={len(loader)} 2>/dev/null)"', loader.encode("ascii") + body


def first_bytes(plan: LaunchPlan, graces: Graces, far: Callable[[str], str], script: str) -> First:
    """Return the first bytes for the CLI of a plan on another machine.

    Args:
        far: gives the path over there for one of this side.
        script: the file beside this one that runs with these settings.

    Raises:
        OptionsError: the plan has something that cannot be had over there.
    """
    if plan.user is not None:
        raise OptionsError(
            "`user` is for processes of this machine: name the user in the transport, `SSH('user@host')` or `arguments=`.",
            field="user",
        )
    tag, mark = secrets.token_hex(8), secrets.token_hex(16)
    arguments, contents = _arguments(plan, far)
    takes = [f'take {len(content)} "$H_DIR/{place}" || fail no-temp\n' for place, content in enumerate(contents)]
    if plan.private_folder is not None:
        takes.append(_text("conversation.sh"))
        for name, last, content in _conversation(plan.private_folder):
            takes.append(f"bring {len(content)} {quote(name)} {quote(last)}\n")
            contents.append(content)
    if odd := [name for name in plan.environment if not _NAME.fullmatch(name)]:
        raise OptionsError(
            f"No shell over there can set {odd[0]!r}: use letters, digits and `_` in names.", field="env"
        )
    exports = "".join(f"export {name}={quote(value)}\n" for name, value in plan.environment.items())
    program = "".join(
        (
            f"H_MARK={MARK}={mark} H_SILENCE={graces.silence} H_GRACE={graces.grace} H_KILL={graces.kill}\n",
            f"H_STDIN={'' if plan.stdin is None else len(plan.stdin)} H_CWD={_folder(plan.cwd)}\n",
            f"H_PROGRAM={_folder(plan.argv[0])}\n",
            f"settings() {{\n{_clean(plan.inherit_env)}{exports}export {MARK}={mark}\n}}\n",
            _find(),
            f'run() {{ exec $H_SETSID "$H_PROGRAM" {" ".join(arguments)}; }}\n',
            *takes,
            _text(script),
        )
    )
    bootstrap, data = loaded(program, tag, graces.loading)
    return First(bootstrap, b"".join((data, *contents)), tag)


def _arguments(plan: LaunchPlan, far: Callable[[str], str]) -> tuple[list[str], list[bytes]]:
    """Return the arguments after the program as words of a shell, and the contents of the files that some of them name."""
    words: list[str] = []
    contents: list[bytes] = []
    for part, owner in list(zip(plan.argv, plan.owners, strict=True))[1:]:
        flag, equals, value = part.partition("=")
        as_file = _AS_FILE.get(flag)
        secret = (owner in ROWS_BY_NAME and ROWS_BY_NAME[owner].secret) or value.startswith("{")
        if equals and as_file and secret and (flag not in ("--settings", "--mcp-config") or value.startswith("{")):
            words.append(f'{as_file}="$H_DIR/{len(contents)}"')
            contents.append(os.fsencode(value))
        elif equals and owner == "add_dirs":
            words.append(quote(f"{flag}={far(value)}"))
        else:
            words.append(quote(part))
    return words, contents


_UUID = re.compile(rb'"uuid":"([0-9a-f-]{36})"')


def _conversation(folder: str) -> Iterator[tuple[str, str, bytes]]:
    """Yield the files of a conversation: the path below the folder of its project, a text that a newer copy has, the content."""
    for path in sorted(Path(folder, "projects").glob("*/**/*")):
        if path.is_file():
            content = path.read_bytes()
            ids = _UUID.findall(content[-200_000:])
            _, _, *name = path.relative_to(folder).parts
            yield "/".join(name), ids[-1].decode() if ids else "no entry", content


def _clean(inherit: bool | tuple[str, ...]) -> str:
    """Return what removes the variables over there that a CLI does not inherit."""
    if inherit is True:
        return f"unset {' '.join(sorted(NOT_INHERITED - {CHILD_ID}))}\n"
    kept = "|".join([CHILD_ID, *(name for name in inherit or () if _NAME.fullmatch(name))])
    names = "$(env | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/\\1/p')"
    return f'for name in {names}; do case $name in {kept}) ;; *) unset "$name" ;; esac; done\n'


def _folder(path: str | None) -> str:
    """Return a path as a word of a shell; `~/` is the home folder over there."""
    if path == "~" or (path or "").startswith("~/"):
        return '"$HOME"' + quote((path or "")[1:])
    return quote(path or "")


def _find() -> str:
    places: Iterable[str] = (*(f'"$HOME/{place}"' for place in HOME_PLACES), *map(quote, SYSTEM_PLACES))
    return (
        "find_program() {\n"
        # As for a local CLI: `inherit_env=False` is about the variables of the CLI, and not about the search for it.
        'given=$H_PROGRAM H_PROGRAM=$(settings; command -v "$given") || H_PROGRAM=$(command -v "$given")\n'
        "case $H_PROGRAM in /*) return ;; esac\n"
        f'[ "$given" != claude ] || for H_PROGRAM in {" ".join(places)}; do [ ! -x "$H_PROGRAM" ] || return 0; done\n'
        'fail no-cli "$given"\n}\n'
    )
