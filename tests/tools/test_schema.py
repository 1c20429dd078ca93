"""What `@tool` makes of a signature, and what it refuses."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, Optional, TypedDict, TypeVar, Union

import msgspec
import pydantic
import pytest

from hackamore.errors import OptionsError
from hackamore.tools import Tool, ToolContext, tool
from tests.contract import shows

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    S = 1
    L = 2


@dataclasses.dataclass
class Point:
    """A place.

    In two dimensions.
    """

    x: Annotated[float, "to the right"]
    y: float = 0.0


@dataclasses.dataclass
class Tree:
    name: str
    children: list[Tree] = dataclasses.field(default_factory=list)


class Order(TypedDict):
    points: list[Point]
    note: NotRequired[Annotated[str, "for people"]]


class Box(msgspec.Struct, rename="camel"):
    inner_size: Annotated[int, "in mm"] = 3


class Pair(NamedTuple):
    left: int
    right: str


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    tricks: list[str]


class Model(pydantic.BaseModel):
    quantity: int = pydantic.Field(ge=1, description="how many")
    next: Model | None = None


@dataclasses.dataclass
class WithField:
    value: Annotated[int, pydantic.Field(ge=1)]


class Holder(TypedDict, Generic[T]):
    value: T


def properties(declared: Tool[..., Any]) -> dict[str, Any]:
    return dict(declared.input_schema["properties"])


def schema_for(annotation: Any) -> dict[str, Any]:
    def function(value: Any) -> None: ...

    function.__annotations__ = {"value": annotation}
    return tool(function).input_schema


@shows("tools.schema")
@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (object, {}),
        (dict, {"type": "object"}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[int], {"type": "array", "items": {"type": "integer"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
        (int | list[str], {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]}),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (Color, {"$ref": "#/$defs/Color"}),
        (list[Point], {"type": "array", "items": {"$ref": "#/$defs/Point"}}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (Annotated[int, msgspec.Meta(ge=1, description="d")], {"type": "integer", "minimum": 1, "description": "d"}),
        (Annotated[str, msgspec.Meta(pattern="^a")], {"type": "string", "pattern": "^a"}),
        (list[Annotated[str, "a name"]], {"type": "array", "items": {"type": "string", "description": "a name"}}),
        (
            Annotated[int, "x"] | None,
            {"anyOf": [{"type": "integer", "description": "x"}, {"type": "null"}]},
        ),
        (Annotated[int, pydantic.Field(ge=2, description="d")], {"type": "integer", "minimum": 2, "description": "d"}),
    ],
)
def test_a_type_becomes_its_schema(annotation: Any, expected: dict[str, Any]) -> None:
    schema = schema_for(annotation)
    assert schema["properties"]["value"] == expected or (
        annotation is datetime.datetime and schema["properties"]["value"]["type"] == "string"
    )
    assert schema["required"] == ["value"]
    assert schema["additionalProperties"] is False
    assert schema["type"] == "object"


@shows("tools.schema")
def test_classes_become_definitions_at_the_top() -> None:
    @tool
    def draw(order: Order, tree: Tree, box: Box, pair: Pair, pet: Cat | Dog, size: Size) -> None: ...

    schema = draw.input_schema
    definitions = schema["$defs"]
    assert set(definitions) == {"Order", "Point", "Tree", "Box", "Pair", "Cat", "Dog", "Size"}
    assert definitions["Point"]["description"] == "A place.\n\nIn two dimensions."
    assert definitions["Point"]["properties"]["x"] == {"type": "number", "description": "to the right"}
    assert definitions["Point"]["required"] == ["x"]
    assert definitions["Order"]["properties"]["note"] == {"type": "string", "description": "for people"}
    assert definitions["Order"]["required"] == ["points"]
    assert definitions["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert definitions["Box"]["properties"] == {"innerSize": {"type": "integer", "default": 3, "description": "in mm"}}
    assert definitions["Size"]["enum"] == [1, 2]
    assert {entry["$ref"] for entry in properties(draw)["pet"]["anyOf"]} == {"#/$defs/Cat", "#/$defs/Dog"}
    assert "$defs" not in msgspec.json.encode(schema["properties"]).decode().replace("#/$defs/", "")


@shows("tools.schema")
@pytest.mark.parametrize("with_struct", [False, True])
def test_pydantic_models_are_asked_themselves(with_struct: bool) -> None:
    def alone(model: Model, models: list[Model], schema: Annotated[str, "d"] = "x") -> None: ...
    def mixed(model: Model, models: list[Model], box: Box, schema: Annotated[str, "d"] = "x") -> None: ...

    declared = tool(mixed if with_struct else alone)
    schema = declared.input_schema
    assert schema["properties"]["model"] == {"$ref": "#/$defs/Model"}
    assert schema["properties"]["models"] == {"type": "array", "items": {"$ref": "#/$defs/Model"}}
    assert schema["properties"]["schema"] == {"type": "string", "description": "d", "default": "x"}
    assert schema["$defs"]["Model"]["properties"]["quantity"]["description"] == "how many"
    assert schema["$defs"]["Model"]["properties"]["next"]["anyOf"][0] == {"$ref": "#/$defs/Model"}
    assert schema["additionalProperties"] is False


def test_constraints_are_kept_whoever_says_them() -> None:
    @tool
    def beside_a_model(a: Annotated[int, msgspec.Meta(ge=1)], model: Model) -> None: ...
    @tool
    def in_a_dataclass(a: WithField) -> None: ...
    @tool
    def generic(a: Holder[int]) -> None: ...

    assert properties(beside_a_model)["a"]["minimum"] == 1
    assert in_a_dataclass.input_schema["$defs"]["WithField"]["properties"]["value"]["minimum"] == 1
    [definition] = generic.input_schema["$defs"].values()
    assert definition["properties"] == {"value": {"type": "integer"}}


def test_defaults_are_shown_where_json_can_say_them() -> None:
    marker = object()

    @tool
    def function(
        a: int = 1,
        b: Color = Color.RED,
        c: Point = Point(1.0),  # noqa: B008
        d: int | None = None,
        e: int = None,  # type: ignore[assignment]  # noqa: RUF013
        f: list[str] = ["x"],  # noqa: B006
        g: Any = marker,
        h: Any = None,
        *,
        i: datetime.date = datetime.date(2026, 1, 2),
    ) -> None: ...

    shown = {name: schema.get("default", "-") for name, schema in properties(function).items()}
    assert shown == {
        "a": 1,
        "b": "red",
        "c": {"x": 1.0, "y": 0.0},
        "d": None,
        "e": "-",
        "f": ["x"],
        "g": "-",
        "h": None,
        "i": "2026-01-02",
    }
    assert "required" not in function.input_schema
    assert function.convert({})["g"] is marker


def test_a_tool_without_parameters() -> None:
    @tool
    def ping() -> str:
        return "pong"

    assert ping.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert ping.convert({}) == {}


def test_everything_that_a_definition_can_hold() -> None:
    @tool(
        title="Price list",
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=False,
        search_hint="prices",
        always_load=True,
        max_result_size_chars=1000,
        annotations={"extra": 1},
        meta={"mine": 2},
        output_schema=Point,
    )
    async def prices(article: str) -> Point:
        """Return the price.

        Of one article.
        """
        return Point(1)

    assert prices.definition == {
        "name": "prices",
        "title": "Price list",
        "description": "Return the price.\n\nOf one article.",
        "inputSchema": prices.input_schema,
        "outputSchema": prices.output_schema,
        "annotations": {
            "title": "Price list",
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
            "extra": 1,
        },
        "_meta": {
            "anthropic/searchHint": "prices",
            "anthropic/alwaysLoad": True,
            "anthropic/maxResultSizeChars": 1000,
            "mine": 2,
        },
    }
    assert prices.output_schema is not None
    assert prices.output_schema["properties"]["x"]["description"] == "to the right"
    assert prices.is_async
    assert vars(prices)["__name__"] == "prices"


def test_only_what_was_said_is_in_the_definition() -> None:
    assert tool(lambda: 1, name="x").definition == {"name": "x", "inputSchema": tool(lambda: 1, name="x").input_schema}


def test_the_forms_of_the_decorator() -> None:
    def add(a: int) -> int:
        """Add."""
        return a

    for declared in (tool(add), tool()(add), tool(add, read_only=True), tool(name="add", description="Add.")(add)):
        assert (declared.name, declared.description) == ("add", "Add.")
        assert declared(2) == 2
    official = tool("plus", "Adds.", {"a": float, "b": Annotated[str, "text"]})(lambda args: args["a"])
    assert (official.name, official.description) == ("plus", "Adds.")
    assert official.input_schema["required"] == ["a", "b"]
    assert official.convert({"a": 1, "b": "x"}) == {"args": {"a": 1, "b": "x"}}


def test_a_schema_of_ones_own_is_left_alone() -> None:
    schema = {"type": "object", "properties": {"camelCase": {"type": "number"}}, "required": ["camelCase"], "x-mine": 1}

    @tool(input_schema=schema)
    def function(arguments: dict[str, Any]) -> None: ...

    assert function.input_schema == schema
    assert function.definition["inputSchema"] == schema


@pytest.mark.parametrize("kind", [Order, Point, Box, Model])
def test_a_class_as_the_schema(kind: Any) -> None:
    @tool(input_schema=kind)
    def function(arguments, context: ToolContext) -> None: ...  # type: ignore[no-untyped-def]

    assert function.input_schema["type"] == "object"
    assert function.input_schema["properties"]


def test_context_parameters_stay_out() -> None:
    @tool
    def one(context: ToolContext, a: int) -> None: ...
    @tool
    def two(a: int, context: ToolContext | None = None) -> None: ...
    @tool
    def three(a: int, *, context: Annotated[ToolContext, "not for the model"]) -> None: ...

    for declared in (one, two, three):
        assert list(properties(declared)) == ["a"]
        assert declared.context_parameter == "context"


def test_names_in_annotations_may_be_local() -> None:
    @dataclasses.dataclass
    class Local:
        value: int

    class Shop:
        @tool
        def sell(self, local: Local) -> int:
            return local.value

    @tool
    def function(local: Local) -> int:
        return local.value

    assert function.input_schema["$defs"]["Local"]["properties"] == {"value": {"type": "integer"}}
    assert Shop().sell.input_schema == function.input_schema


def test_wrapped_functions_and_callable_objects() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return inner

    @tool
    @logged
    async def wrapped(a: int) -> int:
        return a

    class Adder:
        async def __call__(self, a: int) -> int:
            return a

    assert list(properties(wrapped)) == ["a"]
    assert wrapped.is_async
    adder = tool(Adder(), name="adder")
    assert list(properties(adder)) == ["a"]
    assert adder.is_async
    partial = tool(functools.partial(lambda a, b: a + b, b=2), name="partial", input_schema={"type": "object"})
    assert not partial.is_async


def _no_hint(a): ...  # type: ignore[no-untyped-def]
def _args(*args: int) -> None: ...
def _kwargs(a: int, **rest: int) -> None: ...
def _positional(a: int, /) -> None: ...
def _function_type(a: int, b: Callable[[], int]) -> None: ...
def _own_class(a: Exception) -> None: ...
def _two_untagged(a: Point | Tree) -> None: ...
def _unknown_name(a: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _two_contexts(a: ToolContext, b: ToolContext) -> None: ...
def _both_packages(a: Box, b: Annotated[int, pydantic.Field(ge=1)]) -> None: ...
def _both_packages_inside(a: Annotated[int, msgspec.Meta(ge=1)], b: WithField) -> None: ...
def _field_default(a: int = pydantic.Field(ge=1)) -> None: ...


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (_no_hint, ["_no_hint", "`a`", "annotation"]),
        (_args, ["`*args`", "input_schema"]),
        (_kwargs, ["`**rest`"]),
        (_positional, ["`a`", "positional-only"]),
        (_function_type, ["`b`", "Callable"]),
        (_own_class, ["`a`", "Exception", "dataclass"]),
        (_two_untagged, ["`a`", "tag"]),
        (_unknown_name, ["Missing", "TYPE_CHECKING"]),
        (_two_contexts, ["ToolContext"]),
        (_both_packages, ["Box", "FieldInfo", "one of the two"]),
        (_both_packages_inside, ["Meta", "FieldInfo"]),
        (_field_default, ["`a: Annotated[..., Field(...)]`"]),
    ],
)
def test_what_the_model_cannot_be_told_is_refused(function: Any, names: list[str]) -> None:
    with pytest.raises(OptionsError) as caught:
        tool(function)
    assert [name for name in names if name not in str(caught.value)] == []


@pytest.mark.parametrize(
    "options",
    [
        {"name": "has space"},
        {"name": ""},
        {"name": "x" * 129},
        {"read_only": "yes"},
        {"always_load": 1},
        {"max_result_size_chars": 0},
        {"max_result_size_chars": True},
        {"input_schema": {"type": "array"}},
        {"output_schema": {"type": "array"}},
        {"output_schema": int},
        {"output_schema": Exception},
        {"input_schema": list[int]},
        {"description": 3},
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    def function(a: int) -> None: ...

    with pytest.raises(OptionsError):
        tool(function, **options)


def test_other_wrong_declarations() -> None:
    with pytest.raises(OptionsError, match="name"):
        tool(functools.partial(lambda: 1))
    with pytest.raises(OptionsError, match="tool already"):
        tool(tool(lambda: 1, name="x"))
    with pytest.raises(OptionsError, match="one parameter"):
        tool(lambda a, b: 1, name="x", input_schema={})
    with pytest.raises(OptionsError, match="functions"):
        tool(3)  # type: ignore[call-overload]
    with pytest.raises(OptionsError, match="functions"):
        tool(Point)

    async def yielding() -> AsyncIterator[int]:
        yield 1

    with pytest.raises(OptionsError, match="yields"):
        tool(yielding)
