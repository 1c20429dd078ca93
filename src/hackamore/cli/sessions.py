"""`hackamore sessions ...`: the conversations that the CLI keeps on the disk.

On a terminal, lists are tables that fit its width. In a pipe, their columns are whole and separated by tabs, and there is no heading.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from rich.cells import cell_len

from hackamore import transcripts
from hackamore.activity.words import clean, one_line
from hackamore.cli.running import FAILED, USAGE
from hackamore.cli.terminal import escape_json
from hackamore.cli.transcript import Transcript
from hackamore.errors import AmbiguousSessionError, OptionsError, SessionNotFoundError, escape_terminal
from hackamore.transcripts.export import export_pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hackamore.cli.terminal import Terminal
    from hackamore.transcripts import ExportFormat, SearchHit, Tokens, TranscriptInfo, UsageRow

_AGE = re.compile(r"(\d{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SHORT_ID = 8
_SUFFIXES: dict[str, ExportFormat] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".json": "json",
    ".jsonl": "jsonl",
}


def _command(action: Callable[[Mapping[str, Any], Terminal], int]) -> Callable[[Mapping[str, Any], Terminal], int]:
    """Exit with 1 for a session that does not exist, and with 2 for an invalid value."""

    def run(given: Mapping[str, Any], terminal: Terminal) -> int:
        try:
            return action(given, terminal)
        except SessionNotFoundError as error:
            terminal.error(str(error))
            return FAILED
        except ValueError as error:
            if isinstance(error, OptionsError):
                raise
            terminal.error(str(error))
            return USAGE

    return run


# -- values that were typed -------------------------------------------------------------------------------------------


def _age(text: str, name: str) -> timedelta:
    found = _AGE.fullmatch(text.strip())
    if found is None:
        shown = escape_terminal(repr(text), 100)
        raise OptionsError(f"`{name}` must be an age such as 30d, 12h or 8w, got {shown}.", field=name)
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _time(text: str | None, name: str) -> datetime | None:
    if text is None:
        return None
    if _AGE.fullmatch(text.strip()):
        return datetime.now().astimezone() - _age(text, name)
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        shown = escape_terminal(repr(text), 100)
        raise OptionsError(
            f"`{name}` must be a date such as 2026-11-22, or an age such as 7d, got {shown}.", field=name
        ) from None


def _place(given: Mapping[str, Any]) -> dict[str, Any]:
    return {"project": given.get("project"), "all_projects": bool(given.get("all_projects"))}


def _project(given: Mapping[str, Any]) -> Path | None:
    if given.get("all_projects"):
        if given.get("project") is not None:
            raise OptionsError(
                "`--project` and `--all-projects` exclude each other: leave one of them out.", field="project"
            )
        return None
    return cast("Path", given.get("project") or Path.cwd())


def _found(text: str) -> TranscriptInfo:
    """Return the session with this id, beginning of an id, or title."""
    with suppress(SessionNotFoundError):
        return transcripts.find(text)
    titled = [each for each in transcripts.list(all_projects=True) if each.title == text]
    if len(titled) > 1:
        raise AmbiguousSessionError(text, [each.session_id for each in titled])
    return titled[0] if titled else transcripts.find(text)


# -- output -----------------------------------------------------------------------------------------------------------


def write_table(terminal: Terminal, heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int = 0) -> None:
    """Write rows. On a terminal, the last column is cut to its width; the last `numbers` ones stand to the right."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    if not terminal.interactive:
        for row in cells:
            terminal.line("\t".join(cell.replace("\t", " ") for cell in row))
        return
    if not cells:
        return
    widths = [max(cell_len(row[column]) for row in [heads, *cells]) for column in range(len(heads))]
    right = range(len(heads) - numbers, len(heads)) if numbers else range(0)
    for number, row in enumerate([[*heads], *cells]):
        padded = []
        for column, cell in enumerate(row):
            space = " " * (widths[column] - cell_len(cell))
            padded.append(space + cell if column in right else cell + space)
        terminal.line(terminal.shorten("  ".join(padded).rstrip(), terminal.width), "bold" if number == 0 else "")


def _json_line(terminal: Terminal, value: Any) -> None:
    terminal.line(escape_json(msgspec.json.encode(value, enc_hook=str).decode()))


def _when(time: datetime | None, terminal: Terminal) -> str:
    if time is None:
        return ""
    return f"{time.astimezone():%Y-%m-%d %H:%M}" if terminal.interactive else time.isoformat(timespec="seconds")


def _id(session_id: str, terminal: Terminal) -> str:
    return session_id[:_SHORT_ID] if terminal.interactive else session_id


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _as_json(info: TranscriptInfo) -> dict[str, Any]:
    return {
        "session_id": info.session_id,
        "title": info.title,
        "first_prompt": info.first_prompt,
        "tag": info.tag,
        "archived": transcripts.is_archived(info),
        "cwd": info.cwd,
        "git_branch": info.git_branch,
        "model": info.model,
        "created": info.created,
        "modified": info.modified,
        "bytes": info.bytes,
        "path": str(info.path),
    }


_HEADS = ("SESSION", "CHANGED", "SIZE", "TAG", "TITLE")


def _row(info: TranscriptInfo, terminal: Terminal) -> list[str]:
    return [
        _id(info.session_id, terminal),
        _when(info.modified, terminal),
        _size(info.bytes) if terminal.interactive else str(info.bytes),
        info.tag or "",
        info.title,
    ]


# -- commands ---------------------------------------------------------------------------------------------------------


@_command
def list_(given: Mapping[str, Any], terminal: Terminal) -> int:
    found = transcripts.list(
        **_place(given),
        since=_time(given.get("since"), "--since"),
        until=_time(given.get("until"), "--until"),
        tag=given.get("tag"),
    )
    if not given.get("archived"):
        found = [each for each in found if not transcripts.is_archived(each)]
    limit = given.get("limit")
    if limit is not None and limit < 0:
        raise OptionsError(f"`--limit` must be at least 0, got {limit}.", field="limit")
    found = found[:limit]
    if given.get("as_json"):
        for each in found:
            _json_line(terminal, _as_json(each))
        return 0
    write_table(terminal, _HEADS, (_row(each, terminal) for each in found))
    if not found and not given.get("all_projects"):
        terminal.note("No conversations in this project. `--all-projects` lists those of all projects.")
    return 0


@_command
def show_(given: Mapping[str, Any], terminal: Terminal) -> int:
    info = _found(given["session"])
    transcript = transcripts.read(info.session_id, leaf=given.get("leaf"))
    if given.get("as_json"):
        for message in transcript.messages:
            terminal.raw_line(message.raw)
        return 0
    terminal.parts((info.title or info.session_id, "bold"))
    facts = [info.session_id, info.cwd or "", info.model or "", _when(info.modified, terminal)]
    terminal.line(terminal.dot.join(one_line(fact) for fact in facts if fact), "dim", wrap=True)
    page = Transcript(terminal, inside=True, header=False)
    for message in transcript.messages:
        if given.get("ids"):
            terminal.line()
            terminal.line(message.uuid or "", "dim")
        page.show(message)
    page.finish(None)
    for agent in transcript.subagents.values():
        count = len(agent.messages)
        text = f"subagent {agent.agent_type or ''} {agent.agent_id}{terminal.dot}{count} message{'s' * (count != 1)}"
        terminal.line(one_line(text), "dim")
    return 0


@_command
def search_(given: Mapping[str, Any], terminal: Terminal) -> int:
    limit = given.get("limit")
    with terminal.spinning("Searching"):
        hits = transcripts.search(
            given["text"],
            project=_project(given),
            role=given.get("role"),
            tool=given.get("tool"),
            since=_time(given.get("since"), "--since"),
            until=_time(given.get("until"), "--until"),
            limit=20 if limit is None else limit,
        )
    if given.get("as_json"):
        for hit in hits:
            _json_line(terminal, hit)
        return 0
    if terminal.interactive:
        for hit in hits:
            _show_hit(hit, terminal)
    else:
        write_table(
            terminal,
            (),
            ([hit.session_id, hit.uuid or "", _when(hit.timestamp, terminal), hit.role, hit.context] for hit in hits),
        )
    if not hits:
        terminal.note(
            "Nothing was found." if given.get("all_projects") else "Nothing was found in this project. Try `-a`."
        )
    return 0


def _show_hit(hit: SearchHit, terminal: Terminal) -> None:
    begin, end = hit.match
    writer = f"{hit.role} {hit.tool}" if hit.tool else hit.role
    terminal.parts(
        (f"{_id(hit.session_id, terminal)}  {_when(hit.timestamp, terminal)}  {one_line(writer)}", "dim"),
    )
    terminal.parts(
        ("  ", ""),
        (one_line(hit.context[:begin]), ""),
        (one_line(hit.context[begin:end]), "bold yellow"),
        (one_line(hit.context[end:]), ""),
        hang=2,
    )


@_command
def usage_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Add up tokens and cost."""
    with terminal.spinning("Reading"):
        report = transcripts.usage(
            given.get("by") or "day",
            project=_project(given),
            since=_time(given.get("since"), "--since"),
            until=_time(given.get("until"), "--until"),
        )
    if given.get("as_json"):
        for row in report.rows:
            _json_line(terminal, row)
        return 0
    rows = [_usage_row(row, terminal) for row in report.rows]
    if terminal.interactive and len(rows) > 1:
        rows.append(_usage_row(report.total, terminal))
    heads = ((given.get("by") or "day").upper(), "REPLIES", "INPUT", "CACHED", "WRITTEN", "OUTPUT", "COST")
    write_table(terminal, heads, rows, numbers=6)
    for model, tokens in report.unpriced.items():
        terminal.note(
            f"{_count(tokens.total)} tokens of {one_line(model)} have no known price and are not in the cost."
        )
    return 0


def _usage_row(row: UsageRow, terminal: Terminal) -> list[str]:
    tokens: Tokens = row.tokens
    counts = (tokens.replies, tokens.input, tokens.cache_read, tokens.cache_write, tokens.output)
    cost = f"{row.cost:.6f}" if not terminal.interactive else f"{'>' if row.unpriced else ''}${row.cost:,.2f}"
    return [row.key, *(_count(each) if terminal.interactive else str(each) for each in counts), cost]


def _count(number: int) -> str:
    return f"{number:,}"


@_command
def rename_(given: Mapping[str, Any], terminal: Terminal) -> int:
    transcripts.rename(_found(given["session"]).session_id, given["title"])
    return 0


@_command
def tag_(given: Mapping[str, Any], terminal: Terminal) -> int:
    if (given.get("tag") is None) is not bool(given.get("remove")):
        raise OptionsError("Pass a tag, or `--remove`.", field="tag")
    transcripts.tag(_found(given["session"]).session_id, given.get("tag"))
    return 0


@_command
def archive_(given: Mapping[str, Any], terminal: Terminal) -> int:
    transcripts.archive(_found(given["session"]).session_id, archived=not given.get("undo"))
    return 0


@_command
def fork_(given: Mapping[str, Any], terminal: Terminal) -> int:
    info = _found(given["session"])
    new = transcripts.fork(info.session_id, at=given.get("at"), title=given.get("title"))
    terminal.line(new)
    if terminal.interactive:
        terminal.note(f"Resume it with: hackamore chat --resume {new}")
    return 0


@_command
def delete_(given: Mapping[str, Any], terminal: Terminal) -> int:
    # A wrong name deletes nothing.
    for info in {each.session_id: each for each in map(_found, given["sessions"])}.values():
        transcripts.delete(info.session_id, force=bool(given.get("force")))
        terminal.note(f"Deleted {info.session_id} ({one_line(info.title)}).")
    return 0


@_command
def prune_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """List old conversations, or delete them."""
    if given.get("older_than") is None:
        raise OptionsError("Pass `--older-than AGE`, such as `--older-than 90d`.", field="older_than")
    done = transcripts.prune(
        older_than=_age(given["older_than"], "--older-than"),
        **_place(given),
        keep_tagged=not given.get("tagged"),
        dry_run=not given.get("yes"),
    )
    if given.get("as_json"):
        for each in done.sessions:
            _json_line(terminal, {**_as_json(each), "deleted": not done.dry_run})
    else:
        write_table(terminal, _HEADS, (_row(each, terminal) for each in done.sessions))
    count = len(done.sessions)
    what = f"{count} conversation{'s' * (count != 1)}, {_size(done.bytes)}"
    kept = [f"{len(group)} {word}" for word, group in (("tagged", done.tagged), ("running", done.running)) if group]
    note = f"{what} {'would be' if done.dry_run else 'were'} deleted"
    note += f"; {', '.join(kept)} kept." if kept else "."
    if done.dry_run and count:
        note += " `--yes` deletes them."
    terminal.note(note)
    for each in done.failed:
        terminal.error(f"{each.session_id} could not be deleted")
    return FAILED if done.failed else 0


@_command
def export_(given: Mapping[str, Any], terminal: Terminal) -> int:
    output = given.get("output")
    suffix = Path(output or "").suffix.lower()
    if suffix in (".html", ".htm"):
        terminal.error(
            "an export is not HTML; `hackamore trace html SESSION -o PATH` writes the page of a conversation"
        )
        return USAGE
    wanted: ExportFormat = given.get("format") or _SUFFIXES.get(suffix, "markdown")
    info = _found(given["session"])
    pieces = export_pieces(info.files, wanted)
    if output is not None:
        shown = escape_terminal(os.fspath(output), 300)
        try:
            descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            terminal.error(f"{shown} cannot be created: {error.strerror}")
            return FAILED
        try:
            with open(descriptor, "wb") as file:
                file.writelines(pieces)
        except BaseException:
            os.unlink(output)
            raise
    elif terminal.interactive:
        for piece in pieces:
            text = piece.decode("utf-8", "replace")
            terminal.write(escape_json(text) if wanted in ("json", "jsonl") else clean(text))
    else:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    return 0


@_command
def import_(given: Mapping[str, Any], terminal: Terminal) -> int:
    terminal.line(transcripts.import_(given["file"], project=given.get("project"), new_id=bool(given.get("new_id"))))
    return 0
