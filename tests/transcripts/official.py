"""The outcome of each call of `calls.py` with the official package, as JSON on stdout: `python official.py FOLDER DIRECTORIES IDS`.

Runs with `claude-agent-sdk` on the path, without Hackamore. DIRECTORIES and IDS are JSON objects.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import claude_agent_sdk as official  # type: ignore[import-not-found,unused-ignore]
from calls import results  # type: ignore[import-not-found,unused-ignore]


class Official:
    """The official package, as `calls.Package`."""

    key = staticmethod(official.project_key_for_directory)
    rename = staticmethod(official.rename_session)
    tag = staticmethod(official.tag_session)
    delete = staticmethod(official.delete_session)
    subagents = staticmethod(official.list_subagents)

    def listed(self, directory: str | None = None, **given: Any) -> list[dict[str, Any]]:
        return [vars(each) for each in official.list_sessions(directory=directory, **given)]

    def info(self, session_id: str) -> dict[str, Any] | None:
        found = official.get_session_info(session_id)
        return None if found is None else vars(found)

    def messages(self, session_id: str, limit: int | None = None, offset: int = 0) -> Any:
        return [vars(each) for each in official.get_session_messages(session_id, limit=limit, offset=offset)]

    def subagent(self, session_id: str, agent_id: str) -> Any:
        return [vars(each) for each in official.get_subagent_messages(session_id, agent_id)]

    def fork(self, session_id: str, at: str | None = None) -> str:
        return str(official.fork_session(session_id, up_to_message_id=at).session_id)


def main() -> None:
    config, directories, ids = sys.argv[1:]
    os.environ["CLAUDE_CONFIG_DIR"] = config
    found = results(Official(), Path(config), json.loads(directories), json.loads(ids))
    print(json.dumps({"version": official.__version__, "results": found}))


if __name__ == "__main__":
    main()
