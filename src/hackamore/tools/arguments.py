"""The arguments of a tool: their JSON schema, and from what the model sent to what the function gets.

Everything that can be found out about the types is found out when the tool is declared; a call only converts. msgspec does both,
unless pydantic models or fields are among the annotations: then pydantic does, for the whole signature, by its own rules.
"""

from __future__ import annotations

import re
import types
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

from hackamore.checked.schemas import is_model
from hackamore.errors import OptionsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["ArgumentsError"]


def is_struct(kind: Any) -> bool:
    """True for msgspec's structs."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def with_meta(annotation: Any) -> Any:
    """Return `annotation` with plain texts in `Annotated` turned into msgspec's descriptions, and `object` into `Any`."""
    if annotation is object:
        return Any
    origin = get_origin(annotation)
    if origin is None or not get_args(annotation):
        return annotation
    if origin is Annotated:
        inner = with_meta(annotation.__origin__)
        for extra in annotation.__metadata__:
            inner = Annotated[inner, msgspec.Meta(description=extra) if isinstance(extra, str) else extra]
        return inner
    arguments = get_args(annotation)
    changed = tuple(
        with_meta(entry) if get_origin(entry) is not None or entry is object else entry for entry in arguments
    )
    if all(new is old for new, old in zip(changed, arguments, strict=True)):
        return annotation
    if origin is types.UnionType or origin is Union:
        return Union[changed]  # noqa: UP007 - built from a tuple
    if hasattr(annotation, "copy_with"):
        return annotation.copy_with(changed)
    return origin[changed]


def classes_in(annotations: Iterator[Any] | list[Any]) -> dict[Any, None]:
    """Return every class, and the class of every extra of `Annotated`, that is reached from these annotations, in order.

    Fields inside pydantic models belong to pydantic and are left out.
    """
    found: dict[Any, None] = {}
    waiting = list(annotations)
    while waiting:
        entry = waiting.pop(0)
        origin = get_origin(entry)
        if origin is Annotated:
            waiting += [entry.__origin__, *(type(extra) for extra in entry.__metadata__)]
        elif origin is not None:
            waiting += [part for part in (origin, *get_args(entry)) if isinstance(part, type) or get_origin(part)]
        elif isinstance(entry, type) and entry not in found:
            found[entry] = None
            if not is_model(entry):
                waiting += _fields_of(entry).values()
    return found


def whose(classes: dict[Any, None]) -> Literal["msgspec", "pydantic"]:
    """Return who understands these annotations. msgspec can ask pydantic for a model, and pydantic knows nothing of msgspec.

    Raises:
        TypeError: some of them only one knows, and some only the other.
    """
    only_msgspec = [kind for kind in classes if is_struct(kind) or issubclass(kind, msgspec.Meta)]
    only_pydantic = [
        kind
        for kind in classes
        if kind.__module__.partition(".")[0] in {"pydantic", "annotated_types"}
        or (hasattr(kind, "__pydantic_validator__") and not is_model(kind))
    ]
    if only_msgspec and only_pydantic:
        raise TypeError(
            f"{only_msgspec[0].__qualname__} is msgspec's and {only_pydantic[0].__qualname__} is pydantic's; use one of the two"
        )
    if only_pydantic or (not only_msgspec and any(map(is_model, classes))):
        return "pydantic"
    return "msgspec"


def add_descriptions(definitions: dict[str, Any], classes: dict[Any, None]) -> None:
    """Complete schemas of classes: plain texts in `Annotated` become descriptions, and docstrings lose their indentation."""
    from inspect import cleandoc

    for definition in definitions.values():
        if isinstance(definition.get("description"), str):
            definition["description"] = cleandoc(definition["description"])
    for kind in classes:
        properties = definitions.get(kind.__name__, {}).get("properties")
        if not properties:
            continue
        wire_names = (
            {field.name: field.encode_name for field in msgspec.structs.fields(kind)} if is_struct(kind) else {}
        )
        for name, annotation in _fields_of(kind).items():
            schema = properties.get(wire_names.get(name, name))
            texts = [extra for extra in getattr(annotation, "__metadata__", ()) if isinstance(extra, str)]
            if schema is not None and texts:
                schema.setdefault("description", texts[0])


def _fields_of(kind: type) -> dict[str, Any]:
    if not (
        is_struct(kind)
        or is_typeddict(kind)
        or hasattr(kind, "__dataclass_fields__")
        or hasattr(kind, "__attrs_attrs__")
        or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    ):
        return {}
    try:
        hints = get_type_hints(kind, include_extras=True)
    except Exception:  # the code that makes the schema reports the problem
        return {}
    return {name: _unwrapped(annotation) for name, annotation in hints.items()}


def _unwrapped(annotation: Any) -> Any:
    """Return `annotation` without `Required`, `NotRequired`, `ReadOnly`, `ClassVar`, `Final`."""
    origin = get_origin(annotation)
    name = getattr(origin, "_name", None)
    if name in {"Required", "NotRequired", "ReadOnly", "ClassVar", "Final"}:
        return get_args(annotation)[0]
    return annotation


_PATH = re.compile(r" - at (?:`key` in )?`\$\.?(.*)`$")
REQUIRED: Any = object()
"""The default of a parameter that has none."""


class ArgumentsError(Exception):
    """The arguments do not fit; the text says which and why, for the model."""


class Parameter(msgspec.Struct, frozen=True):
    """A parameter that the model fills."""

    name: str
    annotation: Any
    default: Any = REQUIRED


class TypedArguments:
    """Arguments that become typed values, one for each parameter.

    Attributes:
        convert: from the JSON object to the keyword arguments; raises `ArgumentsError`.
    """

    __slots__ = ("_convert", "schema")

    def __init__(self, tool: str, parameters: Sequence[Parameter]) -> None:
        classes = classes_in([parameter.annotation for parameter in parameters])
        make = _with_msgspec
        try:
            if whose(classes) == "pydantic":
                make = _with_pydantic
            self.schema: dict[str, Any]
            self.schema, self._convert = make(tool, parameters)
        except Exception as error:
            raise _undescribable(tool, parameters, make, error) from error
        add_descriptions(self.schema.get("$defs", {}), classes)
        for parameter in parameters:
            _add_default(self.schema["properties"][parameter.name], parameter.default)

    def convert(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return what the function gets, by parameter name; raise ArgumentsError if the arguments do not fit."""
        try:
            return self._convert(arguments)
        except RecursionError:
            raise ArgumentsError("The arguments are nested too deeply.") from None


class PlainArguments:
    """Arguments under a schema of another author: the function receives the dict unchanged.

    Only the names at the top are looked at (`required`, and `additionalProperties: false`): the rest is the schema's owner's, or `check`'s.
    """

    __slots__ = ("_allowed", "_check", "_name", "_required", "schema")

    def __init__(self, name: str, schema: Mapping[str, Any], *, check: TypedArguments | None = None) -> None:
        self._name = name
        self._check = check
        self.schema: dict[str, Any] = dict(schema)
        self._required = tuple(entry for entry in schema.get("required", ()) if isinstance(entry, str))
        properties = schema.get("properties", {})
        closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
        self._allowed = frozenset(properties) if closed else None

    def convert(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments for the one parameter that takes them; raise ArgumentsError if one is missing, or there is one too many."""
        if self._check is not None:
            self._check.convert({name: value for name, value in arguments.items() if name in self.schema["properties"]})
        for name in self._required:
            if name not in arguments:
                raise ArgumentsError(f"`{name}` is required and missing.")
        if self._allowed is not None and not self._allowed >= arguments.keys():
            unknown = ", ".join(f"`{name}`" for name in arguments if name not in self._allowed)
            raise ArgumentsError(f"There is no argument {unknown}.{_known(self._allowed)}")
        return {self._name: arguments}


def schema_of(kind: Any, field: str) -> dict[str, Any]:
    """Return the JSON schema of a class whose values are JSON objects; raise OptionsError if there is none."""
    try:
        if is_model(kind):
            schema: dict[str, Any] = kind.model_json_schema(mode="serialization")
        else:
            schema = msgspec.json.schema(kind, schema_hook=_hook({}))
        add_descriptions(schema.get("$defs", {}), classes_in([kind]))
    except Exception as error:
        raise OptionsError(f"`{field}`: no JSON schema can be made of {kind!r}: {error}", field=field) from error
    reference = schema.pop("$ref", None)
    if reference:
        definitions = schema["$defs"]
        name = reference.removeprefix("#/$defs/")
        schema = {**definitions[name], "$defs": definitions}
        if f'"{reference}"' not in msgspec.json.encode(definitions).decode():
            del definitions[name]
        if not definitions:
            del schema["$defs"]
    if schema.get("type") != "object":
        raise OptionsError(f"`{field}` must describe a JSON object, and {kind!r} does not.", field=field)
    return schema


# -- msgspec -----------------------------------------------------------------------------------------------------------


def _with_msgspec(
    tool: str, parameters: Sequence[Parameter]
) -> tuple[dict[str, Any], Callable[[dict[str, Any]], dict[str, Any]]]:
    fields: list[Any] = []
    for parameter in parameters:
        annotation = with_meta(parameter.annotation)
        if parameter.default is REQUIRED:
            fields.append((parameter.name, annotation))
        else:
            fields.append((parameter.name, annotation, msgspec.field(default_factory=_returning(parameter.default))))
    struct = msgspec.defstruct(f"Arguments of {tool}", fields, kw_only=True, forbid_unknown_fields=True)
    hoisted: dict[str, Any] = {}
    (reference,), definitions = msgspec.json.schema_components([struct], schema_hook=_hook(hoisted))
    top = definitions.pop(reference["$ref"].rpartition("/")[2])
    if both := {name for name in definitions.keys() & hoisted.keys() if definitions[name] != hoisted[name]}:
        raise TypeError(f"two different types are called {', '.join(sorted(both))}")
    schema = _object(top, {**definitions, **hoisted})
    convert, as_dict, names = msgspec.convert, msgspec.structs.asdict, [parameter.name for parameter in parameters]

    def converted(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return as_dict(convert(arguments, struct, str_keys=True, dec_hook=_validated))
        except msgspec.ValidationError as error:
            failure = error
            # JSON does not tell 3.0 from 3, and models write both where a whole number is wanted.
            whole = _whole_numbers(arguments)
            if whole is not arguments:
                try:
                    return as_dict(convert(whole, struct, str_keys=True, dec_hook=_validated))
                except msgspec.ValidationError as still:
                    failure = still
            raise ArgumentsError(_explained(failure, names)) from None

    return schema, converted


def _returning(value: Any) -> Callable[[], Any]:
    return lambda: value


def _hook(hoisted: dict[str, Any]) -> Callable[[Any], dict[str, Any]]:
    """Return msgspec's hook for types it does not know: pydantic models, whose own definitions go to `hoisted`."""

    def schema(kind: Any) -> dict[str, Any]:
        if not is_model(kind):
            raise NotImplementedError
        made: dict[str, Any] = kind.model_json_schema()
        hoisted.update(made.pop("$defs", {}))
        if "$ref" not in made:
            hoisted[kind.__name__] = made
        return {"$ref": f"#/$defs/{kind.__name__}"}

    return schema


def _validated(kind: Any, value: Any) -> Any:
    if not is_model(kind):
        raise NotImplementedError
    try:
        return kind.model_validate(value)
    except ValueError as error:
        raise ValueError(_explained_by_pydantic(error)) from None


def _whole_numbers(value: Any) -> Any:
    """Return `value` with floats that are whole numbers as integers; the same object if there are none."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        changed = {key: _whole_numbers(entry) for key, entry in value.items()}
        return changed if any(changed[key] is not value[key] for key in value) else value
    if isinstance(value, list):
        entries = [_whole_numbers(entry) for entry in value]
        return entries if any(new is not old for new, old in zip(entries, value, strict=True)) else value
    return value


def _explained(error: msgspec.ValidationError, names: Sequence[str]) -> str:
    text = str(error)
    path = _PATH.search(text)
    reason = (text[: path.start()] if path else text).removesuffix(".")
    where = path[1] if path else ""
    if where:
        return f"`{where}`: {reason[:1].lower()}{reason[1:]}."
    return f"{reason}.{_known(names)}"


# -- pydantic ----------------------------------------------------------------------------------------------------------


def _with_pydantic(
    tool: str, parameters: Sequence[Parameter]
) -> tuple[dict[str, Any], Callable[[dict[str, Any]], dict[str, Any]]]:
    import pydantic

    fields: dict[str, Any] = {}
    for number, parameter in enumerate(parameters):
        annotation = parameter.annotation
        for extra in getattr(annotation, "__metadata__", ()):
            if isinstance(extra, str):
                annotation = Annotated[annotation, pydantic.Field(description=extra)]
        # Names of its own: parameters may be called `schema` or `model_id`, which fields of a model may not.
        given: dict[str, Any] = (
            {} if parameter.default is REQUIRED else {"default_factory": _returning(parameter.default)}
        )
        fields[f"argument_{number}"] = (annotation, pydantic.Field(alias=parameter.name, **given))
    model: Any = pydantic.create_model(
        f"Arguments of {tool}", __config__=pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=False), **fields
    )
    made = model.model_json_schema()
    schema = _object(made, made.pop("$defs", {}))
    names = [parameter.name for parameter in parameters]
    attributes = tuple(zip(names, fields, strict=True))

    def converted(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            values = model.model_validate(arguments).__dict__
        except pydantic.ValidationError as error:
            text = _explained_by_pydantic(error)
            raise ArgumentsError(text + ("" if set(names) >= arguments.keys() else _known(names))) from None
        return {name: values[attribute] for name, attribute in attributes}

    return schema, converted


def _explained_by_pydantic(error: Any) -> str:
    if not hasattr(error, "errors"):
        return str(error)
    return " ".join(
        f"`{_path(entry['loc'])}`: {entry['msg'][:1].lower()}{entry['msg'][1:]}."
        if entry["loc"]
        else f"{entry['msg']}."
        for entry in error.errors(include_url=False)
    )


def _path(places: Sequence[Any]) -> str:
    return "".join(f"[{place}]" if isinstance(place, int) else f".{place}" for place in places).removeprefix(".")


# -- both --------------------------------------------------------------------------------------------------------------


def _object(top: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of the arguments, without what says nothing: each of its words is paid for in every request."""
    schema: dict[str, Any] = {"type": "object", "properties": top.get("properties", {})}
    if top.get("required"):
        schema["required"] = top["required"]
    schema["additionalProperties"] = False
    if definitions:
        schema["$defs"] = dict(definitions)
    for entry in schema["properties"].values():
        entry.pop("title", None)
    return schema


def _add_default(schema: dict[str, Any], default: Any) -> None:
    if default is REQUIRED or (default is None and not _allows_null(schema)):
        return
    try:
        schema["default"] = msgspec.json.decode(msgspec.json.encode(default, enc_hook=_dumped))
    except Exception:  # a default that JSON cannot say is still the function's default
        return


def _allows_null(schema: dict[str, Any]) -> bool:
    kinds = schema.get("type")
    return (
        schema.keys() <= {"description"}
        or kinds == "null"
        or (isinstance(kinds, list) and "null" in kinds)
        or None in schema.get("enum", ())
        or any(_allows_null(entry) for entry in schema.get("anyOf", ()) if "$ref" not in entry)
    )


def _dumped(value: Any) -> Any:
    return value.model_dump(mode="json", by_alias=True)


def _known(names: Any) -> str:
    listed = ", ".join(f"`{name}`" for name in sorted(names))
    return f" The arguments are: {listed}." if listed else " The tool takes no arguments."


def _undescribable(tool: str, parameters: Sequence[Parameter], make: Any, error: Exception) -> OptionsError:
    """Return the error for a signature that no schema can be made of, naming the parameter that is at fault."""
    for parameter in parameters:
        try:
            make(tool, [parameter])
        except Exception as its_own:
            return OptionsError(
                f"Tool `{tool}`: no JSON schema can be made of parameter `{parameter.name}`: {_first_line(its_own)}",
                field=parameter.name,
            )
    return OptionsError(f"Tool `{tool}`: no JSON schema can be made of its signature: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    text = str(error)
    if "more than one dict-like type" in text or "more than one" in text:
        return f"{text}. Give the types a tag (`class A(msgspec.Struct, tag=True)`), or use pydantic models."
    if isinstance(error, NameError):
        return f"{text}. Classes that are named in text annotations have to be at the top of a module."
    if unsupported := re.search(r"type (<.*>) is not supported", text):
        return (
            f"{unsupported[1]} has no JSON form. Use basic types, a dataclass, a TypedDict, an Enum, a msgspec struct or a "
            "pydantic model; or give the schema yourself with `input_schema=`."
        )
    return f"{type(error).__name__}: {text}"
