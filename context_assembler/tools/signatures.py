"""Turns a Python function into a tool: schema from its signature, words from its docstring."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints, overload

from context_assembler.errors import InvalidToolError
from context_assembler.tools.argument_schemas import (
    own_words_of,
    schema_of_model,
    schema_of_parameters,
)
from context_assembler.tools.docstrings import ReadDocstring, read_docstring
from context_assembler.tools.typed_dicts import readable
from context_assembler.values.given import check_callable, check_known, check_type
from context_assembler.values.parts import JsonObject
from context_assembler.values.tools import ToolSpec

_SETTINGS: Final = "__context_tool__"
_GATHERING: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """What `tool` says of a function."""

    name: str | None = None
    description: str | None = None
    permission: str | None = None
    safe: bool | None = None
    strict: bool | None = None
    deferred: bool | None = None

    def __post_init__(self) -> None:
        for name in ("name", "description", "permission"):
            check_type(name, getattr(self, name), str, type(None), such_as="text, or leave it out")
        for name in ("safe", "strict", "deferred"):
            such_as = "True or False, or leave it out"
            check_type(name, getattr(self, name), bool, type(None), such_as=such_as)


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    permission: str | None = None,
    safe: bool | None = None,
    strict: bool | None = None,
    deferred: bool | None = None,
) -> Callable[[F], F]: ...
def tool(function: F | None = None, /, **settings: Any) -> F | Callable[[F], F]:
    """Say of a function what its signature cannot; the function itself stays as it is.

    Args:
        function: With `@tool` alone.
        settings: `name` and `description` for the model; `permission`, a dotted name that
            permission globs match; `safe`, whether it may run in sandbox mode; `strict`, whether
            the provider should enforce the schema; `deferred`, whether the model finds it by
            searching, where its provider can search.

    Raises:
        InvalidParameterError: A setting has another type.
    """
    for name in settings:
        check_known(name, [one.name for one in fields(ToolSettings)], kind="setting of a tool")
    if function is not None:
        check_callable("function", function, such_as="a function, or use @tool(name='…')")
    chosen = ToolSettings(**settings)

    def mark(marked: F) -> F:
        try:
            setattr(marked, _SETTINGS, chosen)
        except AttributeError:  # a method of an object, a function written in C
            name = getattr(marked, "__name__", type(marked).__name__)
            reason = "nothing can be kept on it; wrap it in a function of your own"
            raise InvalidToolError(name, reason=reason) from None
        return marked

    return mark if function is None else mark(function)


def spec_from_function(function: Callable[..., Any]) -> ToolSpec:
    """Return the tool that a function, a method, a callable object or a pydantic model is.

    Raises:
        InvalidToolError: It takes `*args` or `**kwargs`, is not bound to its object, or has a type
            that no JSON Schema describes.
    """
    settings = getattr(function, _SETTINGS, None) or ToolSettings()
    assert isinstance(settings, ToolSettings)
    name = settings.name or _name_of(function)
    docs = read_docstring(_docstring_of(function))
    if isinstance(function, type):
        schema = schema_of_model(function, tool=name)
    else:
        schema = _schema_of_signature(function, name=name, docs=docs)
    return ToolSpec(
        name=name,
        description=settings.description if settings.description is not None else docs.description,
        input_schema=schema,
        source="functions",
        permission=settings.permission,
        is_safe=settings.safe,
        is_strict=settings.strict,
        is_deferred=settings.deferred,
    )


def _name_of(function: Callable[..., Any]) -> str:
    while isinstance(function, partial):
        function = function.func
    name: str = getattr(function, "__name__", type(function).__name__)
    if name == "<lambda>":
        raise InvalidToolError(name, reason="a lambda has no name; use @tool(name=…) on a function")
    return name


def _docstring_of(function: Callable[..., Any]) -> str:
    while isinstance(function, partial):
        function = function.func
    if isinstance(function, type):
        return own_words_of(function)
    if inspect.isroutine(function):
        return inspect.getdoc(function) or ""
    own = type(function).__call__.__doc__
    return inspect.cleandoc(own) if own else inspect.getdoc(type(function)) or ""


def _schema_of_signature(
    function: Callable[..., Any], *, name: str, docs: ReadDocstring
) -> JsonObject:
    told = (
        (parameter, hint, _description_in(hint) or docs.parameters.get(parameter.name))
        for parameter, hint in _parameters(function, name)
    )
    return schema_of_parameters(told, tool=name)


def _parameters(function: Callable[..., Any], name: str) -> list[tuple[inspect.Parameter, Any]]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
        hints = _hints_of(function)
    except (TypeError, ValueError, NameError) as error:
        raise InvalidToolError(name, reason=f"its signature cannot be read: {error}") from error
    found: list[tuple[inspect.Parameter, Any]] = []
    for position, parameter in enumerate(parameters):
        if parameter.kind in _GATHERING:
            stars = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else "**"
            raise InvalidToolError(
                name,
                reason=f"it takes {stars}{parameter.name}, which no schema names; "
                "write the parameters out",
            )
        if position == 0 and parameter.name == "self" and parameter.name not in hints:
            raise InvalidToolError(
                name, reason="it is a method without its object; pass obj.method"
            )
        found.append((parameter, hints.get(parameter.name, Any)))
    return found


def _hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    while isinstance(function, partial):
        function = function.func
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        hints = get_type_hints(target, include_extras=True)
    except NameError:  # what it returns may have a name that is there for type checkers alone
        hints = get_type_hints(_without_return(target), include_extras=True)
    return {name: readable(hint) for name, hint in hints.items()}


def _without_return(target: Any) -> Any:
    """Return what stands for a function when its hints are read, but for that of its result."""
    hints = {name: hint for name, hint in target.__annotations__.items() if name != "return"}
    inner = inspect.unwrap(target)
    return SimpleNamespace(
        __annotations__=hints,
        __globals__=getattr(inner, "__globals__", {}),
        __type_params__=getattr(inner, "__type_params__", ()),
    )


def _description_in(annotation: Any) -> str | None:
    """Return the text of `Annotated[…, "text"]` or `Annotated[…, Doc("text")]`.

    `Annotated[…, Field(description="text")]` is read by pydantic itself.
    """
    if get_origin(annotation) is None or not hasattr(annotation, "__metadata__"):
        return None
    for extra in get_args(annotation)[1:]:
        words = getattr(extra, "description", None) or getattr(extra, "documentation", None)
        if isinstance(extra, str):
            return extra
        if isinstance(words, str):
            return words
    return None
