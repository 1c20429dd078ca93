"""Tokens and cost of conversations, added up by day, project, model or session.

The CLI writes one entry for each block of a reply, and copies entries when it forks a conversation: a reply counts once, by its message id.
Prices come from the caller, or from the CLI's own records: it notes the cost and the tokens of each model when it exits, and that counts
older prices as they were. Tokens of a model without a price are listed, and are not part of the cost.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hackamore.activity.prices import SEARCH, Price, Tokens, price_of, sum_of, tokens_of_model
from hackamore.activity.replies import Replies, Reply
from hackamore.messages import ModelUsage  # noqa: TC001 - the decoder reads it
from hackamore.storage.places import StrPath, chosen_folders, conversation_files, directory_of
from hackamore.transcripts.entries import lines_of
from hackamore.transcripts.listing import time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime, tzinfo

__all__ = ["Price", "Tokens", "UsageReport", "UsageRow", "usage"]

_TIMESTAMP = re.compile(rb'"timestamp": ?"([^"\\]*)"')

_USUAL = Price(input=1, output=5)
"""The ratios between the kinds of tokens for models that are not in the list: one price follows from one cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """A line of a report.

    Attributes:
        key: the day (`2026-11-22`), the working directory, the model, or the session id; `total` in the sum.
        tokens: the tokens.
        cost: the estimated cost in US dollars, without the models in `unpriced`.
        unpriced: models in this row without a known price.
    """

    key: str
    tokens: Tokens
    cost: float
    unpriced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """Tokens and cost of conversations.

    Attributes:
        rows: the rows: days in order, other keys by cost, the highest first.
        total: the sum.
        prices: the price of each model that was used for the cost.
        unpriced: the tokens of each model without a known price. Pass its price in `prices`.
    """

    rows: list[UsageRow]
    total: UsageRow
    prices: dict[str, Price] = field(default_factory=dict)
    unpriced: dict[str, Tokens] = field(default_factory=dict)


class _Body(msgspec.Struct, gc=False):
    id: str | None = None
    model: str = ""
    usage: Any = None


class _Entry(msgspec.Struct, gc=False, rename="camel"):
    type: str = ""
    uuid: str | None = None
    timestamp: str = ""
    forked_from: Any = None
    message: _Body | None = None


class _CostState(msgspec.Struct, gc=False, rename="camel"):
    type: str = ""
    model_usage: dict[str, ModelUsage] = {}


_entry: Callable[[bytes], _Entry] = msgspec.json.Decoder(_Entry).decode
_cost_state: Callable[[bytes], _CostState] = msgspec.json.Decoder(_CostState).decode


class _Counted(Reply):
    """A reply, and where it counts."""

    __slots__ = ("copied", "project", "session_id", "timestamp")

    project: str
    session_id: str
    copied: bool

    def __init__(self, key: str, model: str, agent: str) -> None:
        super().__init__(key, model, agent)
        self.timestamp: str | None = None


class _Scan:
    """Reads files, and keeps one record for each reply."""

    def __init__(self) -> None:
        self.replies = Replies(_Counted)
        self.recorded: dict[str, tuple[float, float]] = {}
        """For each model: the recorded cost, and the cost of the same tokens by its list price."""

    def file(self, path: str, project: str, session_id: str) -> None:
        """Read a file, as far as it can be read."""
        last: bytes | None = None
        begun = ""
        try:
            with open(path, "rb", buffering=0) as file:
                for line in lines_of(file):
                    raw = line.raw
                    if not begun and (found := _TIMESTAMP.search(raw)) is not None:
                        begun = found[1].decode()
                    if b'"usage"' in raw:
                        self._reply(raw, project, session_id, begun)
                    elif b'"cost-state"' in raw:
                        last = raw
        except OSError:
            pass
        if last is not None:
            self._recorded(last)

    def _reply(self, raw: bytes, project: str, session_id: str, begun: str) -> None:
        try:
            entry = _entry(raw)
        except (ValueError, RecursionError):
            return
        body = entry.message
        if entry.type != "assistant" or body is None or body.usage is None:
            return
        reply = self.replies.frame(body.id or entry.uuid or "", body.model, body.usage)
        if reply is None:
            return
        # An entry that is older than the beginning of its file was copied from another one.
        copied = entry.forked_from is not None or entry.timestamp < begun
        if reply.timestamp is None:
            reply.timestamp, reply.project, reply.session_id, reply.copied = (
                entry.timestamp,
                project,
                session_id,
                copied,
            )
        elif reply.copied and not copied:
            reply.project, reply.session_id, reply.copied = project, session_id, False

    def _recorded(self, raw: bytes) -> None:
        try:
            state = _cost_state(raw)
        except (ValueError, RecursionError):
            return
        for model, used in state.model_usage.items():
            if used.cost_basis == "unknown" or used.cost_usd <= 0:
                continue
            cost = used.cost_usd - SEARCH * used.web_search_requests
            for name in {model, used.canonical_model or model}:
                listed = (price_of(name, {}) or _USUAL).cost(replace(tokens_of_model(used), web_searches=0))
                if listed > 0 and cost > 0:
                    before = self.recorded.get(name, (0.0, 0.0))
                    self.recorded[name] = before[0] + cost, before[1] + listed

    def prices(self) -> dict[str, Price]:
        """Return the prices that follow from the recorded costs."""
        return {
            model: _scaled(price_of(model, {}) or _USUAL, cost / listed)
            for model, (cost, listed) in self.recorded.items()
        }


def _scaled(price: Price, factor: float) -> Price:
    kinds = ((each.name, getattr(price, each.name)) for each in fields(price))
    return Price(**{name: dollars and dollars * factor for name, dollars in kinds})


def usage(
    by: Literal["day", "project", "model", "session"] = "day",
    *,
    project: StrPath | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    prices: Mapping[str, Price] | None = None,
    zone: tzinfo | None = None,
    config_dir: StrPath | None = None,
) -> UsageReport:
    """Return tokens and estimated cost of the conversations on the disk, subagents included.

    Each reply counts once, for the conversation that it was made in: a fork copies replies. Requests that leave no reply in the files,
    such as compactions and titles, do not count. The files are read from the beginning, one line at a time.

    Args:
        by: the key of the rows.
        project: the working directory of a project; other worktrees of its repository count. None for all projects.
        since: only replies at this time or later. A time without a zone is local time.
        until: only replies before this time.
        prices: prices by model. Other models have the prices that follow from the costs that the CLI recorded.
        zone: the time zone of the days; None for the local one.
        config_dir: the configuration folder; None for `CLAUDE_CONFIG_DIR`, and without that `~/.claude`.

    Returns:
        The report. Models without a known price are in `unpriced`, with their tokens.

    Raises:
        ValueError: if `by` has another value.

    Example:
        ::

            report = hackamore.transcripts.usage(by="day")
            for row in report.rows:
                print(row.key, row.tokens.total, f"${row.cost:.2f}")
    """
    if by not in ("day", "project", "model", "session"):
        raise ValueError(f"`by` must be 'day', 'project', 'model' or 'session', got {by!r}.")
    scan = _Scan()
    for path, directory, session_id in _files(project, since, config_dir):
        scan.file(path, directory, session_id)
    recorded = scan.prices()
    earliest, latest = (moment.astimezone() if moment is not None else None for moment in (since, until))
    groups: dict[tuple[str, str], list[Tokens]] = {}
    for counted in scan.replies:
        moment = time_of(counted.timestamp or "")
        if (earliest is not None and (moment is None or moment < earliest)) or (
            latest is not None and (moment is None or moment >= latest)
        ):
            continue
        if by == "day":
            key = f"{moment.astimezone(zone):%Y-%m-%d}" if moment is not None else ""
        else:
            key = {"project": counted.project, "model": counted.model, "session": counted.session_id}[by]
        groups.setdefault((key, counted.model), []).append(counted.tokens)
    keys: dict[str, dict[str, Tokens]] = {}
    models: dict[str, Tokens] = {}
    for (key, model), group in groups.items():
        keys.setdefault(key, {})[model] = part = sum_of(group)
        models[model] = models.get(model, Tokens()) + part
    known = {model: price for model in models if (price := price_of(model, prices or {}, recorded)) is not None}
    rows = [_row(key, parts, known) for key, parts in keys.items()]
    rows.sort(key=(lambda row: row.key) if by == "day" else (lambda row: (-row.cost, -row.tokens.total, row.key)))
    return UsageReport(
        rows=rows,
        total=_row("total", models, known),
        prices=known,
        unpriced={model: tokens for model, tokens in models.items() if model not in known},
    )


def _row(key: str, models: dict[str, Tokens], prices: Mapping[str, Price]) -> UsageRow:
    return UsageRow(
        key=key,
        tokens=sum_of(models.values()),
        cost=sum(prices[model].cost(tokens) for model, tokens in models.items() if model in prices),
        unpriced=tuple(sorted(model for model in models if model not in prices)),
    )


def _files(
    project: StrPath | None, since: datetime | None, config_dir: StrPath | None
) -> Iterator[tuple[str, str, str]]:
    """Yield the files that changed since then, the oldest first, with the directory and the session that each belongs to."""
    folders = [folder for folder, _ in chosen_folders(project, project is None, config_dir=config_dir)]
    earliest = since.timestamp() * 1e9 if since is not None else 0
    dated = [
        (file.modified, file.path, directory, file.session_id)
        for folder, directory in [(folder, directory_of(folder)) for folder in folders]
        for file in conversation_files(folder)
        if file.modified >= earliest
    ]
    return ((path, directory, session_id) for _, path, directory, session_id in sorted(dated))
