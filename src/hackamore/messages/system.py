"""`system` frames: one class for each subtype. `CompactBoundaryMessage` is the class of `compact_boundary`: its name says the subtype."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import msgspec

from hackamore.messages.base import Integer, Message, Number, Record

__all__ = [
    "APIRetryMessage",
    "BackgroundTask",
    "BackgroundTasksChangedMessage",
    "CommandsChangedMessage",
    "CompactBoundaryMessage",
    "CompactMetadata",
    "ControlRequestProgressMessage",
    "ElicitationCompleteMessage",
    "FailedFile",
    "FilesPersistedMessage",
    "HookEventMessage",
    "HookProgressMessage",
    "HookResponseMessage",
    "HookStartedMessage",
    "InformationalMessage",
    "InitMessage",
    "LocalCommandOutputMessage",
    "ManagedLock",
    "McpResourceLink",
    "McpServerEntry",
    "MemoryRecallMessage",
    "MirrorErrorMessage",
    "ModelRefusalFallbackMessage",
    "ModelRefusalNoFallbackMessage",
    "NoResponse",
    "NotificationMessage",
    "PermissionDeniedMessage",
    "PersistedFile",
    "PluginEntry",
    "PluginErrorEntry",
    "PluginInstallMessage",
    "PreservedMessages",
    "PreservedSegment",
    "RecalledMemory",
    "SessionKey",
    "SessionStateChangedMessage",
    "SessionWritesLostMessage",
    "SlashCommand",
    "StatusMessage",
    "SystemMessage",
    "TaskNotificationMessage",
    "TaskProgressMessage",
    "TaskStartedMessage",
    "TaskUpdatedMessage",
    "TaskUsage",
    "ThinkingTokensMessage",
    "UnknownMessage",
    "UnknownSystemMessage",
    "WorkerShuttingDownMessage",
]


class SystemMessage(Message, frozen=True, kw_only=True, tag="system"):
    """The base of all `system` messages; `subtype` says which it is."""

    wire_subtype: ClassVar[str | None] = None

    def __init_subclass__(cls) -> None:
        """Take the subtype from the name of the class; base classes set None."""
        if "wire_subtype" not in vars(cls):
            words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__.removesuffix("Message"))
            cls.wire_subtype = words.lower()

    @property
    def subtype(self) -> str | None:
        """The message's subtype on the wire."""
        return self.wire_subtype


class McpServerEntry(Record, frozen=True, kw_only=True):
    """An MCP server of the session.

    Attributes:
        name: its name.
        status: `connected`, `failed`, `needs-auth`, `pending`, `disabled`.
        source: where it was configured.
    """

    name: str = ""
    status: str = ""
    source: str | None = None


class PluginEntry(Record, frozen=True, kw_only=True):
    """A plugin of the session.

    Attributes:
        name: its name.
        path: its folder.
        version: the version in its manifest.
    """

    name: str = ""
    path: str = ""
    version: str | None = None


class ManagedLock(Record, frozen=True, kw_only=True):
    """The organization's settings overrule a plugin.

    Attributes:
        plugin_enabled: the organization's value.
        name: the plugin.
        marketplace: where it comes from.
    """

    plugin_enabled: bool = False
    name: str = ""
    marketplace: str | None = None


class PluginErrorEntry(Record, frozen=True, kw_only=True):
    """A plugin that could not be loaded.

    Attributes:
        plugin: its name.
        type: the kind of failure.
        message: why.
        path: its folder.
        managed_lock: set if the organization's settings are the reason.
    """

    plugin: str = ""
    type: str = ""
    message: str = ""
    path: str | None = None
    managed_lock: ManagedLock | None = None


class InitMessage(SystemMessage, frozen=True, kw_only=True):
    """The parts of the session; comes at the start of every turn.

    Attributes:
        model: the model.
        cwd: the working directory.
        tools: the names of all tools.
        permission_mode: `default`, `acceptEdits`, `bypassPermissions`, `plan`, `dontAsk` or `auto`.
        api_key_source: where the credential comes from.
        claude_code_version: the CLI's version.
        mcp_servers: the MCP servers.
        slash_commands: the names of all commands.
        terminal_slash_commands: those of them that need a terminal.
        agents: the names of all agents.
        skills: the names of all skills.
        plugins: the plugins.
        plugin_errors: those that could not be loaded.
        output_style: the output style.
        betas: beta features of the API that are on.
        capabilities: abilities of the CLI beyond the basic protocol.
        fast_mode_state: `off`, `cooldown` or `on`.
        fast_mode_disabled_reason: why there is no fast mode.
        effort: `low`, `medium`, `high`, `xhigh` or `max`.
        view_mode: `focus` or `default`.
        user_message_uuids: the prompts that this turn has taken up.
        served_by_anthropic: True if requests go to the API of Anthropic itself (2.1.330).
    """

    model: str = ""
    cwd: str = ""
    tools: list[str] = msgspec.field(default_factory=list)
    permission_mode: str | None = msgspec.field(default=None, name="permissionMode")
    api_key_source: str | None = msgspec.field(default=None, name="apiKeySource")
    claude_code_version: str | None = None
    mcp_servers: list[McpServerEntry] = msgspec.field(default_factory=list)
    slash_commands: list[str] = msgspec.field(default_factory=list)
    terminal_slash_commands: list[str] = msgspec.field(default_factory=list)
    agents: list[str] = msgspec.field(default_factory=list)
    skills: list[str] = msgspec.field(default_factory=list)
    plugins: list[PluginEntry] = msgspec.field(default_factory=list)
    plugin_errors: list[PluginErrorEntry] = msgspec.field(default_factory=list)
    output_style: str | None = None
    betas: list[str] = msgspec.field(default_factory=list)
    capabilities: list[str] = msgspec.field(default_factory=list)
    fast_mode_state: str | None = None
    fast_mode_disabled_reason: str | None = None
    effort: str | None = None
    view_mode: str | None = None
    user_message_uuids: list[str] | None = None
    served_by_anthropic: bool | None = None


class PreservedSegment(Record, frozen=True, kw_only=True):
    """Messages that a compaction kept, as a range.

    Attributes:
        head_uuid: the first.
        anchor_uuid: the message that they follow now.
        tail_uuid: the last.
    """

    head_uuid: str = ""
    anchor_uuid: str = ""
    tail_uuid: str = ""


class PreservedMessages(Record, frozen=True, kw_only=True):
    """Messages that a compaction kept, one by one.

    Attributes:
        anchor_uuid: the message that they follow now.
        uuids: the messages.
    """

    anchor_uuid: str = ""
    uuids: list[str] = msgspec.field(default_factory=list)


class CompactMetadata(Record, frozen=True, kw_only=True):
    """The effect of a compaction.

    Attributes:
        trigger: `manual` or `auto`.
        pre_tokens: tokens before.
        post_tokens: tokens after.
        duration_ms: how long it took, in milliseconds.
        preserved_segment: messages that were kept, as a range.
        preserved_messages: messages that were kept, one by one; counts more than the range.
    """

    trigger: str = ""
    pre_tokens: Integer = 0
    post_tokens: Integer | None = None
    duration_ms: Number | None = None
    preserved_segment: PreservedSegment | None = None
    preserved_messages: PreservedMessages | None = None


class CompactBoundaryMessage(SystemMessage, frozen=True, kw_only=True):
    """The conversation was summed up to make room.

    Attributes:
        compact_metadata: the effect of the compaction.
    """

    compact_metadata: CompactMetadata = msgspec.field(default_factory=CompactMetadata)


class StatusMessage(SystemMessage, frozen=True, kw_only=True):
    """The loop does something else now.

    Attributes:
        status: `compacting`, `requesting`, or None for neither.
        permission_mode: the new permission mode, if it changed.
        compact_result: `success` or `failed`, after a compaction.
        compact_error: why it failed.
        user_message_uuids: the prompts that this turn has taken up.
    """

    status: str | None = None
    permission_mode: str | None = msgspec.field(default=None, name="permissionMode")
    compact_result: str | None = None
    compact_error: str | None = None
    user_message_uuids: list[str] | None = None


class NoResponse(Record, frozen=True, kw_only=True):
    """The API did not answer at all.

    Attributes:
        waited_ms: milliseconds waited for it.
        retry_wait_ms: milliseconds that will be waited the next time.
    """

    waited_ms: Number = 0
    retry_wait_ms: Number = 0


class APIRetryMessage(SystemMessage, frozen=True, kw_only=True):
    """An API call failed and will be tried again.

    Attributes:
        attempt: which attempt failed.
        max_retries: how many there will be at most.
        retry_delay_ms: milliseconds until the next.
        error_status: the HTTP status; None if there was no answer.
        error: the kind of failure.
        no_response: set if the API did not answer at all.
    """

    attempt: Integer = 0
    max_retries: Integer = 0
    retry_delay_ms: Number = 0
    error_status: Integer | None = None
    error: str = ""
    no_response: NoResponse | None = None


class ControlRequestProgressMessage(SystemMessage, frozen=True, kw_only=True):
    """A control request of Hackamore takes long.

    Attributes:
        request_id: the request.
        status: `started` or `api_retry`.
        attempt: which attempt failed.
        max_retries: how many there will be at most.
        retry_delay_ms: milliseconds until the next.
        error_status: the HTTP status; None if there was no answer.
    """

    request_id: str = ""
    status: str = ""
    attempt: Integer | None = None
    max_retries: Integer | None = None
    retry_delay_ms: Number | None = None
    error_status: Integer | None = None


class ModelRefusalFallbackMessage(SystemMessage, frozen=True, kw_only=True):
    """The model refused, and the CLI tried another model.

    Attributes:
        content: this, for people.
        trigger: `refusal`.
        direction: `retry`, `revert` or `sticky`.
        scope: `session` if the whole session changes over, `local` if only this answer; None means `session`.
        original_model: the model that refused.
        fallback_model: the model that the CLI tried instead.
        request_id: the API request.
        api_refusal_category: why, in a word.
        api_refusal_explanation: why, for people.
        retracted_message_uuids: messages to remove again.
        refused_user_message_uuid: the prompt that was refused, if a person wrote it.
    """

    content: str = ""
    trigger: str = ""
    direction: str = ""
    scope: str | None = None
    original_model: str = ""
    fallback_model: str = ""
    request_id: str | None = None
    api_refusal_category: str | None = None
    api_refusal_explanation: str | None = None
    retracted_message_uuids: list[str] = msgspec.field(default_factory=list)
    refused_user_message_uuid: str | None = None


class ModelRefusalNoFallbackMessage(SystemMessage, frozen=True, kw_only=True):
    """The model refused, and the CLI tried no other model.

    Attributes:
        content: this, for people.
        original_model: the model.
        request_id: the API request.
        api_refusal_category: why, in a word.
        api_refusal_explanation: why, for people.
        refused_user_message_uuid: the prompt that was refused, if a person wrote it.
    """

    content: str = ""
    original_model: str = ""
    request_id: str | None = None
    api_refusal_category: str | None = None
    api_refusal_explanation: str | None = None
    refused_user_message_uuid: str | None = None


class LocalCommandOutputMessage(SystemMessage, frozen=True, kw_only=True):
    """A slash command printed something.

    Attributes:
        content: its output.
    """

    content: str = ""


class HookEventMessage(SystemMessage, frozen=True, kw_only=True):
    """The base of the messages about a hook that runs in the CLI.

    Attributes:
        hook_id: the run; the same in all messages about it.
        hook_name: the hook.
        hook_event: the event it runs for.
    """

    wire_subtype: ClassVar[str | None] = None

    hook_id: str = ""
    hook_name: str = ""
    hook_event: str = ""

    @property
    def hook_event_name(self) -> str:
        """The event it runs for; the hook's name where the CLI does not say."""
        return self.hook_event or self.hook_name


class HookStartedMessage(HookEventMessage, frozen=True, kw_only=True):
    """A hook began."""


class HookProgressMessage(HookEventMessage, frozen=True, kw_only=True):
    """A hook printed something.

    Attributes:
        stdout: its standard output so far.
        stderr: its standard error so far.
        output: both.
    """

    stdout: str = ""
    stderr: str = ""
    output: str = ""


class HookResponseMessage(HookEventMessage, frozen=True, kw_only=True):
    """A hook ended.

    Attributes:
        outcome: `success`, `error` or `cancelled`.
        exit_code: of a command.
        stdout: its standard output.
        stderr: its standard error.
        output: both.
    """

    outcome: str = ""
    exit_code: Integer | None = None
    stdout: str = ""
    stderr: str = ""
    output: str = ""


class PluginInstallMessage(SystemMessage, frozen=True, kw_only=True):
    """A plugin is being installed.

    Attributes:
        status: `started`, `installed`, `failed` or `completed`.
        name: the marketplace.
        error: why it failed.
    """

    status: str = ""
    name: str | None = None
    error: str | None = None


class TaskUsage(Record, frozen=True, kw_only=True):
    """The usage of a task.

    Attributes:
        total_tokens: tokens.
        tool_uses: tool calls.
        duration_ms: milliseconds.
    """

    total_tokens: Integer = 0
    tool_uses: Integer = 0
    duration_ms: Number = 0


class McpResourceLink(Record, frozen=True, kw_only=True, rename="camel"):
    """A file of an MCP server.

    Attributes:
        uri: where it is.
        name: its name.
        title: its title.
        description: its description.
        mime_type: its media type.
        size: its length in bytes.
        annotations: the server's annotations of it.
    """

    uri: str = ""
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: Number | None = None
    annotations: dict[str, Any] | None = None


class TaskStartedMessage(SystemMessage, frozen=True, kw_only=True):
    """A task began: a subagent, a shell command, a workflow, a call of an MCP server.

    Attributes:
        task_id: the task.
        run_id: this run of it; new each time a task is resumed.
        tool_use_id: the call that started it.
        description: its description.
        task_type: `local_agent`, `local_bash`, `local_workflow`, `mcp_task`, ...
        subagent_type: the agent's type.
        is_backgrounded: True if the call does not wait for it.
        spawn_depth: how many agents deep it is.
        parent_task_id: the task that started it.
        workflow_name: the workflow.
        prompt: its prompt.
        skip_transcript: True if it should not be shown.
        ambient: True if it is not a real activity.
    """

    task_id: str = ""
    run_id: str | None = None
    tool_use_id: str | None = None
    description: str = ""
    task_type: str | None = None
    subagent_type: str | None = None
    is_backgrounded: bool | None = None
    spawn_depth: Integer | None = None
    parent_task_id: str | None = None
    workflow_name: str | None = None
    prompt: str | None = None
    skip_transcript: bool | None = None
    ambient: bool | None = None


class TaskProgressMessage(SystemMessage, frozen=True, kw_only=True):
    """A task continues.

    Attributes:
        task_id: the task.
        run_id: this run of it.
        tool_use_id: the call that started it.
        description: its current step.
        subagent_type: the agent's type.
        usage: its usage so far.
        last_tool_name: the tool it used last.
        summary: its work so far.
    """

    task_id: str = ""
    run_id: str | None = None
    tool_use_id: str | None = None
    description: str = ""
    subagent_type: str | None = None
    usage: TaskUsage = msgspec.field(default_factory=TaskUsage)
    last_tool_name: str | None = None
    summary: str | None = None


class TaskUpdatedMessage(SystemMessage, frozen=True, kw_only=True):
    """A task changed.

    Attributes:
        task_id: the task.
        run_id: this run of it.
        patch: the fields that changed, by their names on the wire.
    """

    task_id: str = ""
    run_id: str | None = None
    patch: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def status(self) -> str | None:
        """The new status, if it changed: `pending`, `running`, `paused`, `completed`, `failed` or `killed`."""
        status = self.patch.get("status")
        return status if isinstance(status, str) else None


class TaskNotificationMessage(SystemMessage, frozen=True, kw_only=True):
    """A task ended.

    Attributes:
        task_id: the task.
        run_id: this run of it.
        tool_use_id: the call that started it.
        status: `completed`, `failed` or `stopped`.
        reason: `worker_restart` if it was lost.
        output_file: the file with its whole output.
        summary: its work.
        usage: its usage.
        resource_links: files that an MCP task returned.
        skip_transcript: True if it should not be shown.
        ambient: True if it was not a real activity.
    """

    task_id: str = ""
    run_id: str | None = None
    tool_use_id: str | None = None
    status: str = ""
    reason: str | None = None
    output_file: str = ""
    summary: str = ""
    usage: TaskUsage | None = None
    resource_links: list[McpResourceLink] = msgspec.field(default_factory=list)
    skip_transcript: bool | None = None
    ambient: bool | None = None


class BackgroundTask(Record, frozen=True, kw_only=True):
    """A task that runs in the background.

    Attributes:
        task_id: the task.
        run_id: this run of it.
        task_type: `local_agent`, `local_bash`, `local_workflow`, `mcp_task`, ...
        subagent_type: the agent's type.
        description: its description.
        parent_task_id: the task that started it.
        ambient: True if it is not a real activity.
    """

    task_id: str = ""
    run_id: str | None = None
    task_type: str = ""
    subagent_type: str | None = None
    description: str = ""
    parent_task_id: str | None = None
    ambient: bool | None = None


class BackgroundTasksChangedMessage(SystemMessage, frozen=True, kw_only=True):
    """Another set of tasks runs in the background now.

    Attributes:
        tasks: all of them; replaces what was known.
    """

    tasks: list[BackgroundTask] = msgspec.field(default_factory=list)


class ThinkingTokensMessage(SystemMessage, frozen=True, kw_only=True):
    """The model reasons, and its reasoning is not shown.

    Attributes:
        estimated_tokens: tokens so far, in this block.
        estimated_tokens_delta: how many more than the last time.
        user_message_uuid: the prompt.
    """

    estimated_tokens: Number = 0
    estimated_tokens_delta: Number = 0
    user_message_uuid: str | None = None


class SessionStateChangedMessage(SystemMessage, frozen=True, kw_only=True):
    """The session began or ended to work, or waits for an answer.

    Attributes:
        state: `idle`, `running` or `requires_action`.
        sdk_host_only: True if the CLI sends it because Hackamore asked for it.
    """

    state: str = ""
    sdk_host_only: bool | None = None


class WorkerShuttingDownMessage(SystemMessage, frozen=True, kw_only=True):
    """A remote worker goes away on purpose.

    Attributes:
        reason: why, in a word.
    """

    reason: str = ""


class SlashCommand(Record, frozen=True, kw_only=True, rename="camel"):
    """A slash command.

    Attributes:
        name: its name, without the slash.
        description: its purpose.
        argument_hint: the arguments that follow it.
        aliases: other names.
        builtin: True if it is part of the CLI.
    """

    name: str = ""
    description: str = ""
    argument_hint: str = ""
    aliases: list[str] = msgspec.field(default_factory=list)
    builtin: bool | None = None


class CommandsChangedMessage(SystemMessage, frozen=True, kw_only=True):
    """There are other slash commands now.

    Attributes:
        commands: all of them; replaces what was known.
    """

    commands: list[SlashCommand] = msgspec.field(default_factory=list)


class NotificationMessage(SystemMessage, frozen=True, kw_only=True):
    """A short note for the user.

    Attributes:
        key: notes with the same key replace each other.
        text: the note.
        priority: `low`, `medium`, `high` or `immediate`.
        color: the name of a colour.
        timeout_ms: how long to show it, in milliseconds.
    """

    key: str = ""
    text: str = ""
    priority: str = ""
    color: str | None = None
    timeout_ms: Number | None = None


class PersistedFile(Record, frozen=True, kw_only=True):
    """A file that was stored.

    Attributes:
        filename: its name.
        file_id: its id.
    """

    filename: str = ""
    file_id: str = ""


class FailedFile(Record, frozen=True, kw_only=True):
    """A file that could not be stored.

    Attributes:
        filename: its name.
        error: why.
    """

    filename: str = ""
    error: str = ""


class FilesPersistedMessage(SystemMessage, frozen=True, kw_only=True):
    """Files were stored, in a hosted session.

    Attributes:
        files: those that were.
        failed: those that could not be.
        processed_at: when.
    """

    files: list[PersistedFile] = msgspec.field(default_factory=list)
    failed: list[FailedFile] = msgspec.field(default_factory=list)
    processed_at: str = ""


class RecalledMemory(Record, frozen=True, kw_only=True):
    """A memory that was recalled.

    Attributes:
        path: its file, `<synthesis:DIR>`, or an address.
        scope: `personal`, `team` or `organization`.
        content: its text; None if the file contains it.
    """

    path: str = ""
    scope: str = ""
    content: str | None = None


class MemoryRecallMessage(SystemMessage, frozen=True, kw_only=True):
    """Memories were given to the model.

    Attributes:
        mode: `select` for whole files, `synthesize` for a paragraph about them.
        memories: the memories.
    """

    mode: str = ""
    memories: list[RecalledMemory] = msgspec.field(default_factory=list)


class ElicitationCompleteMessage(SystemMessage, frozen=True, kw_only=True):
    """An MCP server has got what it asked the user for.

    Attributes:
        mcp_server_name: the server.
        elicitation_id: the id of the elicitation.
    """

    mcp_server_name: str = ""
    elicitation_id: str = ""


class PermissionDeniedMessage(SystemMessage, frozen=True, kw_only=True):
    """A tool call was denied without a question. `ResultMessage.permission_denials` is the complete record.

    Attributes:
        tool_name: the tool.
        tool_use_id: the call.
        agent_id: the subagent that called it.
        decision_reason_type: the origin of the denial: `classifier`, `mode`, `rule`, ...
        decision_reason: why.
        message: the text for the model.
    """

    tool_name: str = ""
    tool_use_id: str = ""
    agent_id: str | None = None
    decision_reason_type: str | None = None
    decision_reason: str | None = None
    message: str = ""


class SessionKey(Record, frozen=True, kw_only=True, rename="camel"):
    """Where a session is kept in a store.

    Attributes:
        project_key: the project.
        session_id: the session.
        subpath: the part of it.
    """

    project_key: str = ""
    session_id: str = ""
    subpath: str | None = None


class MirrorErrorMessage(SystemMessage, frozen=True, kw_only=True):
    """A part of the transcript could not be copied to the store.

    Attributes:
        error: why.
        key: which part.
    """

    error: str = ""
    key: SessionKey | None = None


class InformationalMessage(SystemMessage, frozen=True, kw_only=True):
    """A line of text for the user.

    Attributes:
        content: the text.
        level: `info`, `notice`, `suggestion` or `warning`.
        tool_use_id: lines with the same id replace each other.
        prevent_continuation: True if the turn ends here.
        tag: the group of the line.
    """

    content: str = ""
    level: str = ""
    tool_use_id: str | None = None
    prevent_continuation: bool | None = None
    tag: str | None = None


class SessionWritesLostMessage(SystemMessage, frozen=True, kw_only=True):
    """The disk is full and something was not saved.

    Attributes:
        error_code: `ENOSPC` or `EDQUOT`.
        lost: `transcript`, `global_config`.
        transcript_session_ids: sessions that lost something.
    """

    error_code: str = ""
    lost: list[str] = msgspec.field(default_factory=list)
    transcript_session_ids: list[str] = msgspec.field(default_factory=list)


class UnknownMessage(Message, frozen=True, kw_only=True):
    """A message of a type or subtype that is not known. `data` has its content.

    Attributes:
        type: its type on the wire; empty if it has none.
        subtype: its subtype on the wire, if it has one.
    """

    type: str = msgspec.field(default="", name="(type)")
    subtype: str | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UnknownMessage):
            return NotImplemented
        return self.raw == other.raw or (self.data == other.data and self.type == other.type)

    def __hash__(self) -> int:
        return super().__hash__()


class UnknownSystemMessage(UnknownMessage, SystemMessage, frozen=True, kw_only=True):
    """A `system` message of a subtype that is not known: both a `SystemMessage` and an `UnknownMessage`."""

    wire_subtype: ClassVar[str | None] = None

    type: str = msgspec.field(default="system", name="(type)")
