"""The clients that are asked. Run as a program: reads one JSON command per line from stdin, answers each with one JSON line.

A command is `{"path": ..., "counts": {"hook": 500, ...}}`: one session with the stand-in at `path`, one prompt for each kind. The
functions do the same everywhere, next to nothing, so what is measured is the way to them and back.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

Found = dict[str, list[float]]


def prompts(counts: dict[str, int]) -> list[tuple[str, str]]:
    """Return each kind and its prompt."""
    return [(kind, json.dumps({"kind": kind, "count": count})) for kind, count in counts.items()]


class Hackamore:
    """`hackamore.Session` on asyncio; every function is `async def`."""

    def __init__(self) -> None:
        import hackamore

        self.hackamore = hackamore

    def options(self, path: str) -> Any:
        hackamore = self.hackamore

        async def hook(asked: Any, context: Any) -> Any:
            return None if asked.tool_input["command"] else hackamore.HookOutput.deny("no")

        async def can_use_tool(request: Any) -> Any:
            return hackamore.Allow() if request.input["command"] else hackamore.Deny("no")

        @hackamore.tool
        async def price(article: str, amount: int) -> str:
            """Return a price."""
            return f"{article}: {2 * amount}"

        return self.with_functions(path, hook, can_use_tool, price)

    def with_functions(self, path: str, hook: Any, can_use_tool: Any, price: Any) -> Any:
        hackamore = self.hackamore
        return hackamore.Options(
            cli_path=path,
            version_check="skip",
            hooks={"PreToolUse": [hackamore.HookMatcher(hooks=[hook])]},
            can_use_tool=can_use_tool,
            mcp_servers={"bench": hackamore.tool_server("bench", [price])},
        )

    async def talk(self, path: str, counts: dict[str, int]) -> Found:
        found: Found = {}
        async with self.hackamore.Session(self.options(path)) as session:
            for kind, prompt in prompts(counts):
                turn = await session.send(prompt)
                found[kind] = json.loads((await turn.result()).result)
        return found

    def run(self, path: str, counts: dict[str, int]) -> Found:
        import asyncio

        return asyncio.run(self.talk(path, counts))


class HackamoreTrio(Hackamore):
    """The same on trio."""

    def run(self, path: str, counts: dict[str, int]) -> Found:
        import trio

        found: Found = trio.run(self.talk, path, counts)
        return found


class HackamoreObserved(Hackamore):
    """`hackamore.Session` on asyncio with telemetry: the SDK records spans, and a batch processor takes them."""

    def __init__(self) -> None:
        super().__init__()
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

        class Nowhere(SpanExporter):
            def export(self, spans: Any) -> SpanExportResult:
                return SpanExportResult.SUCCESS

        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(Nowhere()))
        self.telemetry = self.hackamore.Telemetry(provider)

    def options(self, path: str) -> Any:
        return super().options(path).replace(telemetry=self.telemetry)


class HackamoreBlocking(Hackamore):
    """`hackamore.sync.Session`; every function is plain."""

    def options(self, path: str) -> Any:
        hackamore = self.hackamore

        def hook(asked: Any, context: Any) -> Any:
            return None if asked.tool_input["command"] else hackamore.HookOutput.deny("no")

        def can_use_tool(request: Any) -> Any:
            return hackamore.Allow() if request.input["command"] else hackamore.Deny("no")

        @hackamore.tool
        def price(article: str, amount: int) -> str:
            """Return a price."""
            return f"{article}: {2 * amount}"

        return self.with_functions(path, hook, can_use_tool, price)

    def run(self, path: str, counts: dict[str, int]) -> Found:
        from hackamore.sync import Session

        found: Found = {}
        with Session(self.options(path)) as session:
            for kind, prompt in prompts(counts):
                result = session.send(prompt).result()
                assert result is not None
                found[kind] = json.loads(result.result or "")
        return found


class HackamoreThreaded(HackamoreBlocking):
    """`hackamore.Session` on asyncio with plain functions: each call runs in a thread, so that it may block."""

    def run(self, path: str, counts: dict[str, int]) -> Found:
        return Hackamore.run(self, path, counts)


class Official:
    """`ClaudeSDKClient` on asyncio; it takes `async def` functions only."""

    def __init__(self) -> None:
        import claude_agent_sdk  # type: ignore[import-not-found]

        self.package = claude_agent_sdk
        os.environ["CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK"] = "1"

    def options(self, path: str) -> Any:
        package = self.package

        async def hook(asked: Any, tool_use_id: Any, context: Any) -> Any:
            return {} if asked["tool_input"]["command"] else {"continue_": True}

        async def can_use_tool(name: str, arguments: Any, context: Any) -> Any:
            allow = package.PermissionResultAllow()
            return allow if arguments["command"] else package.PermissionResultDeny(message="no")

        async def price(arguments: Any) -> Any:
            text = f"{arguments['article']}: {2 * arguments['amount']}"
            return {"content": [{"type": "text", "text": text}]}

        declared = package.tool("price", "Return a price.", {"article": str, "amount": int})(price)
        return package.ClaudeAgentOptions(
            cli_path=path,
            hooks={"PreToolUse": [package.HookMatcher(hooks=[hook])]},
            can_use_tool=can_use_tool,
            mcp_servers={"bench": package.create_sdk_mcp_server("bench", tools=[declared])},
        )

    async def talk(self, path: str, counts: dict[str, int]) -> Found:
        found: Found = {}
        async with self.package.ClaudeSDKClient(self.options(path)) as client:
            for kind, prompt in prompts(counts):
                await client.query(prompt)
                async for message in client.receive_response():
                    if type(message).__name__ == "ResultMessage":
                        found[kind] = json.loads(message.result)
        return found

    def run(self, path: str, counts: dict[str, int]) -> Found:
        import asyncio

        return asyncio.run(self.talk(path, counts))


class OfficialTrio(Official):
    """The same on trio."""

    def run(self, path: str, counts: dict[str, int]) -> Found:
        import trio

        found: Found = trio.run(self.talk, path, counts)
        return found


CLIENTS: dict[str, type[Any]] = {
    "hackamore": Hackamore,
    "hackamore-observed": HackamoreObserved,
    "hackamore-trio": HackamoreTrio,
    "hackamore-blocking": HackamoreBlocking,
    "hackamore-threaded": HackamoreThreaded,
    "official": Official,
    "official-trio": OfficialTrio,
}


def main() -> None:
    client = CLIENTS[sys.argv[1]]()
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(client.run(command["path"], command["counts"])), flush=True)


if __name__ == "__main__":
    main()
