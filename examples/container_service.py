"""A service in a container: each request continues a conversation from a session store, and the container keeps nothing.

`SESSION_DB` names the file of the store here; with several hosts use `PostgresStore`, `RedisStore` or `S3Store` in its place.
"""

# scripted: Reply("Noted."), Reply("It is blue.", expect_text="Which colour")

from __future__ import annotations

import asyncio
import os
import tempfile

import hackamore
from hackamore import Options, StoreError
from hackamore.transcripts.stores import SQLiteStore


async def answer(store: SQLiteStore, session_id: str | None, prompt: str) -> tuple[str, str | None]:
    """Answer one request, in any container: continue the session if there is one."""
    options = Options(session_store=store, resume=session_id, tools=[])
    try:
        result = await hackamore.run(prompt, options)
    except StoreError as error:
        return f"Please try again: {error}", session_id
    return result.text, result.session_id


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.environ.get("SESSION_DB", os.path.join(folder, "sessions.db"))
        with SQLiteStore(path) as store:
            text, session_id = await answer(store, None, "My favourite colour is blue.")
            print(text)
        with SQLiteStore(path) as store:  # another container, later
            text, _ = await answer(store, session_id, "Which colour do I like?")
            print(text)


if __name__ == "__main__":
    asyncio.run(main())
