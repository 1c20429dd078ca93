"""Read the transcript of a killed attempt: what it spent, and whether its answer was there already."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hackamore.activity.prices import SYNTHETIC, price_of
from hackamore.activity.replies import Replies, Reply, goes_on
from hackamore.activity.tree import answered
from hackamore.errors import SessionNotFoundError, TranscriptError
from hackamore.messages import AssistantMessage, TextBlock, ToolResultBlock, ToolUseBlock
from hackamore.options.environment import inherited_variables
from hackamore.storage.holders import identity_in
from hackamore.transcripts.transcript import read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hackamore.activity.prices import Price
    from hackamore.messages import Message
    from hackamore.options.options import Options
    from hackamore.transcripts.transcript import Transcript

NANO = 1_000_000_000
_OUTPUT_TOOL = "StructuredOutput"


class Recovered(NamedTuple):
    """The costs and the answer in the transcript of a session.

    Attributes:
        usd: billionths of a dollar that its replies cost; models without a price are left out.
        tokens: read, written and cached.
        unknown_calls: model calls that it may lack: open ones, and replies that a killed CLI had not written.
        answered: True if the last turn is complete.
        output: its structured output, as JSON; None without one.
    """

    usd: int
    tokens: int
    unknown_calls: int
    answered: bool
    text: str
    output: str | None


def config_folder(options: Options) -> str:
    """Return the configuration folder of the CLI that these options start."""
    environment = {**inherited_variables(options, os.environ), **options.env}
    return environment.get("CLAUDE_CONFIG_DIR") or os.path.join(
        environment.get("HOME") or os.path.expanduser("~"), ".claude"
    )


def remove_unfinished(folder: str, process: str) -> list[str]:
    """Remove the files that a killed CLI had not finished, and return them: 2.1.330 writes `NAME.tmp.PID.HEX`, and renames that."""
    unfinished = re.compile(rf".+\.tmp\.{identity_in(process)[0]}\.[0-9a-f]{{12}}", re.DOTALL)
    removed = []
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for path in [os.path.join(root, name) for name in names if unfinished.fullmatch(name)]:
            with suppress(FileNotFoundError):
                os.unlink(path)
                removed.append(path)
    return removed


def recover(
    session_id: str,
    folder: str,
    prompt: str | Sequence[Mapping[str, Any]],
    prices: Mapping[str, Price],
    *,
    wants_output: bool,
    killed: bool,
) -> Recovered | None:
    """Return costs and answer of a session whose process is gone; None if this machine has no message of it.

    Args:
        prompt: the last prompt that was sent.
        wants_output: True if an answer is structured output.
        killed: True if the process had no time to write all that it had.
    """
    try:
        transcript = read(session_id, config_dir=folder)
        return _recovered(transcript, prompt, prices, wants_output, killed) if transcript.leaf else None
    except (SessionNotFoundError, TranscriptError):
        return None


def _recovered(
    transcript: Transcript,
    prompt: str | Sequence[Mapping[str, Any]],
    prices: Mapping[str, Price],
    wants_output: bool,
    killed: bool,
) -> Recovered:
    parts = (transcript, *transcript.subagents.values())
    replies = Replies(Reply)
    for part in parts:
        for message in part.messages:
            replies.message(message)
    usd = sum(price.cost(each.tokens) for each in replies if (price := price_of(each.model, prices)) is not None)
    tokens = sum(each.tokens.total for each in replies)
    # The CLI writes the result of a tool a moment after it sends it: after its call, the next model call may be open as well.
    calls = sum(goes_on(part.messages[-1]) for part in parts if len(part.messages))
    if killed:  # It also writes prompts and replies late: the next call may be that of a reply that is not written.
        calls = 2 * max(calls, 1)
    turns = transcript.turns
    answer: tuple[str, str | None] | None = None
    if turns and turns[-1].prompt is not None and _text_of(turns[-1].prompt.content) == _text_of(prompt):
        answer = _answer(list(turns[-1].messages), wants_output=wants_output)
    text, output = answer or ("", None)
    return Recovered(round(usd * NANO), tokens, calls if answer is None else 0, answer is not None, text, output)


def _answer(messages: Sequence[Message], *, wants_output: bool) -> tuple[str, str | None] | None:
    """Return text and output of a complete turn; None if it is not complete, or if something may still run in the background."""
    for message in messages:
        for block in message.content if isinstance(message, AssistantMessage) else ():
            if isinstance(block, ToolUseBlock) and block.input.get("run_in_background"):
                return None
    output: str | None = None
    for call, result, _ in answered(messages):
        if call.name == _OUTPUT_TOOL and not result.is_error:
            output = msgspec.json.encode(call.input).decode()
    if wants_output:
        return None if output is None else (output, output)
    last = messages[-1]
    if not isinstance(last, AssistantMessage) or last.model == SYNTHETIC or last.stop_reason != "end_turn":
        return None
    return last.text, None


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = []
    for block in content:
        if isinstance(block, TextBlock):
            parts.append(block.text)
        elif not isinstance(block, ToolResultBlock) and hasattr(block, "get") and isinstance(block.get("text"), str):
            parts.append(block.get("text"))
    return "\n".join(parts)
