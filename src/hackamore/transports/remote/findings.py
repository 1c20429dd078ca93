"""Problems of other machines, each with its name, its words and its fix."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from hackamore.errors import RemoteStartError

if TYPE_CHECKING:
    from typing import Literal

    from hackamore.transports.remote.link import Output
    from hackamore.transports.remote.route import Route


class Problem(NamedTuple):
    """A kind of problem.

    Attributes:
        text: the problem; `{detail}` stands for the words of the far side.
        fix: the way out, in one sentence.
        level: "error" if no session can run, else "warning".
    """

    text: str
    fix: str
    level: Literal["error", "warning"] = "error"


class Finding(NamedTuple):
    """A problem of a machine.

    Attributes:
        code: its kind: `no-cli`, `key-refused`, ...
        level: "error" if no session can run, else "warning".
        text: the problem, in one sentence.
        fix: the way out, in one sentence.
    """

    code: str
    level: Literal["error", "warning"]
    text: str
    fix: str


PROBLEMS: dict[str, Problem] = {
    "no-program": Problem(
        "the program of the link is not there ({detail}).",
        "Install it, or name it: `program=` of SSH, `runtime=` of Container.",
    ),
    "host-key": Problem(
        "its host key is not the known one.",
        "If the machine was set up again, remove the old key (`ssh-keygen -R HOST`), connect once by hand and compare the new one.",
    ),
    "key-refused": Problem(
        "it refused the login.",
        "Try `ssh -o BatchMode=yes HOST true`: the key has to be in `authorized_keys` over there, and in your agent or configuration.",
    ),
    "unreachable": Problem(
        "it cannot be reached.", "Check name, port and network: `ssh -v HOST true` shows how far it comes."
    ),
    "no-container": Problem(
        "there is no such image or container ({detail}).", "Pull or build the image, or start the container."
    ),
    "no-runtime": Problem(
        "the runtime of containers failed ({detail}).", "Try it by hand: `RUNTIME run --rm IMAGE true`."
    ),
    "timeout": Problem("nothing answered in time.", "Check that the link works by hand, or raise `connect_seconds`."),
    "closed": Problem(
        "the link ended before anything answered; it said {detail}.",
        "Check that it starts `sh` over there: a login shell that is not a shell, or a start-up file that ends it, is a usual cause.",
    ),
    "no-temp": Problem(
        "it has no room for the files of a session.", "Free some space in /dev/shm, /tmp or the home folder over there."
    ),
    "no-folder": Problem("the folder {detail} does not exist over there.", "Create it, or correct `cwd`."),
    "no-cli": Problem(
        "it has no program {detail}: not in PATH, nor where installers put it.",
        "Install the CLI over there (`npm install -g @anthropic-ai/claude-code`), or name it by `cli_path`.",
    ),
    "old-version": Problem(
        "its CLI is version {detail}.",
        "Update it over there: `npm install -g @anthropic-ai/claude-code@latest`.",
    ),
    "no-version": Problem(
        "its CLI does not say its version, but: {detail}.",
        "Run `claude --version` over there: `cli_path`, or `claude` in PATH, has to be the Claude Code CLI.",
        "warning",
    ),
    "no-start": Problem("its CLI does not start: {detail}.", "Run `claude -p hello` over there, in the same folder."),
    "no-login": Problem(
        "its CLI has no login.",
        "Run `claude` over there and type /login, or send a key: `env=['ANTHROPIC_API_KEY']` of the transport.",
    ),
    "no-hook": Problem(
        "its CLI called no hook.",
        "Look for `disableAllHooks` in the settings over there, those of its managers included.",
    ),
    "read-only-home": Problem(
        "the CLI cannot write to {detail}: it keeps no transcript, so no session can be resumed.",
        "Make it writable, or name another folder: `env={'CLAUDE_CONFIG_DIR': ...}` of the options.",
        "warning",
    ),
    "no-space": Problem(
        "the folder of the CLI has only {detail} KB left.", "Free some space on that disk over there.", "warning"
    ),
    "noisy-shell": Problem(
        "its start-up files print something: {detail}. Nothing breaks here.",
        "Print in interactive shells only, for the sake of other programs.",
        "warning",
    ),
    "other-shell": Problem(
        "its login shell is {detail}. Nothing breaks here: all runs in `sh`.",
        "Mind its syntax in commands of your own over `ssh`.",
        "warning",
    ),
    "no-locale": Problem(
        "its locale is {detail}, without UTF-8: programs that the CLI runs may garble names and texts.",
        "Set one that it has: `env={'LC_ALL': 'C.UTF-8'}` of the options.",
        "warning",
    ),
    "clock-off": Problem(
        "its clock is {detail} this machine's: logins and the order of transcripts depend on it.",
        "Synchronise it by NTP.",
        "warning",
    ),
    "no-prompt": Problem("the prompt did not arrive whole.", "Try again; if it happens often, look at the link."),
}
"""By the code of `RemoteStartError` and of findings."""

_SAID = {
    "host-key": r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED|No \S+ host key is known",
    "key-refused": r"Permission denied \(|Too many authentication failures|sign_and_send_pubkey",
    "unreachable": r"Could not resolve hostname|Connection (to \S+ )?(port \d+:|refused|timed out|reset|closed)|No route to host|"
    r"Network is unreachable|kex_exchange_identification|send disconnect|Operation timed out|Unable to connect to the server",
    "no-container": r"[Nn]o such (image|container|object)|image not known|(pod|container)s? .*not found|no container with name|"
    r"reference format|did not resolve to an alias|pull access denied|manifest unknown|initializing source",
}
"""Words of programs that carry links, by the problem that they mean (OpenSSH 9.2, podman 4.3)."""


def refused(place: Route, output: Output, said: str, *, exit_code: int | None, timeout: bool) -> RemoteStartError:
    """Return the error for a supervisor that did not answer, or refused.

    Args:
        said: the end of stderr.
        exit_code: that of the link.
    """
    detail = " ".join(said.split())[-300:]
    if output.refusal is not None:
        code, detail = output.refusal
        code = code if code in PROBLEMS else "closed"
    elif timeout:
        code = "timeout"
    else:
        code = next((code for code, words in _SAID.items() if re.search(words, said)), "closed")
        if code == "closed" and exit_code in (125, 126):  # of docker and podman: they could not start it
            code = "no-runtime"
        if exit_code is not None and exit_code < 0:  # a signal ended the link: another try may hold
            code = "unreachable"
        detail = detail or output.noise.decode("utf-8", "replace").strip()[-300:] or f"nothing (exit code {exit_code})"
    problem = PROBLEMS[code]
    return RemoteStartError(place.name, code, problem.text.format(detail=detail), problem.fix, stderr=said)
