"""Shared parts of hooks and permissions: the request of the CLI, the allowed callbacks, and the allowed answers."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import msgspec
from msgspec import Raw
from msgspec.structs import force_setattr

from hackamore.checked.fields import fail
from hackamore.errors import DecodeError, OptionsError, StreamWarning, escape_terminal, text_of
from hackamore.messages.base import Kept, decoder

if TYPE_CHECKING:
    import contextvars
    import inspect
    from types import TracebackType

MIGRATING = "docs/guides/migrate.md of Hackamore."
"""The page for programs that use `claude-agent-sdk`."""


class AnswerError(ValueError):
    """A callback's answer cannot be sent. Never reaches users: the fail policy answers, and a warning tells.

    Args:
        message: the text of the error.

    Attributes:
        path: where in the answer.
    """

    def __init__(self, message: str, path: str = "") -> None:
        self.path = path
        super().__init__(message)


class Answer(NamedTuple):
    """The answer of a callback.

    Attributes:
        wire: the answer as the CLI spells it, for msgspec to encode.
        decision: the decision in it, in a word of the wire; empty if it decides nothing.
        warnings: parts that were left out, or that the CLI would not understand.
        ruling: the decision of the policy on the call; None without one.
    """

    wire: dict[str, Any]
    decision: str = ""
    warnings: Sequence[StreamWarning] = ()
    ruling: Any = None


class Reach:
    """How a callback reaches its session without keeping it alive: a session that no other object holds can be collected.

    Args:
        find: returns the session; None once there is none any more.
        conversation: the key of its conversation; None outside a pool.
        caller: the value of the check-out.
        context: the context variables for callbacks; None for those of the start.
    """

    __slots__ = ("_find", "caller", "context", "conversation")

    def __init__(
        self,
        find: Callable[[], Any],
        conversation: str | None = None,
        caller: Any = None,
        context: contextvars.Context | None = None,
    ) -> None:
        self._find = find
        self.conversation: str | None = conversation
        self.caller: Any = caller
        self.context: contextvars.Context | None = context

    def __call__(self) -> Any:
        """Return the session, as it is to be used in this thread."""
        return self._find()

    def lent(self, conversation: str | None, caller: Any, context: contextvars.Context | None) -> Reach:
        """Return the reach of callbacks for another caller."""
        return Reach(self._find, conversation, caller, context)


def reached(session: Any) -> Any:
    """Return the session: what a `Reach` leads to, and anything else as it is."""
    return session() if isinstance(session, Reach) else session


def ignore_warning(warning: StreamWarning) -> None:
    """Do nothing with a warning."""


class Question(Kept, frozen=True, kw_only=True):
    """A request that a callback answers with its one argument: permissions and dialogs."""

    request_id: str = msgspec.field(default="", name="(request_id)")

    @property
    def session(self) -> Any:
        """The session of the request; None if there is none, or if no other object holds it any more.

        In a plain function, which runs in a thread, its methods block; in an async one they are awaited, except with `hackamore.sync`.
        """
        return reached(self.__dict__.get("(session)"))

    @property
    def conversation(self) -> str | None:
        """The key of the conversation in its `SessionPool`; None outside a pool."""
        return getattr(self.__dict__.get("(session)"), "conversation", None)

    @property
    def caller(self) -> Any:
        """The value of the check-out: `pool.conversation(key, caller=...)`; None without one."""
        return getattr(self.__dict__.get("(session)"), "caller", None)

    @property
    def approval(self) -> Any:
        """The `hackamore.approvals.ApprovalRequest` whose answer this question got; None without `approvals`, and before."""
        return self.__dict__.get("(approval)")

    @property
    def cancelled(self) -> bool:
        """True once the CLI has taken the question back: an answer would not be read any more."""
        cancelled = self.__dict__.get("(cancelled)")
        return bool(cancelled()) if cancelled is not None else False


def as_bytes(payload: bytes | Raw | Mapping[str, Any]) -> bytes:
    """Return the JSON of what the CLI asked; bytes stay what they are. Raise ValueError if it is not a JSON object."""
    if isinstance(payload, Mapping):
        return msgspec.json.encode(json_copy(payload, "request"))
    return bytes(payload)


def decode_asked(kind: Any, payload: bytes, label: str, warn: Callable[[StreamWarning], None]) -> Any:
    """Return an instance of `kind`; `warn` hears of fields left out. Raise DecodeError if it is not a JSON object, or nested too deep."""
    try:
        asked = decoder(kind)(payload)
        # The decoder does not look at the bytes of fields that it skips.
        if not payload.isascii():
            payload.decode()
    except (ValueError, RecursionError):
        asked = _decode_slowly(kind, payload, label, warn)
    force_setattr(asked, "raw", payload)
    return asked


def _decode_slowly(kind: Any, payload: bytes, label: str, warn: Callable[[StreamWarning], None]) -> Any:
    from hackamore.messages import degrade

    fields = degrade.split_line(payload)
    report = degrade.Report(label, warn)
    try:
        asked = degrade.build(kind, fields, "", report)
    except RecursionError:
        raise DecodeError(payload, "too-deep", "nested deeper than the interpreter's recursion limit") from None
    report.finish()
    return asked


class Around(TypedDict, total=False):
    """The origin of a question: the id of the control request, the session, whether it was cancelled, and the receiver of warnings."""

    request_id: str
    session: Any
    cancelled: Callable[[], bool] | None
    warn: Callable[[StreamWarning], None]


def decode_question(kind: Any, label: str, request: bytes | Raw | Mapping[str, Any], around: Around) -> Any:
    """Return a `Question` of `kind` from the payload of a control request; raise DecodeError or ValueError if it is not a JSON object."""
    asked = decode_asked(kind, as_bytes(request), label, around.get("warn", ignore_warning))
    force_setattr(asked, "request_id", around.get("request_id", ""))
    asked.__dict__.update({"(session)": around.get("session"), "(cancelled)": around.get("cancelled")})
    return asked


def check_callback(value: Any, path: str, parameters: Sequence[str], *, official: str = "") -> Any:
    """Accept a function, method, partial or callable object that takes `parameters`; plain or async.

    Args:
        official: the hint for a callback with the three arguments of `claude-agent-sdk`.

    Raises:
        OptionsError: it cannot be called so; a hook that fails at every call would fail open for ever.
    """
    if not callable(value):
        raise fail(path, f"a function of ({', '.join(parameters)})", value)
    import inspect

    for target in _implementations(value):
        if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
            raise OptionsError(f"`{path}` is a generator: it must `return` its answer, not `yield` it.", field=path)
    try:
        # A wrapper is called with its own parameters, not with those of the wrapped function.
        signature = inspect.signature(value, follow_wrapped=False)
    except (ValueError, TypeError):
        return value  # some functions written in C have none
    try:
        signature.bind(*parameters)
    except TypeError as error:
        name = getattr(value, "__name__", "callback")
        function = (
            f"lambda {', '.join(parameters)}: ..." if name == "<lambda>" else f"def {name}({', '.join(parameters)})"
        )
        hint = f" Write `{function}`."
        if official and len(_required(signature)) == 3:
            hint += f" {official} See {MIGRATING}"
        raise OptionsError(
            f"`{path}` cannot be called with ({', '.join(parameters)}): {error}. It takes {signature}.{hint}",
            field=path,
        ) from None
    return value


def _required(signature: inspect.Signature) -> list[str]:
    return [name for name, parameter in signature.parameters.items() if parameter.default is parameter.empty]


def check_annotations(value: Any, path: str, asked: type | None, answers: tuple[type, ...], role: str) -> None:
    """Refuse a callback whose annotations, if they can be resolved, contradict its use, or `asked`, the class of its first argument."""
    import inspect
    import typing

    function = value
    while isinstance(function, partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    try:
        hints = typing.get_type_hints(function)
        first = next(iter(inspect.signature(value, follow_wrapped=False).parameters.values()))
    except Exception:  # a forward reference, a function written in C, a parameter that is not there
        return
    name = getattr(function, "__qualname__", "the function")
    taken = _classes(hints.get(first.name, Any)) if first.kind is not first.VAR_POSITIONAL else None
    if asked is not None and taken is not None and not any(issubclass(asked, kind) for kind in taken):
        shown = " | ".join(kind.__name__ for kind in taken)
        hint = "; `.data` is the dict" if any(issubclass(dict, kind) for kind in taken) else ""
        raise OptionsError(
            f"`{path}`: `{name}` takes {shown}, by its annotation, but {role} is called with {asked.__name__}{hint}.",
            field=path,
        )
    for kind in _classes(hints.get("return", Any)) or ():
        if not any(issubclass(kind, answer) or issubclass(answer, kind) for answer in answers):
            wanted = ", ".join("None" if answer is type(None) else answer.__name__ for answer in answers)
            raise OptionsError(
                f"`{path}`: `{name}` returns {kind.__name__}, by its annotation, but {role} must return one of: {wanted}.",
                field=path,
            )


def _classes(annotation: Any) -> tuple[type, ...] | None:
    """Return the classes that an annotation allows; None if there is one that cannot be judged."""
    import types
    import typing

    if annotation is None:
        return (type(None),)
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        parts = [_classes(part) for part in typing.get_args(annotation)]
        return None if None in parts else tuple(kind for part in parts if part is not None for kind in part)
    if origin in (Awaitable, Coroutine):
        return _classes(typing.get_args(annotation)[-1])
    if origin is typing.Annotated:
        return _classes(typing.get_args(annotation)[0])
    kind = annotation if origin is None else origin
    if not isinstance(kind, type) or kind is Any or typing.is_typeddict(kind) or getattr(kind, "_is_protocol", False):
        return None
    return (kind,)


def is_async(function: Callable[..., Any]) -> bool:
    """Return True if calling `function` gives a coroutine."""
    import inspect

    return any(inspect.iscoroutinefunction(target) for target in _implementations(function))


def _implementations(function: Any) -> tuple[Any, ...]:
    """Return the code that runs when `function` is called, as far as it is known."""
    while isinstance(function, partial):
        function = function.func
    return (function, getattr(type(function), "__call__", None))  # noqa: B004 - the method itself is wanted


def place_of(function: Any) -> str:
    """Return the name of a function with its file and line: `guard (/srv/app.py:12)`; the name alone if it has no code."""
    for target in _implementations(
        getattr(function, "__wrapped__", function)
    ):  # that of the user, and not its decorator
        code = getattr(getattr(target, "__func__", target), "__code__", None)
        if code is not None:
            name = getattr(target, "__qualname__", code.co_name)
            return f"{name} ({code.co_filename}:{code.co_firstlineno})"
    return getattr(function, "__qualname__", None) or type(function).__qualname__


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def _users_part(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the first frame outside the library on; the whole one if there is no such frame."""
    part = traceback
    while part is not None and part.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        part = part.tb_next
    return part or traceback


def callback_failure(
    name: str, function: Any, error: BaseException, *, kind: str, extra: Mapping[str, Any] | None = None
) -> StreamWarning:
    """Log the exception of a user's callback with its traceback, and return the warning CALLBACK_FAILED that carries it.

    Args:
        error: the exception; its traceback loses the frames of the library in front of the callback.
        kind: the kind of callback: `hook`, `permission`, `mcp`, `dialog`, or the name of the option.
    """
    error.__traceback__ = _users_part(error.__traceback__)
    place = place_of(function)
    reason = f"{name} raised {type(error).__name__}: {text_of(error)}"
    from hackamore.runtime.log import logger

    logger.error("%s in %s", escape_terminal(reason, 500), escape_terminal(place), exc_info=error, extra=extra)
    warning = StreamWarning(
        "CALLBACK_FAILED",
        f"{escape_terminal(reason, 500).rstrip('.')}, in {escape_terminal(place)}. Fix the callback; the log has the traceback.",
        {"kind": kind, "callback": name, "reason": reason, "place": place},
    )
    warning.exception = error
    return warning


def guarded(
    name: str,
    function: Callable[..., object],
    report: Callable[[StreamWarning], object],
    ids: Callable[[], Mapping[str, Any]],
) -> Callable[..., None]:
    """Return a function that calls a user's callback and raises nothing but KeyboardInterrupt; failures after the first are only logged."""
    failed = False

    def call(*arguments: object) -> None:
        nonlocal failed
        try:
            function(*arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            warning = callback_failure(f"`{name}`", function, error, kind=name, extra=ids())
            if not failed:
                failed = True
                report(warning)

    return call


def json_copy(value: Any, path: str) -> Any:
    """Return a copy made of what JSON can hold, with `msgspec.Raw` as it is; raise AnswerError, which names the place and not the value."""
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
            raise AnswerError(f"`{path}` is not a finite number, which JSON cannot represent", path)
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
        raise AnswerError(f"`{path}` has a lone surrogate, which is not Unicode text", path) from None
    return str.__str__(value)


def _checked_raw(value: Raw, path: str) -> Raw:
    """A line that is not JSON would kill the CLI, and a line end in it would make two of it."""
    content = bytes(value)
    try:
        content.decode()
        values = decoder(list[Raw])(b"[" + content + b"]")
    except (ValueError, RecursionError):
        raise AnswerError(f"`{path}` is not JSON", path) from None
    if len(values) != 1:
        raise AnswerError(f"`{path}` is not a single JSON value", path)
    return Raw(content.replace(b"\n", b" ").replace(b"\r", b" "))


def object_bytes(value: Any, path: str) -> dict[str, Any] | Raw:
    """Return a copy of the JSON object `value`; raise AnswerError if it is none, or JSON cannot represent its content."""
    if isinstance(value, Raw):
        raw = _checked_raw(value, path)
        if bytes(raw).lstrip(b" \t")[:1] == b"{":
            return raw
    if not isinstance(value, Mapping):
        raise AnswerError(f"`{path}` must be a dict, not {type(value).__name__}", path)
    copied: dict[str, Any] = json_copy(value, path)
    return copied
