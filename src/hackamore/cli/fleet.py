"""`hackamore fleet ...`: many tasks with a journal."""

from __future__ import annotations

import os
import queue
import shlex
import signal
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hackamore import Budget
from hackamore.activity.words import one_line
from hackamore.cli import trace_page
from hackamore.cli.flags import FLAGS, ROWS, build_options
from hackamore.cli.fleet_tasks import read_tasks
from hackamore.cli.fleet_view import EventLines, FleetDisplay, cost, count, duration, summary
from hackamore.cli.running import FAILED, USAGE, signals
from hackamore.cli.sessions import write_table
from hackamore.cli.terminal import escape_json
from hackamore.errors import OptionsError, escape_terminal
from hackamore.fleet import Copy, Fleet, Folder, Worktree, dask_executor
from hackamore.fleet.journal import Journal, open_journal
from hackamore.fleet.results import result_pieces, write_file, write_results
from hackamore.options.options import Options
from hackamore.options.retry import Retry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Executor

    from hackamore.cli.terminal import Terminal
    from hackamore.fleet import FleetEvent, FleetRow, FleetRun, Task, Workspace

__all__: list[str] = []

_FACT = "command"
"""The name under which a journal has the tasks file and the settings of the last run."""
_PATHS = ("worktree", "copy", "folder", "to", "traces", "config", "output_schema", "cwd", "add_dirs")
_PROGRAMS_OR_JSON = ("cli_path", "mcp_servers")
"""Paths if there is such a file; a name or a JSON text otherwise."""


# -- settings ----------------------------------------------------------------------------------------------------------


class _Kept(msgspec.Struct, frozen=True):
    """The settings of a run that a journal keeps: flags by parameter, flags that may hold secrets and are not kept, and the folder."""

    file: str
    settings: dict[str, Any]
    hidden: list[str]
    cwd: str


def _given(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that were used, with absolute paths, as JSON has them."""
    found: dict[str, Any] = {}
    for name in (*FLAGS["FLEET"], *FLAGS["TASK_OPTIONS"]):
        value = given.get(name)
        if value is None or value is False or value == []:
            continue
        if name in _PATHS or (name in _PROGRAMS_OR_JSON and os.path.exists(value)):
            value = [os.path.abspath(each) for each in value] if isinstance(value, list) else os.path.abspath(value)
        found[name] = value
    return found


def _without_secrets(file: str, settings: Mapping[str, Any]) -> _Kept:
    kept, hidden = dict(settings), []
    for name in settings:
        field = Options.__fields__.get(name)
        if field is not None and field.secret and not (name == "mcp_servers" and os.path.exists(settings[name])):
            hidden.append(name)
            del kept[name]
    named = {text: text.partition("=")[0].strip().replace("-", "_") for text in settings.get("option", ())}
    secret = {
        text: name for text, name in named.items() if name not in Options.__fields__ or Options.__fields__[name].secret
    }
    if secret:
        hidden += secret.values()
        kept["option"] = [text for text in named if text not in secret]
    return _Kept(os.path.abspath(file), kept, hidden, os.getcwd())


def _merged(kept: _Kept, given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the last run, with those that are given now; raise OptionsError for one that is needed and was not kept."""
    options = [*kept.settings.get("option", ()), *given.get("option", ())]
    merged = {**kept.settings, **given, **({"option": options} if options else {})}
    known = {*merged, *(text.partition("=")[0].strip().replace("-", "_") for text in options)}
    if missing := [name for name in kept.hidden if name not in known]:
        flags = ", ".join(f"`{name}`" for name in missing)
        raise OptionsError(
            f"The last run had {flags}, which the journal does not keep, because it may hold secrets. Pass it again, as then. A file for "
            "`--config` is kept by its name.",
            field=missing[0],
        )
    work = [name for name in ("worktree", "copy", "folder") if name in given]
    for name in ("worktree", "copy", "folder"):
        if work and name not in work:
            merged.pop(name, None)
    return merged


def _address(given: Mapping[str, Any]) -> str:
    if not given.get("journal"):
        raise OptionsError("Pass `--journal PATH`: the file that keeps the tasks and their results.", field="journal")
    return str(given["journal"])


def _journal(given: Mapping[str, Any]) -> Journal:
    return open_journal(_address(given), create=False)


def _workspace(settings: Mapping[str, Any]) -> Workspace | None:
    kinds: dict[str, Callable[[Any], Workspace]] = {"worktree": Worktree, "copy": Copy, "folder": Folder}
    used = [name for name in kinds if name in settings]
    if len(used) > 1:
        raise OptionsError(f"`--{used[0]}` and `--{used[1]}` exclude each other: use one of them.", field=used[1])
    if used and not os.path.isdir(settings[used[0]]):
        raise OptionsError(f"`--{used[0]}`: there is no folder {settings[used[0]]!r}.", field=used[0])
    if "to" in settings and used not in (["worktree"], ["copy"]):
        raise OptionsError(
            "`--to` needs `--worktree` or `--copy`: it is the folder that these are made in.", field="to"
        )
    if not used:
        return None
    workspace = kinds[used[0]](settings[used[0]])
    return workspace.under(os.path.abspath(settings["to"])) if "to" in settings else workspace


def _command(text: str | None) -> list[str] | None:
    if text is None:
        return None
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise OptionsError(f"`--verify` cannot be read: {error}. Quote it as for a shell.", field="verify") from None
    if not words:
        raise OptionsError("`--verify` needs a command, such as `--verify 'pytest -q'`.", field="verify")
    return words


def _budget(settings: Mapping[str, Any]) -> Budget | None:
    if "budget" not in settings:
        return None
    try:
        return Budget(usd=settings["budget"])
    except OptionsError as error:
        raise OptionsError(str(error).replace("`usd`", "`--budget`"), field="budget") from None


def _executor(settings: Mapping[str, Any], stack: ExitStack) -> Executor | None:
    engine, scheduler = settings.get("engine", "local"), settings.get("scheduler")
    if engine not in (engines := ROWS["FLEET"]["engine"]["choices"]):
        raise OptionsError(f"`--engine` must be one of {', '.join(engines)}, got {engine!r:.100}.", field="engine")
    if engine == "local":
        if scheduler is not None:
            raise OptionsError("`--scheduler` needs `--engine dask`.", field="scheduler")
        return None
    if scheduler is None:
        raise OptionsError(
            "`--engine dask` needs `--scheduler ADDRESS`, such as tcp://10.0.0.1:8786.", field="scheduler"
        )
    try:
        return stack.enter_context(dask_executor(scheduler))
    except ImportError as error:
        raise OptionsError(f"`--engine dask` cannot be used: {error}.", field="engine") from None


class _Planned(NamedTuple):
    tasks: list[Task]
    options: Options
    arguments: dict[str, Any]


def _planned(file: str, settings: Mapping[str, Any], cwd: str) -> _Planned:
    """Return tasks, options and the arguments of the fleet, all checked; nothing was started or written."""
    options = build_options(settings, partial=False)
    if options.cwd is None:
        options = options.replace(cwd=cwd)
    tasks = read_tasks(file, options, _command(settings.get("verify")), trusted=bool(settings.get("trust_tasks")))
    arguments: dict[str, Any] = {
        name: settings[name] for name in ("concurrency", "stall", "traces", "verify_timeout") if name in settings
    }
    arguments |= {"budget": _budget(settings), "workspace": _workspace(settings)}
    if "attempts" in settings:
        arguments["retry"] = Retry(attempts=settings["attempts"], rate_limit_wait=None)
    return _Planned(tasks, options, arguments)


# -- runs --------------------------------------------------------------------------------------------------------------


def run_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Run the tasks of a file; return the exit code."""
    settings = _given(given)
    address = _address(given)
    kept = _without_secrets(str(given["file"]), settings)
    return _run(address, kept, settings, terminal, given)


def resume_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Continue the last run of a journal; return the exit code."""
    journal = _journal(given)
    text = journal.fact(_FACT)
    journal.close()
    if text is None:
        terminal.error(
            f"{escape_terminal(journal.store.title)} was not made by `hackamore fleet run`, and does not say where its tasks are. Run the "
            "program that made it again, or `hackamore fleet run FILE`."
        )
        return USAGE
    before = msgspec.json.decode(text, type=_Kept)
    settings = _merged(before, _given(given))
    after = _without_secrets(before.file, settings)
    kept = _Kept(after.file, after.settings, after.hidden, before.cwd)
    return _run(_address(given), kept, settings, terminal, given)


def _run(address: str, kept: _Kept, settings: dict[str, Any], terminal: Terminal, given: Mapping[str, Any]) -> int:
    as_json, report = bool(given.get("as_json")), given.get("junit")
    if report is not None and not os.path.isdir(os.path.dirname(os.path.abspath(report))):
        raise OptionsError(
            f"`--junit`: there is no folder for {escape_terminal(os.fspath(report), 300)}.", field="junit"
        )
    planned = _planned(kept.file, settings, kept.cwd)
    with ExitStack() as stack:
        executor = _executor(settings, stack)
        fleet = Fleet(address, planned.options, executor=executor, **planned.arguments)
        stack.callback(fleet.close)
        journal = open_journal(address)
        stack.callback(journal.close)
        journal.fact(_FACT, msgspec.json.encode(kept).decode())
        terminal.separate()
        terminal.last_words = f"Continue with: hackamore fleet resume --journal {shlex.quote(one_line(address))}"
        rows, signal_number = _driven(fleet, planned.tasks, settings.get("budget"), terminal, as_json=as_json)
    written = report is None or _junit(rows, report, terminal)
    left = sum(row.state not in ("succeeded", "failed", "cancelled") for row in rows)
    if signal_number is not None and left:
        if signal_number != signal.SIGINT:
            terminal.note(terminal.last_words, "yellow")
        signals.end(signal_number)
    bad = sum(row.state != "succeeded" for row in rows)
    if bad and not as_json:
        terminal.note(
            f"`hackamore fleet results --state failed --journal {shlex.quote(one_line(address))}` shows the errors."
        )
    return FAILED if bad or not written else 0


def _junit(rows: list[FleetRow], path: Path, terminal: Terminal) -> bool:
    try:
        write_file(path, result_pieces(rows, "xml"))
    except OSError as error:
        terminal.error(f"{escape_terminal(os.fspath(path), 300)} cannot be written: {error.strerror or error}")
        return False
    return True


class _End(NamedTuple):
    error: BaseException | None


def _driven(
    fleet: Fleet, tasks: list[Task], budget: float | None, terminal: Terminal, *, as_json: bool
) -> tuple[list[FleetRow], int | None]:
    """Run tasks and show what happens; return their rows, and the first signal."""
    inbox: queue.SimpleQueue[FleetEvent | _End | int] = queue.SimpleQueue()

    def heard(number: int) -> bool:
        inbox.put(number)  # a handler may interrupt the run's own locks, and this is safe in one
        return False

    first: int | None = None
    with signals.handed_to(heard), fleet.run(tasks) as run:
        view: EventLines | FleetDisplay = (
            EventLines(terminal) if as_json else FleetDisplay(run, budget, terminal=terminal)
        )
        threading.Thread(target=_read, args=(run, inbox), name="hackamore-fleet-events", daemon=True).start()
        with view:
            while not isinstance(item := _next(inbox), _End):
                if not isinstance(item, int):
                    view.show(item)
                elif first is None:
                    first = item
                    run.drain()
                    view.draining(run.progress().running)
                else:
                    run.stop()
        seconds = run.progress().seconds
    names = {task.id for task in tasks}
    rows = [row for row in fleet.results() if row.task in names]
    view.finish(rows, seconds)
    if item.error is not None:
        raise item.error
    return rows, first


def _next(inbox: queue.SimpleQueue[FleetEvent | _End | int]) -> FleetEvent | _End | int:
    while True:
        with suppress(queue.Empty):
            return inbox.get(timeout=1.0)  # without a limit a signal can be lost: see `wait_for` in runtime/threads.py


def _read(run: FleetRun, inbox: queue.SimpleQueue[FleetEvent | _End | int]) -> None:
    try:
        for event in run:
            inbox.put(event)
    except BaseException as error:
        inbox.put(_End(error))
    else:
        inbox.put(_End(None))


# -- looking -----------------------------------------------------------------------------------------------------------


def status_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Show how the tasks of a journal stand."""
    journal = _journal(given)
    states = journal.counts()
    usd, tokens = journal.spent()
    lost = journal.lost()
    rows = list(journal.rows({"leased", "running", "verifying", "waiting"}))
    starts = [row.not_before.timestamp() for row in rows if row.not_before is not None]
    file = None if (text := journal.fact(_FACT)) is None else msgspec.json.decode(text, type=_Kept).file
    if given.get("as_json"):
        terminal.json(
            {
                "states": states,
                "total": sum(states.values()),
                "cost": usd,
                "tokens": tokens,
                "unknown_calls": sum(row.unknown_calls for row in journal.rows()),
                "lost": lost,
                "next_start": min(starts, default=None),
                "tasks_file": file,
                "active": [
                    {"task": row.task, "state": row.state, "attempt": row.attempt, "cause": row.cause} for row in rows
                ],
            }
        )
        return 0
    terminal.line(summary(journal.rows(), terminal), "bold", wrap=True)
    terminal.line(f"{tokens:,} tokens")
    write_table(
        terminal,
        ("TASK", "STATE", "ATTEMPT", "COST", "NOTE"),
        ([row.task, row.state, str(row.attempt), cost(row.cost), _note(row, lost)] for row in rows),
    )
    if lost:
        terminal.note(
            f"{count(len(lost), 'task')} belong to a driver or worker that is gone. `hackamore fleet resume` continues them.",
            "yellow",
        )
    return 0


def _note(row: FleetRow, lost: list[str]) -> str:
    if row.task in lost:
        return "its driver is gone"
    if row.cause == "approval" and row.error:
        return row.error
    if row.not_before is not None:
        return f"until {row.not_before.astimezone():%Y-%m-%d %H:%M:%S} ({row.cause})"
    return ""


def results_(given: Mapping[str, Any], terminal: Terminal) -> int:
    states, known = given.get("state") or None, ROWS["STATE"]["state"]["choices"]
    for state in states or ():
        if state not in known:
            raise OptionsError(
                f"`--state` must be one of {', '.join(known)}, got {escape_terminal(repr(state), 100)}.", field="state"
            )
    forms = [name for name in ("jsonl", "csv", "json") if given.get(f"as_{name}")]
    output = given.get("output")
    if len(forms) > 1 or (forms and output is not None):
        names = [*(f"--{form}" for form in forms), *(["--output"] if output is not None else [])]
        raise OptionsError(f"`{names[0]}` and `{names[1]}` exclude each other: use one of them.", field=forms[0])
    rows = _journal(given).rows(states)
    if (report := given.get("junit")) is not None:
        rows = iter(kept := list(rows))
        if not _junit(kept, report, terminal):
            return FAILED
    if output is not None:
        return _written(rows, output, terminal)
    if forms:
        for piece in result_pieces(rows, forms[0]):
            if terminal.interactive:
                terminal.write(piece.decode() if forms[0] == "csv" else escape_json(piece.decode()))
            else:
                sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return 0
    found = list(rows)
    write_table(
        terminal,
        ("TASK", "STATE", "ATTEMPTS", "COST", "TIME", "RESULT"),
        ([row.task, row.state, str(row.attempt), *_numbers(row, terminal), _result(row)] for row in found),
    )
    if terminal.interactive:
        terminal.line(summary(found, terminal), "bold", wrap=True)
    return 0


def _numbers(row: FleetRow, terminal: Terminal) -> tuple[str, str]:
    if terminal.interactive:
        return cost(row.cost), duration(row.seconds)
    return f"{row.cost:.6f}", f"{row.seconds:.1f}"


def _result(row: FleetRow) -> str:
    if row.state != "succeeded":
        return f"{row.cause}: {row.error}" if row.cause and row.error else row.cause or row.error or ""
    if row.output is not None:
        return msgspec.json.encode(row.output).decode()
    return row.branch or row.text or ""


def _written(rows: Iterator[FleetRow], output: Path, terminal: Terminal) -> int:
    try:
        number = write_results(rows, output)
    except OptionsError as error:
        raise OptionsError(str(error).replace("`path`", "`--output`"), field="output") from None
    except OSError as error:
        terminal.error(f"{escape_terminal(os.fspath(output), 300)} cannot be written: {error.strerror or error}")
        return FAILED
    terminal.note(f"{count(number, 'task')} in {one_line(output)}.")
    return 0


# -- changing ----------------------------------------------------------------------------------------------------------


def retry_(given: Mapping[str, Any], terminal: Terminal) -> int:
    journal = _journal(given)
    ids = _chosen(given, "failed")
    if ids is None:
        ids = [row.task for row in journal.rows({"failed"})]
    number = journal.retry(ids, fresh=bool(given.get("fresh")))
    skipped = len(set(ids)) - number
    rest = f" {count(skipped, 'task')} neither failed nor was cancelled." if skipped else ""
    more = (
        f" Continue with: hackamore fleet resume --journal {shlex.quote(one_line(_address(given)))}" if number else ""
    )
    terminal.note(f"{count(number, 'task')} queued.{rest}{more}")
    return 0


def cancel_(given: Mapping[str, Any], terminal: Terminal) -> int:
    number = _journal(given).cancel(_chosen(given, "everything"))
    terminal.note(f"{count(number, 'task')} cancelled.")
    return 0


def _chosen(given: Mapping[str, Any], everything: str) -> list[str] | None:
    ids: list[str] = given.get("tasks") or []
    flag = "--all" if everything == "everything" else f"--{everything}"
    if bool(ids) is bool(given.get(everything)):
        raise OptionsError(f"Pass ids of tasks, or `{flag}`.", field="tasks")
    return ids or None


def trace_(given: Mapping[str, Any], terminal: Terminal) -> int:
    journal, task, number = _journal(given), str(given["task"]), given.get("attempt")
    attempts = journal.attempts(task)
    shown = escape_terminal(repr(task), 300)
    if not attempts:
        known = any(row.task == task for row in journal.rows())
        text = (
            "Nothing was tried yet for the task" if known else "`hackamore fleet results` lists the tasks; there is no"
        )
        terminal.error(f"{text} {shown}.")
        return FAILED
    if number is None:
        attempt = next((each for each in reversed(attempts) if each.begun is not None), attempts[-1])
    else:
        found = [each for each in attempts if each.attempt == number]
        if not found:
            raise OptionsError(
                f"`--attempt` must be 1 to {attempts[-1].attempt} for the task {shown}, got {number}.", field="attempt"
            )
        [attempt] = found
    source = attempt.session_id
    if attempt.trace is not None:
        source = attempt.trace
        if not os.path.exists(source):
            terminal.error(f"The trace {escape_terminal(source, 300)} is gone, or on another machine.")
            return FAILED
    title = f"{one_line(task)}, attempt {attempt.attempt}"
    output = given.get("output") or Path(f"{_file_name(task)}.{attempt.attempt}.html")
    return trace_page.html_({"file": source, "output": output, "title": title, "force": given.get("force")}, terminal)


def _file_name(task: str) -> str:
    name = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in task).strip("._-")
    return name[:60] or "task"
