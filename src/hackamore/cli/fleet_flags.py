"""The flags of `hackamore fleet ...`."""

from __future__ import annotations

from pathlib import Path

from hackamore.cli.flags import LOG, OPTIONS, OUTPUT_PANEL, Flags, argument, flag
from hackamore.options.options import NO_SESSION

ENGINES = ("local", "dask")
STATES = ("queued", "leased", "running", "verifying", "waiting", "succeeded", "failed", "cancelled")
_FLEET = "Fleet"
_WORK = "Work of each task"

_JOURNAL: Flags = {
    "journal": flag(str, "--journal", "-j", metavar="PATH", help="Keep the tasks in this file, or postgresql:// URL."),
}
_TASKS = argument("[ID]...", "Choose tasks by id.", many=True)
_SETTINGS: Flags = {
    "engine": flag(str, "--engine", metavar="ENGINE", help="Run on local or dask.", panel=_FLEET, choices=ENGINES),
    "scheduler": flag(
        str, "--scheduler", metavar="ADDRESS", help="Use the Dask scheduler at this address.", panel=_FLEET
    ),
    "concurrency": flag(int, "--concurrency", "-c", help="Run at most N agents (default: 8).", panel=_FLEET),
    "budget": flag(float, "--budget", metavar="USD", help="Stop when all tasks together cost USD.", panel=_FLEET),
    "attempts": flag(int, "--attempts", help="Try each task at most N times (default: 3).", panel=_FLEET),
    "stall": flag(
        float,
        "--stall",
        metavar="SECONDS",
        help="End an attempt that is silent this long (default: 900).",
        panel=_FLEET,
    ),
    "traces": flag(Path, "--traces", metavar="DIR", help="Write a trace of each attempt to DIR.", panel=_FLEET),
    "worktree": flag(Path, "--worktree", metavar="REPO", help="Give each task a worktree of REPO.", panel=_WORK),
    "copy": flag(Path, "--copy", metavar="DIR", help="Give each task a copy of DIR.", panel=_WORK),
    "folder": flag(Path, "--folder", metavar="DIR", help="Let all tasks work in DIR.", panel=_WORK),
    "to": flag(Path, "--to", metavar="DIR", help="Make worktrees and copies in DIR.", panel=_WORK),
    "verify": flag(
        str, "--verify", metavar="CMD", help="Accept an answer if CMD exits with 0 in its folder.", panel=_WORK
    ),
    "verify_timeout": flag(
        float, "--verify-timeout", metavar="SECONDS", help="End CMD after SECONDS (default: 600).", panel=_WORK
    ),
    "trust_tasks": flag(bool, "--trust-tasks", help="Accept programs and loose permissions from FILE.", panel=_WORK),
    **{name: row for name, row in OPTIONS.items() if name not in NO_SESSION},
    **LOG,
}
KEPT = tuple(name for name in _SETTINGS if name not in LOG)
"""The settings that a journal keeps for `resume`."""
_JUNIT: Flags = {
    "junit": flag(Path, "--junit", help="Also write the results as JUnit XML to PATH.", panel=OUTPUT_PANEL)
}
_EVENTS: Flags = {
    **_JUNIT,
    "as_json": flag(bool, "--json", help="Write one JSON object for each event.", panel=OUTPUT_PANEL),
}
_JSON: Flags = {"as_json": flag(bool, "--json", help="Write JSON.", panel=OUTPUT_PANEL)}

RUN: Flags = {
    "file": argument("FILE", "The tasks: a .jsonl, .csv or .py file.", required=True),
    **_JOURNAL,
    **_SETTINGS,
    **_EVENTS,
}
RESUME: Flags = {**_JOURNAL, **_SETTINGS, **_EVENTS}
STATUS: Flags = {**_JOURNAL, **_JSON}
RESULTS: Flags = {
    **_JOURNAL,
    "state": flag(
        list[str],
        "--state",
        metavar="STATE",
        help="Show only tasks in this state: failed, ... Repeatable.",
        choices=STATES,
    ),
    **_JSON,
    "as_jsonl": flag(bool, "--jsonl", help="Write one JSON object for each task.", panel=OUTPUT_PANEL),
    "as_csv": flag(bool, "--csv", help="Write CSV.", panel=OUTPUT_PANEL),
    "output": flag(Path, "--output", "-o", help="Write to a .jsonl, .csv, .json or .xml file.", panel=OUTPUT_PANEL),
    **_JUNIT,
}
RETRY: Flags = {
    "tasks": _TASKS,
    **_JOURNAL,
    "failed": flag(bool, "--failed", help="Choose all tasks that failed."),
    "fresh": flag(bool, "--fresh", help="Start new sessions instead of resuming."),
}
CANCEL: Flags = {"tasks": _TASKS, **_JOURNAL, "everything": flag(bool, "--all", help="Choose all tasks.")}
TRACE: Flags = {
    "task": argument("TASK", "The id of the task.", required=True),
    **_JOURNAL,
    "attempt": flag(int, "--attempt", help="Show attempt N (default: the last one)."),
    "output": flag(Path, "--output", "-o", help="Write to PATH (default: TASK.N.html here).", panel=OUTPUT_PANEL),
    "force": flag(bool, "--force", help="Replace PATH if it exists.", panel=OUTPUT_PANEL),
}
