"""Files of sessions, written by hand in the shape that the CLI gives them."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hackamore.transcripts import project_key

if TYPE_CHECKING:
    from pathlib import Path


def some_id(number: int) -> str:
    return str(uuid.UUID(int=number, version=4))


def line(entry: dict[str, Any]) -> str:
    return json.dumps(entry, separators=(",", ":"), ensure_ascii=False)


@dataclass
class Writer:
    """Writes a session entry by entry; every message follows the last one unless `parent` says otherwise."""

    session_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    cwd: str = "/home/me/project"
    lines: list[str] = field(default_factory=list)
    last: str | None = None
    clock: int = 0

    def add(self, type: str, /, *, parent: str | None = "(last)", **fields: Any) -> str:  # noqa: A002
        self.clock += 1
        own = fields.pop("uuid", None) or str(uuid.uuid4())
        entry = {
            "parentUuid": self.last if parent == "(last)" else parent,
            "isSidechain": False,
            "type": type,
            "uuid": own,
            "timestamp": f"{datetime.fromtimestamp(1_793_491_200 + self.clock, UTC):%Y-%m-%dT%H:%M:%S}.000Z",
            "cwd": self.cwd,
            "sessionId": self.session_id,
            "version": "2.1.330",
            "gitBranch": "main",
            **fields,
        }
        self.lines.append(line(entry))
        self.last = own
        return own

    def user(self, content: Any, **fields: Any) -> str:
        return self.add("user", message={"role": "user", "content": content}, **fields)

    def result(self, tool_use_id: str, content: Any = "ok", **fields: Any) -> str:
        return self.user([{"type": "tool_result", "tool_use_id": tool_use_id, "content": content}], **fields)

    def assistant(self, *content: Any, id: str | None = None, **fields: Any) -> str:  # noqa: A002
        blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
        usage = fields.pop("usage", {"input_tokens": 10, "output_tokens": 5})
        message = {
            "id": id or f"msg_{len(self.lines)}",
            "type": "message",
            "role": "assistant",
            "model": fields.pop("model", "claude-opus-5-5"),
            "content": blocks,
            "stop_reason": "end_turn",
            "usage": usage,
        }
        return self.add("assistant", message=message, **fields)

    def note(self, type: str, /, **fields: Any) -> None:  # noqa: A002
        """Add an entry outside the conversation."""
        self.lines.append(line({"type": type, **fields, "sessionId": self.session_id}))

    @property
    def text(self) -> str:
        return "".join(f"{each}\n" for each in self.lines)

    def save(self, config: Path, project: str | Path | None = None, text: str | None = None) -> Path:
        folder = config / "projects" / project_key(project or self.cwd)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.session_id}.jsonl"
        path.write_text(self.text if text is None else text, encoding="utf-8")
        return path


def tool_use(id: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:  # noqa: A002
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}
