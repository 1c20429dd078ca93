"""From options to a launch plan: find the CLI, build the plan, ask the CLI for its version (once for each file).

All of it may block (file system, a short process), but where no CLI is looked for. The async shell runs what may block in a thread and
calls `cancel` if it is torn away.
"""

from __future__ import annotations

import os
import subprocess
import threading
from typing import TYPE_CHECKING, Any, Literal

from hackamore._engine.launch import (
    MINIMUM_ONE_SHOT,
    MINIMUM_SESSION,
    CLIVersion,
    VersionCache,
    VersionFailure,
    build_plan,
    check,
    find_cli,
    fit,
)
from hackamore._engine.queries.prompts import steering_reasons
from hackamore.transports.process.processes import CHILD_ID_VARIABLE
from hackamore.transports.process.short_runs import ShortRun
from hackamore.transports.process.spawn import spawn_error
from hackamore.transports.recording.masking import Mask

if TYPE_CHECKING:
    from hackamore._engine.launch import LaunchPlan
    from hackamore.errors import StreamWarning
    from hackamore.options.options import Options

_VERSION_OUTPUT_CHARACTERS = 4_096
_cache_lock = threading.Lock()
_caches: dict[str, VersionCache] = {}


class Preparation:
    """Makes a `LaunchPlan` from options.

    `prompt` is that of a one-shot, None for a session; `session` is True for the bidirectional protocol. With a custom transport `find` is
    False: no CLI is looked for and no version asked. `warnings` are to be issued before anything runs.
    """

    def __init__(self, options: Options, prompt: str | None, *, session: bool = False, find: bool = True) -> None:
        self.options: Options = options
        self._prompt = prompt
        self._session = session
        self._find = find
        self._query = ShortRun(os.urandom(16).hex())
        self.warnings: list[StreamWarning] = []

    @property
    def program(self) -> str:
        return os.fspath(self.options.cli_path or "claude")

    @property
    def cancelled(self) -> bool:
        """True once `cancel` was called."""
        return self._query.cancelled

    @property
    def may_block(self) -> bool:
        """False if `run` only looks at the options."""
        return self._find

    def run(self) -> LaunchPlan:
        """Return the plan; `warnings` then holds what is to be warned of before anything runs.

        Raises:
            OptionsError: options that do not go together, or do not fit the file system.
            CLINotFoundError, UnsupportedCLIVersionError, UnknownVersionError, VersionDetectionError: as their names say.
        """
        environment = dict(os.environ)
        cli_path = self.program
        if self._find:
            cli_path = find_cli(self.options.cli_path).path
        plan = build_plan(
            self.options,
            prompt=self._prompt,
            cli_path=cli_path,
            session=self._session,
            base_environment=environment,
            child_id=os.urandom(16).hex(),
            local=self._find,
        )
        self.warnings += plan.warnings
        if self._find and self.options.version_check != "skip":
            answer = self._version(cli_path, plan)
            if not self.cancelled:  # else no reader is left
                plan, warnings = fitted(plan, answer, self.options.version_check, session=self._session)
                self.warnings += warnings
        return plan

    def cancel(self) -> None:
        """End a `run` in another thread: nothing that it started stays."""
        self._query.cancel()

    def _version(self, cli_path: str, plan: LaunchPlan) -> str | VersionFailure:
        cache = known_versions()
        known = cache.get(cli_path)
        if known is not None:
            return known
        answer = ask_version(plan, self.options.timeouts.version_check, self._query)
        if isinstance(answer, str):
            cache.put(cli_path, answer)
        return answer


def launch_plan(options: Options, *, find: bool = True) -> LaunchPlan:
    """Return what a session with these options starts: command line, variables, fields of `initialize`. It starts nothing.

    Args:
        options: the options of the session.
        find: False looks for no CLI on this machine: then `cli_path`, or `claude`, is the program.

    Returns:
        The plan, which `start` of a transport takes.

    Raises:
        OptionsError: options that do not fit together, or do not fit the file system.
        CLINotFoundError: there is no CLI.

    Example:
        ::

            print(hackamore.launch_plan(hackamore.Options(model="sonnet")).describe())
    """
    return Preparation(options.replace(version_check="skip"), None, session=True, find=find).run()


def plan_for(options: Options, prompt: str, cli_path: str) -> tuple[LaunchPlan, list[str]]:
    """Return what would be started for a prompt, and the options for which it would be a session."""
    reasons = steering_reasons(prompt, options)
    one_shot = None if reasons else prompt
    return build_plan(
        options, prompt=one_shot, cli_path=cli_path, session=bool(reasons), base_environment=os.environ, child_id=""
    ), reasons


def fitted(
    plan: LaunchPlan, answer: str | VersionFailure, policy: Literal["strict", "permissive", "skip"], *, session: bool
) -> tuple[LaunchPlan, list[StreamWarning]]:
    """Return the plan for a CLI that answered so to `--version`, and what to warn of; raise if the policy refuses the CLI."""
    warnings = check(answer, policy, MINIMUM_SESSION if session else MINIMUM_ONE_SHOT)
    version = CLIVersion.parse(answer) if isinstance(answer, str) else None
    return plan if version is None else fit(plan, version), warnings


def ask_version(plan: LaunchPlan, seconds: float | None, query: ShortRun) -> str | VersionFailure:
    """Return the output of `claude --version`, or the reason why there is none.

    Raises:
        SpawnError: it cannot be started; nor could the CLI itself, and this error says more than that no version is known.
    """
    environment = {**plan.environment, CHILD_ID_VARIABLE: query.child_id}
    try:
        done = query.run(plan.version_argv, seconds, env=environment, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        return VersionFailure("timeout", "it was cancelled" if query.cancelled else f"no answer within {seconds:g} s")
    except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
        raise spawn_error(plan.version_argv[0], None, error) from error
    output = done.stdout.decode("utf-8", "replace")[:_VERSION_OUTPUT_CHARACTERS]
    if CLIVersion.parse(output) is None:
        output = Mask(plan)(output.encode()).decode()  # an error shows it
    if done.returncode and not output.strip():
        return VersionFailure("spawn", f"it exited with code {done.returncode} and printed nothing")
    return output


def child_settings(options: Options) -> dict[str, Any]:
    """Return the arguments of the child process that the options ask for."""
    return {
        "stop_grace": options.timeouts.stop_grace,
        "kill_grace": options.timeouts.kill_grace,
        "stderr_tail_bytes": options.limits.stderr_tail,
        "on_stderr": options.stderr,
    }


def known_versions() -> VersionCache:
    """Return what is known in this user's folder; one object for each folder, so that answers are shared in memory."""
    with _cache_lock:
        key = f"{os.environ.get('XDG_CACHE_HOME', '')}\0{os.environ.get('HOME', '')}"
        if key not in _caches:
            _caches[key] = VersionCache.in_user_folder(os.environ)
        return _caches[key]
