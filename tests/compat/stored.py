"""The functions of the official package for stores, on conversations of a folder: prints the outcomes as JSON.

`python stored.py CONFIG DIRECTORY IDS` runs with either package; IDS is a JSON object of names and session ids.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import claude_agent_sdk as sdk  # type: ignore[import-not-found,unused-ignore]

MISSING = "00000000-0000-4000-8000-000000000000"


async def results(directory: str, ids: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    store = sdk.InMemorySessionStore()
    key = sdk.project_key_for_directory(directory)

    async def call(about: str, function: Any, *given: Any, **more: Any) -> Any:
        try:
            value = await function(*given, directory=directory, **more)
        except Exception as error:  # the class is compared
            value = f"raises {type(error).__name__}"
        shown = [
            vars(each) if hasattr(each, "__dict__") else each
            for each in (value if isinstance(value, list) else [value])
        ]
        found[f"{function.__name__}: {about}"] = shown
        return value

    def entries(session_id: str) -> list[Any]:
        return list(store.get_entries({"project_key": key, "session_id": session_id}))

    for name, session_id in ids.items():
        await call(name, sdk.import_session_to_store, session_id, store)
        found[f"entries: {name}"] = entries(session_id)
        parts = await store.list_subkeys({"project_key": key, "session_id": session_id})
        found[f"parts: {name}"] = {
            part: store.get_entries({"project_key": key, "session_id": session_id, "subpath": part})
            for part in sorted(parts)
        }
        folded = sdk.fold_session_summary(None, {"project_key": key, "session_id": session_id}, entries(session_id))
        found[f"fold_session_summary: {name}"] = folded
    for given in ({}, {"limit": 2, "offset": 1}, {"limit": 0}):
        await call(json.dumps(given), sdk.list_sessions_from_store, store, **given)
    for name, session_id in {**ids, "missing": MISSING, "no id": "x"}.items():
        await call(name, sdk.get_session_info_from_store, store, session_id)
        await call(name, sdk.get_session_messages_from_store, store, session_id)
        await call(f"{name}, page", sdk.get_session_messages_from_store, store, session_id, limit=2, offset=1)
        agents = await call(name, sdk.list_subagents_from_store, store, session_id)
        for agent in sorted(agents):
            await call(f"{name} {agent}", sdk.get_subagent_messages_from_store, store, session_id, agent)
    first, session_id = next(iter(ids.items()))
    for title in ("Named", "  ", "\u00e9"):
        await call(repr(title), sdk.rename_session_via_store, store, session_id, title)
    for tag in ("one", "", None, "two"):
        await call(repr(tag), sdk.tag_session_via_store, store, session_id, tag)
    session_id = ids["subagents"]  # without branches: the official package copies all of them
    messages = await sdk.get_session_messages_from_store(store, session_id, directory=directory)
    for about, more in (
        ("all", {}),
        ("two", {"up_to_message_id": messages[1].uuid, "title": "Mine"}),
        ("none", {"up_to_message_id": "x"}),
    ):
        made = await call(about, sdk.fork_session_via_store, store, session_id, **more)
        if not isinstance(made, str):
            found[f"fork, entries: {about}"] = [
                each for each in entries(made.session_id) if each["type"] in ("user", "assistant", "custom-title")
            ]
    found[f"entries: {first}, changed"] = entries(ids[first])
    for about, each in (("one", session_id), ("missing", MISSING), ("no id", "x")):
        await call(about, sdk.delete_session_via_store, store, each)
    await call("missing", sdk.fork_session_via_store, store, MISSING)
    found["left"] = store.size
    return found


if __name__ == "__main__":
    config, place, names = sys.argv[1:]
    os.environ["CLAUDE_CONFIG_DIR"] = config
    print(json.dumps(asyncio.run(results(place, json.loads(names)))))
