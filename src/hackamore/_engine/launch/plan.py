"""`build_plan`: from options and a prompt to everything that starting the CLI takes, and what it warns of."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore._engine.launch.discovery import SCRIPT_SUFFIXES, find_program
from hackamore._engine.launch.encode import ROWS, ROWS_BY_NAME, in_process_servers, is_given, settings_object
from hackamore._engine.launch.versions import FLAGS, CLIVersion
from hackamore.checked.fields import suggestion, wrong
from hackamore.errors import OptionsError, StreamWarning, UnsupportedCLIVersionError, escape_terminal, without_keys
from hackamore.options.environment import CHILD_ID, inherited_variables
from hackamore.options.kinds import (
    SERVERS,
    AgentDefinition,
    SandboxFilesystemConfig,
    SandboxNetworkConfig,
    SandboxSettings,
)

if TYPE_CHECKING:
    from hackamore.checked.fields import Checked
    from hackamore.options.options import Options

__all__ = ["LaunchPlan", "build_plan", "fit", "in_process_servers", "needs_session"]


def build_environment(options: Options, base: Mapping[str, str], child_id: str) -> dict[str, str]:
    """Return the variables of the child: those inherited from `base`, those of `env`, and the options that become variables."""
    variables = inherited_variables(options, base)
    for option in ROWS:
        if option.environment is not None:
            variables.update(option.environment(options))
    if options.cwd is not None:
        variables["PWD"] = os.path.abspath(options.cwd)  # an inherited one is the host's
    variables["CLAUDE_CODE_SDK_READS_SESSION_STATE"] = "1"  # after `env`: `wait_idle` depends on these reports
    variables[CHILD_ID] = child_id  # finds descendants in sessions of their own
    return variables


MAX_ARGUMENT = 128 * 1024
"""The longest single argument or variable that Linux takes, its ending NUL included (MAX_ARG_STRLEN)."""

_BASE = ("--output-format", "stream-json", "--verbose")  # without `--verbose` 2.1.327 exits 1
# Arguments that are not flags of Hackamore, even if they begin with a dash.
_SECRET_WHOLE = frozenset({"prompt", "executable_args"})


class LaunchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that starting the CLI takes.

    Attributes:
        argv: the program and its arguments.
        environment: all variables of the child.
        cwd: its working directory, or None to inherit.
        stdin: bytes that are written to its stdin before that is closed; None keeps it open for a session.
        user: the user it runs as, or None.
        initialize: fields for the `initialize` request; hooks come on top.
        warnings: decisions between options that contradict each other.
        owners: for each argument the option it comes from, or "".
        program_length: how many arguments the program itself takes: 1, or more for a script with its runtime.
        own_variables: names of the variables that `Options.env` sets; recordings mask their values.
        private_folder: a folder to remove once the process has ended, or could not be started.
        inherited: names of variables that are only there because this process has them: of no use on another machine.
        inherit_env: which variables of its machine the CLI gets, as in `Options`.
    """

    argv: tuple[str, ...]
    environment: dict[str, str]
    cwd: str | None = None
    stdin: bytes | None = None
    user: str | int | None = None
    initialize: dict[str, Any] = {}
    warnings: tuple[StreamWarning, ...] = ()
    owners: tuple[str, ...] = ()
    program_length: int = 1
    own_variables: tuple[str, ...] = ()
    private_folder: str | None = None
    inherited: tuple[str, ...] = ()
    inherit_env: bool | tuple[str, ...] = True

    @property
    def version_argv(self) -> tuple[str, ...]:
        return (*self.argv[: self.program_length], "--version")

    def describe(self) -> str:
        """Return the plan as text for people, without secrets.

        Returns:
            Several lines of text.
        """
        import shlex

        command = shlex.join(map(_shown, self.owners or [""] * len(self.argv), self.argv))
        lines = [
            f"command: {command}",
            f"cwd: {self.cwd if self.cwd is not None else '(inherited)'}",
            f"stdin: {'open' if self.stdin is None else f'{len(self.stdin)} bytes'}",
            f"variables: {', '.join(sorted(self.environment))}",
        ]
        if self.user is not None:
            lines.append(f"user: {self.user}")
        if self.initialize:
            lines.append(f"initialize: {', '.join(self.initialize)}")
        lines.extend(f"warning: {warning}" for warning in self.warnings)
        return escape_terminal(without_keys("\n".join(lines)), 20_000)

    def __repr__(self) -> str:
        return f"<LaunchPlan {self.describe()}>"


def _shown(owner: str, part: str) -> str:
    flag, equals, value = part.partition("=")
    if owner in _SECRET_WHOLE:
        return "..."
    if owner in ROWS_BY_NAME and ROWS_BY_NAME[owner].secret:
        return f"{flag}=..." if equals else flag
    return f"{flag}{equals}{value[:77]}..." if len(value) > 80 else part


def needs_session(options: Options) -> list[str]:
    """Return the names of the set options that need the bidirectional protocol."""
    return [option.name for option in ROWS if option.needs_session(options)]


def encode_prompt(prompt: str) -> bytes:
    """Return the prompt as the CLI's stdin takes it; raise TypeError or OptionsError if it is not a str, is empty, or not valid UTF-8."""
    if not isinstance(prompt, str):
        raise TypeError(f"The prompt must be a str here, not {type(prompt).__name__}.")
    if not prompt.strip():  # 2.1.327 exits 1: "Input must be provided"
        raise OptionsError("The prompt is empty: the CLI needs something to answer.", field="prompt")
    if "\0" in prompt:
        raise OptionsError("The prompt contains a NUL character; remove it.", field="prompt")
    try:
        return prompt.encode()
    except UnicodeEncodeError as error:
        raise OptionsError(
            f"The prompt has a lone surrogate at position {error.start}, which is not Unicode text; decode it with "
            "errors='replace' where it comes from.",
            field="prompt",
        ) from None


def build_plan(
    options: Options,
    *,
    prompt: str | None,
    cli_path: str = "claude",
    session: bool,
    base_environment: Mapping[str, str],
    child_id: str,
    local: bool = True,
) -> LaunchPlan:
    """Return what starting the CLI takes; starts nothing.

    Args:
        prompt: the prompt of a one-shot; None for a session.
        session: True for the bidirectional protocol.
        local: False if the CLI runs elsewhere: then `cwd` is a folder there, and is not looked for here.

    Raises:
        OptionsError: the prompt is empty or no text, `cwd` is not a folder, a settings file cannot be read, or an argument
            is too long for the operating system.
    """
    cwd = None if options.cwd is None else os.path.abspath(options.cwd) if local else os.fspath(options.cwd)
    if local and cwd is not None and not os.path.isdir(cwd):  # `Popen` would say that the program is missing
        problem = "is not a folder" if os.path.exists(cwd) else "does not exist"
        given = os.fspath(options.cwd or "")
        relative = (
            "" if os.path.isabs(given) else f" (`{escape_terminal(given, 200)}` relative to the working directory)"
        )
        raise wrong("cwd", f"{problem}: {escape_terminal(cwd, 500)}{relative}. Create the folder or correct the path.")
    environment = build_environment(options, base_environment, child_id)
    owned = _program(options, cli_path, environment, local=local)
    program_length = len(owned)
    if not session:
        owned.append(("", "--print"))
    owned.extend(("", part) for part in _BASE)
    initialize: dict[str, Any] = {}
    for option in ROWS:
        if option.argv is not None:
            owned.extend((option.name, part) for part in option.argv(options))
        for fields in (option.initialize, option.echo) if session else ():
            initialize.update(fields(options) if fields is not None else {})
    stdin: bytes | None = None
    if session:
        owned.extend([("", "--input-format"), ("", "stream-json")])
    else:
        stdin = encode_prompt(prompt if prompt is not None else "")  # command lines are visible to all users
        if options.prompt_channel == "argv":
            owned.extend([("", "--"), ("prompt", prompt or "")])  # the prompt may begin with a dash
            stdin = b""
    _check_sizes(owned, environment)
    return LaunchPlan(
        argv=tuple(part for _, part in owned),
        environment=environment,
        cwd=cwd,
        stdin=stdin,
        user=options.user,
        initialize=initialize,
        warnings=(*conflicts(options), *sent_twice(owned[program_length:])),
        owners=tuple(owner for owner, _ in owned),
        program_length=program_length,
        own_variables=tuple(name for name, value in options.env.items() if value is not None),
        inherited=() if local else tuple(environment.keys() - build_environment(options, {}, child_id).keys()),
        inherit_env=options.inherit_env if isinstance(options.inherit_env, bool) else tuple(options.inherit_env),
    )


def _program(options: Options, cli_path: str, environment: Mapping[str, str], *, local: bool) -> list[tuple[str, str]]:
    if not cli_path.endswith(SCRIPT_SUFFIXES):
        return [("cli_path", cli_path)]
    wanted = options.executable or "node"
    runtime = wanted if os.path.isabs(wanted) or not local else find_program(wanted, environment)
    if runtime is None:
        raise OptionsError(
            f"The CLI is a script and PATH has no {wanted!r} to run it; set `executable`.", field="executable"
        )
    return [
        ("executable", runtime),
        *(("executable_args", part) for part in options.executable_args),
        ("cli_path", cli_path),
    ]


def argument_space() -> int:
    """Return how many bytes arguments and variables may have together."""
    # Linux reports a quarter of the stack limit, but never takes more than 6 MiB. One page is left for what execve adds.
    return min(os.sysconf("SC_ARG_MAX"), 6 * 1024 * 1024) - 4096


def _check_sizes(owned: list[tuple[str, str]], environment: Mapping[str, str]) -> None:
    """Refuse what execve would refuse with a bare E2BIG, and say which option it is."""
    total = 0
    for owner, part in owned:
        if "\0" in part:  # `Popen` says "embedded null byte", and not where
            raise wrong(owner, "must not contain a NUL character.")
        try:
            size = (len(part) if part.isascii() else len(os.fsencode(part))) + 1
        except UnicodeEncodeError:
            raise wrong(owner, "must not contain lone surrogates.") from None
        if size > MAX_ARGUMENT and sys.platform == "linux":
            way_out = ROWS_BY_NAME[owner].row.way_out if owner in ROWS_BY_NAME else ""
            if owner == "prompt":
                way_out = "Use prompt_channel='stdin'."
            problem = f"is too long for a command line: {size:,} bytes; one argument may have {MAX_ARGUMENT:,}."
            raise wrong(owner, f"{problem} {way_out}")
        total += size + 8  # the kernel counts a pointer for each
    for name, value in environment.items():
        text = f"{name}={value}\0"
        size = len(text) if text.isascii() else len(os.fsencode(text))
        if size > MAX_ARGUMENT and sys.platform == "linux":
            raise OptionsError(
                f"The variable {escape_terminal(name, 100)} is too long: {size:,} bytes, and one may have {MAX_ARGUMENT:,}.",
                field=f"env.{name}",
            )
        total += size + 8
    limit = argument_space()
    if limit < total:
        largest = max(owned, key=lambda entry: len(entry[1]))[0]
        raise OptionsError(
            f"Arguments and variables have {total:,} bytes together, and the operating system takes {limit:,}. "
            f"The longest argument comes from `{largest}`.",
            field=largest,
        )


_CONFLICTING = [option for option in ROWS if option.row.yields_to or option.row.deprecated]


def conflicts(options: Options) -> list[StreamWarning]:
    """Return a warning for each option that another one overrules or makes pointless."""
    found = []

    def overruled(loser: str, winner: str) -> None:
        message = f"`{winner}` wins over `{loser}`, which is not sent."
        found.append(StreamWarning("OPTION_CONFLICT", message, {"field": loser, "winner": winner}))

    for name, row in ((option.name, option.row) for option in _CONFLICTING):
        if not is_given(getattr(options, name)):
            continue
        if row.yields_to and getattr(options, row.yields_to) is not None:
            overruled(name, row.yields_to)
        elif row.deprecated:
            message = f"`{name}` is deprecated: {row.deprecated}"
            found.append(StreamWarning("DEPRECATED_OPTION", message, {"field": name}))
    if options.sandbox is not None and "sandbox" in settings_object(options):
        overruled("settings.sandbox", "sandbox")  # `_settings_argv` replaces it whole
    for field, hint in _misspelt_keys(options):
        message = f"`{field}` is a key that this version does not know; it is sent as it is.{hint}"
        found.append(StreamWarning("OPTION_CONFLICT", message, {"field": field}))
    if options.questions["can_use_tool"] is not None:
        found.extend(_shadows(options))
    if options.hooks:
        from hackamore.hooks.matchers import event_warnings

        found.extend(event_warnings(options.hooks))
    if servers := in_process_servers(options):
        found.extend(_undescribed(servers))
    return found


def _undescribed(servers: Mapping[str, Any]) -> list[StreamWarning]:
    """Return a warning for each server with tools that have no description."""
    from hackamore.tools import ToolServer

    found = []
    for name, server in servers.items():
        tools = server.tools.values() if isinstance(server, ToolServer) else ()
        if silent := [f"`{tool.name}`" for tool in tools if not tool.description]:
            message = (
                f"No description: {', '.join(silent)} in `mcp_servers.{name}`. The model cannot know when to call such a tool. "
                "Write a docstring, or `@tool(description=...)`."
            )
            found.append(StreamWarning("TOOL_WITHOUT_DESCRIPTION", message, {"field": f"mcp_servers.{name}"}))
    return found


_TAKEN_TOGETHER = frozenset(flag for option in ROWS for flag in option.row.repeats)


def sent_twice(owned: list[tuple[str, str]]) -> list[StreamWarning]:
    """Return a warning for each flag that an option and `extra_args` both set, of which the CLI takes the last alone."""
    senders: dict[str, list[str]] = {}
    for owner, part in owned:
        flag = part.partition("=")[0]
        if owner in ROWS_BY_NAME and flag.startswith("--") and flag not in _TAKEN_TOGETHER:
            senders.setdefault(flag, []).append(owner)
    found = []
    for flag, owners in senders.items():
        loser, winner = owners[0], owners[-1]
        if loser != winner and "extra_args" in owners:
            message = f"`{winner}` wins over `{loser}`: both set `{flag}`, and the CLI takes the last one alone."
            found.append(StreamWarning("OPTION_CONFLICT", message, {"field": loser, "winner": winner}))
    return found


def _shadows(options: Options) -> list[StreamWarning]:
    """Return a warning for each setting that decides before the CLI calls `can_use_tool`."""
    shadows = []
    if options.permission_mode == "bypassPermissions":
        shadows.append(("permission_mode", "permission_mode='bypassPermissions' allows everything"))
    if options.permission_mode == "dontAsk":
        shadows.append(("permission_mode", "permission_mode='dontAsk' denies what is not allowed"))
    # As the CLI writes the names of servers into the names of their tools. Whole rules for these are meant: they are the caller's own.
    own = [f"mcp__{re.sub('[^A-Za-z0-9_-]', '_', name)}" for name in in_process_servers(options)]
    whole = [
        rule
        for rule in options.allowed_tools
        if (rule.endswith(("()", "(*)")) or "(" not in rule)  # a rule with a pattern leaves the rest to the callback
        and not any(rule == server or rule.startswith(f"{server}__") for server in own)
    ]
    if whole:
        shadows.append(("allowed_tools", f"allowed_tools allows {', '.join(whole)} altogether"))
    if options.skills == "all":
        shadows.append(("skills", "skills='all' allows the Skill tool altogether"))
    return [
        StreamWarning(
            "PERMISSION_CALLBACK_SHADOWED", f"{reason}, so the CLI does not call `can_use_tool`.", {"field": field}
        )
        for field, reason in shadows
    ]


def _misspelt_keys(options: Options) -> list[tuple[str, str]]:
    """Return where a dict has a key that is nearly a known one: the CLI ignores it, `{"enable": True}` for a sandbox, say."""
    unknown: list[tuple[str, str, list[str]]] = []
    for path, kind, value in _wire_dicts(options):
        known = [field.wire for field in kind.__fields__.values()]
        unknown.extend((path, key, known) for key in value if key not in known)
    if not unknown:
        return []
    import difflib

    return [
        (f"{path}.{key}", suggestion(key, known))
        for path, key, known in unknown
        if difflib.get_close_matches(key, known, n=1, cutoff=0.85)  # a key unlike all others may be of a newer CLI
    ]


def _wire_dicts(options: Options) -> list[tuple[str, type[Checked], Mapping[str, Any]]]:
    given: list[tuple[str, type[Checked], Any]] = [("sandbox", SandboxSettings, options.sandbox)]
    if isinstance(options.sandbox, Mapping):
        given.append(("sandbox.network", SandboxNetworkConfig, options.sandbox.get("network")))
        given.append(("sandbox.filesystem", SandboxFilesystemConfig, options.sandbox.get("filesystem")))
    given.extend((f"agents.{name}", AgentDefinition, agent) for name, agent in (options.agents or {}).items())
    if isinstance(options.mcp_servers, Mapping):
        for name, server in options.mcp_servers.items():
            kind = SERVERS.get(server.get("type", "stdio")) if isinstance(server, Mapping) else None
            if kind is not None:
                given.append((f"mcp_servers.{name}", kind, server))
    return [(path, kind, value) for path, kind, value in given if isinstance(value, Mapping)]


_LATER_BYPASS = "--allow-dangerously-skip-permissions"


def fit(plan: LaunchPlan, version: tuple[int, int, int]) -> LaunchPlan:
    """Return the plan for a CLI version: flags that it does not know are replaced, or UnsupportedCLIVersionError names the option."""
    argv, owners = list(plan.argv), list(plan.owners)
    for place, (part, owner) in enumerate(zip(plan.argv, plan.owners, strict=True)):
        # `extra_args` are the caller's decision. Versions between `without` and `known` were not tried: they get the flag.
        flag = part.partition("=")[0]
        seen = FLAGS.get(flag)
        if not owner or owner == "extra_args" or place < plan.program_length or seen is None or version > seen.without:
            continue
        if flag == "--await-initialize" and owner == "hooks":
            continue  # hooks without a policy: as before
        if flag == _LATER_BYPASS and "--permission-mode=bypassPermissions" in plan.argv:
            argv[place] = "--dangerously-skip-permissions"  # of 2.0.20 and older
            continue
        raise UnsupportedCLIVersionError(str(CLIVersion(*version)), str(seen.known), option=owner, flag=flag)
    if argv == list(plan.argv):
        return plan
    return msgspec.structs.replace(plan, argv=tuple(argv), owners=tuple(owners))
