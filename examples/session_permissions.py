"""A function that says whether a tool may run. Without an event loop, so it may simply ask the person at the terminal."""

# scripted: Reply(ToolCall("Write", {"file_path": "package.lock", "content": "{}"})), Reply(ToolCall("Bash", {"command":
#   "touch one", "description": "make"})), Reply(ToolCall("Bash", {"command": "touch two", "description": "make"})),
#   Reply("Two files are there.")

from __future__ import annotations

from pathlib import Path

import hackamore.sync
from hackamore import AddRules, Allow, Deny, Options, PermissionRequest, PermissionRule, ResultMessage

questions: list[str] = []


def can_use_tool(request: PermissionRequest) -> Allow | Deny:
    """Called for what neither a rule nor the permission mode has decided. If it raises, the tool is denied."""
    questions.append(f"{request.tool_name} {request.input}")
    if request.tool_name == "Write" and request.input["file_path"].endswith(".lock"):
        return Deny("Lock files are made by the package manager.")
    if request.tool_name == "Bash" and request.input["command"].startswith("touch "):
        # Allow it, and do not ask again in this session.
        rule = AddRules(rules=[PermissionRule("Bash", "touch *")], behavior="allow", destination="session")
        return Allow(updated_permissions=[rule])
    return Deny("Only `touch` is allowed here.")  # here a program would ask: input(f"{request.title}? [y/n] ")


def main() -> None:
    with hackamore.sync.Session(Options(can_use_tool=can_use_tool)) as session:
        for message in session.send("Make two files, and a lock file."):
            if isinstance(message, ResultMessage):
                print(message.text)
                print("denied:", [denial.tool_name for denial in message.permission_denials])
    print(questions)
    assert len(questions) == 2, questions  # the second `touch` was not asked for
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["one", "two"]


if __name__ == "__main__":
    main()
