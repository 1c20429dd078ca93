"""What the official package reads of a configuration folder, as JSON on stdout: `python official.py FOLDER DIRECTORY...`.

Runs with an interpreter that has `claude-agent-sdk`; that of `./dev bench` does. Prints the lists of each directory and of everything, the
messages of each session and of its subagents, and the keys of the directories.
"""

from __future__ import annotations

import json
import os
import sys

import claude_agent_sdk as official  # type: ignore[import-not-found,unused-ignore]


def listed(**given: object) -> list[dict[str, object]]:
    return [vars(info) for info in official.list_sessions(**given)]


def main() -> None:
    os.environ["CLAUDE_CONFIG_DIR"] = sys.argv[1]
    everything = listed()
    ids = [str(info["session_id"]) for info in everything]
    found = {
        "version": official.__version__,
        "all": everything,
        "page": listed(limit=3, offset=2),
        "directories": {each: listed(directory=each) for each in sys.argv[2:]},
        "alone": {each: listed(directory=each, include_worktrees=False) for each in sys.argv[2:]},
        "keys": {each: official.project_key_for_directory(each) for each in sys.argv[2:]},
        "info": {each: vars(official.get_session_info(each)) for each in ids},
        "messages": {each: [vars(message) for message in official.get_session_messages(each)] for each in ids},
        "subagents": {
            each: {
                agent: [vars(message) for message in official.get_subagent_messages(each, agent)]
                for agent in official.list_subagents(each)
            }
            for each in ids
        },
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
