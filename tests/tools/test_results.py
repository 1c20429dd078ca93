"""From what a tool returns or raises to the result that is sent."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import datetime
import decimal
import enum
import json
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hackamore.tools import Audio, EmbeddedResource, Image, ResourceLink, ToolError, ToolResult, tool
from tests.contract import shows
from tests.support.reaching import reached, reaching
from tests.tools.support import error_text, plan, result


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: float
    when: datetime.date = datetime.date(2026, 1, 2)


class Box(msgspec.Struct, rename="camel"):
    inner_size: int


class Model(pydantic.BaseModel):
    inner_size: int = pydantic.Field(alias="innerSize")


def returning(value: Any, **options: Any) -> Any:
    return tool(lambda: value, name="x", **options)


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


@shows("tools.results")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "plain"),
        ("", ""),
        ("ünï\n", "ünï\n"),
        (3, "3"),
        (2**80, str(2**80)),
        (1.5, "1.5"),
        (True, "true"),
        (Color.RED, '"red"'),
        ([], "[]"),
        ([1, "a", None], '[1,"a",null]'),
        (["a", "b"], '["a","b"]'),
        ([Point(1)], '[{"x":1,"when":"2026-01-02"}]'),
        ((1, 2), "[1,2]"),
        ([Model(innerSize=1)], '[{"innerSize":1}]'),
        (decimal.Decimal("1.10"), '"1.10"'),
    ],
)
def test_plain_values_become_text(value: Any, expected: str) -> None:
    assert result(returning(value)) == {"content": [text(expected)]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, {}),
        ({"camelCase": 1, "snake_case": [None]}, {"camelCase": 1, "snake_case": [None]}),
        ({1: "a"}, {"1": "a"}),
        (Point(1), {"x": 1.0, "when": "2026-01-02"}),
        (Box(2), {"innerSize": 2}),
        (Model(innerSize=3), {"innerSize": 3}),
        ({"model": Model(innerSize=3), "box": Box(1)}, {"model": {"innerSize": 3}, "box": {"innerSize": 1}}),
        ({"content": "mine"}, {"content": "mine"}),
        ({"content": [{"type": "mine"}]}, {"content": [{"type": "mine"}]}),
        ({"content": []}, {"content": []}),
    ],
)
def test_objects_become_text_and_structured_content(value: Any, expected: dict[str, Any]) -> None:
    made = result(returning(value))
    assert made["structuredContent"] == expected
    assert [json.loads(entry["text"]) for entry in made["content"]] == [expected]


def test_none_is_no_content() -> None:
    assert result(returning(None)) == {"content": []}


def test_numbers_that_javascript_would_change_travel_as_text_alone() -> None:
    made = result(returning({"id": 2**53 + 1}))
    assert made == {"content": [text('{"id":9007199254740993}')]}
    assert "structuredContent" in result(returning({"id": 2**40}))
    assert "structuredContent" in result(returning({"id": 2**53 + 1}, output_schema={"type": "object"}))


@shows("tools.results")
def test_content_items() -> None:
    png = b"\x89PNG..."
    encoded = base64.b64encode(png).decode()
    image = {"type": "image", "data": encoded, "mimeType": "image/png"}
    assert result(returning(Image(png))) == {"content": [image]}
    assert result(returning(Image(encoded, "image/png"))) == {"content": [image]}
    assert result(returning(["look:", Image(png), 3, {"a": 1}])) == {
        "content": [text("look:"), image, text("3"), text('{"a":1}')]
    }
    assert result(
        returning(
            (
                Audio(b"RIFF", "audio/wav"),
                ResourceLink("file:///a", "a", description="d", mime_type="text/plain", size=3),
                EmbeddedResource("file:///b", "text", "text/plain"),
                EmbeddedResource("file:///c", b"bytes"),
            )
        )
    )["content"] == [
        {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
        {
            "type": "resource_link",
            "uri": "file:///a",
            "name": "a",
            "description": "d",
            "mimeType": "text/plain",
            "size": 3,
        },
        {"type": "resource", "resource": {"uri": "file:///b", "mimeType": "text/plain", "text": "text"}},
        {"type": "resource", "resource": {"uri": "file:///c", "blob": "Ynl0ZXM="}},
    ]
    assert repr(Image(bytes(100))) == "Image(data=<100 bytes>, mime_type='image/png')"
    assert Image(b"x") == Image(b"x") != Image(b"y")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ToolResult("a"), {"content": [text("a")]}),
        (ToolResult(), {"content": []}),
        (ToolResult(["a", Image("eA==")], is_error=True), {
            "content": [text("a"), {"type": "image", "data": "eA==", "mimeType": "image/png"}],
            "isError": True,
        }),
        (ToolResult(Image("eA==")), {"content": [{"type": "image", "data": "eA==", "mimeType": "image/png"}]}),
        (ToolResult(structured=Box(1)), {"content": [text('{"innerSize":1}')], "structuredContent": {"innerSize": 1}}),
        (ToolResult("a", structured={"b": 1}, meta={"c": 2}), {
            "content": [text("a")],
            "structuredContent": {"b": 1},
            "_meta": {"c": 2},
        }),
        (ToolResult([{"type": "text", "text": "own"}]), {"content": [text("own")]}),
    ],
)  # fmt: skip
def test_results_in_full(value: ToolResult, expected: dict[str, Any]) -> None:
    assert result(returning(value)) == expected


def test_results_in_mcp_form() -> None:
    official = {"content": [text("a"), {"type": "image", "data": "eA==", "mimeType": "image/png"}], "is_error": True}
    assert result(returning(official)) == {"content": official["content"], "isError": True}
    assert result(returning({"content": [], "isError": False, "structuredContent": {"a": 1}})) == {
        "content": [],
        "structuredContent": {"a": 1},
    }


@pytest.mark.parametrize("package", ["mcp.types", "mcp_types._types"])
def test_results_of_the_mcp_packages_own_types(package: str) -> None:
    class TextContent(pydantic.BaseModel):
        type: str = "text"
        text: str = "a"
        annotations: None = None

    class CallToolResult(pydantic.BaseModel):
        content: list[TextContent]
        is_error: bool = pydantic.Field(alias="isError")
        result_type: str = "complete"

    TextContent.__module__ = CallToolResult.__module__ = package
    assert result(returning([TextContent()])) == {"content": [text("a")]}
    assert result(returning(CallToolResult(content=[TextContent()], isError=True))) == {
        "content": [text("a")],
        "isError": True,
    }


def test_an_output_schema_is_a_promise() -> None:
    assert result(returning(Box(1), output_schema=Box))["structuredContent"] == {"innerSize": 1}
    assert "promises an object" in error_text(returning([1], output_schema=Box))
    assert "promises an object" in error_text(returning("text", output_schema=Box))
    assert result(returning(ToolResult("failed", is_error=True), output_schema=Box))["isError"] is True


@shows("tools.results")
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("it broke"), "ValueError: it broke"),
        (KeyError("x"), "KeyError: 'x'"),
        (RuntimeError(), "RuntimeError"),
        (ToolError("exactly this"), "exactly this"),
        (ToolError(), "The tool failed."),
        (asyncio.CancelledError(), "The call was cancelled."),
        (ValueError("bad \udcff"), "ValueError: bad \ufffd"),
    ],
)
def test_exceptions_become_error_results(error: BaseException, expected: str) -> None:
    answer = plan(returning(1)).finish(error)
    assert answer["result"] == {"content": [text(expected)], "isError": True}
    assert plan(returning(1)).fail("late")["result"] == {"content": [text("late")], "isError": True}


async def _coroutine() -> None: ...


class _Nasty:
    def __str__(self) -> str:
        raise RuntimeError("nasty")

    __repr__ = __str__


class _NastyError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("nasty")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"bytes", "Image(data, mime_type)"),
        (bytearray(b"x"), "Image(data, mime_type)"),
        (object(), "`builtins.object` has no JSON form"),
        ({"a": object()}, "has no JSON form"),
        ({"a": Image(b"x")}, "Image belongs into a list"),
        (ToolResult(structured=[1]), "`structured` must be a JSON object"),
        (ToolResult(3), "TypeError"),  # type: ignore[arg-type]
        (_Nasty(), "has no JSON form"),
        (_NastyError(), "nasty"),
    ],
)
def test_what_cannot_be_sent_is_an_error_result(value: Any, expected: str) -> None:
    assert expected in error_text(returning(value))


def test_a_coroutine_that_nobody_awaited_is_closed_and_told() -> None:
    answer = plan(returning(1)).finish(_coroutine())
    assert "`builtins.coroutine` has no JSON form" in answer["result"]["content"][0]["text"]


def test_a_value_that_contains_itself() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert "cannot be used" in error_text(returning(loop))


@pytest.mark.parametrize("value", ["a\ud800b", {"a\udcff": ["\ud83d"]}, ["\ud800"], Image("\ud800"), 10**400])
def test_every_result_can_be_encoded(value: Any) -> None:
    answer = plan(returning(1)).finish(value)
    assert json.loads(msgspec.json.encode(answer)) == json.loads(json.dumps(answer))


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=12,
)


@reaching
@given(_json)
def test_any_json_value_is_a_result_that_can_be_sent(value: Any) -> None:
    answer = plan(returning(1)).finish(value)
    msgspec.json.encode(answer)
    json.dumps(answer).encode()
    if "isError" not in answer["result"]:
        reached()
    if "isError" not in answer["result"] and isinstance(value, dict) and answer["result"].get("structuredContent"):
        assert json.loads(answer["result"]["content"][0]["text"]) == answer["result"]["structuredContent"]
