"""`bridle doctor`: what was found, what would be sent, what is missing. Reaches no network and reads no secret."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Any

from bridle._version import __version__
from bridle.cli.choices import build_options
from bridle.cli.running import NOT_STARTED, USAGE
from bridle.errors import BridleError, OptionsError, StartError, printable
from bridle.launch import MINIMUM_ONE_SHOT, MINIMUM_SESSION, VersionFailure, build_plan, check, find_cli, parse_version
from bridle.launch.versions import dotted
from bridle.queries.prompts import steering_reasons
from bridle.transports.process.short_runs import run_with_descendants

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bridle.cli.terminal import Terminal
    from bridle.launch import Found, LaunchPlan
    from bridle.options.options import Options

__all__ = ["doctor"]

_EXTRAS = {"cli": ("typer", "rich"), "mcp": ("mcp",), "pydantic": ("pydantic",), "trio": ("trio",)}
_CORE = ("msgspec", "anyio")
_LOGIN_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_PROVIDERS = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "ANTHROPIC_BASE_URL")
_SOURCES = {
    "cli_path": "named by --cli-path or the option `cli_path`",
    "BRIDLE_CLI_PATH": "named by the variable BRIDLE_CLI_PATH",
    "PATH": "found in PATH",
    "install-place": "found where the installer puts it",
    "node-modules": "found in a folder node_modules",
    "claude-agent-sdk": "comes with the package claude-agent-sdk",
}
_VERSION_OUTPUT = 4_096


class _Report:
    """What is found out, in the shape that `--json` writes."""

    def __init__(self) -> None:
        self.exit_code = 0
        self.problems: list[dict[str, str]] = []
        self.hints: list[dict[str, str]] = []
        self.facts: dict[str, Any] = {
            "bridle": __version__,
            "python": platform.python_version(),
            "python_path": sys.executable,
            "platform": f"{platform.system()} {platform.machine()}",
            "packages": {name: _installed(name) for name in _CORE},
            "extras": {extra: {name: _installed(name) for name in names} for extra, names in _EXTRAS.items()},
            "cli": None,
            "launch": None,
            "login": None,
        }

    def problem(self, what: str, to_do: str, exit_code: int) -> None:
        """Note a problem that prevents a start. The first one decides the exit code."""
        self.problems.append({"problem": what, "to_do": to_do})
        self.exit_code = self.exit_code or exit_code

    def hint(self, what: str, to_do: str) -> None:
        """Note what may keep a run from succeeding."""
        self.hints.append({"hint": what, "to_do": to_do})


def doctor(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Find out, show it, return the exit code."""
    report = _Report()
    _examine(given, report)
    if given.get("as_json"):
        terminal.json({"ok": not report.problems, **report.facts, "problems": report.problems, "hints": report.hints})
    else:
        _Page(terminal).show(report)
    return report.exit_code


# -- finding out -------------------------------------------------------------------------------------------------------


def _examine(given: Mapping[str, Any], report: _Report) -> None:
    try:
        options = build_options(given, partial=False)
    except OptionsError as error:
        report.problem(str(error), "Correct it; nothing else was looked at.", USAGE)
        return
    found = _find(options, given, report)
    plan = _plan(options, found, report)
    if found is not None and plan is not None:
        _ask_version(options, found, plan, report)
    if plan is not None:
        _look_for_login(plan.environment, report)
        _look_for_traps(options, plan, report)


def _find(options: Options, given: Mapping[str, Any], report: _Report) -> Found | None:
    try:
        found = find_cli(options.cli_path, os.environ, os.path.expanduser("~"))
    except StartError as error:
        first, _, rest = str(error).partition(" Install it")
        report.problem(first, f"Install it{rest}" if rest else "Name another one with --cli-path.", NOT_STARTED)
        return None
    source: str = found.source
    if source == "cli_path" and given.get("cli_path") is None and os.environ.get("BRIDLE_CLI_PATH"):
        source = "BRIDLE_CLI_PATH"
    report.facts["cli"] = {
        "path": found.path,
        "real_path": os.path.realpath(found.path),
        "source": source,
        "version": None,
        "minimum": dotted(MINIMUM_ONE_SHOT),
        "minimum_for_sessions": dotted(MINIMUM_SESSION),
    }
    return found


def _plan(options: Options, found: Found | None, report: _Report) -> LaunchPlan | None:
    prompt = "(the prompt)"
    try:
        reasons = steering_reasons(prompt, options)
        plan = build_plan(
            options,
            prompt=None if reasons else prompt,
            cli_path=found.path if found else "claude",
            session=bool(reasons),
            base_environment=os.environ,
            child_id="",
        )
    except BridleError as error:
        report.problem(str(error), "Correct the option.", USAGE)
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
        report.hint(str(warning), "Leave one of the two options out.")
    return plan


def _own_folder(report: _Report) -> str | None:
    try:
        return os.getcwd()
    except OSError as error:
        what = f"The folder that this is run in cannot be found: {error.strerror}. It may have been deleted or moved."
        report.problem(what, "Go to one that exists, or name one with --cwd.", NOT_STARTED)
        return None


def _ask_version(options: Options, found: Found, plan: LaunchPlan, report: _Report) -> None:
    answer = _version_answer(options, plan)
    if isinstance(answer, str):
        version = parse_version(answer)
        report.facts["cli"]["version"] = dotted(version) if version else None
    try:
        # Judged strictly whatever the option says: this is the place to be told.
        minimum = MINIMUM_SESSION if report.facts["launch"]["bidirectional_because_of"] else MINIMUM_ONE_SHOT
        for warning in check(answer, "strict", minimum):
            report.hint(str(warning), "Run `claude --version` by hand.")
    except StartError as error:
        if options.version_check == "skip":
            report.hint(str(error), "The option version_check='skip' starts it all the same.")
        else:
            report.problem(str(error), f"Look at {printable(found.path, 300)}, or name another one.", NOT_STARTED)


def _version_answer(options: Options, plan: LaunchPlan) -> str | VersionFailure:
    seconds = options.timeouts.version_check
    try:
        done = run_with_descendants(plan.version_argv, seconds, env=plan.environment, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        return VersionFailure("timeout", f"no answer within {seconds:g} s")
    except (OSError, ValueError) as error:
        return VersionFailure("spawn", str(error))
    output = done.stdout[:_VERSION_OUTPUT].decode("utf-8", "replace")
    if done.returncode and not output.strip():
        return VersionFailure("spawn", f"it exited with code {done.returncode} and printed nothing")
    return output


def _look_for_login(environment: Mapping[str, str], report: _Report) -> None:
    """Note which ways to log in there are. Only whether they are there: no value and no file is read."""
    present = [name for name in (*_LOGIN_VARIABLES, *_PROVIDERS) if environment.get(name)]
    folder = environment.get("CLAUDE_CONFIG_DIR") or os.path.join(environment.get("HOME", ""), ".claude")
    credentials = os.path.isfile(os.path.join(folder, ".credentials.json"))
    report.facts["login"] = {"variables_present": present, "credentials_file_present": credentials}
    if not credentials and not any(name != "ANTHROPIC_BASE_URL" for name in present):
        where = " It may be in the keychain, which is not looked at." if sys.platform == "darwin" else ""
        report.hint(
            f"No login was found: no API key in the environment, no credentials in {printable(folder, 300)}.{where}",
            "Set ANTHROPIC_API_KEY, or run `claude` once and log in with /login.",
        )


def _look_for_traps(options: Options, plan: LaunchPlan, report: _Report) -> None:
    environment = plan.environment
    bypass = options.permission_mode == "bypassPermissions" or options.allow_dangerously_skip_permissions
    if bypass and os.name == "posix" and os.geteuid() == 0 and not environment.get("IS_SANDBOX"):
        report.hint(
            "As root the CLI refuses to skip permission checks.",
            'Name the tools with --allow instead; in a throw-away container: --option \'env={"IS_SANDBOX": "1"}\'.',
        )
    if not environment.get("HOME"):
        report.hint("The CLI gets no HOME.", "Set HOME, or CLAUDE_CONFIG_DIR, for its settings and sessions.")
    if not environment.get("PATH"):
        report.hint("The CLI gets no PATH: its Bash tool will find few programs.", "Pass PATH on with `inherit_env`.")
    folder = report.facts["launch"]["cwd"]
    if folder is not None and not os.access(folder, os.W_OK):
        report.hint("The working directory cannot be written.", "Give another one with --cwd if tools are to edit.")


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


# -- showing -----------------------------------------------------------------------------------------------------------


class _Page:
    """The report as people read it."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def show(self, report: _Report) -> None:
        facts = report.facts
        self._head("Bridle", first=True)
        self._row("version", facts["bridle"])
        self._row("Python", f"{facts['python']} ({facts['python_path']}), {facts['platform']}")
        self._row("needs", _packages(facts["packages"]))
        for extra, packages in facts["extras"].items():
            missing = [name for name, version in packages.items() if version is None]
            self._row(
                f"extra {extra}",
                f"not installed: pip install 'bridle[{extra}]'" if missing else _packages(packages),
                "dim" if missing else "",
            )
        self._head("Claude Code CLI")
        cli = facts["cli"]
        if cli is None:
            self._row("path", "not found", "red")
        else:
            self._row("path", f"{cli['path']} ({_SOURCES.get(cli['source'], cli['source'])})")
            if cli["real_path"] != cli["path"]:
                self._row("", f"is {cli['real_path']}")
            needed = f"needed: {cli['minimum']}, for sessions {cli['minimum_for_sessions']}"
            self._row("version", f"{cli['version'] or 'unknown'} ({needed})")
        if facts["launch"] is not None:
            self._launch(facts["launch"], facts["login"])
        self._findings(report)

    def _launch(self, launch: Mapping[str, Any], login: Mapping[str, Any] | None) -> None:
        self._head("What would be started")
        self._row("command", launch["command"])
        self._row("folder", launch["cwd"] or "not there", "" if launch["cwd"] else "red")
        reasons = launch["bidirectional_because_of"]
        if reasons:
            self._row("prompt", f"as a frame: the bidirectional protocol, because of {', '.join(reasons)}")
        else:
            self._row("prompt", "on standard input" if launch["prompt_channel"] == "stdin" else "on the command line")
        self._row("variables", f"passed on: {_names(launch['variables_inherited'])}")
        self._row("", f"set: {_names(launch['variables_set'])}")
        self._row("", f"left out: {_names(launch['variables_left_out'])}")
        if login is not None:
            present = [*login["variables_present"]]
            if login["credentials_file_present"]:
                present.append("a credentials file")
            self._row("login", ", ".join(present) + " (only looked for, not read)" if present else "none found")

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
        if not report.problems:
            terminal.line()
            ready = "Ready: the CLI can be started." if report.hints else "All is well."
            terminal.parts((f"{terminal.tick} ", "green"), (ready, ""))

    def _finding(self, sign: str, style: str, what: str, to_do: str) -> None:
        terminal = self._terminal
        terminal.parts((f"  {sign} ", style), (what.replace("\n", "\n    "), ""))
        terminal.line("    -> " + to_do.replace("\n", "\n       "), "dim")

    def _head(self, text: str, *, first: bool = False) -> None:
        if not first:
            self._terminal.line()
        self._terminal.line(text, "bold")

    def _row(self, name: str, value: str, style: str = "") -> None:
        self._terminal.parts((f"  {name:<15}", "dim"), (value.replace("\n", " "), style))


def _names(variables: Sequence[str]) -> str:
    return ", ".join(variables) or "none"


def _packages(versions: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
