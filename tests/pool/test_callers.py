"""The caller of a conversation: callbacks know who it is, and its open turns end when it leaves."""

from __future__ import annotations

import contextvars
import gc
import logging
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import hackamore
import hackamore.sync
from hackamore import (
    Allow,
    ElicitationRequest,
    HookContext,
    HookMatcher,
    Options,
    PermissionRequest,
    PoolTimeoutError,
    ToolContext,
    UserDialogRequest,
    tool,
)
from hackamore.testing import Reply, Script, ScriptedModel, SimulatedCLI, ToolCall
from tests.contract import shows
from tests.pool.conftest import MakePool, say
from tests.support.patience import patience
from tests.support.shell import Shell
from tests.support.talking import Held, got, raised, until

if TYPE_CHECKING:
    from tests.conftest import RealCLI

REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("REQUEST", default="start")

Seen = list[tuple[str, Any, Any, str, Any]]


def asking(options: Options, seen: Seen, *, plain: bool) -> Options:
    """Return options whose callbacks write down who asks."""

    def note(kind: str, asked: Any) -> None:
        session = asked.session
        seen.append((kind, asked.conversation, asked.caller, REQUEST.get(), session and session.session_id))

    def allow(request: PermissionRequest) -> Allow:
        note("permission", request)
        return Allow()

    def hook(call: Any, context: Any) -> None:
        note("hook", context)

    async def allow_async(request: PermissionRequest) -> Allow:
        return allow(request)

    async def hook_async(call: Any, context: Any) -> None:
        hook(call, context)

    @tool(name="whose")
    def whose(text: str, context: ToolContext) -> str:
        """Say who asks."""
        note("tool", context)
        return "done"

    @tool(name="whose")
    async def whose_async(text: str, context: ToolContext) -> str:
        """Say who asks."""
        note("tool", context)
        return "done"

    return options.replace(
        can_use_tool=allow if plain else allow_async,
        hooks={"PreToolUse": [HookMatcher("Bash|mcp__own__whose", [hook if plain else hook_async])]},
        mcp_servers={"own": [whose if plain else whose_async]},
    )


@shows("pool.callers.known", "pool.callers.session-id", "callbacks.sender")
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
def test_callbacks_know_who_asks(shell: Shell, pool_of: MakePool, options: Options, plain: bool) -> None:
    seen: Seen = []

    async def turn(session: Any, name: str) -> None:
        REQUEST.set(f"request of {name}")
        await say(session, f"!probe {name}")

    async def scenario() -> None:
        async with Held(pool_of(options=asking(options, seen, plain=plain), warm=1, max_live=2)) as pool:
            await got(pool.wait_warm(timeout=patience(30)))
            ids = {}
            for name in ("ada", "bob"):
                async with Held(pool.conversation(name, caller={"name": name})) as session:
                    ids[name] = session.session_id
                    assert ids[name], "the pool chose it"
                    assert (session.conversation, session.caller) == (name, {"name": name})
                    await turn(session, name)
                    assert session.session_id == ids[name]
            async with Held(pool.conversation("ada")) as session:
                assert session.session_id == ids["ada"]
                await turn(session, "ada again")
            async with Held(pool.session(caller="anyone")) as session:
                await turn(session, "nobody")
                ids["nobody"] = session.session_id
        kinds = ("permission", "hook", "tool")
        assert seen == [
            *((kind, "ada", {"name": "ada"}, "request of ada", ids["ada"]) for kind in kinds),
            *((kind, "bob", {"name": "bob"}, "request of bob", ids["bob"]) for kind in kinds),
            *((kind, "ada", None, "request of ada again", ids["ada"]) for kind in kinds),
            *((kind, None, "anyone", "request of nobody", ids["nobody"]) for kind in kinds),
        ]

    shell.play(scenario)


@shows("pool.callers.known")
def test_dialogs_know_who_asks(shell: Shell, pool_of: MakePool, options: Options) -> None:
    seen: list[tuple[str, str | None, Any]] = []

    def elicited(request: ElicitationRequest) -> None:
        seen.append(("elicitation", request.conversation, request.caller))

    def shown(request: UserDialogRequest) -> None:
        seen.append(("dialog", request.conversation, request.caller))

    async def scenario() -> None:
        asked = options.replace(on_elicitation=elicited, on_user_dialog=shown, supported_dialog_kinds=["k"])
        async with Held(pool_of(options=asked, max_live=1)) as pool:
            for key, caller in (("a", "ada"), ("b", "bob"), ("a", None)):
                async with Held(pool.conversation(key, caller=caller)) as session:
                    await say(session, "!probe dialogs")
        assert seen == [
            (kind, *each) for each in (("a", "ada"), ("b", "bob"), ("a", None)) for kind in ("elicitation", "dialog")
        ]

    shell.play(scenario)


class User:
    """A caller that must not be shown anywhere."""

    def __repr__(self) -> str:
        return "SECRET-OF-THE-CALLER"

    __str__ = __repr__


@shows("pool.callers.released")
@pytest.mark.parametrize("on_leave", ["interrupt", None])
def test_the_pool_drops_a_caller_whose_work_is_over(shell: Shell, pool_of: MakePool, on_leave: Any) -> None:
    async def scenario() -> None:
        async with Held(pool_of(max_live=1)) as pool:
            user = User()
            kept = weakref.ref(user)

            def dropped() -> bool:
                gc.collect()
                return kept() is None

            async with Held(pool.conversation("a", caller=user, on_leave=on_leave)) as session:
                await got(session.send("!hang" if on_leave else "done"))
            del user, session
            await until(shell, dropped)
            assert pool.stats().idle == 1

    shell.play(scenario)


@shows("pool.callers.secret")
def test_a_caller_is_in_no_text_log_or_recording(
    shell: Shell, pool_of: MakePool, options: Options, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []
    seen: Seen = []

    def allow(request: PermissionRequest) -> Allow:
        texts.append(f"{request!r} {request.session!r} {request.data}")
        raise ValueError("a callback that fails is logged")

    def hook(call: Any, context: Any) -> None:
        texts.append(f"{context!r} {call!r}")

    @tool(name="whose")
    def whose(text: str, context: ToolContext) -> str:
        """Say who asks."""
        texts.append(repr(context))
        return "done"

    async def scenario() -> None:
        asked = asking(options, seen, plain=True).replace(
            can_use_tool=allow,
            hooks={"PreToolUse": [HookMatcher("Bash", [hook])]},
            mcp_servers={"own": [whose]},
            trace=tmp_path / "trace.jsonl",
        )
        async with Held(pool_of(options=asked, max_live=1)) as pool:
            events = pool.events()
            check_out = pool.conversation("a", caller=User())
            async with Held(check_out) as session:
                await say(session, "!probe")
                texts.append(f"{pool!r} {check_out!r} {session!r} {session.warnings!r} {pool.stats()!r}")
            texts.extend([repr(await got(events.next_item())) for _ in range(3)])

    shell.play(scenario)
    assert len(texts) == 7
    assert "a callback that fails is logged" in caplog.text
    shown = [*texts, caplog.text, (tmp_path / "trace.jsonl").read_text()]
    assert not [text for text in shown if "SECRET" in text]


@shows("pool.callers.known", "callbacks.sender")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_on_the_real_cli_callbacks_know_who_asks(backend: str, real_cli: RealCLI) -> None:
    """Six users share two processes; each of their calls is attributed to the right user."""
    seen: Seen = []
    users = [f"user-{number}" for number in range(6)]

    def play(request: Any) -> Reply:
        if request.tool_results:
            return Reply("done")
        return Reply(ToolCall("mcp__own__whose", {"text": request.prompt_text}))

    async def user(pool: hackamore.SessionPool, key: str) -> None:
        REQUEST.set(key)
        async with pool.conversation(key, caller=key.upper()) as session:
            assert session.session_id
            for number in range(2):
                (await (await session.send(f"{key}: prompt {number}")).result()).raise_for_error()

    async def scenario() -> None:
        with ScriptedModel(*[play] * (4 * len(users))) as model:
            options = Options(cli_path=real_cli.cli_path, cwd=real_cli.cwd, env=real_cli.env(model), inherit_env=False)
            pool = hackamore.SessionPool(asking(options, seen, plain=False), max_live=2, timeout=None)
            async with pool, anyio.create_task_group() as group:
                for key in users:
                    group.start_soon(user, pool, key)

    anyio.run(scenario, backend=backend)
    expected = {(kind, key, key.upper(), key) for key in users for kind in ("hook", "permission", "tool")}
    assert {found[:4] for found in seen} == expected
    assert len(seen) == 2 * len(expected)


@shows("callbacks.sender")
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
def test_outside_a_pool_callbacks_get_the_context_of_their_prompt(shell: Shell, plain: bool) -> None:
    """The second prompt is sent while the first one is open, and does not take its callbacks."""
    seen: Seen = []
    script = Script()
    for name in ("one", "two"):
        script = (
            script.user(name).calls("mcp__own__whose", {"text": name}).expect_permission("mcp__own__whose").says(name)
        )

    async def scenario() -> None:
        options = asking(Options(), seen, plain=plain)
        with SimulatedCLI(script) as cli:
            kind = hackamore.sync.Session if shell.blocking else hackamore.Session
            async with Held(kind(options, transport=cli)) as session:
                turns = []
                for name in ("one", "two"):
                    REQUEST.set(f"request of {name}")
                    turns.append(await got(session.send(name)))
                REQUEST.set("later")
                for turn in turns:
                    await got(turn.result())
        assert [(kind, request) for kind, _, _, request, _ in seen] == [
            (kind, f"request of {name}") for name in ("one", "two") for kind in ("hook", "permission", "tool")
        ]
        assert {found[1:3] for found in seen} == {(None, None)}

    shell.play(scenario)


@shows("callbacks.sender")
def test_on_the_real_cli_work_that_the_cli_starts_has_the_context_of_the_last_prompt(real_cli: RealCLI) -> None:
    seen: Seen = []
    background = ToolCall("Bash", {"command": "sleep 1", "run_in_background": True})

    async def scenario() -> None:
        steps = (Reply(background), "It runs.", Reply(ToolCall("mcp__own__whose", {"text": "t"})), "It has ended.")
        with ScriptedModel(*steps) as model:
            options = Options(cli_path=real_cli.cli_path, cwd=real_cli.cwd, env=real_cli.env(model), inherit_env=False)
            async with hackamore.Session(asking(options, seen, plain=False)) as session:
                REQUEST.set("the prompt")
                turn = await session.send("Start it.")
                REQUEST.set("later")
                await turn.result()
                await session.wait_idle(timeout=patience(60))

    anyio.run(scenario)
    assert [(kind, request) for kind, _, _, request, _ in seen if kind == "tool"] == [("tool", "the prompt")]
    assert {request for _, _, _, request, _ in seen} == {"the prompt"}


@shows("pool.callers.leave")
@pytest.mark.parametrize(
    ("on_leave", "raises", "interrupted"),
    [
        (None, True, True),
        (None, False, False),
        ("finish", True, False),
        ("interrupt", False, True),
        ("interrupt", True, True),
    ],
)
def test_open_turns_when_a_caller_leaves(
    shell: Shell, pool_of: MakePool, tmp_path: Path, on_leave: Any, raises: bool, interrupted: bool
) -> None:
    async def scenario() -> None:
        async with Held(pool_of(max_live=1)) as pool:
            try:
                async with Held(pool.conversation("a", on_leave=on_leave)) as session:
                    await got(session.send("!hang"))
                    if raises:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                pass
            if interrupted:
                async with Held(pool.conversation("b")) as session:
                    await say(session, "there is room")
                async with Held(pool.conversation("a")) as session:
                    assert (await say(session, "again"))["prompts"] == ["!hang", "again"]
            else:
                await raised(lambda: Held(pool.conversation("b", timeout=0.05)).__aenter__(), PoolTimeoutError)

    shell.play(scenario)


@shows("pool.callers.leave")
def test_background_agents_of_a_caller_that_left_end_before_the_next_one(shell: Shell, pool_of: MakePool) -> None:
    """They ask for permissions and call hooks and tools."""

    async def scenario() -> None:
        async with Held(pool_of(max_live=1)) as pool:
            async with Held(pool.conversation("a", on_leave="interrupt")) as session:
                pid = (await say(session, "!agent"))["pid"]
                assert len(session.background_tasks) == 1
            async with Held(pool.conversation("a")) as session:
                assert session.background_tasks == ()
                assert (await say(session, "again"))["pid"] == pid

    shell.play(scenario)


@shows("pool.callers.leave")
def test_on_the_real_cli_a_cancelled_caller_stops_the_model(real_cli: RealCLI) -> None:
    """A client that is gone cancels the request: the long answer ends, and the conversation goes on later."""

    async def scenario() -> None:
        long = Reply("word " * 5_000, chunk=10, delay=0.05)
        with ScriptedModel(long, "Afterwards.") as model:
            options = Options(
                cli_path=real_cli.cli_path,
                cwd=real_cli.cwd,
                env=real_cli.env(model),
                inherit_env=False,
                include_partial_messages=True,
            )
            async with hackamore.SessionPool(options, max_live=1, timeout=patience(60)) as pool:
                async with anyio.create_task_group() as group, pool.conversation("tab") as session:
                    turn = await session.send("Write a book.")
                    async for _ in turn.text_stream():
                        group.cancel_scope.cancel()
                assert pool.stats().busy == 0
                async with pool.conversation("another") as session:  # the only process is free
                    pass
                async with pool.conversation("tab") as session:
                    assert (await (await session.send("Go on.")).result()).text == "Afterwards."

    anyio.run(scenario)


def pool_on(shell: Shell, real_cli: RealCLI, model: ScriptedModel, **more: Any) -> Any:
    options = Options(cli_path=real_cli.cli_path, cwd=real_cli.cwd, env=real_cli.env(model), inherit_env=False, **more)
    kind = hackamore.sync.SessionPool if shell.blocking else hackamore.SessionPool
    return kind(options, max_live=1, timeout=patience(60))


def touch(name: str) -> Reply:
    return Reply(ToolCall("Bash", {"command": f"touch {name}", "description": "test"}))


@shows("pool.callers.leave", "pool.callers.known")
def test_on_the_real_cli_an_interrupted_turn_leaves_its_process_to_the_next_caller(
    shell: Shell, real_cli: RealCLI
) -> None:
    """The caller leaves at a permission question. The yes to it comes when the next caller has the conversation, and has no effect."""
    asked, answered = threading.Event(), threading.Event()
    seen: list[tuple[Any, str | None, Any]] = []

    def allow(request: PermissionRequest) -> Allow:
        seen.append((request.caller, request.conversation, request.input["command"]))
        if request.caller == "ada":
            asked.set()
            assert answered.wait(patience(60))
        return Allow()

    async def scenario() -> None:
        with ScriptedModel(touch("of-ada"), touch("of-bob"), "Done.") as model:
            try:
                async with Held(pool_on(shell, real_cli, model, can_use_tool=allow)) as pool:
                    async with Held(pool.conversation("a", caller="ada", on_leave="interrupt")) as session:
                        pid = session.pid
                        await got(session.send("go"))
                        await until(shell, asked.is_set)
                    async with Held(pool.conversation("a", caller="bob")) as session:
                        assert session.pid == pid
                        answered.set()
                        assert (await got((await got(session.send("go"))).result())).text == "Done."
            finally:
                answered.set()
        assert seen == [("ada", "a", "touch of-ada"), ("bob", "a", "touch of-bob")]
        assert [path.name for path in real_cli.cwd.glob("of-*")] == ["of-bob"]

    shell.play(scenario)


@shows("pool.callers.known")
def test_on_the_real_cli_a_caller_that_left_work_behind_is_not_taken_for_the_next_one(
    shell: Shell, real_cli: RealCLI
) -> None:
    """The hook of a change of the model runs without a prompt."""
    began, read = threading.Event(), threading.Event()
    seen: list[tuple[str, str | None, Any]] = []

    def hook(event: Any, context: HookContext) -> None:
        seen.append((event.hook_event_name, context.conversation, context.caller))

    def slow(_: Any) -> Reply:
        began.set()
        assert read.wait(patience(60))
        return Reply("For ada.")

    async def scenario() -> None:
        hooks = {name: [HookMatcher(None, [hook])] for name in ("Stop", "PreModelSwitch")}
        with ScriptedModel(slow) as model:
            try:
                async with Held(pool_on(shell, real_cli, model, hooks=hooks)) as pool:
                    async with Held(pool.conversation("a", caller="ada", on_leave="finish")) as session:
                        await got(session.send("go"))
                        await until(shell, began.is_set)
                    async with Held(pool.conversation("a", caller="bob")) as session:
                        read.set()
                        await got(session.wait_idle())
                        await got(session.set_model("claude-sonnet-4-5"))
            finally:
                read.set()
        assert seen == [("Stop", "a", "ada"), ("PreModelSwitch", "a", "bob")]

    shell.play(scenario)


def test_bad_arguments_of_a_check_out(shell: Shell, pool_of: MakePool) -> None:
    async def scenario() -> None:
        async with Held(pool_of()) as pool:
            with pytest.raises(ValueError, match="`on_leave` must be 'interrupt', 'finish' or None, got 'stop'"):
                pool.conversation("a", on_leave="stop")

    shell.play(scenario)
