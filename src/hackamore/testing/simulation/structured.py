"""Structured output in a simulated CLI: the tool `StructuredOutput`, the check against its JSON schema, and the demand to call it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.testing.simulation.results import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hackamore.testing.script import steps


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and value == int(value),
    "null": lambda value: value is None,
    "number": _is_number,
    "object": lambda value: isinstance(value, dict),
    "string": lambda value: isinstance(value, str),
}
_LENGTHS = [
    (str, "minLength", "maxLength", "characters"),
    (list, "minItems", "maxItems", "items"),
    (dict, "minProperties", "maxProperties", "properties"),
]


def misfit(value: Any, schema: dict[str, Any]) -> str | None:
    """Return how a value does not fit a schema; None if it does."""
    return ", ".join(f"{path or 'root'}: {text}" for path, text in _errors(value, schema, schema, "")) or None


def _errors(value: Any, schema: Any, root: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    if not isinstance(schema, dict):
        return
    if (reference := schema.get("$ref")) is not None:
        yield from _errors(value, _resolved(reference, root), root, path)
    wanted = schema.get("type", [])
    types = wanted if isinstance(wanted, list) else [wanted]
    if types and not any(_TYPES.get(name, bool)(value) for name in types):
        yield path, f"must be {','.join(types)}"
        return
    yield from ((path, text) for text in _of_value(value, schema))
    branches = [[*_errors(value, branch, root, path)] for branch in schema.get("anyOf", ())]
    if branches and all(branches):
        yield from (error for branch in branches for error in branch)
        yield path, "must match a schema in anyOf"
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _errors(item, schema.get("items"), root, f"{path}/{index}")
    elif isinstance(value, dict):
        properties = schema.get("properties", {})
        yield from (
            (path, f"must have required property '{name}'") for name in schema.get("required", ()) if name not in value
        )
        rest = schema.get("additionalProperties")
        for name in value.keys() - properties.keys() if rest is False else ():
            yield path, f"must NOT have additional properties ('{name}' is not allowed)"
        for name, part in properties.items():
            if name in value:
                yield from _errors(value[name], part, root, f"{path}/{name}")


def _of_value(value: Any, schema: dict[str, Any]) -> Iterator[str]:
    if _is_number(value):
        if value < schema.get("minimum", value):
            yield f"must be >= {schema['minimum']}"
        if value > schema.get("maximum", value):
            yield f"must be <= {schema['maximum']}"
    for kind, least, most, what in _LENGTHS:
        if isinstance(value, kind):
            if len(value) < schema.get(least, 0):
                yield f"must NOT have fewer than {schema[least]} {what} (got {len(value)})"
            if len(value) > schema.get(most, len(value)):
                yield f"must NOT have more than {schema[most]} {what} (got {len(value)})"
    if "enum" in schema and value not in schema["enum"]:
        yield f"must be equal to one of the allowed values: {_text(schema['enum'])}"
    if "const" in schema and value != schema["const"]:
        yield f"must be equal to constant: {_text(schema['const'])}"


def _resolved(reference: str, root: dict[str, Any]) -> Any:
    found: Any = root
    for name in reference.removeprefix("#").split("/")[1:]:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


TRIES = 5
"""Calls of `StructuredOutput` with output that does not fit the schema, until the turn fails."""


class StructuredOutput:
    """The structured output of a turn. `failures` has the error of each misfit; if `enforced`, the CLI demanded a call of the tool."""

    def __init__(self, schema: dict[str, Any] | None) -> None:
        self.schema = schema
        self.begin()

    def begin(self) -> None:
        """Begin a turn."""
        self.value: Any = None
        self.failures: list[str] = []
        self.enforced = False

    @property
    def exhausted(self) -> bool:
        """Whether the model has used all its tries."""
        return len(self.failures) >= TRIES

    @property
    def text(self) -> str:
        """The output as JSON."""
        return msgspec.json.encode(self.value).decode()

    def take(self, call: steps.Calls, arguments: dict[str, Any]) -> Outcome:
        """Return the result of a call of the tool."""
        error = call.error
        if error is None and (found := misfit(arguments, self.schema or {})) is not None:
            error = f"Output does not match required schema: {found}"
        if error is not None:
            self.failures.append(error)
            return Outcome(error, f"Error: {error}", failed=True)
        self.value = arguments
        text = "Structured output provided successfully"
        return Outcome(text, text)
