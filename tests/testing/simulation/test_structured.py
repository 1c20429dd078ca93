"""The check of structured output against its schema: the errors in the words that the model of a script has to expect."""

from __future__ import annotations

from typing import Any

import pytest

from hackamore.testing.simulation.structured import misfit

LONG: dict[str, Any] = {
    "$ref": "#/$defs/list",
    "$defs": {"list": {"type": "array", "items": {"$ref": "#/$defs/n"}}, "n": {"type": "integer"}},
}


@pytest.mark.parametrize(
    ("schema", "value", "error"),
    [
        ({"type": "array"}, [], None),
        ({"type": "array"}, {}, "root: must be array"),
        ({"type": "boolean"}, True, None),
        ({"type": "boolean"}, 1, "root: must be boolean"),
        ({"type": "integer"}, 1.0, None),
        ({"type": "integer"}, 1.5, "root: must be integer"),
        ({"type": "integer"}, True, "root: must be integer"),
        ({"type": "null"}, None, None),
        ({"type": "null"}, 0, "root: must be null"),
        ({"type": "number"}, 1.5, None),
        ({"type": "number"}, "1", "root: must be number"),
        ({"type": "object"}, {}, None),
        ({"type": "object"}, [], "root: must be object"),
        ({"type": "string"}, "", None),
        ({"type": "string"}, None, "root: must be string"),
        ({"type": ["string", "null"]}, None, None),
        ({"type": ["string", "null"]}, 1, "root: must be string,null"),
        ({"type": "new"}, 1, None),
        ({}, object, None),
        (True, 1, None),
        ({"minimum": 1, "maximum": 2}, 1, None),
        ({"minimum": 1, "maximum": 2}, 2, None),
        ({"minimum": 1}, 0, "root: must be >= 1"),
        ({"maximum": 2}, 3, "root: must be <= 2"),
        ({"minimum": 2}, True, None),
        ({"minLength": 2, "maxLength": 3}, "ab", None),
        ({"minLength": 2}, "a", "root: must NOT have fewer than 2 characters (got 1)"),
        ({"maxLength": 3}, "abcd", "root: must NOT have more than 3 characters (got 4)"),
        ({"minItems": 1}, [], "root: must NOT have fewer than 1 items (got 0)"),
        ({"maxItems": 1}, [1, 2], "root: must NOT have more than 1 items (got 2)"),
        ({"minProperties": 1}, {}, "root: must NOT have fewer than 1 properties (got 0)"),
        ({"maxProperties": 0}, {"a": 1}, "root: must NOT have more than 0 properties (got 1)"),
        ({"enum": ["a", "é"]}, "a", None),
        ({"enum": ["a", "é"]}, "c", 'root: must be equal to one of the allowed values: ["a","é"]'),
        ({"const": {"a": 1}}, {"a": 1}, None),
        ({"const": {"a": 1}}, 1, 'root: must be equal to constant: {"a":1}'),
        ({"anyOf": [{"type": "null"}, {"minimum": 2}]}, 3, None),
        (
            {"anyOf": [{"type": "null"}, {"minimum": 2}]},
            1,
            "root: must be null, root: must be >= 2, root: must match a schema in anyOf",
        ),
        ({"items": {"type": "string"}}, ["a", 1, 2], "/1: must be string, /2: must be string"),
        ({"required": ["a", "b"]}, {"a": 1}, "root: must have required property 'b'"),
        (
            {"properties": {"a": {"properties": {"b": {"type": "null"}}}}, "additionalProperties": False},
            {"a": {"b": 1, "c": 1}, "d": 1},
            "root: must NOT have additional properties ('d' is not allowed), /a/b: must be null",
        ),
        ({"properties": {"a": {}}, "additionalProperties": True}, {"b": 1}, None),
        (LONG, [1, 2], None),
        (LONG, [1, "x"], "/1: must be integer"),
        (LONG, 1, "root: must be array"),
        ({"$ref": "#/never/there"}, 1, None),
    ],
)  # fmt: skip
def test_a_value_and_a_schema(schema: Any, value: Any, error: str | None) -> None:
    assert misfit(value, schema) == error
