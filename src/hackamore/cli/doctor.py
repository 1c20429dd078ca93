"""`hackamore doctor` and `hackamore version`: the installation, the login, the command line; or another machine.

They use no network but for another machine, and read no secret.
"""

from __future__ import annotations

import json
import os
import platform
import re
import secrets
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from hackamore import MINIMUM_ONE_SHOT, MINIMUM_SESSION, CLIVersion, find_cli
from hackamore._version import __version__
from hackamore.cli.flags import build_options
from hackamore.cli.running import FAILED, NOT_STARTED, USAGE, with_flags
from hackamore.errors import (
    HackamoreError,
    OptionsError,
    SpawnError,
    StartError,
    VersionDetectionError,
    escape_terminal,
)
from hackamore.options.bounds import Timeouts
from hackamore.options.options import Options
from hackamore.transports.process.prepare import ask_version, fitted, plan_for
from hackamore.transports.process.short_runs import ShortRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hackamore import FoundCLI
    from hackamore.cli.terminal import Terminal
    from hackamore.transports.base import LaunchPlan
    from hackamore.transports.remote import Place

_EXTRAS = {
    "acp": ("agent-client-protocol",),
    "agui": ("ag-ui-protocol",),
    "cli": ("typer", "rich"),
    "dask": ("distributed",),
    "mcp": ("mcp",),
    "otel": ("opentelemetry-api",),
    "policy": ("tree-sitter", "tree-sitter-bash"),
    "pool": ("psutil",),
    "postgres": ("psycopg",),
    "pydantic": ("pydantic",),
    "redis": ("redis",),
    "s3": ("boto3",),
    "trio": ("trio",),
}
_NARROW = 60
_LEFT = 17
_MOST_SETTINGS = 16 * 1024 * 1024
_SSH_URL = re.compile(r"ssh://(?!-)((?:[^@/:\s]+@)?(?:\[[^\]/]+\]|[^@/:\[\]\s]+))(?::([0-9]+))?(?:/(~.*)|(/.+)|/)?")
_CONTAINER_URL = re.compile(r"(docker|nerdctl|podman)(\+exec)?://([^-\s]\S*)")
_CORE = ("msgspec", "anyio")
_LOGIN_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_PROVIDERS = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "ANTHROPIC_BASE_URL")
_SOURCES = {
    "cli_path": "from --cli-path or the option `cli_path`",
    "HACKAMORE_CLI_PATH": "from the variable HACKAMORE_CLI_PATH",
    "PATH": "found in PATH",
    "install-cli": "installed by `hackamore install-cli`",
    "install-place": "found where installers put it",
    "node-modules": "found in ~/node_modules",
    "claude-agent-sdk": "bundled with the package claude-agent-sdk",
}


class _Report:
    """The findings, in the shape that `--json` writes."""

    def __init__(self) -> None:
        self.exit_code = 0
        self.problems: list[dict[str, str]] = []
        self.hints: list[dict[str, str]] = []
        self.facts: dict[str, Any] = {
            "hackamore": __version__,
            "python": platform.python_version(),
            "python_path": sys.executable,
            "platform": f"{platform.system()} {platform.machine()}",
            "packages": {name: _installed(name) for name in _CORE},
            "extras": {extra: {name: _installed(name) for name in names} for extra, names in _EXTRAS.items()},
            "cli": None,
            "launch": None,
            "login": None,
            "over": None,
        }

    def problem(self, what: str, to_do: str, exit_code: int) -> None:
        """Add a problem that prevents a run. The first one decides the exit code."""
        self.problems.append({"problem": what, "to_do": to_do})
        self.exit_code = self.exit_code or exit_code

    def hint(self, what: str, to_do: str) -> None:
        """Add a condition that can make a run fail."""
        self.hints.append({"hint": what, "to_do": to_do})


def doctor(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Check the installation, show the report, return the exit code."""
    report = _Report()
    with terminal.spinning("Looking"):
        _examine(given, report, terminal)
    if given.get("as_json"):
        terminal.json({"ok": not report.problems, **report.facts, "problems": report.problems, "hints": report.hints})
    else:
        _Page(terminal, verbose=bool(given.get("verbose"))).show(report)
    return report.exit_code


def version(_: Mapping[str, Any], terminal: Terminal) -> int:
    """Show the versions of Hackamore, the CLI and Python; return the exit code."""
    terminal.line(f"hackamore {__version__}")
    try:
        found = find_cli()
    except StartError:
        terminal.line("Claude Code not found: run `hackamore install-cli`")
    else:
        cli = _version_of(found) or "unknown"
        terminal.line(f"Claude Code {cli} ({found.path})")
    terminal.line(f"Python {platform.python_version()} ({sys.executable})")
    return 0


def _version_of(found: FoundCLI) -> str | None:
    try:
        plan, _ = plan_for(Options(), "-", found.path)
        answer = ask_version(plan, Timeouts().version_check, ShortRun(secrets.token_hex(16)))
    except HackamoreError:
        return None
    known = CLIVersion.parse(answer) if isinstance(answer, str) else None
    return str(known) if known else None


# -- finding out -------------------------------------------------------------------------------------------------------


def _examine(given: Mapping[str, Any], report: _Report, terminal: Terminal) -> None:
    try:
        options = build_options(given, partial=False)
        if (url := given.get("over")) is not None or given.get("env"):
            _look_over(place_of(url or "", given.get("env") or ()), options, report, terminal)
            return
    except OptionsError as error:
        report.problem(str(error), "Fix this option, then run `hackamore doctor` again.", USAGE)
        return
    found = _find(options, report)
    plan = _plan(options, found, report)
    if found is not None and plan is not None:
        _ask_version(options, found, plan, report)
    if plan is not None:
        _look_for_login(plan.environment, found, report)
        _look_for_traps(options, plan, report)


def _look_over(place: Place, options: Options, report: _Report, terminal: Terminal) -> None:
    if options.cli_path == os.environ.get("HACKAMORE_CLI_PATH"):  # a path of this machine
        options = options.replace(cli_path=None)
    checked = place.check_sync(options, on_step=terminal.working)
    report.facts["over"] = {"place": checked.place, **checked.facts}
    for code, level, text, fix in checked.findings:
        if level == "error":
            report.problem(f"{code}: {text}", fix, FAILED if code == "no-login" else NOT_STARTED)
        else:
            report.hint(f"{code}: {text}", fix)


def place_of(url: str, env: Sequence[str] = ()) -> Place:
    """Return the machine of a URL; raise OptionsError for another text, and for a name without a variable here."""
    from hackamore.transports.remote import SSH, Container

    if not set(env) <= set(os.environ):  # not shown: it may be NAME=VALUE
        raise OptionsError("--env names a variable that is not set here. Give names, without values.", field="env")
    if found := _SSH_URL.fullmatch(url):
        host, port, below_home, folder = found.groups()
        arguments = ["-p", port] if port else []
        return SSH(re.sub(r"[\[\]]", "", host), cwd=below_home or folder, arguments=arguments, env=env)
    if found := _CONTAINER_URL.fullmatch(url):
        runtime, attach, name = found.groups()
        return Container(attach=name, runtime=runtime, env=env) if attach else Container(name, runtime=runtime, env=env)
    raise OptionsError(
        f"--over {escape_terminal(url, 200)!r} is not ssh://[USER@]HOST[:PORT][/FOLDER], RUNTIME://IMAGE or RUNTIME+exec://CONTAINER."
    )


def _find(options: Options, report: _Report) -> FoundCLI | None:
    try:
        found = find_cli(options.cli_path)
    except StartError as error:
        first, _, rest = with_flags(str(error)).partition(" Install it")
        to_do = f"Install it{rest}" if rest else f"Pass another path with {_place('`HACKAMORE_CLI_PATH`' in first)}."
        report.problem(first, to_do, NOT_STARTED)
        return None
    report.facts["cli"] = {
        "path": found.path,
        "real_path": os.path.realpath(found.path),
        "source": found.source,
        "version": None,
        "minimum": str(MINIMUM_ONE_SHOT),
        "minimum_for_sessions": str(MINIMUM_SESSION),
    }
    return found


def _place(variable: bool) -> str:
    return "the variable HACKAMORE_CLI_PATH" if variable else "--cli-path"


def _plan(options: Options, found: FoundCLI | None, report: _Report) -> LaunchPlan | None:
    try:
        plan, reasons = plan_for(options, "(the prompt)", found.path if found else "claude")
    except HackamoreError as error:
        report.problem(str(error), "Fix this option.", USAGE)
        return None
    inherited = {name for name, value in plan.environment.items() if os.environ.get(name) == value}
    report.facts["launch"] = {
        "command": plan.describe().removeprefix("command: ").partition("\ncwd: ")[0],
        "cwd": plan.cwd or _own_folder(report),
        "prompt_channel": options.prompt_channel,
        "bidirectional_because_of": reasons,
        "variables_set": sorted(plan.environment.keys() - inherited),
        "variables_inherited": sorted(inherited),
        "variables_left_out": sorted(os.environ.keys() - plan.environment.keys()),
    }
    for warning in plan.warnings:
        report.hint(str(warning), "Remove one of the two options.")
    return plan


def _own_folder(report: _Report) -> str | None:
    try:
        return os.getcwd()
    except OSError as error:
        what = f"The working directory cannot be found: {error.strerror}. It may have been deleted or moved."
        report.problem(what, "Change to a folder that exists, or pass one with --cwd.", NOT_STARTED)
        return None


def _ask_version(options: Options, found: FoundCLI, plan: LaunchPlan, report: _Report) -> None:
    try:
        try:
            answer = ask_version(plan, options.timeouts.version_check, ShortRun(secrets.token_hex(16)))
        except SpawnError as error:
            raise VersionDetectionError(str(error.__cause__)) from error
        version = CLIVersion.parse(answer) if isinstance(answer, str) else None
        report.facts["cli"]["version"] = str(version) if version else None
        # Strict, regardless of the option: this report is for finding problems.
        for each in fitted(plan, answer, "strict", session=bool(report.facts["launch"]["bidirectional_because_of"]))[1]:
            report.hint(str(each), "Run `claude --version` by hand.")
    except StartError as error:
        if options.version_check == "skip":
            report.hint(str(error), "The option version_check='skip' starts this CLI without the check.")
        else:
            report.problem(
                str(error),
                f"Check {escape_terminal(found.path, 300)}, or pass another path with {_place(found.source == 'HACKAMORE_CLI_PATH')}.",
                NOT_STARTED,
            )


def _look_for_login(environment: Mapping[str, str], found: FoundCLI | None, report: _Report) -> None:
    """Add the available ways to log in. Only their presence counts: no value and no credentials file is read."""
    present = [name for name in (*_LOGIN_VARIABLES, *_PROVIDERS) if environment.get(name)]
    folder = environment.get("CLAUDE_CONFIG_DIR") or os.path.join(environment.get("HOME", ""), ".claude")
    credentials = os.path.isfile(os.path.join(folder, ".credentials.json"))
    helper = _has_key_helper(os.path.join(folder, "settings.json"))
    report.facts["login"] = {
        "variables_present": present,
        "credentials_file_present": credentials,
        "api_key_helper_present": helper,
    }
    if credentials or helper or any(name != "ANTHROPIC_BASE_URL" for name in present):
        return
    what = f"No login was found: no API key in the environment, no credentials in {escape_terminal(folder, 300)}."
    program = escape_terminal(found.path, 300) if found else "claude"
    to_do = (
        f"Set ANTHROPIC_API_KEY. Or run `{program}` and type /login. Or run `{program} setup-token` and set "
        "CLAUDE_CODE_OAUTH_TOKEN to the token."
    )
    if sys.platform == "darwin":
        report.hint(f"{what} The keychain was not searched.", to_do)
    elif present:
        report.hint(f"{what} The gateway of ANTHROPIC_BASE_URL may not need one.", to_do)
    else:
        report.problem(what, to_do, FAILED)


def _has_key_helper(settings: str) -> bool:
    try:
        with open(settings, "rb") as source:
            content = json.loads(source.read(_MOST_SETTINGS))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and bool(content.get("apiKeyHelper"))


def _look_for_traps(options: Options, plan: LaunchPlan, report: _Report) -> None:
    environment = plan.environment
    bypass = options.permission_mode == "bypassPermissions" or options.allow_dangerously_skip_permissions
    if bypass and os.name == "posix" and os.geteuid() == 0 and not environment.get("IS_SANDBOX"):
        report.hint(
            "The CLI refuses to skip permission checks as root.",
            'Pass the tools with --allow instead; in a disposable container: --option \'env={"IS_SANDBOX": "1"}\'.',
        )
    if not environment.get("HOME"):
        report.hint("The CLI has no HOME.", "Set HOME, or CLAUDE_CONFIG_DIR, for its settings and sessions.")
    if not environment.get("PATH"):
        report.hint("The CLI has no PATH, so its Bash tool finds few programs.", "Pass PATH on with `inherit_env`.")
    if (folder := report.facts["launch"]["cwd"]) is not None and not os.access(folder, os.W_OK):
        report.hint("The working directory is not writable.", "Pass another one with --cwd if tools must edit files.")


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


# -- showing -----------------------------------------------------------------------------------------------------------


class _Page:
    def __init__(self, terminal: Terminal, *, verbose: bool) -> None:
        self._terminal = terminal
        self._verbose = verbose

    def show(self, report: _Report) -> None:
        facts = report.facts
        self._head("Hackamore", first=True)
        self._row("version", facts["hackamore"])
        self._row("Python", f"{facts['python']} ({facts['python_path']}), {facts['platform']}")
        self._row("packages", _packages(facts["packages"]))
        for extra, packages in facts["extras"].items():
            missing = [name for name, version in packages.items() if version is None]
            self._row(
                f"extra {extra}",
                f"not installed: pip install 'hackamore[{extra}]'" if missing else _packages(packages),
                "dim" if missing else "",
            )
        if facts["over"] is not None:
            self._head("Other machine")
            for name, value in facts["over"].items():
                self._row(name.replace("_", " "), f"{value:.3f} s" if isinstance(value, float) else value)
            self._findings(report)
            return
        self._head("Claude Code CLI")
        cli = facts["cli"]
        if cli is None:
            self._row("path", "not found", "red")
        else:
            self._row("path", f"{cli['path']} ({_SOURCES.get(cli['source'], cli['source'])})")
            if cli["real_path"] != cli["path"]:
                self._row("real path", cli["real_path"])
            needed = f"minimum {cli['minimum']}, for sessions {cli['minimum_for_sessions']}"
            self._row("version", f"{cli['version'] or 'unknown'} ({needed})")
        self._login(facts["login"])
        if facts["launch"] is not None:
            self._launch(facts["launch"])
        self._findings(report)

    def _login(self, login: Mapping[str, Any] | None) -> None:
        if login is None:
            return
        present = [*login["variables_present"]]
        present += ["a credentials file"] if login["credentials_file_present"] else []
        present += ["apiKeyHelper in the settings"] if login["api_key_helper_present"] else []
        self._row("login", ", ".join(present) + " (present, not tried)" if present else "none found")

    def _launch(self, launch: Mapping[str, Any]) -> None:
        self._head("Command line")
        self._row("command", launch["command"])
        self._row("folder", launch["cwd"] or "missing", "" if launch["cwd"] else "red")
        reasons = launch["bidirectional_because_of"]
        if reasons:
            self._row("prompt", f"as a frame of the bidirectional protocol, because of {', '.join(reasons)}")
        else:
            self._row("prompt", "on standard input" if launch["prompt_channel"] == "stdin" else "on the command line")
        groups = (
            ("inherited", launch["variables_inherited"]),
            ("set", launch["variables_set"]),
            ("removed", launch["variables_left_out"]),
        )
        if self._verbose:
            for number, (name, variables) in enumerate(groups):
                self._row("" if number else "variables", f"{name}: {', '.join(variables) or 'none'}")
        else:
            counts = ", ".join(f"{len(variables)} {name}" for name, variables in groups)
            self._row("variables", f"{counts} (--verbose lists them)")

    def _findings(self, report: _Report) -> None:
        terminal = self._terminal
        for title, entries, name, sign, style in (
            ("Problems", report.problems, "problem", terminal.cross, "red"),
            ("Hints", report.hints, "hint", "!", "yellow"),
        ):
            if entries:
                self._head(title)
            for entry in entries:
                self._finding(sign, style, entry[name], entry["to_do"])
        terminal.line()
        if not report.problems:
            ready = "Ready, with hints." if report.hints else "Ready."
            terminal.parts((f"{terminal.tick} ", "green"), (ready, ""))
        else:
            count = len(report.problems)
            terminal.parts((f"{terminal.cross} ", "red"), (f"{count} problem{'s' if count > 1 else ''}.", ""))

    def _finding(self, sign: str, style: str, what: str, to_do: str) -> None:
        terminal = self._terminal
        terminal.parts((f"  {sign} ", style), (what.replace("\n", "\n    "), ""), hang=4)
        terminal.line("    -> " + to_do.replace("\n", "\n       "), "dim", wrap=True)

    def _head(self, text: str, *, first: bool = False) -> None:
        if not first:
            self._terminal.line()
        self._terminal.line(text, "bold")

    def _row(self, name: str, value: str, style: str = "") -> None:
        terminal = self._terminal
        value = value.replace("\n", " ")
        if terminal.width < _NARROW and cell_len(value) > terminal.width - _LEFT:
            terminal.line(f"  {name}", "dim")
            terminal.line(f"    {value}", style, wrap=True)
        else:
            terminal.parts((f"  {name:<{_LEFT - 2}}", "dim"), (value, style), hang=_LEFT)


def _packages(versions: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
