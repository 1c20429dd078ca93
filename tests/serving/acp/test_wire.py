"""Lines of a client that are no requests have typed errors: wrong types, unknown methods, batches, huge lines, closed streams."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hackamore import Options
from hackamore.serving import acp
from hackamore.serving.acp import wire
from hackamore.testing import Script, SimulatedCLI
from tests.contract import shows
from tests.serving.acp.editor import piped
from tests.support.patience import patience
from tests.support.reaching import reached, reaching

pytestmark = pytest.mark.anyio

PARSE, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, NOT_FOUND = -32700, -32600, -32601, -32602, -32002
METHODS = (
    "initialize", "authenticate", "session/new", "session/load", "session/resume", "session/fork", "session/list", "session/close",
    "session/prompt", "session/set_mode", "session/set_config_option",
)  # fmt: skip


class Raw:
    """A client that writes bytes."""

    def __init__(self, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
        self._writer, self._reader = writer, reader
        self._number = 0

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def next(self) -> dict[str, Any]:
        line = await asyncio.wait_for(self._reader.readuntil(b"\n"), patience(20))
        found: dict[str, Any] = json.loads(line)
        return found

    async def ask(self, method: Any, params: Any = None) -> dict[str, Any]:
        """Send a request; return its answer, past all updates."""
        self._number += 1
        identifier = f"test {self._number}"
        message = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}
        await self.write(json.dumps(message).encode() + b"\n")
        while (answer := await self.next()).get("id") != identifier or "method" in answer:
            pass
        return answer

    async def code(self, method: Any, params: Any = None) -> int | None:
        """Return the code of the error that answers a request; None for a result."""
        answer = await self.ask(method, params)
        return answer["error"]["code"] if "error" in answer else None

    async def works(self) -> None:
        """Check that the agent still answers."""
        assert (await self.ask("initialize", {"protocolVersion": 1}))["result"]["protocolVersion"] == 1


def agent() -> Any:
    """Return an agent whose CLI answers every prompt."""
    return acp.agent(Options(), transport=SimulatedCLI(Script().user().says("Yes."), per_session=True))


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", PARSE),
        (b"\xff\xfe", PARSE),
        (b"NaN", PARSE),
        (b"[" * 100_000, PARSE),
        (b'{"id": 1' + b"0" * 10_000 + b"}", PARSE),
        (b"[]", INVALID_REQUEST),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "initialize"}]', INVALID_REQUEST),
        (b"5", INVALID_REQUEST),
        (b"null", INVALID_REQUEST),
        (b'"initialize"', INVALID_REQUEST),
        (b"{}", INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1, "method": ["a"]}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": [], "method": "initialize"}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "initialize"}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "no/such"}', NO_METHOD),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "session/delete", "params": {"sessionId": "a"}}', NO_METHOD),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "_mine"}', NO_METHOD),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": [1]}', INVALID_PARAMS),
    ],
)
async def test_a_line_that_is_no_request_has_an_error(line: bytes, code: int) -> None:
    async with agent() as served, piped(served) as streams:
        client = Raw(*streams)
        await client.write(line + b"\n")
        assert (await client.next())["error"]["code"] == code
        await client.works()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"   ",
        b'{"jsonrpc": "2.0", "id": 99, "result": {}}',
        b'{"jsonrpc": "2.0", "id": [], "result": {}}',
        b'{"jsonrpc": "2.0", "id": 0, "error": 5}',
        b'{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": 5}}',
        b'{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "unknown"}}',
        b'{"jsonrpc": "2.0", "method": "no/such"}',
    ],
)
async def test_a_line_that_needs_no_answer_has_none(line: bytes) -> None:
    async with agent() as served, piped(served) as streams:
        client = Raw(*streams)
        await client.write(line + b"\n")
        await client.works()


@shows("acp.client.errors")
async def test_methods_refuse_what_they_cannot_use(tmp_path: Path) -> None:
    here = str(tmp_path)
    async with agent() as served, piped(served) as streams:
        client = Raw(*streams)
        for method in METHODS:
            refused: tuple[Any, ...] = (None, [], 5, "x")
            for params in refused if method != "session/list" else ([], 5, "x"):
                assert await client.code(method, params) == INVALID_PARAMS, (method, params)
        new = "session/new"
        for cwd in ("relative", "/no/such/folder", f"{here}\0", 5):
            assert await client.code(new, {"cwd": cwd, "mcpServers": []}) == INVALID_PARAMS
        server = {"name": "a", "command": "true", "args": [], "env": []}
        for servers in ([server, server], [{"type": "acp", "name": "a", "id": "b"}], [5], 5):
            assert await client.code(new, {"cwd": here, "mcpServers": servers}) in {INVALID_PARAMS, None}
        assert await client.code(new, {"cwd": here, "mcpServers": [server, server]}) == INVALID_PARAMS
        assert await client.code("authenticate", {"methodId": "other"}) == INVALID_PARAMS
        for cursor in ("x", "-1", "9" * 50):
            assert await client.code("session/list", {"cursor": cursor}) == INVALID_PARAMS
        for name in ("unknown", "", "../../etc/passwd", "a" * 10_000, "\0"):
            for method in ("session/load", "session/resume", "session/fork"):
                assert await client.code(method, {"cwd": here, "sessionId": name, "mcpServers": []}) == NOT_FOUND
            assert await client.code("session/close", {"sessionId": name}) == NOT_FOUND
        session = (await client.ask(new, {"cwd": here, "mcpServers": []}))["result"]["sessionId"]
        audio = {"type": "audio", "data": "", "mimeType": "audio/wav"}
        for prompt in ([], [audio], [{"type": "odd"}], 5, [5]):
            assert await client.code("session/prompt", {"sessionId": session, "prompt": prompt}) == INVALID_PARAMS
        text = [{"type": "text", "text": "Well?"}]
        # `_meta` belongs to the client: it replaces nothing.
        asked = {"sessionId": session, "prompt": text, "_meta": {"prompt": 5, "session_id": "other"}}
        assert (await client.ask("session/prompt", asked))["result"]["stopReason"] == "end_turn"


async def test_a_huge_line_is_dropped_and_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LONGEST_LINE", 1 << 20)
    async with agent() as served, piped(served) as streams:
        client = Raw(*streams)
        for _ in range(2):
            await client.write(b'{"x": "' + b"a" * (3 << 20) + b'"}\n')
            assert (await client.next())["error"]["code"] == PARSE
            await client.works()


async def test_a_large_value_is_not_sent_back() -> None:
    async with agent() as served, piped(served) as streams:
        client = Raw(*streams)
        answer = await client.ask("session/new", {"cwd": ["x" * 500_000], "mcpServers": []})
        assert answer["error"]["code"] == INVALID_PARAMS
        assert len(json.dumps(answer)) < 10_000


async def test_a_client_that_closes_its_streams_ends_the_agent(tmp_path: Path) -> None:
    script = Script().user().says("Begun.").calls("Bash", {"command": "rm x"}).says("Late.")
    async with acp.agent(transport=SimulatedCLI(script)) as served:
        async with piped(served) as streams:
            client = Raw(*streams)
            made = await client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
            params = {"sessionId": made["result"]["sessionId"], "prompt": [{"type": "text", "text": "Go"}]}
            message = {"jsonrpc": "2.0", "id": "p", "method": "session/prompt", "params": params}
            await client.write(json.dumps(message).encode() + b"\n")
            while (await client.next()).get("method") != "session/request_permission":
                pass
        # The request is never answered. `piped` waits for the end of the agent.
        assert served.pool.stats().busy == 0


VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["cwd", "sessionId", "mcpServers", "prompt", "modeId", "configId", "value", "cursor", "_meta", "methodId"]
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | VALUES, "id": st.integers(0, 9) | VALUES},
    optional={
        "method": st.sampled_from((*METHODS, "session/cancel", "_x")) | VALUES,
        "params": st.dictionaries(FIELDS, VALUES, max_size=4) | VALUES,
        "result": VALUES,
        "error": VALUES,
    },
)


@settings(max_examples=15, deadline=None)
@reaching
@given(messages=st.lists(MESSAGES | VALUES, min_size=1, max_size=30))
def test_random_messages_leave_the_agent_at_work(messages: list[Any]) -> None:
    async def scenario() -> None:
        async with agent() as served, piped(served) as streams:
            client = Raw(*streams)
            for message in messages:
                await client.write(json.dumps(message).encode() + b"\n")
            await client.works()

    asyncio.run(scenario())
    reached()


async def test_memory_is_flat_over_ten_thousand_requests() -> None:
    async with agent() as served, piped(served) as streams:
        client = Raw(*streams)

        async def some(number: int) -> None:
            request = b'{"jsonrpc": "2.0", "id": "x", "method": "session/close", "params": {"sessionId": "unknown"}}\n'
            for _ in range(number // 100):
                await client.write(request * 100)
                for _ in range(100):
                    assert (await client.next())["error"]["code"] == NOT_FOUND

        await some(1_000)
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            await some(10_000)
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert grown < 200_000
