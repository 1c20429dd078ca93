"""What a hook answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence  # noqa: TC003 - `help()` reads the annotations
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict

import msgspec

from bridle.permissions.results import Allow, Deny  # noqa: TC001 - `help()` reads the annotations

if TYPE_CHECKING:
    from typing import Unpack

__all__ = ["HookOutput"]


class _More(TypedDict, total=False):
    """What every constructor takes besides."""

    continue_: bool | None
    stop_reason: str | None
    decision: Literal["approve", "block"] | None
    system_message: str | None
    suppress_output: bool | None
    terminal_sequence: str | None
    permission_decision: Literal["allow", "deny", "ask", "defer"] | None
    permission_decision_reason: str | None
    updated_input: Mapping[str, Any] | None
    additional_context: str | None
    classifier_context: str | None
    updated_tool_output: Any
    updated_mcp_tool_output: Any
    permission: Allow | Deny | None
    retry: bool | None
    session_title: str | None
    initial_user_message: str | None
    suppress_original_prompt: bool | None
    watch_paths: Sequence[str] | None
    reload_skills: bool | None
    action: Literal["accept", "decline", "cancel"] | None
    content: Mapping[str, Any] | None
    worktree_path: str | None
    display_content: str | None


class _All(_More, total=False):
    """All fields."""

    reason: str | None
    asynchronous: bool | None
    async_timeout: float | None


def _with(own: dict[str, Any], more: Any) -> dict[str, Any]:
    return {**own, **more}


class HookOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook answers. Make one with a constructor; each takes further fields as keywords.

    A field that an event has no use for is left out, with a warning.

    Attributes:
        continue_: False ends the turn.
        stop_reason: why; the user reads it.
        decision: `block` keeps what is about to happen from happening, or sends the model back to work.
        reason: why; the model reads it.
        system_message: shown to the user.
        suppress_output: True hides the hook's output.
        terminal_sequence: an escape sequence for the user's terminal.
        asynchronous: True lets the CLI go on at once.
        async_timeout: seconds that the hook may go on in the background.
        permission_decision: `allow`, `deny`, `ask` or `defer`. Of PreToolUse; PreModelSwitch has no `defer`, and
            PermissionRequest only `allow` and `deny`.
        permission_decision_reason: why.
        updated_input: the input the tool gets instead. Of PreToolUse; allows nothing by itself.
        additional_context: text that the model gets.
        classifier_context: a note for the classifier of mode `auto`. Of PostToolUse.
        updated_tool_output: the result the model gets instead. Of PostToolUse.
        updated_mcp_tool_output: the older form of it, for tools of servers.
        permission: the answer to the question. Of PermissionRequest.
        retry: True lets the model try again. Of PermissionDenied.
        session_title: the session's new title. Of SessionStart and UserPromptSubmit.
        initial_user_message: the first prompt. Of SessionStart.
        suppress_original_prompt: True keeps the prompt from the model. Of UserPromptSubmit and UserPromptExpansion.
        watch_paths: files to watch. Of SessionStart, CwdChanged and FileChanged.
        reload_skills: True loads the skills again. Of SessionStart.
        action: the answer to a server. Of Elicitation and ElicitationResult.
        content: the form's values, of the same.
        worktree_path: the folder that was made. Of WorktreeCreate, which needs it.
        display_content: the text that is shown instead. Of MessageDisplay.
    """

    continue_: bool | None = None
    stop_reason: str | None = None
    decision: Literal["approve", "block"] | None = None
    reason: str | None = None
    system_message: str | None = None
    suppress_output: bool | None = None
    terminal_sequence: str | None = None
    asynchronous: bool | None = None
    async_timeout: float | None = None
    permission_decision: Literal["allow", "deny", "ask", "defer"] | None = None
    permission_decision_reason: str | None = None
    updated_input: Mapping[str, Any] | None = None
    additional_context: str | None = None
    classifier_context: str | None = None
    updated_tool_output: Any = None
    updated_mcp_tool_output: Any = None
    permission: Any = None
    retry: bool | None = None
    session_title: str | None = None
    initial_user_message: str | None = None
    suppress_original_prompt: bool | None = None
    watch_paths: Sequence[str] | None = None
    reload_skills: bool | None = None
    action: Literal["accept", "decline", "cancel"] | None = None
    content: Mapping[str, Any] | None = None
    worktree_path: str | None = None
    display_content: str | None = None

    def replace(self, **changes: Unpack[_All]) -> Self:
        """Return a copy with other fields."""
        return msgspec.structs.replace(self, **changes)

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name in self.__struct_fields__ if (value := getattr(self, name)) is not None]
        return f"HookOutput({', '.join(given)})"

    @classmethod
    def proceed(cls, **more: Unpack[_More]) -> Self:
        """Go on as if there were no hook."""
        return cls(**more)

    @classmethod
    def stop(cls, reason: str | None = None, **more: Unpack[_More]) -> Self:
        """End the turn; the user reads `reason`."""
        return cls(**_with({"continue_": False, "stop_reason": reason}, more))

    @classmethod
    def block(cls, reason: str, **more: Unpack[_More]) -> Self:
        """Block the prompt, the tool, the change; at Stop and SubagentStop: go on working. The model reads `reason`."""
        return cls(**_with({"decision": "block", "reason": reason}, more))

    @classmethod
    def allow(cls, reason: str | None = None, **more: Unpack[_More]) -> Self:
        """Allow the tool, without asking anybody else."""
        return cls(**_with({"permission_decision": "allow", "permission_decision_reason": reason}, more))

    @classmethod
    def deny(cls, reason: str | None = None, **more: Unpack[_More]) -> Self:
        """Deny the tool; the model reads `reason`."""
        return cls(**_with({"permission_decision": "deny", "permission_decision_reason": reason}, more))

    @classmethod
    def ask(cls, reason: str | None = None, **more: Unpack[_More]) -> Self:
        """Have the user asked: `can_use_tool`, if it is set."""
        return cls(**_with({"permission_decision": "ask", "permission_decision_reason": reason}, more))

    @classmethod
    def defer(cls, reason: str | None = None, **more: Unpack[_More]) -> Self:
        """Stop the run before the tool; the call is then in the result's `deferred_tool_use`."""
        return cls(**_with({"permission_decision": "defer", "permission_decision_reason": reason}, more))

    @classmethod
    def update_input(cls, new_input: Mapping[str, Any], **more: Unpack[_More]) -> Self:
        """Have the tool run with another input (PreToolUse). Whether it may run is decided as if there were no hook."""
        return cls(**_with({"updated_input": new_input}, more))

    @classmethod
    def add_context(cls, text: str, **more: Unpack[_More]) -> Self:
        """Tell the model `text`."""
        return cls(**_with({"additional_context": text}, more))

    @classmethod
    def run_async(cls, timeout: float | None = None) -> Self:
        """Let the CLI go on at once: nothing waits for the hook.

        Args:
            timeout: seconds after which the CLI forgets it; None is its default.
        """
        return cls(asynchronous=True, async_timeout=timeout)
