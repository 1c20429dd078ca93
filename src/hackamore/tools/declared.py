"""`@tool`: from a function to a tool that the model can call.

All that can be wrong with a declaration is an `OptionsError` when it is made, because a tool that fails when the model calls it is
noticed late or never.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial, update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    ParamSpec,
    TypedDict,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
    overload,
)

from hackamore.checked.functions import reached
from hackamore.errors import OptionsError, short_traceback
from hackamore.tools.arguments import REQUIRED, ArgumentsError, Parameter, PlainArguments, TypedArguments, schema_of

if TYPE_CHECKING:
    import inspect

__all__ = ["Tool", "ToolContext", "tool"]


class ToolContext:
    """The call that a tool answers. A parameter annotated with this class gets it and stays out of the schema.

    ::

        @tool
        async def count(path: str, context: ToolContext) -> int: ...

    Args:
        session: the session of the call; None without one.
        notify: receives progress notifications; None drops them.

    Attributes:
        tool_use_id: the id of the model's `tool_use` block, if the CLI said it.
        conversation: the key of the conversation in its `SessionPool`; None outside a pool.
        caller: the value of the check-out, `pool.conversation(key, caller=...)`; None without one.
        server: the name of the tool server.
        tool: the name of the tool.
        request_id: the JSON-RPC id of the call.
        meta: further facts about the call, as they arrived (`_meta`).
    """

    __slots__ = (
        "_cancelled",
        "_notify",
        "_session",
        "_token",
        "caller",
        "conversation",
        "meta",
        "request_id",
        "server",
        "tool",
        "tool_use_id",
    )

    def __init__(
        self,
        *,
        tool_use_id: str | None = None,
        session: Any = None,
        server: str = "",
        tool: str = "",
        request_id: str | float | None = None,
        meta: Mapping[str, Any] | None = None,
        notify: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        self.tool_use_id: str | None = tool_use_id
        self._session = session
        self.conversation: str | None = getattr(session, "conversation", None)
        self.caller: Any = getattr(session, "caller", None)
        self.server: str = server
        self.tool: str = tool
        self.request_id: str | float | None = request_id
        self.meta: Mapping[str, Any] = meta or {}
        token = self.meta.get("progressToken")
        self._token = token if isinstance(token, str | int) and not isinstance(token, bool) else None
        self._notify = notify
        self._cancelled = False

    @property
    def session(self) -> Any:
        """The session of the call; None outside a session, and once no other object holds it any more.

        In a plain function, which runs in a thread, its methods block; in an async one they are awaited, except with `hackamore.sync`.
        """
        return reached(self._session)

    @property
    def cancelled(self) -> bool:
        """True once the caller no longer waits for the result. Long plain functions should look at it from time to time."""
        return self._cancelled

    def cancel(self) -> None:
        """Set `cancelled`. The session does it; tests of your own tools may."""
        self._cancelled = True

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the caller how far the work is. Returns immediately; does nothing if the caller did not request it.

        Args:
            progress: how much is done; it has to grow from call to call.
            total: how much there is to do, if that is known.
            message: the current step, for people.
        """
        if self._token is None or self._notify is None or self._cancelled:
            return
        params: dict[str, Any] = {"progressToken": self._token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        self._notify({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    def __repr__(self) -> str:
        return f"ToolContext(tool={self.tool!r}, tool_use_id={self.tool_use_id!r}, cancelled={self._cancelled})"


P = ParamSpec("P")
R = TypeVar("R")

# The characters that MCP allows in a name. The CLI calls the tool mcp__SERVER__NAME and replaces dots with underscores there.
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_SCHEMA_WORDS = frozenset(
    {"type", "properties", "required", "$ref", "$defs", "anyOf", "oneOf", "allOf", "$schema", "title"}
)


class Tool(Generic[P, R]):
    """A function that the model can call, made by `@tool`. Calling it calls the function.

    Attributes:
        name: the name for the model.
        description: the description for the model.
        input_schema: the JSON schema of its arguments.
        output_schema: the JSON schema of its structured results, or None.
        definition: its entry in `tools/list`.
        function: the function; bound, where the tool is a method.
        is_async: True if calling it gives a coroutine.
    """

    # Each is set once; `__get__` copies them for methods.
    name: str
    description: str
    definition: dict[str, Any]
    function: Callable[P, R]
    is_async: bool

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None,
        description: str | None,
        input_schema: Mapping[str, Any] | type | None,
        output_schema: Mapping[str, Any] | type | None,
        annotations: Mapping[str, Any],
        title: str | None,
        meta: Mapping[str, Any],
        namespace: Mapping[str, Any],
    ) -> None:
        import inspect

        plain: Any = function.__func__ if isinstance(function, staticmethod | classmethod) else function
        if not callable(plain) or isinstance(plain, type):
            raise OptionsError(f"`@tool` is for functions, not for {plain!r:.80}.")
        if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
            raise OptionsError(
                f"`@tool`: {plain.__qualname__} yields, and a tool has one result: `return` a list, say."
            )
        self.function = plain
        self.name = _checked_name(name if name is not None else getattr(plain, "__name__", None))
        if description is None:
            description = inspect.getdoc(plain) if inspect.isroutine(plain) else None
        if not isinstance(description or "", str):
            raise OptionsError(f"Tool `{self.name}`: `description` must be a text.", field="description")
        self.description = inspect.cleandoc(description or "")
        self.is_async = _is_async(plain)
        self._takes_self = False
        self._context_parameter: str | None = None
        parameters = self._signature(plain, namespace)
        self._arguments = self._made_arguments(parameters, input_schema)
        self.output_schema: dict[str, Any] | None = None
        if output_schema is not None:
            self.output_schema = (
                dict(output_schema) if isinstance(output_schema, Mapping) else schema_of(output_schema, "output_schema")
            )
            if self.output_schema.get("type") != "object":
                raise OptionsError(
                    f"Tool `{self.name}`: `output_schema` must describe an object.", field="output_schema"
                )
        self.definition = self._defined(title, annotations, meta)
        update_wrapper(self, plain, updated=())

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return self._arguments.schema

    @property
    def context_parameter(self) -> str | None:
        """The parameter that gets the `ToolContext`, if there is one."""
        return self._context_parameter

    @property
    def is_unbound(self) -> bool:
        """True for a method that was taken from its class and not from an object."""
        return self._takes_self

    def convert(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Convert the input of the model to the keyword arguments of the function.

        Args:
            arguments: the input, as JSON values.

        Returns:
            The arguments, by name.

        Raises:
            ArgumentsError: the input does not fit; the text names the wrong argument.
        """
        return self._arguments.convert(arguments)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, as if it were not a tool."""
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Tool[..., R]:
        if instance is None or not self._takes_self:
            return self
        bound: Tool[..., R] = object.__new__(Tool)
        bound.__dict__.update(self.__dict__)
        bound.function = partial(self.function, instance)  # type: ignore[arg-type]
        bound._takes_self = False
        return bound

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    # -- declaring -----------------------------------------------------------------------------------------------------

    def _signature(self, function: Callable[..., Any], namespace: Mapping[str, Any]) -> list[Parameter]:
        import inspect

        try:
            signature = inspect.signature(function)
        except (ValueError, TypeError) as error:
            raise OptionsError(f"Tool `{self.name}`: the function has no signature that can be read.") from error
        hints = _hints(function, namespace, self.name)
        found: list[Parameter] = []
        for position, parameter in enumerate(signature.parameters.values()):
            annotation = hints.get(parameter.name, parameter.annotation)
            if position == 0 and parameter.name in {"self", "cls"} and annotation is parameter.empty:
                self._takes_self = True
            elif _is_context(annotation):
                if self._context_parameter is not None:
                    raise OptionsError(f"Tool `{self.name}`: one parameter for the `ToolContext` is enough.")
                self._context_parameter = self._by_keyword(parameter)
            else:
                found.append(self._parameter(parameter, annotation))
        return found

    def _parameter(self, parameter: inspect.Parameter, annotation: Any) -> Parameter:
        self._by_keyword(parameter)
        default = REQUIRED if parameter.default is parameter.empty else parameter.default
        if type(default).__module__.partition(".")[0] == "pydantic" and type(default).__name__ == "FieldInfo":
            raise OptionsError(
                f"Tool `{self.name}`: write `{parameter.name}: Annotated[..., Field(...)]`; as a default, `Field(...)` would "
                "reach the function when it is called directly.",
                field=parameter.name,
            )
        return Parameter(parameter.name, annotation, default)

    def _by_keyword(self, parameter: inspect.Parameter) -> str:
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            raise OptionsError(
                f"Tool `{self.name}`: `{stars}{parameter.name}` cannot be described to the model. Name the parameters, take "
                f"one `dict[str, ...]` or `list[...]`, or give the schema yourself with `input_schema=`.",
                field=parameter.name,
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise OptionsError(
                f"Tool `{self.name}`: `{parameter.name}` is positional-only, and the model gives arguments by name. "
                "Remove the `/`.",
                field=parameter.name,
            )
        return parameter.name

    def _made_arguments(
        self, parameters: list[Parameter], input_schema: Mapping[str, Any] | type | None
    ) -> TypedArguments | PlainArguments | _OneArgument:
        import inspect

        if input_schema is None:
            for parameter in parameters:
                if parameter.annotation is inspect.Parameter.empty:
                    raise OptionsError(
                        f"Tool `{self.name}`: parameter `{parameter.name}` has no annotation, so it has no type in the schema for "
                        f"the model. Write `{parameter.name}: str`, or `{parameter.name}: Any`.",
                        field=parameter.name,
                    )
            return TypedArguments(self.name, parameters)
        needed = [parameter for parameter in parameters if parameter.default is REQUIRED]
        if len(needed) > 1 or not parameters:
            raise OptionsError(
                f"Tool `{self.name}`: with `input_schema=` the function takes one parameter, the dict of arguments (and a "
                "`ToolContext`, if it likes).",
                field="input_schema",
            )
        receiver = (needed or parameters)[0].name
        if not isinstance(input_schema, Mapping):
            return _OneArgument(self.name, receiver, input_schema)
        if input_schema and not _SCHEMA_WORDS & input_schema.keys():
            # The short form of the official package, {"a": float, "b": str}: as there, an unknown argument is not an error.
            typed = TypedArguments(self.name, [Parameter(name, kind) for name, kind in input_schema.items()])
            del typed.schema["additionalProperties"]
            return PlainArguments(receiver, typed.schema, check=typed)
        if input_schema and input_schema.get("type", "object") != "object":
            raise OptionsError(f"Tool `{self.name}`: `input_schema` must describe an object.", field="input_schema")
        return PlainArguments(receiver, {"type": "object", "properties": {}} | dict(input_schema))

    def _defined(self, title: str | None, annotations: Mapping[str, Any], meta: Mapping[str, Any]) -> dict[str, Any]:
        definition = {
            "name": self.name,
            "title": title,
            "description": self.description or None,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": dict(annotations) or None,
            "_meta": dict(meta) or None,
        }
        return {name: value for name, value in definition.items() if value is not None}


class _OneArgument:
    """Arguments that become one object: a class was given as `input_schema`."""

    __slots__ = ("_name", "_typed", "schema")

    def __init__(self, tool: str, name: str, kind: Any) -> None:
        self._name = name
        self.schema = schema_of(kind, "input_schema")
        self._typed = TypedArguments(tool, [Parameter(name, kind)])

    def convert(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the object for the one parameter that takes it; raise ArgumentsError if the arguments do not fit."""
        try:
            return self._typed.convert({self._name: arguments})
        except ArgumentsError as error:
            # The model does not know the parameter.
            raise ArgumentsError(str(error).replace(f"`{self._name}.", "`")) from None


class _Facts(TypedDict, total=False):
    """Keywords that every form of `tool` takes; it says what they mean."""

    output_schema: Mapping[str, Any] | type | None
    title: str | None
    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    search_hint: str | None
    always_load: bool | None
    max_result_size_chars: int | None
    annotations: Mapping[str, Any] | None
    meta: Mapping[str, Any] | None


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = ...,
    description: str | None = ...,
    input_schema: Mapping[str, Any] | type | None = ...,
    **facts: Unpack[_Facts],
) -> Tool[P, R]: ...


@overload
def tool(
    name: str,
    description: str | None = ...,
    input_schema: Mapping[str, Any] | type | None = ...,
    /,
    **facts: Unpack[_Facts],
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


@overload
def tool(
    *,
    name: str | None = ...,
    description: str | None = ...,
    input_schema: Mapping[str, Any] | type | None = ...,
    **facts: Unpack[_Facts],
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Any = None,
    description: str | None = None,
    input_schema: Mapping[str, Any] | type | None = None,
    *,
    name: str | None = None,
    output_schema: Mapping[str, Any] | type | None = None,
    title: str | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    search_hint: str | None = None,
    always_load: bool | None = None,
    max_result_size_chars: int | None = None,
    annotations: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Any:
    """Make a function a tool that the model can call: `@tool`, `@tool(read_only=True)`, or `tool(function)`.

    The function may be `async def` or plain, and a method. Its annotations become the schema, its docstring the description. A
    parameter annotated with `ToolContext` gets the context of the call.

    Args:
        function: the function; or its tool's name, as the official package writes it: `@tool("add", "Adds.", {"a": float})`.
        name: by default the function's.
        description: by default the function's docstring.
        input_schema: a JSON schema, instead of the one from the signature: the function then takes the dict of arguments as it
            came. Or a class (TypedDict, dataclass, model): the function then takes one object of it.
        output_schema: the schema, or the class, of structured results. Every result must then be such an object.
        title: a name for people.
        read_only: True if it changes nothing. The CLI may then run it beside others.
        destructive: False if it only adds.
        idempotent: True if a second call with the same arguments changes nothing.
        open_world: False if it reaches nothing outside.
        search_hint: words by which the CLI's tool search finds it.
        always_load: True if the model knows it from the start, and not only after a search.
        max_result_size_chars: how long its results may be before the CLI puts them into a file.
        annotations: further MCP annotations, in their wire names.
        meta: further `_meta` entries.

    Returns:
        The tool, or a decorator that makes one.

    Raises:
        OptionsError: no schema can be made of the signature, or a name or value is not allowed.

    Example:
        ::

            @tool(description="Return the price of an article.", read_only=True)
            def price(article: str) -> str:
                return "12 EUR"
    """
    import inspect

    if isinstance(function, str):
        function, name = None, function
    hints: dict[str, Any] = {
        "title": title,
        "readOnlyHint": _boolean("read_only", read_only),
        "destructiveHint": _boolean("destructive", destructive),
        "idempotentHint": _boolean("idempotent", idempotent),
        "openWorldHint": _boolean("open_world", open_world),
    }
    extras = {
        "anthropic/searchHint": search_hint,
        "anthropic/alwaysLoad": _boolean("always_load", always_load),
        "anthropic/maxResultSizeChars": _positive("max_result_size_chars", max_result_size_chars),
    }
    namespace = _visible(inspect.currentframe())

    def declare(plain: Callable[..., Any]) -> Tool[..., Any]:
        if isinstance(plain, Tool):
            raise OptionsError(f"{plain!r} is a tool already.")
        with short_traceback:
            return Tool(
                plain,
                name=name,
                description=description,
                input_schema=input_schema,
                output_schema=output_schema,
                title=title,
                annotations={
                    **{key: value for key, value in hints.items() if value is not None},
                    **(annotations or {}),
                },
                meta={**{key: value for key, value in extras.items() if value is not None}, **(meta or {})},
                namespace=namespace,
            )

    return declare if function is None else declare(function)


def _boolean(name: str, value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise OptionsError(f"`{name}` must be True or False, not {value!r}.", field=name)
    return value


def _positive(name: str, value: Any) -> int | None:
    if value is None or (type(value) is int and value > 0):
        return value
    raise OptionsError(f"`{name}` must be a positive whole number, not {value!r}.", field=name)


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        shown = "It has none" if name is None else f"{name!r} is none"
        raise OptionsError(
            f"A tool needs a name of 1 to 128 letters (a-z), digits, `_`, `-` and `.`. {shown}; give one with `name=`.",
            field="name",
        )
    return name


def _is_async(function: Any) -> bool:
    import inspect

    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function)
    return inspect.iscoroutinefunction(function) or (
        not inspect.isroutine(function) and inspect.iscoroutinefunction(type(function).__call__)
    )


def _is_context(annotation: Any) -> bool:
    if isinstance(annotation, type):
        return issubclass(annotation, ToolContext)
    origin = get_origin(annotation)
    if origin is None:
        return False
    if (
        origin is Union
        or getattr(origin, "__name__", "") in {"UnionType", "Annotated"}
        or hasattr(annotation, "__metadata__")
    ):
        return any(_is_context(entry) for entry in get_args(annotation))
    return False


def _hints(function: Any, namespace: Mapping[str, Any], tool_name: str) -> dict[str, Any]:
    import inspect
    from typing import get_type_hints

    while isinstance(function, partial):
        function = function.func
    if not inspect.isroutine(function) and not isinstance(function, type):
        function = type(function).__call__
    function = inspect.unwrap(function)
    try:
        return get_type_hints(function, localns=dict(namespace), include_extras=True)
    except NameError as error:
        raise OptionsError(
            f"Tool `{tool_name}`: the annotation {error.name or error!s} is not known when the tool is declared. Define it "
            "before the tool, and import it outside of `if TYPE_CHECKING:`.",
            field=str(error.name or ""),
        ) from error
    except Exception as error:
        raise OptionsError(f"Tool `{tool_name}`: its annotations cannot be read: {error}") from error


def _visible(frame: Any) -> dict[str, Any]:
    """Return the names that annotations written as text may mean where the tool is declared: in functions, and in their classes."""
    names: dict[str, Any] = {}
    frame = frame.f_back  # of the caller of `tool`
    while frame is not None and frame.f_code.co_name != "<module>":
        names = {**frame.f_locals, **names}
        if "__qualname__" not in frame.f_locals:
            break
        frame = frame.f_back
    return names
