"""A readable run: text as it is written, tool calls, shortened results, notes, and a summary line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hackamore.activity.prices import sum_of, tokens_of, tokens_of_model
from hackamore.activity.tree import CALLS, RESULTS, Calls
from hackamore.activity.words import clean, one_line, telling, text_of
from hackamore.cli.terminal import escape_json
from hackamore.errors import DecodeError, StreamWarning
from hackamore.messages import AssistantMessage, ResultError, ResultMessage, StreamEvent, TextBlock, UserMessage
from hackamore.messages import content as blocks
from hackamore.messages import stream as stream_messages
from hackamore.messages import system as system_messages

if TYPE_CHECKING:
    from hackamore.cli.terminal import Channel, Terminal
    from hackamore.messages import Message

_THINKING = "dim italic"
_PLAIN_THINKING = "(thinking) "
_RESULT_LINES = 6
_CALL_LINES = 4
_SECONDARY = frozenset({"description", "timeout", "content", "old_string", "new_string", "prompt", "subagent_type"})


class RawLines:
    """`--json`: the raw lines on standard output; other items on standard error."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def show(self, item: Message | StreamWarning | DecodeError) -> None:
        if isinstance(item, (StreamWarning, DecodeError)):
            _show_trouble(self._terminal, item)
        else:
            self._terminal.raw_line(item.raw)

    def finish(self, result: ResultMessage | None) -> None:
        """Do nothing: the lines say it all."""


class FinalText:
    """`--quiet`: the final text on standard output, and nothing else there."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._last_text = ""

    def show(self, item: Message | StreamWarning | DecodeError) -> None:
        if isinstance(item, (StreamWarning, DecodeError)):
            _show_trouble(self._terminal, item)
        elif isinstance(item, AssistantMessage) and item.parent_tool_use_id is None:
            self._last_text = item.text or self._last_text

    def finish(self, result: ResultMessage | None) -> None:
        """Write the answer, or what went wrong."""
        if result is None:
            return
        if result.is_error:
            self._terminal.error(str(ResultError.of(result)))
        elif result.structured_output is not None:
            self._terminal.line(_structured(result, indent=None))
        else:
            text = result.result or self._last_text
            self._terminal.line(text.removesuffix("\n"))


class Transcript:
    """Shows every item in a readable way.

    Args:
        inside: True within a longer conversation: the first item is set apart, and the session is not named.
        begun: the channels that have text already, shared by the transcripts of a conversation; None means by `inside`.
        header: True shows model, folder and version when the session begins.
    """

    def __init__(
        self, terminal: Terminal, *, inside: bool = False, header: bool = True, begun: set[Channel] | None = None
    ) -> None:
        self._terminal = terminal
        self._header = header
        self._name_session = not inside
        self._aside = terminal.aside
        if begun is None:
            begun = {terminal, self._aside} if inside else set()
        self._begun = begun
        self._denied: dict[str, str] = {}
        self._trouble: list[str] = []
        self._open: tuple[str, int | None] | None = None
        self._streamed: list[list[str]] = []
        self._last_call = ""
        self._names: Calls[str] = Calls()
        self._texts: set[str] = set()

    def show(self, item: Message | StreamWarning | DecodeError) -> None:
        match item:
            case StreamEvent():
                self._event(item)
            case AssistantMessage():
                self._assistant(item)
            case UserMessage():
                self._user(item)
            case ResultMessage():
                self._close()
            case StreamWarning() | DecodeError():
                self._close()
                _show_trouble(self._terminal, item)
            case _:
                self._other(item)

    def finish(self, result: ResultMessage | None) -> None:
        """Write what is left of the answer, and the summary."""
        terminal = self._terminal
        self._close()
        if result is None:
            self._show_trouble_texts("")
            return
        if not result.is_error:
            self._show_trouble_texts("")
        if result.is_error:
            error = str(ResultError.of(result))
            self._show_trouble_texts(error)
            self._gap(self._aside)
            terminal.error(error)
        elif result.result and not self._texts:
            # Slash commands answer in the result alone.
            self._gap()
            terminal.line(result.result, wrap=True)
        if not result.is_error:
            if result.structured_output is not None:
                self._gap()
                terminal.line(_structured(result, indent=2), "bold")
            self._gap(self._aside)
        sign, style = (terminal.cross, "red") if result.is_error else (terminal.tick, "green")
        self._aside.fresh_line()
        text = summary(result, terminal.dot, name_session=self._name_session)
        self._aside.parts((f"{sign} ", style), (text, "dim"), hang=2)

    def _show_trouble_texts(self, error: str) -> None:
        """Show the texts in which the CLI reported errors, unless the error itself repeats them."""
        for text in self._trouble:
            if one_line(text).strip() not in one_line(error):
                self._gap(self._aside)
                self._aside.line(text, "red", wrap=True)
        self._trouble.clear()

    # -- pieces --------------------------------------------------------------------------------------------------------

    def _event(self, event: StreamEvent) -> None:
        if event.parent_tool_use_id is not None:
            return
        if event.event_type == "message_start":
            # Text of an attempt that broke off does not belong to this message.
            self._close()
            self._streamed.clear()
            return
        for kind, piece in (("text", event.text_delta), ("thinking", event.thinking_delta)):
            if piece:
                if "\ufffd" in piece:
                    piece = _with_surrogates(event, kind) or piece  # noqa: PLW2901
                self._stream(kind, event.index, piece)

    def _stream(self, kind: str, index: int | None, piece: str) -> None:
        channel = self._aside if kind == "thinking" else self._terminal
        if self._open != (kind, index):
            self._close()
            self._gap(channel)
            self._open = (kind, index)
            self._streamed.append([kind, ""])
            if kind == "thinking" and not channel.styled:
                channel.write(_PLAIN_THINKING)
        self._streamed[-1][1] += piece
        if kind == "text":
            self._texts.add("streamed")
        channel.piece(piece, _THINKING if kind == "thinking" else "")

    def _close(self) -> None:
        if self._open is not None:
            self._terminal.fresh_line()
            self._aside.fresh_line()
            self._open = None

    def _gap(self, channel: Channel | None = None) -> None:
        """Write an empty line between blocks of a channel; None means standard output."""
        channel = channel or self._terminal
        channel.fresh_line()
        if channel in self._begun:
            channel.line()
        self._begun.add(channel)

    # -- messages ------------------------------------------------------------------------------------------------------

    def _assistant(self, message: AssistantMessage) -> None:
        inside = message.parent_tool_use_id is not None
        for block in message.content:
            match block:
                case TextBlock(text=text):
                    if text and (inside or not self._was_streamed("text", text)):
                        if message.error and not inside:
                            # The result repeats it as an error.
                            self._trouble.append(text)
                        else:
                            self._block(text, "dim" if inside else "", inside)
                    self._texts.add(text)
                case blocks.ThinkingBlock(thinking=text):
                    if text and not inside and not self._was_streamed("thinking", text):
                        lead = "" if self._aside.styled else _PLAIN_THINKING
                        self._block(lead + text, _THINKING, inside, self._aside)
                case blocks.RedactedThinkingBlock():
                    pass
                case _ if isinstance(block, CALLS):
                    self._call(block, inside)
                case _ if isinstance(block, RESULTS):
                    self._result(block, inside)
                case _:
                    self._block(f"[{block.type}]", "dim", inside, self._aside)

    def _was_streamed(self, kind: str, text: str) -> bool:
        """True if this block was shown while it was written; what was missing of it then is shown now."""
        for entry in self._streamed:
            streamed = entry[1]
            if entry[0] == kind and streamed and (text.startswith(streamed) or text.strip() == streamed.strip()):
                rest = text[len(streamed) :]
                channel = self._aside if kind == "thinking" else self._terminal
                if rest.strip() and self._open is not None and entry is self._streamed[-1]:
                    channel.piece(rest, _THINKING if kind == "thinking" else "")
                elif rest.strip():
                    self._block(text, "", False, channel)
                self._streamed.remove(entry)
                self._close()
                return True
        return False

    def _block(self, text: str, style: str, inside: bool, channel: Channel | None = None) -> None:
        channel = channel or (self._aside if inside else self._terminal)
        self._close()
        self._gap(channel)
        indent = "    " if inside else ""
        for line in clean(text).rstrip("\n").split("\n"):
            channel.piece(indent + line + "\n", style)

    def _call(self, block: Any, inside: bool) -> None:
        if not self._names.begin(block.id, block.name):
            return
        self._close()
        self._gap(self._aside)
        terminal, aside = self._terminal, self._aside
        indent = "    " if inside else ""
        self._last_call = block.id
        lines = _call_text(block)
        width = aside.width - len(indent) - 2
        first = terminal.shorten(lines[0], max(20, width - len(block.name) - 1))
        name = terminal.shorten(one_line(block.name), 100)
        aside.parts((f"{indent}{terminal.bullet} ", "cyan"), (name, "bold"), (f" {first}", ""))
        for line in lines[1:_CALL_LINES]:
            aside.line(f"{indent}  {terminal.shorten(line, width)}")
        if len(lines) > _CALL_LINES:
            aside.line(f"{indent}  {terminal.ellipsis} {len(lines) - _CALL_LINES} more lines", "dim")

    def _user(self, message: UserMessage) -> None:
        inside = message.parent_tool_use_id is not None
        if isinstance(message.content, str):
            self._said(message.content, inside)
            return
        for block in message.content:
            if isinstance(block, blocks.ToolResultBlock):
                self._result(block, inside)
            elif isinstance(block, TextBlock):
                self._said(block.text, inside)

    def _said(self, text: str, inside: bool) -> None:
        """Show what was said in the user's name: a prompt played back, a subagent's task."""
        if not text.strip():
            return
        self._close()
        self._gap(self._aside)
        self._shortened("> ", text, "dim", inside)

    def _result(self, block: Any, inside: bool) -> None:
        self._close()
        self._names.end(block.tool_use_id)
        reason = self._denied.pop(block.tool_use_id, None)
        if reason is not None and block.is_error and (not reason or reason in one_line(_result_text(block))):
            return  # shown when it was denied
        self._aside.fresh_line()
        name = "" if block.tool_use_id == self._last_call else self._names.get(block.tool_use_id, "")
        self._last_call = ""
        failed = bool(block.is_error)
        text = f"({clean(name)}) {_result_text(block)}" if name else _result_text(block)
        self._begun.add(self._aside)
        self._shortened(f"  {self._terminal.corner} ", text, "red" if failed else "dim", inside)

    def _shortened(self, lead: str, text: str, style: str, inside: bool) -> None:
        indent = "    " if inside else ""
        lines = clean(text).strip("\n").split("\n")
        width = self._aside.width - len(indent) - len(lead)
        # One line more than allowed is shown rather than counted.
        shown = lines if len(lines) <= _RESULT_LINES + 1 else lines[:_RESULT_LINES]
        for number, line in enumerate(shown):
            before = lead if number == 0 else " " * len(lead)
            self._aside.line(indent + before + self._terminal.shorten(line.rstrip(), width), style)
        if len(lines) > len(shown):
            more = f"{self._terminal.ellipsis} {len(lines) - len(shown)} more lines"
            self._aside.line(indent + " " * len(lead) + more, style)

    def _other(self, message: Message) -> None:
        if isinstance(message, system_messages.PermissionDeniedMessage):
            self._denied[message.tool_use_id] = one_line(message.decision_reason or message.message)
        note = _note(message, self._terminal)
        if note:
            self._close()
            self._begun.add(self._aside)
            self._terminal.note(*note)
        elif isinstance(message, system_messages.InitMessage) and self._header:
            self._header = False
            parts = [message.model, message.cwd]
            if message.claude_code_version:
                parts.append(f"Claude Code {message.claude_code_version}")
            shown = self._terminal.dot.join(one_line(part) for part in parts if part)
            if shown:
                self._gap(self._aside)
                self._aside.line(shown, "dim", wrap=True)
        elif isinstance(message, system_messages.LocalCommandOutputMessage) and message.content:
            self._block(message.content, "", inside=False)
            self._texts.add(message.content)


def summary(result: ResultMessage, dot: str = " · ", *, name_session: bool = True) -> str:
    """Return one line: turns, tokens, cost, duration, session."""
    used = sum_of(map(tokens_of_model, result.model_usage.values()))
    if not result.model_usage and result.usage is not None:
        used = tokens_of(result.usage)
    cached = f" ({used.cache_read:,} cached)" if used.cache_read else ""
    tokens = f"{used.total - used.output:,} tokens in{cached}, {used.output:,} out"
    parts = [f"{result.num_turns} turn" + ("" if result.num_turns == 1 else "s"), tokens]
    if result.total_cost_usd is not None:
        parts.append(f"${result.total_cost_usd:.4f}")
    parts.append(f"{result.duration_ms / 1000:.1f} s")
    if name_session and result.session_id:
        parts.append(f"session {result.session_id}")
    return dot.join(parts)


def _show_trouble(terminal: Terminal, item: StreamWarning | DecodeError) -> None:
    terminal.warning(f"{item} {item.text}" if isinstance(item, DecodeError) else str(item))


def _note(message: Message, terminal: Terminal) -> tuple[str, str] | None:
    match message:
        case system_messages.APIRetryMessage():
            status = f" {message.error_status}" if message.error_status else ""
            return (
                f"The API call failed ({message.error or 'no answer'}{status}): attempt {message.attempt} of "
                f"{message.max_retries}, again in {message.retry_delay_ms / 1000:.1f} s.",
                "yellow",
            )
        case system_messages.PermissionDeniedMessage():
            reason = message.decision_reason or message.message
            hint = f" Allow it with --allow {message.tool_name}." if message.decision_reason_type != "rule" else ""
            return f"{message.tool_name} was not allowed{': ' + reason if reason else '.'}{hint}", "yellow"
        case system_messages.CompactBoundaryMessage():
            return "The conversation was summed up to make room.", "dim"
        case system_messages.ModelRefusalFallbackMessage() | system_messages.ModelRefusalNoFallbackMessage():
            return message.content or "The model refused.", "yellow"
        case system_messages.NotificationMessage():
            return message.text, "dim"
        case system_messages.InformationalMessage():
            return message.content, "yellow" if message.level in ("warning", "error") else "dim"
        case system_messages.TaskStartedMessage() if message.is_backgrounded:
            return f"In the background: {message.description}", "dim"
        case system_messages.TaskNotificationMessage():
            return f"Background task {message.status}: {message.summary}", "dim"
        case system_messages.SessionWritesLostMessage():
            return "The disk is full: parts of the session were not saved.", "yellow"
        case stream_messages.RateLimitEvent(rate_limit_info=limits) if limits.status not in ("", "allowed"):
            kind = f" ({limits.rate_limit_type})" if limits.rate_limit_type else ""
            used = f", {limits.utilization:.0%} used" if limits.utilization else ""
            return f"Rate limit{kind}: {limits.status}{used}.", "yellow"
        case _:
            return None


def _call_text(block: Any) -> list[str]:
    try:
        arguments = block.input
    except DecodeError:
        return clean(bytes(block.input_raw)[:400].decode("utf-8", "replace")).split("\n")
    name = telling(arguments)
    if name is not None:
        rest = {key: other for key, other in arguments.items() if key != name and key not in _SECONDARY}
        content = arguments.get("content")
        text = arguments[name] + (f"  {_compact(rest)}" if rest else "")
        if name == "file_path" and isinstance(content, str):
            text += f"  ({content.count(chr(10)) + (not content.endswith(chr(10)))} lines)"
        return clean(text).strip("\n").split("\n")
    return clean(_compact(arguments) if arguments else "").split("\n")


def _compact(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "(nested too deep to be shown)"


def _result_text(block: Any) -> str:
    try:
        content = block.content
    except DecodeError:
        return "(nested too deep to be shown)"
    return (_compact(content) if isinstance(content, dict) else text_of(content)) or "(no output)"


def _structured(result: ResultMessage, indent: int | None) -> str:
    try:
        text = json.dumps(result.structured_output, ensure_ascii=False, indent=indent)
    except (ValueError, RecursionError, DecodeError):
        text = bytes(result.structured_output_raw).decode("utf-8", "replace")
    return escape_json(text)


def _with_surrogates(event: StreamEvent, kind: str) -> str | None:
    """Return a piece with the halves of surrogate pairs that decoding replaced: the other half is in the next piece."""
    try:
        piece = json.loads(event.raw)["event"]["delta"][kind]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return piece if isinstance(piece, str) else None
