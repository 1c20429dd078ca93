"""Inputs of the events of task lists, servers, settings and files."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from bridle.hooks.base import HookInput
from bridle.messages.base import NO_RAW, plain
from bridle.messages.lazy import decoded_once

__all__ = [
    "ConfigChangeHookInput",
    "CwdChangedHookInput",
    "DirectoryAddedHookInput",
    "ElicitationHookInput",
    "ElicitationResultHookInput",
    "FileChangedHookInput",
    "InstructionsLoadedHookInput",
    "TaskCompletedHookInput",
    "TaskCreatedHookInput",
    "TeammateIdleHookInput",
    "WorktreeCreateHookInput",
    "WorktreeRemoveHookInput",
]


class TeammateIdleHookInput(HookInput, frozen=True, kw_only=True):
    """A teammate has nothing to do.

    Attributes:
        teammate_name: who.
        team_name: the team; deprecated by the CLI.
    """

    teammate_name: str = ""
    team_name: str | None = None


class _OfTask(HookInput, frozen=True, kw_only=True):
    task_id: str = ""
    task_subject: str = ""
    task_description: str | None = None
    teammate_name: str | None = None
    team_name: str | None = None


class TaskCreatedHookInput(_OfTask, frozen=True, kw_only=True):
    """An item was added to the task list.

    Attributes:
        task_id: the item.
        task_subject: its title.
        task_description: its text.
        teammate_name: who has it.
        team_name: the team; deprecated by the CLI.
    """


class TaskCompletedHookInput(_OfTask, frozen=True, kw_only=True):
    """An item of the task list was completed.

    Attributes:
        task_id: the item.
        task_subject: its title.
        task_description: its text.
        teammate_name: who has it.
        team_name: the team; deprecated by the CLI.
    """


class ElicitationHookInput(HookInput, frozen=True, kw_only=True):
    """A server asks the user for something.

    Attributes:
        mcp_server_name: the server.
        message: what it says.
        mode: `form` or `url`.
        url: the page to open, in mode `url`.
        elicitation_id: the question, in mode `url`.
        requested_schema_raw: the exact bytes of the form's JSON schema.
    """

    mcp_server_name: str = ""
    message: str = ""
    mode: str | None = None
    url: str | None = None
    elicitation_id: str | None = None
    requested_schema_raw: Raw = msgspec.field(default=NO_RAW, name="requested_schema")

    @decoded_once
    def requested_schema(self) -> Any:
        """The form's JSON schema; None without one."""
        return plain(self.requested_schema_raw) if self.requested_schema_raw else None


class ElicitationResultHookInput(HookInput, frozen=True, kw_only=True):
    """The user has answered a server.

    Attributes:
        mcp_server_name: the server.
        elicitation_id: the question.
        mode: `form` or `url`.
        action: `accept`, `decline` or `cancel`.
        content_raw: the exact bytes of the form's values.
    """

    mcp_server_name: str = ""
    elicitation_id: str | None = None
    mode: str | None = None
    action: str = ""
    content_raw: Raw = msgspec.field(default=NO_RAW, name="content")

    @decoded_once
    def content(self) -> Any:
        """The form's values; None without any."""
        return plain(self.content_raw) if self.content_raw else None


class ConfigChangeHookInput(HookInput, frozen=True, kw_only=True):
    """Settings or skills have changed.

    Attributes:
        source: which: `user_settings`, `project_settings`, `local_settings`, `policy_settings` or `skills`.
        file_path: the file.
    """

    source: str = ""
    file_path: str | None = None


class InstructionsLoadedHookInput(HookInput, frozen=True, kw_only=True):
    """A file with instructions was loaded.

    Attributes:
        file_path: the file.
        memory_type: `User`, `Project`, `Local` or `Managed`.
        load_reason: why.
        globs: the patterns it is for.
        trigger_file_path: the file that made it load.
        parent_file_path: the file that includes it.
    """

    file_path: str = ""
    memory_type: str = ""
    load_reason: str = ""
    globs: list[str] | None = None
    trigger_file_path: str | None = None
    parent_file_path: str | None = None


class WorktreeCreateHookInput(HookInput, frozen=True, kw_only=True):
    """A worktree is to be created.

    Attributes:
        name: its name.
    """

    name: str = ""


class WorktreeRemoveHookInput(HookInput, frozen=True, kw_only=True):
    """A worktree is to be removed.

    Attributes:
        worktree_path: its folder.
    """

    worktree_path: str = ""


class CwdChangedHookInput(HookInput, frozen=True, kw_only=True):
    """The working directory has changed.

    Attributes:
        old_cwd: the old one.
        new_cwd: the new one.
    """

    old_cwd: str = ""
    new_cwd: str = ""


class FileChangedHookInput(HookInput, frozen=True, kw_only=True):
    """A watched file has changed.

    Attributes:
        file_path: the file.
        event: `change`, `add` or `unlink`.
    """

    file_path: str = ""
    event: str = ""


class DirectoryAddedHookInput(HookInput, frozen=True, kw_only=True):
    """A working directory was added.

    Attributes:
        directory: the folder.
        source: `slash_command` or `register_repo_root`.
    """

    directory: str = ""
    source: str = ""
