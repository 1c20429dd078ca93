"""A program for both packages: `generated.py SEED FIRST COUNT CLI FOLDER` runs generated conversations, each from its number and the seed.

It prints a line of JSON for each: the messages, the calls of its callbacks, the frames and arguments that the CLI got, and the requests
that the model got. `plan` says what a conversation consists of; nothing in it depends on the package.
"""

from __future__ import annotations

import dataclasses
import getpass
import json
import os
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import anyio
import claude_agent_sdk as sdk  # type: ignore[import-not-found,unused-ignore]
from claude_agent_sdk.types import PermissionRuleValue  # type: ignore[import-not-found,unused-ignore]

from hackamore.testing import HTTPFailure, Repeat, Reply, ScriptedModel, Thinking, ToolCall
from hackamore.testing.model.steps import UntilInterrupted

WORDS = (
    "anvil",
    "Blåbær",
    "c'est",
    "-- d",
    "e\nf",
    "“g”",
    "\u2028h",
    "🐴",
    "j\tk",
    "<l>",
    "$M",
    "@n",
    "\\o",
    "p" * 300,
)
LIMIT_SECONDS = float(os.environ.get("GENERATED_LIMIT_SECONDS", "60"))
TEE = """\
#!/usr/bin/env bash
printf '%s\\0' "$@" $'\\1' >>"$FRAMES.argv"
exec 3<&0
exec CLI "$@" < <(exec tee -a "$FRAMES" <&3)
"""
"""Stands for the CLI: keeps its arguments and its input, and is replaced by it."""

OPTIONS: dict[str, list[Any]] = {
    "model": ["sonnet", "haiku", "opus", "claude-sonnet-4-5"],
    "fallback_model": ["haiku"],
    "system_prompt": [
        "Answer.",
        "",
        {"type": "preset", "preset": "claude_code"},
        {"type": "preset", "preset": "claude_code", "append": "Be brief."},
        {"type": "preset", "preset": "claude_code", "exclude_dynamic_sections": True},
    ],
    "max_turns": [1, 2, 20],
    "max_budget_usd": [0.0001, 10.0],
    "include_partial_messages": [True],
    "include_hook_events": [True],
    "permission_mode": ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"],
    "allowed_tools": [["Bash"], ["Bash(echo:*)", "Read", "mcp__shop__price"], ["mcp__shop"]],
    "disallowed_tools": [["Bash"], ["WebSearch", "Bash(rm:*)"]],
    "tools": [["Bash", "Read"], [], {"type": "preset", "preset": "claude_code"}],
    "setting_sources": [[], ["user"], ["user", "project", "local"]],
    "settings": ['{"permissions": {"deny": ["Read"]}}', '{"env": {"GREETING": "hello"}}'],
    "add_dirs": [["/usr/share"], ["/usr/share", "/opt"]],
    "thinking": [{"type": "enabled", "budget_tokens": 2000}, {"type": "adaptive"}, {"type": "disabled"}],
    "max_thinking_tokens": [1500],
    "effort": ["low", "high"],
    "extra_args": [{"debug-to-stderr": None}, {"name": "a name"}],
    "env": [{"GREETING": "hi"}],
    "betas": [["context-1m-2025-08-07"]],
    "enable_file_checkpointing": [True],
    "strict_mcp_config": [True],
    "user": [getpass.getuser()],
    "verbatim_prompts": [True],
    "forward_subagent_text": [True],
    "skills": ["all", [], ["review"]],
    "sandbox": [{"enabled": False}],
    "task_budget": [{"total": 50_000}],
    "client_app": ["tests/1.0"],
    "session_id": ["3c1ff7f0-5d0b-4f6f-9e65-3a1d2f6f4a10"],
}
SOME_TOOLS: tuple[Any, ...] = (
    [("Bash", {"command": "echo hello", "description": "greets"})],
    [("Bash", {"command": "ls /nowhere-at-all", "description": "fails"})],
    [("Bash", {"command": "rm -rf build", "description": "removes"})],
    [("Read", {"file_path": "/nowhere/at/all.txt"})],
    [("Write", {"file_path": "{cwd}/new.txt", "content": "one\ntwo\n"})],
    [("mcp__shop__price", {"article": "tea", "pieces": 2})],
    [("mcp__shop__price", {"article": "tea"})],
    [("mcp__shop__broken", {})],
    [("mcp__shop__refuses", {"why": "no"})],
    [("mcp__shop__picture", {})],
    [("mcp__shop__price", {"article": "a", "pieces": 1}), ("Write", {"file_path": "{cwd}/b.txt", "content": "b"})],
    [("Unknown", {"x": 1})],
    [("TodoWrite", {"todos": [{"content": "a", "status": "pending", "activeForm": "doing a"}]})],
)
TURNS = (
    "text",
    "text",
    "text",
    "thinking",
    "tools",
    "tools",
    "tools",
    "api error",
    "retried",
    "command",
    "interrupted",
)
HOOKS: dict[str, list[dict[str, Any]]] = {
    "PreToolUse": [
        {},
        {"decision": "block", "reason": "blocked"},
        {"systemMessage": "noted", "suppressOutput": True},
        {"continue_": False, "stopReason": "enough"},
        {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": "not now",
            }
        },
        {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}},
        {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "ask",
                "permissionDecisionReason": "ask them",
            }
        },
        {"hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": "noted"}},
        {"async_": True, "asyncTimeout": 1000},
    ],
    "PostToolUse": [
        {},
        {"decision": "block", "reason": "look again"},
        {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "it took long"}},
        {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedMCPToolOutput": "another output"}},
    ],
    "PostToolUseFailure": [
        {},
        {"hookSpecificOutput": {"hookEventName": "PostToolUseFailure", "additionalContext": "try again"}},
    ],
    "UserPromptSubmit": [
        {},
        {"decision": "block", "reason": "not this prompt"},
        {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "it is Monday"}},
        {"continue_": False, "stopReason": "closed"},
    ],
    "Stop": [{}, {"decision": "block", "reason": "Go on."}, {"systemMessage": "stopped"}],
    "PermissionRequest": [
        {},
        {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}},
        {
            "hookSpecificOutput": {
                "hookEventName": "PermissionRequest",
                "decision": {"behavior": "deny", "message": "no"},
            }
        },
    ],
    "SubagentStart": [{}],
    "SubagentStop": [{}],
    "Notification": [{}],
    "PreCompact": [{}],
}
PERMISSIONS = ("allow", "allow changed", "allow with rules", "allow with mode", "deny", "deny and interrupt")
CONTROLS = ("mode", "model", "mcp status", "context", "info", "interrupt nothing", "toggle", "no such server")


def text_of(chance: Random) -> str:
    text = " ".join(chance.choices(WORDS, k=chance.randint(1, 6)))
    return text if chance.random() < 0.97 else (text * 2000)[:100_000]  # longer than the pipe


def plan(seed: int, number: int) -> dict[str, Any]:
    """Return a conversation, in values that JSON has."""
    chance = Random(f"{seed} {number}")
    client = chance.random() < 0.6
    options = {name: chance.choice(OPTIONS[name]) for name in chance.sample(sorted(OPTIONS), chance.randint(0, 5))}
    if "thinking" in options:
        options.pop("max_thinking_tokens", None)
    hooks = [
        (
            event,
            chance.choice([None, None, "Bash|Write", "mcp__.*"]),
            chance.choice(HOOKS[event]),
            chance.choice([None, None, 30]),
        )
        for event in chance.sample(
            sorted(HOOKS), chance.choice([0, 0, 1, 2, 3])
        )  # two of one event would answer in any order
    ]
    structured = not client and chance.random() < 0.2
    turns = []
    for _ in range(chance.randint(1, 3) if client else 1):
        kind = "structured" if structured else chance.choice(TURNS if client else TURNS[:-1])
        calls = chance.choices(SOME_TOOLS, k=chance.randint(1, 2)) if kind == "tools" else []
        turn: dict[str, Any] = {"kind": kind, "prompt": text_of(chance), "answer": text_of(chance), "calls": calls}
        turn["streamed"] = chance.random() < 0.3
        turn["status"] = chance.choice([402, 403, 413])
        turn["chunk"] = chance.choice([None, 7])
        turn["events"] = chance.randint(0, 5) if options.get("include_partial_messages") else 0
        turn["controls"] = chance.sample(CONTROLS, 1) if client and chance.random() < 0.4 else []
        if kind == "command":
            turn["prompt"] = chance.choice(["/cost", "/context", "/no-such-command", "/model haiku"])
        if turn["streamed"] and chance.random() < 0.3:
            turn["blocks"] = True
        turns.append(turn)
    if not client and turns[0]["streamed"] and turns[0]["kind"] == "text" and chance.random() < 0.6:
        turns.append({**turns[0], "prompt": text_of(chance), "answer": text_of(chance)})
    agent = chance.random() < 0.12 and not structured
    # The CLI asks a hook of `PermissionRequest` and the callback at the same time, and takes the first answer.
    decides = any(event == "PermissionRequest" and output for event, _, output, _ in hooks)
    if agent or any(turn["calls"] for turn in turns) or structured:
        options.pop("max_budget_usd", None)  # the run would end while a call is open: it may be answered or not
    return {
        "backend": chance.choice(["asyncio", "asyncio", "trio"]),
        "client": client,
        "at_connect": client and chance.random() < 0.2,
        "options": options,
        "hooks": hooks,
        "permission": None if decides else chance.choice([None, *PERMISSIONS]),
        "shop": chance.random() < 0.6 or any("mcp__" in str(turn["calls"]) for turn in turns),
        "structured": structured,
        "agent": agent,
        "again": chance.choice(["continue", "resume", "fork"]) if not client and chance.random() < 0.2 else None,
        "store": chance.random() < 0.1,
        "turns": turns,
    }


class Run:
    """One conversation: its callbacks, and what is seen of it."""

    def __init__(self, wanted: dict[str, Any], cwd: Path) -> None:
        self.plan, self.cwd = wanted, cwd
        self.messages: list[Any] = []
        self.called: list[Any] = []
        self.stalls: list[UntilInterrupted] = []
        self.store: Any = None

    def show(self, message: Any) -> None:
        self.messages.append([type(message).__name__, dataclasses.asdict(message)])

    # -- the model ----------------------------------------------------------------------------------------------------

    def steps(self) -> list[Any]:
        steps: list[Any] = []
        for turn in self.plan["turns"]:
            answer = Reply(turn["answer"], chunk=turn["chunk"])
            match turn["kind"]:
                case "thinking":
                    steps.append(Reply(Thinking("I think."), turn["answer"]))
                case "tools":
                    steps += [
                        Reply(*(ToolCall(name, self.here(given)) for name, given in calls)) for calls in turn["calls"]
                    ]
                    steps.append(answer)
                case "structured":
                    steps.append(Reply(ToolCall("StructuredOutput", {"title": turn["answer"], "severity": 3})))
                case "api error":
                    steps.append(HTTPFailure(turn["status"], message=f"It broke: {turn['status']}"))
                case "retried":
                    steps += [HTTPFailure(529, retry_after=0), answer]
                case "interrupted":
                    reply = Reply(turn["answer"] + " and on", chunk=3)
                    self.stalls.append(UntilInterrupted(reply, after_events=turn["events"]))
                    steps.append(self.stalls[-1])
                case "text":
                    steps.append(answer)
        if self.plan["agent"]:
            task = {"description": "d", "prompt": "Look.", "subagent_type": "looker", "run_in_background": False}
            steps.insert(0, Reply(ToolCall("Agent", task)))
        return [*steps, Repeat("Over.")]

    def here(self, given: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value.replace("{cwd}", str(self.cwd)) if isinstance(value, str) else value
            for name, value in given.items()
        }

    # -- callbacks ----------------------------------------------------------------------------------------------------

    def options(self, **more: Any) -> Any:
        given = {
            **self.plan["options"],
            "cwd": str(self.cwd),
            "cli_path": str(self.cwd.parent.parent / "claude"),
            **more,
        }
        given["env"] = {**given.get("env", {}), "FRAMES": os.environ["FRAMES"]}
        if self.plan["shop"]:
            given["mcp_servers"] = {"shop": self.shop()}
        if self.plan["hooks"]:
            hooks: dict[str, list[Any]] = {}
            given["hooks"] = hooks
            for event, matcher, output, timeout in self.plan["hooks"]:
                one = sdk.HookMatcher(matcher=matcher, hooks=[partial(self.hook, event, output)], timeout=timeout)
                hooks.setdefault(event, []).append(one)
        if self.plan["permission"]:
            given["can_use_tool"] = self.decide
        if self.plan["structured"]:
            properties = {"title": {"type": "string"}, "severity": {"type": "integer"}}
            schema = {"type": "object", "properties": properties, "required": ["title"]}
            given["output_format"] = {"type": "json_schema", "schema": schema}
        if self.plan["agent"]:
            given["agents"] = {"looker": sdk.AgentDefinition(description="looks", prompt="You look.", tools=["Read"])}
        if self.plan["store"]:
            self.store = self.store or sdk.InMemorySessionStore()
            given["session_store"] = self.store
            given.pop("enable_file_checkpointing", None)  # the two exclude each other
        return sdk.ClaudeAgentOptions(**given)

    async def hook(self, event: str, output: dict[str, Any], data: Any, tool_use_id: Any, context: Any) -> Any:
        self.called.append(["hook", event, data, tool_use_id, context])
        return {} if event == "Stop" and data.get("stop_hook_active") else output

    async def decide(self, name: str, given: dict[str, Any], context: Any) -> Any:
        self.called.append(["permission", name, given, dataclasses.asdict(context)])
        match self.plan["permission"]:
            case "allow changed":
                changed = {**given, "command": "echo changed"} if name == "Bash" else given
                return sdk.PermissionResultAllow(updated_input=changed)
            case "allow with rules":
                rule = PermissionRuleValue(tool_name=name, rule_content=None)
                update = sdk.PermissionUpdate(type="addRules", rules=[rule], behavior="allow", destination="session")
                return sdk.PermissionResultAllow(updated_permissions=[update])
            case "allow with mode":
                update = sdk.PermissionUpdate(type="setMode", mode="acceptEdits", destination="session")
                return sdk.PermissionResultAllow(updated_permissions=[update, *context.suggestions])
            case "deny":
                return sdk.PermissionResultDeny(message=f"Not {name}.")
            case "deny and interrupt":
                return sdk.PermissionResultDeny(message="Stop.", interrupt=True)
        return sdk.PermissionResultAllow()

    def shop(self) -> Any:
        @sdk.tool("price", "Returns a price.", {"article": str, "pieces": int})  # type: ignore[untyped-decorator,unused-ignore]
        async def price(given: dict[str, Any]) -> dict[str, Any]:
            self.called.append(["tool", "price", given])
            return {"content": [{"type": "text", "text": f"{given['article']}: {given['pieces'] * 2.5}"}]}

        @sdk.tool("broken", "Fails.", {})  # type: ignore[untyped-decorator,unused-ignore]
        async def broken(given: dict[str, Any]) -> dict[str, Any]:
            raise LookupError("the shelf is empty")

        @sdk.tool("refuses", "Refuses.", {"type": "object", "properties": {"why": {"type": "string"}}})  # type: ignore[untyped-decorator,unused-ignore]
        async def refuses(given: dict[str, Any]) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": given["why"]}], "is_error": True}

        @sdk.tool("picture", "Shows.", {})  # type: ignore[untyped-decorator,unused-ignore]
        async def picture(given: dict[str, Any]) -> dict[str, Any]:
            dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
            return {
                "content": [{"type": "image", "data": dot, "mimeType": "image/png"}, {"type": "text", "text": "a dot"}]
            }

        return sdk.create_sdk_mcp_server("shop", version="2.0", tools=[price, broken, refuses, picture])

    # -- the conversation ---------------------------------------------------------------------------------------------

    async def frames(self, *turns: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        for turn in turns:
            content: Any = turn["prompt"]
            if turn.get("blocks"):
                content = [{"type": "text", "text": content}, {"type": "text", "text": "and more"}]
            yield {"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": None}

    def prompt(self, *turns: dict[str, Any]) -> Any:
        return self.frames(*turns) if turns[0]["streamed"] else turns[0]["prompt"]

    async def play(self) -> None:
        try:
            with anyio.fail_after(LIMIT_SECONDS):
                await (self.converse() if self.plan["client"] else self.ask())
        except Exception as error:
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            self.messages.append(["raised", type(error).__name__, str(error)])
        if self.store is not None:
            project = sdk.project_key_for_directory(self.cwd)
            for session in await self.store.list_sessions(project):
                entries = await self.store.load({"project_key": project, "session_id": session["session_id"]})
                kinds = [
                    entry.get("type") for entry in entries or ()
                ]  # the CLI writes those of other types when it has time
                self.called.append(["store", [kind for kind in kinds if kind in ("user", "assistant", "system")]])

    async def ask(self) -> None:
        more: dict[str, Any] = {}
        try:
            async for message in sdk.query(prompt=self.prompt(*self.plan["turns"]), options=self.options()):
                self.show(message)
                more = (
                    {"resume": getattr(message, "session_id", None)} if isinstance(message, sdk.ResultMessage) else more
                )
        except Exception as error:
            self.messages.append(["raised", type(error).__name__, str(error)])
        if not self.plan["again"] or not more:
            return
        self.messages.append(["again"])
        more = {"continue_conversation": True} if self.plan["again"] == "continue" else more
        if self.plan["again"] == "fork":
            more["fork_session"] = True
        elif "session_id" in self.plan["options"]:
            more["session_id"] = None
        async for message in sdk.query(prompt="And now?", options=self.options(**more)):
            self.show(message)

    async def converse(self) -> None:
        client = sdk.ClaudeSDKClient(self.options())
        first, *others = self.plan["turns"]
        try:
            if self.plan["at_connect"] and not first["streamed"]:
                await client.connect(first["prompt"])
            else:
                await client.connect()
                await client.query(self.prompt(first))
            await self.listen(client, first)
            for turn in others:
                await client.query(self.prompt(turn))
                await self.listen(client, turn)
        finally:
            with anyio.CancelScope(shield=True):
                await client.disconnect()

    async def listen(self, client: Any, turn: dict[str, Any]) -> None:
        async with anyio.create_task_group() as tasks:
            if self.stalls:  # a hook can have the model reach it in another turn
                tasks.start_soon(self.interrupt, client, self.stalls[0])
            async for message in client.receive_response():
                self.show(message)
                if isinstance(message, sdk.ResultMessage):
                    break
            tasks.cancel_scope.cancel()
        for name in turn["controls"]:
            await self.control(client, name)

    async def interrupt(self, client: Any, stall: UntilInterrupted) -> None:
        while not stall.started.is_set():
            await anyio.sleep(0.02)
        self.stalls.remove(stall)
        if self.plan["options"].get("include_partial_messages"):  # all of it has come
            while self.events_of_last_reply() < stall.after_events:
                await anyio.sleep(0.02)
        await client.interrupt()

    def events_of_last_reply(self) -> int:
        events = [message[1]["event"]["type"] for message in self.messages if message[0] == "StreamEvent"]
        ends = [place for place, kind in enumerate(events, 1) if kind == "message_stop"]
        return len(events) - (ends[-1] if ends else 0)

    async def control(self, client: Any, name: str) -> None:
        answer: Any = None
        try:
            match name:
                case "mode":
                    await client.set_permission_mode("acceptEdits")
                case "model":
                    await client.set_model("haiku")
                case "mcp status":
                    answer = await client.get_mcp_status()
                case "context":
                    answer = await client.get_context_usage()
                case "info":
                    answer = await client.get_server_info()
                case "interrupt nothing":
                    await client.interrupt()
                case "toggle":
                    await client.toggle_mcp_server("shop", False)
                case "no such server":
                    await client.reconnect_mcp_server("no-such-server")
        except Exception as error:
            answer = ["raised", str(error)]  # its class is a listed difference
        self.messages.append(["control", name, answer])


def run(seed: int, number: int, folder: Path) -> dict[str, Any]:
    place = folder / str(number)
    cwd = place / "work"
    cwd.mkdir(parents=True)
    (cwd / "note.txt").write_text("a note\n")
    wanted = plan(seed, number)
    one = Run(json.loads(json.dumps(wanted)), cwd)
    frames = place / "frames"
    frames.touch()
    subagents = {"*": Repeat("Seen.")}
    model = ScriptedModel(*one.steps(), subagents=subagents).start()
    os.environ["FRAMES"] = str(frames)
    os.environ.update({name: value for name, value in model.isolated_env(place).items() if value is not None})
    backend = wanted["backend"]
    try:
        anyio.run(one.play, backend=backend)
    finally:
        model.close()
    words = Path(f"{frames}.argv").read_text(encoding="utf-8") if Path(f"{frames}.argv").exists() else ""
    return {
        "number": number,
        "messages": one.messages,
        "called": one.called,
        "frames": [json.loads(line) for line in frames.read_bytes().split(b"\n") if line],
        "argv": [part.split("\0")[:-1] for part in words.split("\1\0")[:-1]],
        "requests": [
            {
                "kind": request.kind,
                **{
                    name: request.body.get(name)
                    for name in ("model", "system", "messages", "tools", "thinking", "max_tokens")
                },
            }
            for request in model.requests_of("main", "subagent")
        ],
    }


def main(seed: int, first: int, count: int, cli: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    tee = folder / "claude"
    tee.write_text(TEE.replace("CLI", cli), encoding="utf-8")
    tee.chmod(0o755)
    for number in range(first, first + count):
        print(json.dumps(run(seed, number, folder), default=str), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
