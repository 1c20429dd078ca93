"""The settings of one holder: which of them a running CLI takes, which operations change them, and which leave nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hackamore.errors import OptionsError
from hackamore.options.options import NO_SESSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hackamore.options.options import Options


class Change(NamedTuple):
    """A control operation that brings one option into force.

    Attributes:
        subtype: the request on the wire.
    """

    option: str
    subtype: str
    fields: Mapping[str, Any]


APPLIED: Mapping[str, tuple[str, str]] = {
    "model": ("set_model", "model"),
    "permission_mode": ("set_permission_mode", "mode"),
    "max_thinking_tokens": ("set_max_thinking_tokens", "max_thinking_tokens"),
}
"""Options that an operation changes in a running CLI: the request, and its field.

None cannot be brought back: `set_model(None)` selects the default of the CLI, and not that of its settings or variables."""

_HARMLESS_TEXT = (
    "interrupt cancel_async_message get_context_usage list_permission_rules rewind_files read_file seed_read_state file_suggestions "
    "stop_task background_tasks get_task_output mcp_status mcp_reconnect mcp_call mcp_read_resource get_settings get_hooks_listing "
    "list_models get_usage get_session_cost get_binary_version rename_session"
)
HARMLESS: frozenset[str] = frozenset(_HARMLESS_TEXT.split())
"""Operations that leave no setting behind, or one that belongs to the conversation, such as its title.

After another one, and after a request without a method, no other holder gets the process."""

_WHY = "The pool chooses the session, and `pool.conversation(key)` continues one by key."


def check_base(options: Options) -> None:
    """Refuse, with `OptionsError`, options that one process of a pool must not share with another."""
    for name in NO_SESSION:
        if getattr(options, name):
            raise OptionsError(f"`{name}` must not be set in the options of a pool. {_WHY}", field=name)


def checked(base: Options, differences: Mapping[str, Any], *, keyed: bool) -> Options:
    """Return the options of a caller.

    Raises:
        OptionsError: a difference has a wrong name or value, or belongs to the pool.
    """
    for name in NO_SESSION:
        if name in differences:
            raise OptionsError(f"`{name}` must not differ in a pool. {_WHY}", field=name)
    options = base.replace(**differences) if differences else base
    if keyed and not options.persist_session:
        raise OptionsError(
            "`persist_session=False` does not suit `pool.conversation`: the CLI would keep no transcript to resume from. Use "
            "`pool.session()`, or leave it True.",
            field="persist_session",
        )
    return options


class Split(NamedTuple):
    """The differences of a caller: `hot` ones, which an operation brings into force, and `cold` ones, which need a process of their own."""

    hot: Mapping[str, Any]
    cold: Mapping[str, Any]


def split(base: Options, options: Options, names: Iterable[str]) -> Split:
    """Return the differences by the way in which they come into force; those that change nothing are left out."""
    hot: dict[str, Any] = {}
    cold: dict[str, Any] = {}
    for name in names:
        value = getattr(options, name)
        if value == getattr(base, name):
            continue
        (hot if _is_hot(base, name, value) else cold)[name] = value
    return Split(hot, cold)


def _is_hot(base: Options, name: str, value: object) -> bool:
    if name not in APPLIED or value is None:
        return False
    if name == "permission_mode" and value == "bypassPermissions":
        return base.allow_dangerously_skip_permissions
    return not (name == "max_thinking_tokens" and base.thinking is not None)  # it would have no effect


def changes(base: Options, applied: Mapping[str, Any], hot: Mapping[str, Any]) -> list[Change] | None:
    """Return the operations that bring the differences of a caller into force, and undo those of earlier ones.

    Args:
        applied: the options that were changed in the process since its start, with their values.

    Returns:
        The operations; None if an earlier change cannot be undone.
    """
    found = []
    for name in APPLIED:
        now = applied.get(name, getattr(base, name))
        wanted = hot.get(name, getattr(base, name))
        if wanted == now:
            continue
        if wanted is None:
            return None
        subtype, field = APPLIED[name]
        found.append(Change(name, subtype, {field: wanted}))
    return found
