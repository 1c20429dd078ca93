"""How much later the first text of an answer is at a client of AG-UI than at a `Session`, in one program.

A simulated CLI answers at once, so that the difference is that of the app, of uvicorn and of a loopback connection. Turns of both kinds
alternate, each in a conversation of its own that is already open. `python bench/agui.py --turns 200` prints the medians and the difference.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import statistics
import time

import uvicorn

from hackamore import Options, Session, SessionPool
from hackamore.serving import agui
from hackamore.testing import Script, SimulatedCLI

TEXT = "Once upon a time there was a horse."


async def beside(session: Session) -> float:
    started = time.perf_counter()
    turn = await session.send("Go.")
    async for _ in turn.text_stream():
        break
    seconds = time.perf_counter() - started
    await turn.result()
    return seconds


async def through(port: int, number: int) -> float:
    body = json.dumps(
        {"threadId": "t", "runId": f"r{number}", "messages": [{"id": "1", "role": "user", "content": "Go."}]}
    ).encode()
    head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    started = time.perf_counter()
    writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
    await reader.readuntil(b"TEXT_MESSAGE_CONTENT")
    seconds = time.perf_counter() - started
    await reader.read()
    writer.close()
    await writer.wait_closed()
    return seconds


async def main(turns: int) -> None:
    script = Script(forever=True).user().says(TEXT, chunk=4)
    options = Options(include_partial_messages=True)
    cli = SimulatedCLI(script, per_session=True, time_scale=0)
    async with SessionPool(options, transport=cli, warm=0) as pool, Session(options, transport=cli) as session:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = uvicorn.Server(uvicorn.Config(agui.app(pool), log_level="error", ws="none"))
            serving = asyncio.create_task(server.serve([listener]))
            port = listener.getsockname()[1]
            found: tuple[list[float], list[float]] = ([], [])
            for number in range(turns + 20):
                times = await beside(session), await through(port, number)
                if number >= 20:
                    for each, seconds in zip(found, times, strict=True):
                        each.append(seconds * 1_000)
            server.should_exit = True
            await serving
    ours, served = (statistics.median(each) for each in found)
    late = [statistics.quantiles(each, n=20)[-1] for each in found]
    print(f"first text, {turns} turns: Session {ours:.2f} ms, AG-UI {served:.2f} ms: {served - ours:.2f} ms more")
    print(f"95 of 100 turns: Session {late[0]:.2f} ms, AG-UI {late[1]:.2f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=200)
    asyncio.run(main(parser.parse_args().turns))
