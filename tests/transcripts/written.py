"""Sessions that the real CLI writes: tools, subagents, background tasks, compaction, interrupts, forks, renames, worktrees, odd folders.

`write_all(cli, folder)` makes a configuration folder with one session of each kind; the model is scripted.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import hackamore.sync
from hackamore import Options
from hackamore.testing import Repeat, Reply, ScriptedModel, Stall, ToolCall

if TYPE_CHECKING:
    from pathlib import Path

LONG = "/".join(f"a long name {number} {'x' * 50}" for number in range(4))
ODD = "sp ace.(dot)_[x]'q \u00e9\U0001f600"


@dataclass
class Written:
    """A configuration folder, and the session id of each kind of conversation."""

    config: Path
    work: Path
    ids: dict[str, str] = field(default_factory=dict)


def write_all(cli: str, folder: Path) -> Written:
    written = Written(folder / "claude-config", folder / "work")
    written.work.mkdir(parents=True)

    def options(model: ScriptedModel, cwd: Path | None = None, **more: Any) -> Options:
        env = {name: value for name, value in model.isolated_env(folder).items() if value is not None}
        env = {"PATH": os.defpath, "LANG": "C.UTF-8", "IS_SANDBOX": "1", **env}
        given: dict[str, Any] = {"allowed_tools": ["Bash", "Agent", "Task"], **more}
        return Options(cli_path=cli, cwd=cwd or written.work, env=env, inherit_env=False, **given)

    def bash(command: str, **more: Any) -> ToolCall:
        return ToolCall("Bash", {"command": command, **more})

    two = Reply(bash("echo one"), bash("echo two"))
    with ScriptedModel(Reply(bash("echo hi")), "Said hi.", two, "Both done.", Repeat("More.")) as model:
        with hackamore.sync.Session(options(model)) as session:
            for prompt in ("Say hi", "Say both", "And \u00e9?"):
                written.ids["tools"] = session.send(prompt).result().session_id or ""
        fork = hackamore.sync.run("A fork", options(model, resume=written.ids["tools"], fork_session=True))
        written.ids["fork"] = fork.session_id or ""
        with hackamore.sync.Session(options(model, resume=written.ids["tools"])) as session:
            session.send("Resumed").result()
    agent = {
        "description": "Look",
        "prompt": "Look around.",
        "subagent_type": "general-purpose",
        "run_in_background": False,
    }
    with ScriptedModel(
        Reply(ToolCall("Agent", agent)),
        "It looked.",
        subagents={"*": [Reply(bash("echo sub"), bash("echo other")), "Seen."]},
    ) as model:
        written.ids["subagent"] = hackamore.sync.run("Delegate", options(model)).session_id or ""
    fields = {"customTitle": "no title", "gitBranch": "no branch", "tag": "no tag", "lastPrompt": "no prompt"}
    with ScriptedModel(Reply(bash("echo fields", **fields)), "Not mine.") as model:
        written.ids["fields"] = hackamore.sync.run("With fields", options(model)).session_id or ""
    started = Reply(bash("sleep 0.2", run_in_background=True))
    with ScriptedModel(started, Repeat("Started.")) as model, hackamore.sync.Session(options(model)) as session:
        written.ids["background"] = session.send("In the background").result().session_id or ""
        session.finish()
    with (
        ScriptedModel(Repeat("Fine."), compaction="A short talk.") as model,
        hackamore.sync.Session(options(model)) as session,
    ):
        for prompt in ("One", "Two", "/compact", "Three"):
            written.ids["compaction"] = session.send(prompt).result().session_id or ""
    stall = Stall(then=Reply("Partly answered."), after_events=3)
    with ScriptedModel("First.", stall, Repeat("After.")) as model, hackamore.sync.Session(options(model)) as session:
        session.send("Before").result()
        turn = session.send("Interrupted")
        stall.wait_started()
        session.interrupt()
        for _ in turn:
            pass
        written.ids["interrupt"] = session.send("Afterwards").result().session_id or ""
    with ScriptedModel(Repeat("Named.")) as model:
        with hackamore.sync.Session(options(model)) as session:
            written.ids["rename"] = session.send("Name it").result().session_id or ""
            session.rename_session('A "title" \u00e9')
        for kind, name in (("odd", ODD), ("long", LONG)):
            (folder / name).mkdir(parents=True)
            written.ids[kind] = hackamore.sync.run(f"In {kind}", options(model, folder / name)).session_id or ""
        repository, tree = folder / "repository", folder / "work tree"
        repository.mkdir()
        git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org"]
        for command in (
            ["init", "-q"],
            ["commit", "-q", "--allow-empty", "-m", "x"],
            ["worktree", "add", "-q", "-b", "side", str(tree)],
        ):
            subprocess.run([*git, *command], cwd=repository, check=True, timeout=30)
        written.ids["repository"] = hackamore.sync.run("In the repository", options(model, repository)).session_id or ""
        written.ids["worktree"] = hackamore.sync.run("In the worktree", options(model, tree)).session_id or ""
    return written
