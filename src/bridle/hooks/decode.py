"""Turns what a `hook_callback` request carries into the typed input of its event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import force_setattr

from bridle.checked.functions import as_bytes, decode_asked, ignore_warning
from bridle.errors import DecodeError
from bridle.hooks import surroundings_inputs, tool_inputs, turn_inputs
from bridle.hooks.base import HookInput, UnknownHookInput
from bridle.messages.base import NO_RAW

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bridle.errors import StreamWarning

__all__ = ["HOOK_EVENTS", "decode_hook_input"]

HOOK_EVENTS: dict[str, type[HookInput]] = {
    kind.wire_event: kind
    for module in (tool_inputs, turn_inputs, surroundings_inputs)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, HookInput) and kind.wire_event
}
"""The input class of every event that is known."""


class HookRequest(NamedTuple):
    """A `hook_callback` request, taken apart.

    Attributes:
        callback_id: the id that the callback was registered with; empty if there is none.
        tool_use_id: the call it is about. The CLI makes one up where no tool is involved.
        input_raw: the exact bytes of the input.
    """

    callback_id: str
    tool_use_id: str | None
    input_raw: bytes


class _Usual(msgspec.Struct, frozen=True):
    callback_id: str = ""
    tool_use_id: str | None = None
    input_raw: Raw = msgspec.field(default=NO_RAW, name="input")


class _Envelope(msgspec.Struct, frozen=True):
    callback_id_raw: Raw = msgspec.field(default=NO_RAW, name="callback_id")
    tool_use_id_raw: Raw = msgspec.field(default=NO_RAW, name="tool_use_id")
    input_raw: Raw = msgspec.field(default=NO_RAW, name="input")


_usual = msgspec.json.Decoder(_Usual).decode
_split = msgspec.json.Decoder(_Envelope).decode
_text = msgspec.json.Decoder(str).decode


def decode_hook_request(request: bytes | Raw | Mapping[str, Any]) -> HookRequest:
    """Return the parts of a `hook_callback` request; what cannot be read is empty. Never raises."""
    try:
        usual = _usual(request)  # type: ignore[arg-type]  # a mapping is a TypeError
    except (TypeError, ValueError, RecursionError):
        pass
    else:
        return HookRequest(usual.callback_id, usual.tool_use_id, bytes(usual.input_raw))
    try:
        envelope = _split(as_bytes(request))
    except (ValueError, RecursionError):
        return HookRequest("", None, b"")
    return HookRequest(
        _optional(envelope.callback_id_raw) or "", _optional(envelope.tool_use_id_raw), bytes(envelope.input_raw)
    )


def _optional(payload: Raw) -> str | None:
    try:
        return _text(payload) if payload else None
    except ValueError:
        return None


def decode_hook_input(
    event: str, raw: bytes | Raw | Mapping[str, Any], warn: Callable[[StreamWarning], None] = ignore_warning
) -> HookInput:
    """Return the typed input of `event`. Never raises: what cannot be read is an `UnknownHookInput` with a `problem`.

    With a `problem` the callback must not be called: the hook has failed, and its `on_failure` decides.

    Args:
        event: the event that the callback was registered for; if it is not known, the input's own name counts.
        raw: the input, as it came.
        warn: called for each field that was left out because of its shape.
    """
    payload = b""
    try:
        payload = as_bytes(raw)
        kind = HOOK_EVENTS.get(event)
        if kind is None:
            asked: HookInput = decode_asked(UnknownHookInput, payload, event or "hook", ignore_warning)
            kind = HOOK_EVENTS.get(asked.hook_event_name)
            if kind is None:
                return asked
        asked = decode_asked(kind, payload, kind.wire_event, warn)
    except (DecodeError, ValueError, RecursionError) as error:
        asked = UnknownHookInput(hook_event_name=event)
        force_setattr(asked, "problem", getattr(error, "detail", None) or str(error))
        force_setattr(asked, "raw", payload)
    return asked
