"""From what the model sends to what the function gets: typed objects, or an answer that names what is wrong."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from hackamore.errors import OptionsError
from hackamore.tools import ToolContext, tool, tool_server
from tests.contract import shows
from tests.tools.support import error_text, outcome, plan, result


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Line(TypedDict):
    points: list[Point]


class Box(msgspec.Struct, rename="camel"):
    inner_size: int


class Tree(msgspec.Struct):
    children: list[Tree]


class Model(pydantic.BaseModel):
    quantity: int = pydantic.Field(ge=1)
    next: Model | None = None


@tool
def everything(
    number: int,
    line: Line,
    color: Color = Color.RED,
    box: Box | None = None,
    by_number: dict[int, list[str]] = {},  # noqa: B006
    when: datetime.date | None = None,
    mode: Literal["a", "b"] = "a",
    limited: Annotated[int, msgspec.Meta(le=5)] = 1,
    anything: Any = None,
) -> list[Any]:
    return [number, line, color, box, by_number, when, mode, limited, anything]


@shows("tools.arguments")
def test_arguments_become_typed_objects() -> None:
    given = {
        "number": 1,
        "line": {"points": [{"x": 1}, {"x": 2.5, "y": 3}]},
        "color": "blue",
        "box": {"innerSize": 4},
        "by_number": {"7": ["a"]},
        "when": "2026-02-03",
        "mode": "b",
        "anything": {"keepThis": [1, None]},
    }
    assert outcome(plan(everything, given)) == [
        1,
        {"points": [Point(1.0), Point(2.5, 3.0)]},
        Color.BLUE,
        Box(4),
        {7: ["a"]},
        datetime.date(2026, 2, 3),
        "b",
        1,
        {"keepThis": [1, None]},
    ]


@shows("tools.arguments")
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"number": "1"}, "`number`: expected `int`, got `str`"),
        ({"number": 1.5}, "`number`: expected `int`, got `float`"),
        ({"number": True}, "`number`: expected `int`, got `bool`"),
        ({"number": None}, "`number`: expected `int`, got `null`"),
        ({"line": {"points": [{"x": 1}, {"x": "far"}]}}, "`line.points[1].x`: expected `float`, got `str`"),
        ({"line": {"points": [{"y": 1}]}}, "`line.points[0]`: object missing required field `x`"),
        ({"line": 3}, "`line`: expected `object`, got `int`"),
        ({"color": "green"}, "`color`: invalid enum value 'green'"),
        ({"mode": "c"}, "`mode`: invalid enum value 'c'"),
        ({"limited": 6}, "`limited`: expected `int` <= 5"),
        ({"when": "yesterday"}, "`when`: "),
        ({"box": {"inner_size": 4}}, "`box`: object missing required field `innerSize`"),
        ({"by_number": {"x": []}}, "`by_number`: "),
        ({"colour": "red"}, "unknown field `colour`"),
        ({"colour": "red"}, "`color`, `"),
    ],
)
def test_the_wrong_argument_is_named(change: dict[str, Any], expected: str) -> None:
    given = {"number": 1, "line": {"points": []}, **change}
    assert expected in error_text(everything, given)
    assert error_text(everything, given).startswith("Bad arguments for `everything`: ")


def test_a_missing_argument_is_named() -> None:
    assert "missing required field `number`" in error_text(everything, {"line": {"points": []}})


@pytest.mark.parametrize("arguments", [[], "text", 3, False])
def test_arguments_must_be_an_object(arguments: Any) -> None:
    assert "must be an object" in error_text(everything, arguments)


def test_no_arguments_are_an_empty_object() -> None:
    assert result(tool(lambda: 1, name="x"))["content"][0]["text"] == "1"


def test_a_whole_number_may_be_written_as_a_float() -> None:
    @tool
    def function(a: int, b: float, c: list[int], d: float | str) -> list[Any]:
        return [a, b, c, d]

    assert outcome(plan(function, {"a": 3.0, "b": 2.5, "c": [1, 2.0], "d": 4.5})) == [3, 2.5, [1, 2], 4.5]
    assert "`c[1]`: expected `int`, got `float`" in error_text(function, {"a": 3.0, "b": 2, "c": [1, 2.5], "d": 1})


@pytest.mark.parametrize("mixed", [False, True])
def test_pydantic_models(mixed: bool) -> None:
    def alone(model: Model, schema: int = 4) -> Any:
        return model, schema

    def with_struct(model: Model, schema: int = 4, box: Box | None = None) -> Any:
        return model, schema

    function = tool(with_struct if mixed else alone)
    assert outcome(plan(function, {"model": {"quantity": 2, "next": {"quantity": 1}}})) == (
        Model(quantity=2, next=Model(quantity=1)),
        4,
    )
    wrong = error_text(function, {"model": {"quantity": 0, "next": {"quantity": "x"}}})
    assert "quantity`: input should be greater than or equal to 1" in wrong
    assert "next.quantity`: input should be a valid integer" in wrong
    assert "The arguments are: " in error_text(function, {"model": {"quantity": 1}, "other": 1})


def test_an_explicit_schema_gives_the_dict_as_it_came() -> None:
    given = {"camelCase": 1, "list": [1.0, {"a": None}], "more": True}

    @tool(input_schema={"type": "object", "properties": {"camelCase": {}}, "required": ["camelCase"]})
    def function(arguments: dict[str, Any], context: ToolContext) -> Any:
        return arguments

    assert outcome(plan(function, given)) is given
    assert "`camelCase` is required" in error_text(function, {})


def test_an_explicit_schema_that_is_closed() -> None:
    @tool(input_schema={"properties": {"a": {}}, "additionalProperties": False})
    def function(arguments: dict[str, Any]) -> Any:
        return arguments

    assert function.input_schema["type"] == "object"
    assert outcome(plan(function, {"a": 1})) == {"a": 1}
    assert "no argument `b`. The arguments are: `a`" in error_text(function, {"b": 1})


def test_the_short_form_is_checked_and_gives_the_dict() -> None:
    @tool("add", "Adds.", {"a": float, "b": float})
    async def add(args: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": str(args["a"] + args["b"])}]}

    assert result(add, {"a": 1, "b": 2.5}) == {"content": [{"type": "text", "text": "3.5"}]}
    assert result(add, {"a": 1, "b": 2}) == {"content": [{"type": "text", "text": "3"}]}  # 1 stays 1
    assert "`a`: expected `float`, got `str`" in error_text(add, {"a": "x", "b": 1})


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        ({"a": float}, {"a": 1}),
        ({"a": int}, {"a": 1.0}),
        ({"a": datetime.date, "line": Line}, {"a": "2026-01-31", "line": {"points": [{"x": 1}]}}),
        ({"a": float}, {"a": 1, "unknown": [None]}),
    ],
)
def test_the_short_form_leaves_the_arguments_as_they_are(schema: dict[str, Any], given: dict[str, Any]) -> None:
    function = tool("f", "Does.", schema)(lambda args: args)
    assert "additionalProperties" not in function.input_schema
    assert function.convert(given)["args"] is given


@pytest.mark.parametrize(
    ("kind", "given", "made"),
    [
        (Line, {"points": [{"x": 1}]}, {"points": [Point(1)]}),
        (Point, {"x": 1}, Point(1)),
        (Box, {"innerSize": 2}, Box(2)),
        (Model, {"quantity": 2}, Model(quantity=2)),
    ],
)
def test_a_class_as_the_schema_gives_one_object(kind: Any, given: Any, made: Any) -> None:
    @tool(input_schema=kind)
    def function(value) -> Any:  # type: ignore[no-untyped-def]
        return value

    assert outcome(plan(function, given)) == made
    [wrong] = dict.fromkeys(given)
    text = error_text(function, {wrong: "text"})
    assert f"`{wrong}`" in text
    assert "value" not in text.partition(":")[2].partition(":")[0]


def test_defaults_are_the_functions_own() -> None:
    marker: list[int] = []

    @tool
    def function(a: int = None, b: list[int] = marker) -> Any:  # type: ignore[assignment]  # noqa: RUF013
        return a, b

    a, b = outcome(plan(function, {}))
    assert a is None
    assert b is marker
    assert "`a`: expected `int`, got `null`" in error_text(function, {"a": None})


def test_deep_nesting_is_no_exception() -> None:
    @tool
    def function(tree: Tree) -> Any:
        return 1

    deep: Any = {"children": []}
    for _ in range(100_000):
        deep = {"children": [deep]}
    assert "deep" in error_text(function, {"tree": deep})


# -- methods, context -------------------------------------------------------------------------------------------------


class Shop:
    def __init__(self, prices: dict[str, float]) -> None:
        self.prices = prices

    @tool
    def price(self, article: str) -> float:
        """Return a price."""
        return self.prices[article]

    @tool
    async def rename(self, old: str, new: str, context: ToolContext) -> str:
        self.prices[new] = self.prices.pop(old)
        return context.tool

    @classmethod
    @tool
    def of_class(cls, a: int) -> str:
        return f"{cls.__name__} {a}"

    @staticmethod
    @tool
    def plain(a: int) -> int:
        return a


def test_methods_belong_to_their_object() -> None:
    one, two = Shop({"tea": 2.0}), Shop({"tea": 3.0})
    assert outcome(plan(one.price, {"article": "tea"})) == 2.0
    assert outcome(plan(two.price, {"article": "tea"})) == 3.0
    assert outcome(plan(one.rename, {"old": "tea", "new": "coffee"})) == "rename"
    assert one.prices == {"coffee": 2.0}
    assert one.price("coffee") == 2.0
    assert one.price.input_schema is Shop.price.input_schema
    assert one.price.description == "Return a price."
    assert "self" not in one.price.input_schema["properties"]


def test_class_methods_and_static_methods() -> None:
    shop = Shop({})
    methods: list[Any] = [shop.of_class, shop.plain]
    server = tool_server("shop", methods)
    assert outcome(plan(server, {"a": 1}, "of_class")) == "Shop 1"
    assert outcome(plan(server, {"a": 1}, "plain")) == 1


def test_a_method_without_its_object_is_refused() -> None:
    with pytest.raises(OptionsError, match=r"thing\.price"):
        tool_server("shop", [Shop.price])


def test_a_bound_method_of_an_undeclared_function() -> None:
    class Plain:
        def double(self, a: int) -> int:
            return 2 * a

    assert outcome(plan(Plain().double, {"a": 2})) == 4


def test_the_context_says_what_is_known_of_the_call() -> None:
    sent: list[dict[str, Any]] = []

    @tool
    def function(context: ToolContext) -> ToolContext:
        context.report_progress(1)
        context.report_progress(2, 3, "half-way")
        context.cancel()
        context.report_progress(3)
        return context

    session = object()
    meta = {"claudecode/toolUseId": "toolu_1", "progressToken": 9}
    planned = plan(function, {}, meta=meta, session=session, notify=sent.append)
    context = outcome(planned)
    assert context is planned.context
    assert (context.tool_use_id, context.session, context.server, context.tool, context.request_id) == (
        "toolu_1",
        session,
        "server",
        "function",
        1,
    )
    assert context.meta == meta
    assert sent == [
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 9, "progress": 1}},
        {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": 9, "progress": 2, "total": 3, "message": "half-way"},
        },
    ]


@pytest.mark.parametrize("meta", [None, {}, {"progressToken": None, "claudecode/toolUseId": 3}, [], "x"])
def test_progress_that_nobody_asked_for_is_not_sent(meta: Any) -> None:
    def refuse(message: object) -> None:
        raise AssertionError(message)

    planned = plan(tool(lambda: 1, name="x"), {}, meta=meta, notify=refuse)
    planned.context.report_progress(1)
    assert planned.context.tool_use_id is None


def test_cancelling_a_plan_tells_the_tool() -> None:
    planned = plan(tool(lambda: 1, name="x"))
    assert not planned.context.cancelled
    assert planned.cancel()["result"]["isError"] is True
    assert planned.context.cancelled
