"""The error about structured output quotes the last refusal of the CLI."""

from __future__ import annotations

from typing import Any

import pytest

from hackamore import OutputError
from hackamore._engine.queries.outcomes import last_refusal
from hackamore.checked.schemas import decode_output
from hackamore.messages import ResultMessage, from_data

REFUSAL = "Output does not match required schema: /n: must be integer"


def message(kind: str, *content: dict[str, Any]) -> Any:
    return from_data({"type": kind, "message": {"role": kind, "content": [*content]}, "session_id": "s"})


def test_the_last_refusal_is_quoted() -> None:
    assert last_refusal([]) == ""
    messages = [
        message("assistant", {"type": "tool_use", "id": "a", "name": "StructuredOutput", "input": {"n": "x"}}),
        message("user", {"type": "tool_result", "tool_use_id": "a", "is_error": True, "content": "an earlier refusal"}),
        message("assistant", {"type": "tool_use", "id": "b", "name": "StructuredOutput", "input": {"n": "y"}}),
        message("user", {"type": "tool_result", "tool_use_id": "b", "is_error": True, "content": REFUSAL}),
        message("assistant", {"type": "tool_use", "id": "c", "name": "Bash", "input": {}}),
        message("user", {"type": "tool_result", "tool_use_id": "c", "is_error": True, "content": "another error"}),
    ]
    result = from_data({"type": "result", "subtype": "success", "is_error": False, "result": "I cannot."})
    assert isinstance(result, ResultMessage)
    with pytest.raises(OutputError) as caught:
        decode_output(result, dict[str, int], last_refusal(messages))
    assert REFUSAL in str(caught.value)
    assert "earlier" not in str(caught.value)
