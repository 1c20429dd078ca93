"""`hackamore approvals ...`: list, show and answer requests of `Approvals`. The flags are in commands.toml."""

from __future__ import annotations

import getpass
import os
import time
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.activity.words import one_line
from hackamore.approvals import Approvals
from hackamore.approvals.requests import KIND, denial, encode_answer, exact, text_of_json, verdict
from hackamore.cli.fleet_view import duration
from hackamore.cli.sessions import write_table
from hackamore.cli.terminal import escape_json
from hackamore.dialogs import ElicitationResult
from hackamore.errors import OptionsError
from hackamore.permissions import Allow
from hackamore.storage.postgres_store import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hackamore.approvals.requests import AnswerTo, ApprovalRequest
    from hackamore.cli.terminal import Terminal

_LIMIT = 50


def opened(given: Mapping[str, Any]) -> closing[Approvals]:
    """Open the approvals that `PLACE` or the variable names."""
    place = given["place"] or os.environ.get("HACKAMORE_APPROVALS")
    if not place:
        raise OptionsError(
            "Pass the place of the approvals, a file or a postgresql:// URL, or set HACKAMORE_APPROVALS.", field="place"
        )
    open_store(KIND, place, create=False).close()  # a mistyped place must not become an empty database
    return closing(Approvals(place))


def list_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """List the requests that wait."""
    with opened(given) as approvals:
        found = approvals.pending(by=given["by"], conversation=given["conversation"])
    now = time.time()
    rows = [[duration(now - each.asked_at), duration(each.deadline - now)] for each in found]
    _table(terminal, given, found, ("WAITS", "LEFT"), rows)
    if not found and not given["as_json"]:
        terminal.note("No request waits. `hackamore approvals history` shows those that were answered.")
    return 0


def history_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """List the requests that do not wait any more."""
    limit = _LIMIT if given["limit"] is None else given["limit"]
    if limit < 1:
        raise OptionsError(f"`--limit` must be 1 or more, got {limit}.", field="limit")
    with opened(given) as approvals:
        found = approvals.history(by=given["by"], conversation=given["conversation"], limit=limit)
    rows = [[_when(each.asked_at), each.state, verdict(each), each.answered_by or ""] for each in found]
    _table(terminal, given, found, ("ASKED", "STATE", "ANSWER", "BY"), rows)
    return 0


def _table(
    terminal: Terminal, given: Mapping[str, Any], found: list[ApprovalRequest], heads: tuple[str, ...], rows: Any
) -> None:
    if given["as_json"]:
        terminal.json([_as_json(each) for each in found])
        return
    cells = [[each.id, each.tool, each.conversation, *row, _brief(each)] for each, row in zip(found, rows, strict=True)]
    write_table(terminal, ("ID", "TOOL", "CONVERSATION", *heads, "REQUEST"), cells)


def show_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Show a request with its exact input."""
    with opened(given) as approvals:
        request = approvals.get(given["id"])
    if given["as_json"]:
        terminal.json(_as_json(request))
        return 0
    names = ("id", "kind", "tool", "conversation", "state", "reason", "follows")
    facts = {name: getattr(request, name) or "" for name in names}
    facts |= {"asked": _when(request.asked_at), "deadline": _when(request.deadline)}
    facts |= {"approvers": ", ".join(request.approvers or ()), "tags": ", ".join(map("=".join, request.tags.items()))}
    facts["answer"] = f"{verdict(request)} by {request.answered_by}" if request.answered_by else ""
    for name, text in facts.items():
        if text:
            terminal.parts((f"{name:13}", "bold"), (one_line(text), ""), hang=13)
    terminal.line(escape_json(exact(request)))
    return 0


def answer_(given: Mapping[str, Any], terminal: Terminal) -> int:
    """Answer a request; the error of a late answer names the person who was first."""
    if given["verdict"] not in ("allow", "deny"):
        raise OptionsError("The answer must be `allow` or `deny`.", field="verdict")
    with opened(given) as approvals:
        request = approvals.get(given["id"])
        answered = approvals.answer(request.id, _answer(given, request), by=given["by"] or getpass.getuser())
    if given["as_json"]:
        terminal.json(_as_json(answered))
    else:
        terminal.note(f"{one_line(answered.id)}: {verdict(answered)}, by {one_line(answered.answered_by or '')}.")
    return 0


def _answer(given: Mapping[str, Any], request: ApprovalRequest) -> AnswerTo:
    allows = given["verdict"] == "allow"
    flags = {"message": not allows, "input": allows, "always": allows and request.kind == "tool"}
    for name, fits in flags.items():
        if given[name] and not fits:
            raise OptionsError(f"`--{name}` does not fit `{given['verdict']}` for this request.", field=name)
    changed = None
    if given["input"] is not None:
        try:
            changed = msgspec.json.decode(given["input"], type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise OptionsError(f"`--input` must be a JSON object: {error}.", field="input") from None
    if not allows:
        return denial(request.kind, given["message"] or "")
    if request.kind == "elicitation":
        return ElicitationResult("accept", changed or {})
    if request.kind == "question":
        if not isinstance((changed or {}).get("answers"), dict):
            raise OptionsError('A question needs `--input \'{"answers": {"QUESTION": "LABEL"}}\'`.', field="input")
        changed = {**request.input, **(changed or {})}
    updates = request.always().updated_permissions if given["always"] else ()
    return Allow(updated_input=changed, updated_permissions=updates)


def _as_json(request: ApprovalRequest) -> dict[str, Any]:
    names = [name for name in request.__struct_fields__ if name != "answer"]
    answer = None if request.answer is None else msgspec.json.decode(encode_answer(request.answer, request.kind))
    known = {name: msgspec.to_builtins(getattr(request, name)) for name in names}
    return {**known, "reason": request.reason, "answer": answer}


def _brief(request: ApprovalRequest) -> str:
    texts = (each if isinstance(each, str) else text_of_json(each) for each in request.input.values())
    return " ".join(map(one_line, texts))[:300]


def _when(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}"
