"""Looking into type annotations: what they are made of, and the descriptions that they carry."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["add_descriptions", "classes_in", "is_model", "is_struct", "whose", "with_meta"]


def is_model(kind: Any) -> bool:
    """True for pydantic's model classes, and without importing pydantic."""
    return isinstance(kind, type) and hasattr(kind, "model_validate") and hasattr(kind, "model_json_schema")


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

    What is inside of pydantic's models is theirs and left out.
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
    """Return the annotated fields of classes that are read field by field."""
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
    except Exception:  # whoever makes the schema says what is wrong with it
        return {}
    return {name: _unwrapped(annotation) for name, annotation in hints.items()}


def _unwrapped(annotation: Any) -> Any:
    """Return `annotation` without `Required`, `NotRequired`, `ReadOnly`, `ClassVar`, `Final`."""
    origin = get_origin(annotation)
    name = getattr(origin, "_name", None)
    if name in {"Required", "NotRequired", "ReadOnly", "ClassVar", "Final"}:
        return get_args(annotation)[0]
    return annotation
