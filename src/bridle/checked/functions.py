"""What hooks and permissions share: what the CLI asked, what a callback may be, and what its answer may hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec
from msgspec import Raw
from msgspec.structs import force_setattr

from bridle.checked.checks import fail
from bridle.errors import DecodeError, OptionsError
from bridle.messages.base import Kept

if TYPE_CHECKING:
    from bridle.errors import StreamWarning


class AnswerError(ValueError):
    """A callback's answer cannot be sent. Never reaches users: the fail policy answers, and a warning tells.

    Attributes:
        path: where in the answer.
    """

    def __init__(self, message: str, path: str = "") -> None:
        self.path = path
        super().__init__(message)


class Asked(Kept, frozen=True, kw_only=True):
    """What the CLI hands to a callback."""


class Reach:
    """How a callback reaches its session without keeping it alive: one that everybody else has forgotten can be collected.

    Args:
        find: returns the session; None once there is none any more.
    """

    __slots__ = ("_find",)

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find = find

    def __call__(self) -> Any:
        """Return the session, as it is to be used in this thread."""
        return self._find()


def reached(session: Any) -> Any:
    """Return the session: what a `Reach` leads to, and anything else as it is."""
    return session() if isinstance(session, Reach) else session


def ignore_warning(warning: StreamWarning) -> None:
    """Do nothing with a warning."""


class Question(Asked, frozen=True, kw_only=True):
    """A request that a callback answers with its one argument: permissions and dialogs."""

    request_id: str = msgspec.field(default="", name="(request_id)")

    @property
    def session(self) -> Any:
        """The session that asks; None if there is none, or nobody else holds it any more.

        In a plain function, which runs in a thread, its methods block; in an async one they are awaited, except with `bridle.sync`.
        """
        return reached(self.__dict__.get("(session)"))

    @property
    def cancelled(self) -> bool:
        """True once the CLI has taken the question back: an answer would not be read any more."""
        cancelled = self.__dict__.get("(cancelled)")
        return bool(cancelled()) if cancelled is not None else False


def as_bytes(payload: bytes | Raw | Mapping[str, Any]) -> bytes:
    """Return the JSON of what the CLI asked; bytes stay what they are.

    Raises:
        ValueError: it is no JSON object, or JSON cannot hold it.
    """
    if isinstance(payload, Mapping):
        return msgspec.json.encode(json_copy(payload, "request"))
    return bytes(payload)


@cache
def _decoder(kind: Any) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(kind).decode


def decode_asked(kind: Any, payload: bytes, label: str, warn: Callable[[StreamWarning], None]) -> Any:
    """Return an instance of `kind`; fields of the wrong shape are left out, and `warn` hears of them.

    Raises:
        DecodeError: it is no JSON object, or nested too deep.
    """
    try:
        asked = _decoder(kind)(payload)
        # The decoder does not look at the bytes of fields that it skips.
        if not payload.isascii():
            payload.decode()
    except (ValueError, RecursionError):
        asked = _decode_slowly(kind, payload, label, warn)
    force_setattr(asked, "raw", payload)
    return asked


def _decode_slowly(kind: Any, payload: bytes, label: str, warn: Callable[[StreamWarning], None]) -> Any:
    from bridle.messages import degrade

    fields = degrade.split_line(payload)
    report = degrade.Report(label, warn)
    try:
        asked = degrade.build(kind, fields, "", report)
    except RecursionError:
        raise DecodeError(payload, "too-deep", "nested deeper than the interpreter's recursion limit") from None
    report.finish()
    return asked


class Around(TypedDict, total=False):
    """Where a question comes from: the control request's id, the session, whether it was taken back, and who hears of odd fields."""

    request_id: str
    session: Any
    cancelled: Callable[[], bool] | None
    warn: Callable[[StreamWarning], None]


def decode_question(kind: Any, label: str, request: bytes | Raw | Mapping[str, Any], around: Around) -> Any:
    """Return a `Question` of `kind` from the payload of a control request; fields of the wrong shape are left out.

    Raises:
        DecodeError, ValueError: it is no JSON object.
    """
    asked = decode_asked(kind, as_bytes(request), label, around.get("warn", ignore_warning))
    force_setattr(asked, "request_id", around.get("request_id", ""))
    asked.__dict__.update({"(session)": around.get("session"), "(cancelled)": around.get("cancelled")})
    return asked


def check_callback(value: Any, path: str, parameters: Sequence[str]) -> Any:
    """Accept what can be called with `parameters`: functions, methods, partials, callable objects; plain and async.

    Raises:
        OptionsError: it cannot; a hook that fails at every call would fail open for ever.
    """
    if not callable(value):
        raise fail(path, f"a function of ({', '.join(parameters)})", value)
    import inspect

    for target in _implementations(value):
        if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
            raise OptionsError(f"`{path}` is a generator: it must `return` its answer, not `yield` it.", field=path)
    try:
        # A wrapper is called with its own parameters, whatever it wraps.
        signature = inspect.signature(value, follow_wrapped=False)
    except (ValueError, TypeError):
        return value  # some functions written in C do not tell
    try:
        signature.bind(*parameters)
    except TypeError as error:
        raise OptionsError(
            f"`{path}` cannot be called with ({', '.join(parameters)}): {error}. It takes {signature}.", field=path
        ) from None
    return value


def is_async(function: Callable[..., Any]) -> bool:
    """Return True if calling `function` gives a coroutine."""
    import inspect

    return any(inspect.iscoroutinefunction(target) for target in _implementations(function))


def _implementations(function: Any) -> tuple[Any, ...]:
    """Return what runs when `function` is called, as far as it can be told."""
    while isinstance(function, partial):
        function = function.func
    return (function, getattr(type(function), "__call__", None))  # noqa: B004 - the method itself is wanted


def json_copy(value: Any, path: str) -> Any:
    """Return a copy of `value` made of what JSON can hold; `msgspec.Raw` is checked and stays the bytes that it is.

    Raises:
        AnswerError: JSON cannot hold it; the message names the place and not the value.
    """
    try:
        return _json_copy(value, path)
    except RecursionError:
        raise AnswerError(f"`{path}` is nested too deep, or contains itself", path) from None


def _json_copy(value: Any, path: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not float("-inf") < value < float("inf"):
            raise AnswerError(f"`{path}` is no finite number, which JSON cannot hold", path)
        return float(value)
    if isinstance(value, Mapping):
        copied = {}
        for name, part in value.items():
            if not isinstance(name, str):
                raise AnswerError(f"`{path}` has a key that is a {type(name).__name__}; JSON has only str", path)
            copied[_text(name, path)] = _json_copy(part, f"{path}.{name}")
        return copied
    if isinstance(value, (list, tuple)):
        return [_json_copy(part, f"{path}[{index}]") for index, part in enumerate(value)]
    if isinstance(value, Raw):
        return _checked_raw(value, path)
    raise AnswerError(f"`{path}` is a {type(value).__name__}, which JSON cannot hold", path)


def _text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise AnswerError(f"`{path}` has a lone surrogate, which is no Unicode text", path) from None
    return str.__str__(value)


def _checked_raw(value: Raw, path: str) -> Raw:
    """A line that is not JSON would kill the CLI, and a line end in it would make two of it."""
    content = bytes(value)
    try:
        content.decode()
        values = _decoder(list[Raw])(b"[" + content + b"]")
    except (ValueError, RecursionError):
        raise AnswerError(f"`{path}` is no JSON", path) from None
    if len(values) != 1:
        raise AnswerError(f"`{path}` is no single JSON value", path)
    return Raw(content.replace(b"\n", b" ").replace(b"\r", b" "))


def object_bytes(value: Any, path: str) -> dict[str, Any] | Raw:
    """Return a copy of the JSON object `value`.

    Raises:
        AnswerError: it is no object, or JSON cannot hold what is in it.
    """
    if isinstance(value, Raw):
        raw = _checked_raw(value, path)
        if bytes(raw).lstrip(b" \t")[:1] == b"{":
            return raw
    if not isinstance(value, Mapping):
        raise AnswerError(f"`{path}` must be a dict, not {type(value).__name__}", path)
    copied: dict[str, Any] = json_copy(value, path)
    return copied
