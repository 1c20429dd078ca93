"""Structured output: a JSON schema from a Python type, and the typed object back.

msgspec knows dataclasses, TypedDicts, named tuples, enums, literals, unions and its own structs; pydantic models make their own schema
(this module never imports pydantic). The CLI wants a schema whose top level is an object: anything else is
wrapped as `{"value": ...}` and unwrapped again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hackamore.errors import OptionsError, escape_terminal
from hackamore.messages import ResultError

if TYPE_CHECKING:
    from hackamore.messages import ResultMessage

_WRAPPER_KEY = "value"
_KNOWN_WRAPPERS = (_WRAPPER_KEY, "output", "result")


_ADVICE = "Simplify the type, or describe in the prompt how to fill it."


class OutputError(ResultError):
    """The turn succeeded and its structured output does not fit `output_type`.

    Attributes:
        result: the `ResultMessage`.
        reason: the part that does not fit, with the path into the output.
        raw: the JSON that came, or None if there was none.
    """

    def __init__(self, result: ResultMessage, reason: str, raw: bytes | None) -> None:
        super().__init__(result)
        self.reason = reason
        self.raw = raw
        said = escape_terminal(reason, 1_000).rstrip(".")
        if raw is None:
            text = f"The result has no structured output for `output_type`: {said}. {_ADVICE}"
        else:
            output = escape_terminal(raw.decode("utf-8", "replace"), 500)
            text = f"The structured output does not fit `output_type`: {said}. The output: {output}"
        self.args: tuple[Any, ...] = (text,)


def schema_for(output_type: Any, name: str = "output_type") -> dict[str, Any]:
    """Return the JSON schema to ask the model for; raise OptionsError for a type of which none can be made, given as `name`."""
    schema, _ = _schema(output_type, name)
    return schema


def _schema(output_type: Any, name: str = "output_type") -> tuple[dict[str, Any], bool]:
    try:
        if is_model(output_type):
            schema: dict[str, Any] = output_type.model_json_schema()
        else:
            schema = msgspec.json.schema(output_type)
    except (TypeError, RuntimeError, ValueError) as error:
        raise OptionsError(
            f"`{name}` has no JSON schema: {error}. Use a dataclass, a TypedDict, a pydantic model or a plain type.",
            field=name,
        ) from None
    schema = _understood(schema)
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        # The top level must be the object itself; the definition stays, since the type may refer to itself.
        name = reference.removeprefix("#/$defs/")
        top = dict(schema["$defs"][name])
        rest = {
            key: value
            for key, value in schema["$defs"].items()
            if key != name or f'"{reference}"' in _text(schema["$defs"])
        }
        schema = {**top, "$defs": rest} if rest else top
    if schema.get("type") == "object":
        return schema, False
    definitions = schema.pop("$defs", None)
    wrapped: dict[str, Any] = {
        "type": "object",
        "properties": {_WRAPPER_KEY: schema},
        "required": [_WRAPPER_KEY],
        "additionalProperties": False,
    }
    if definitions:
        wrapped["$defs"] = definitions
    return wrapped, True


_SCHEMAS_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_NO_SCHEMAS = frozenset({"default", "enum", "const", "examples", "required"})


def _understood(schema: Any) -> Any:
    """Return the schema without keywords at which the CLI stops (2.1.328: `unknown keyword` in strict mode).

    Nothing is lost that the decoder would not find: it checks tags, and which item is of which type.
    """
    if isinstance(schema, list):
        return [_understood(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for keyword, part in schema.items():
        if keyword in _SCHEMAS_BY_NAME and isinstance(part, dict):
            kept[keyword] = {name: _understood(inner) for name, inner in part.items()}
        elif keyword in _NO_SCHEMAS:
            kept[keyword] = part
        elif keyword not in ("discriminator", "prefixItems"):
            kept[keyword] = _understood(part)
    if isinstance(positions := schema.get("prefixItems"), list):
        # Positions can be expressed neither for the CLI (draft 2020-12) nor for the API (draft 7): their number and types can.
        choices: list[Any] = []
        for choice in [*map(_understood, positions), kept.get("items", False)]:
            if choice is not False and choice not in choices:
                choices.append(choice)
        if "items" in schema and schema["items"] is False:
            kept.setdefault("maxItems", len(positions))
        elif "maxItems" not in schema and "items" not in schema:
            choices = []  # more items may follow, of any type
        kept.pop("items", None)
        if choices:
            kept["items"] = choices[0] if len(choices) == 1 else {"anyOf": choices}
    return kept


def decode_output(result: ResultMessage, output_type: Any, refusal: str = "") -> Any:
    """Return the structured output as `output_type` (None: plain values); raise OutputError, with the `refusal`, if it does not fit."""
    if output_type is None:
        return result.structured_output
    raw = raw_output(result)
    if raw is None:
        why = f"the CLI refused the model's last attempt ({refusal})" if refusal else "the model did not give one"
        raise OutputError(result, why, None)
    try:
        return decode_raw(raw, output_type)
    except MisfitError as error:
        raise OutputError(result, str(error), error.raw) from error.__cause__


class MisfitError(ValueError):
    """Structured output does not fit a type; `raw` is the output without a wrapper that the model put around it."""

    def __init__(self, problem: str, raw: bytes) -> None:
        super().__init__(problem)
        self.raw: bytes = raw


def decode_raw(raw: bytes, output_type: Any) -> Any:
    """Decode structured output as a type, or as plain values for None; raise MisfitError if it does not fit."""
    if output_type is None:
        return msgspec.json.decode(raw)
    schema, wrapped = _schema(output_type)
    inner = _unwrap(raw)
    candidates: list[bytes | None]
    if wrapped:
        candidates = [raw if inner is None else inner]
    else:
        # Models like to wrap the requested value in an object with one key. If the type does not have that key, the wrapper
        # would be read as an object of nothing but defaults.
        named = schema.get("properties")
        foreign = isinstance(named, dict) and not any(key in named for key in _KNOWN_WRAPPERS)
        candidates = [inner, raw] if foreign else [raw, inner]
    problem: Exception | None = None
    failed = raw
    for candidate in candidates:
        if candidate is None:
            continue
        try:
            return _convert(candidate, output_type)
        except (msgspec.MsgspecError, ValueError) as error:
            if problem is None:
                problem, failed = error, candidate
    raise MisfitError(str(problem), failed) from problem


def raw_output(result: ResultMessage) -> bytes | None:
    """Return the structured output as JSON; None if there is none."""
    raw = bytes(result.structured_output_raw)
    return raw if raw and raw != b"null" else None


def _unwrap(raw: bytes) -> bytes | None:
    try:
        outer = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except msgspec.MsgspecError:
        return None
    if len(outer) == 1:
        key, inner = next(iter(outer.items()))
        if key in _KNOWN_WRAPPERS:
            return bytes(inner)
    return None


def _convert(raw: bytes, output_type: Any) -> Any:
    if is_model(output_type):
        return output_type.model_validate_json(raw)
    return msgspec.json.decode(raw, type=output_type)


def is_model(kind: Any) -> bool:
    """True for pydantic's model classes, and without importing pydantic."""
    return isinstance(kind, type) and hasattr(kind, "model_validate_json") and hasattr(kind, "model_json_schema")


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
