"""Ask and tell the CLI things while it runs: its model, its permission mode, what fills the context, which rules are in force.

Without an event loop; with one the names are the same, and awaited.
"""

# scripted: Reply("It is a small library."), Reply("It has no tests yet."), Reply(ToolCall("Write", {"file_path": "notes.md",
#   "content": "No tests yet."})), Reply("I have made a note.")

from __future__ import annotations

from pathlib import Path

import hackamore.sync
from hackamore import ControlRejectedError, Options


def main() -> None:
    Path("readme.txt").write_text("A small library.\n", encoding="utf-8")
    with hackamore.sync.Session(Options(disallowed_tools=["WebFetch"])) as session:
        # What there is to choose from. Answers are typed, and `data` has everything as a dict.
        models = [model.value for model in session.list_models().models]
        print("CLI", session.get_binary_version().version, "with", len(models), "models")
        rules = session.list_permission_rules().state.rules
        print("rules:", [(rule.rule, rule.behavior) for rule in rules])

        # A cheap model for the easy question, another one for the next; the conversation stays.
        session.set_model("haiku")
        session.send("What is this?").result()
        session.set_model("sonnet")
        session.send("What is missing?").result()
        usage = session.get_context_usage()
        print(f"{usage.total_tokens:,} of {usage.max_tokens:,} tokens")

        # From here on files may be edited without a question.
        session.set_permission_mode("acceptEdits")
        session.send("Make a note of that.").result()
        print("note:", session.read_file("notes.md").contents)

        # What the CLI refuses raises, with its reason; the session goes on.
        try:
            session.toggle_mcp_server("nobody", False)
        except ControlRejectedError as error:
            print("refused:", error)
        # For a request that has no method yet there is `request`.
        print(session.request("get_session_cost").data["text"].splitlines()[0])


if __name__ == "__main__":
    main()
