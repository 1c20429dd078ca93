"""From options to a launch plan: find the CLI, build the plan, ask the CLI for its version (once for each file).

All of it may block (file system, a short process), but where no CLI is looked for. The async shell runs what may block in a thread and
calls `cancel` if it is torn away.
"""

from __future__ import annotations

import logging
import os
import secrets
import subprocess
import threading
from typing import TYPE_CHECKING, Any

from bridle.launch import MINIMUM_ONE_SHOT, MINIMUM_SESSION, VersionCache, VersionFailure, build_plan, check, find_cli
from bridle.transports.process.processes import CHILD_ID_VARIABLE, identity, kill_identity, marked_with
from bridle.transports.process.spawn import popen, spawn_error
from bridle.transports.process.watchdog import watchdog

if TYPE_CHECKING:
    from bridle.errors import StreamWarning
    from bridle.launch import LaunchPlan
    from bridle.options.options import Options

__all__ = ["Preparation", "child_settings", "known_versions"]

logger = logging.getLogger("bridle")

_VERSION_OUTPUT_CHARACTERS = 4_096
_cache_lock = threading.Lock()
_caches: dict[str, VersionCache] = {}


class Preparation:
    """Makes a `LaunchPlan` from options.

    Args:
        options: what the user wants.
        prompt: the prompt of a one-shot; None for a session.
        session: True for the bidirectional protocol.
        find: False with a custom transport: then no CLI is looked for and no version asked.
    """

    def __init__(self, options: Options, prompt: str | None, *, session: bool = False, find: bool = True) -> None:
        self._options = options
        self._prompt = prompt
        self._session = session
        self._find = find
        self._lock = threading.RLock()  # a garbage collection inside of it may cancel
        self._cancelled = False
        self._process: subprocess.Popen[bytes] | None = None
        self._child_id = secrets.token_hex(16)
        self.warnings: list[StreamWarning] = []

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
        cli_path = os.fspath(self._options.cli_path or "claude")
        if self._find:
            home = os.path.expanduser("~")
            cli_path = find_cli(self._options.cli_path, environment, home).path
        plan = build_plan(
            self._options,
            prompt=self._prompt,
            cli_path=cli_path,
            session=self._session,
            base_environment=environment,
            child_id=secrets.token_hex(16),
            local=self._find,
        )
        self.warnings += plan.warnings
        if self._find and self._options.version_check != "skip":
            answer = self._version(cli_path, plan)
            minimum = MINIMUM_SESSION if self._session else MINIMUM_ONE_SHOT
            self.warnings += check(answer, self._options.version_check, minimum)
        return plan

    def cancel(self) -> None:
        """End a `run` in another thread: nothing that it started stays."""
        with self._lock:
            self._cancelled = True
            if self._process is not None:
                self._process.kill()
                # What it started (the program behind a wrapper script) holds its output open, and would be waited for.
                for who in marked_with(self._child_id):
                    kill_identity(who)

    def _version(self, cli_path: str, plan: LaunchPlan) -> str | VersionFailure:
        cache = known_versions()
        known = cache.get(cli_path)
        if known is not None:
            return known
        answer = self._ask(plan)
        if isinstance(answer, str):
            cache.put(cli_path, answer)
        return answer

    def _ask(self, plan: LaunchPlan) -> str | VersionFailure:
        child_id = self._child_id
        watchdog.add(child_id)
        try:
            return self._ask_guarded(plan, child_id)
        finally:
            watchdog.remove(child_id)

    def _ask_guarded(self, plan: LaunchPlan, child_id: str) -> str | VersionFailure:
        with self._lock:
            if self._cancelled:
                return VersionFailure("timeout", "it was cancelled")
            try:
                process = self._process = popen(
                    plan.version_argv,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env={**plan.environment, CHILD_ID_VARIABLE: child_id},
                )
            except (OSError, ValueError) as error:
                # The start itself would fail in the same way, and this error says more than that no version is known.
                raise spawn_error(plan.version_argv[0], None, error) from error
        who = identity(process.pid)
        if who is not None:
            watchdog.started(child_id, who)
        seconds = self._options.timeouts.version_check
        try:
            printed, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return VersionFailure("timeout", f"no answer within {seconds:g} s")
        finally:
            self._end(process, child_id)
        output = printed.decode("utf-8", "replace")[:_VERSION_OUTPUT_CHARACTERS]
        if process.returncode and not output.strip():
            return VersionFailure("spawn", f"it exited with code {process.returncode} and printed nothing")
        return output

    def _end(self, process: subprocess.Popen[bytes], child_id: str) -> None:
        """Leave nothing of it: not the process, not what it started, not its pipe."""
        if process.poll() is None or self._cancelled:
            process.kill()
            process.wait()
            for who in marked_with(child_id):
                kill_identity(who)
        if process.stdout is not None:
            process.stdout.close()
        with self._lock:
            self._process = None


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
