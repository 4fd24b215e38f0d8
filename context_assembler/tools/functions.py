"""A function as a tool: its schema from its signature, its words from its docstring.

Plain types are read here; pydantic, which takes long to load, reads the rest.
"""

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from functools import cache, partial
from math import isfinite
from textwrap import dedent
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Final, TypedDict, TypeVar, Unpack

from context_assembler.errors import InvalidToolError
from context_assembler.events import Json, JsonObject, is_list
from context_assembler.ports import ToolSpec
from context_assembler.tools.sources import tell_problem

F = TypeVar("F", bound=Callable[..., Any])

_SETTINGS: Final = "__context_tool__"
_TYPES: Final[Mapping[Any, JsonObject]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    list: {"type": "array", "items": {}},
    dict: {"type": "object", "additionalProperties": True},
}


class ToolOptions(TypedDict, total=False):
    """What `tool` can say of a function."""

    name: str
    description: str
    permission: str
    safe: bool
    strict: bool
    deferred: bool
    needs_approval: bool


@typing.overload
def tool(function: F, /) -> F: ...
@typing.overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
def tool(function: F | None = None, /, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
    """Say of a function what its signature cannot; the function itself stays as it is.

    Args:
        function: With `@tool` alone.
        options: `name` and `description` for the model; `permission`, a dotted name that
            permission globs match; `safe`, whether it may run in sandbox mode; `strict`, whether
            the provider should enforce the schema; `deferred`, whether the model finds it by
            searching, if its provider can search; `needs_approval`, whether `run_tools` runs only
            those of its calls that are approved.

    Raises:
        TypeError: There is no such option.
    """
    if unknown := options.keys() - ToolOptions.__annotations__.keys():
        raise TypeError(f"tool() has no option {', '.join(sorted(unknown))}")

    def mark(marked: F) -> F:
        setattr(marked, _SETTINGS, options)
        return marked

    return mark if function is None else mark(function)


def spec_from_function(function: Callable[..., Any]) -> ToolSpec:
    """Return the tool that a function, a method, a callable object or a pydantic model is.

    Raises:
        InvalidToolError: It takes `*args` or `**kwargs`, is not bound to its object, or has a type
            that no JSON Schema describes.
    """
    options, target, name = settings_of(function), _target_of(function), name_of_function(function)
    if name == "<lambda>":
        raise InvalidToolError(name, reason="a lambda has no name; use @tool(name=…) on a function")
    words, documented = read_docstring(_docstring_of(target))
    if isinstance(function, type):
        schema = _schema_of_model(function, name)
    else:
        found = _parameters_of(function, name, documented)
        schema = _plain_parameters(found) or _described(lambda: _model_of(found), name)
    return ToolSpec(
        name=name,
        description=options.get("description", words),
        input_schema=schema,
        source="functions",
        permission=options.get("permission"),
        is_safe=options.get("safe"),
        is_strict=options.get("strict"),
        is_deferred=options.get("deferred"),
    )


def settings_of(function: Callable[..., Any]) -> ToolOptions:
    """Return what `tool` said of a function."""
    given: Any = getattr(function, _SETTINGS, None)
    options: ToolOptions = given or ToolOptions()
    return options


def _target_of(function: Callable[..., Any]) -> Any:
    while isinstance(function, partial):
        function = function.func
    return function


def name_of_function(function: Callable[..., Any]) -> str:
    """Return the name of the tool that a function is."""
    target = _target_of(function)
    named = getattr(target, "__name__", type(target).__name__)
    return settings_of(function).get("name") or str(named)


def binder_of(function: Callable[..., Any]) -> Callable[[JsonObject], Callable[[], Any] | str]:
    """Return what makes the call of a function with a model's arguments, as the types it asks for.

    If they do not fit its signature, the answer is why, in words for the model.
    """
    from pydantic import ValidationError

    found = _parameters_of(function, name_of_function(function), {})
    model = _model_of(found)

    def bind(given: JsonObject) -> Callable[[], Any] | str:
        try:
            made = model.model_validate(dict(given))
        except ValidationError as error:
            return faults_of(error)
        values = [(one, getattr(made, f"argument_{at}")) for at, (one, _, _) in enumerate(found)]
        by_place = [held for one, held in values if one.kind is one.POSITIONAL_ONLY]
        by_name = {one.name: held for one, held in values if one.kind is not one.POSITIONAL_ONLY}
        return partial(function, *by_place, **by_name)

    return bind


def faults_of(error: Any) -> str:
    """Return what pydantic's error says of each argument, in words for a model."""
    told = error.errors(include_url=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in told)


# The parameters in a docstring: a section of Google's or of NumPy's style, or Sphinx's fields.
_SECTION: Final = re.compile(
    r"^(?:Args|Arguments|Params|(?:Other )?Parameters)(?::\n(?P<google>(?:[ \t].*\n|\n)*)"
    r"|\n-{3,}\n(?P<numpy>(?:(?!\S.*\n-{3,}\n).*\n)*))",
    re.MULTILINE,
)
_MORE: Final = r"(?:\n+[ \t]+.*)*"
_GOOGLE: Final = re.compile(rf"^\*{{0,2}}(\w+)(?: ?\(.*?\))?:(.*{_MORE})", re.MULTILINE)
_NUMPY: Final = re.compile(rf"^\*{{0,2}}(\w+).*({_MORE})", re.MULTILINE)
_SPHINX: Final = re.compile(rf"^:param (?:[^:\n]* )?(\w+):(.*{_MORE})\n?", re.MULTILINE)


def _docstring_of(target: Any) -> str:
    if inspect.isroutine(target):
        return inspect.getdoc(target) or ""
    called = target if isinstance(target, type) else target.__call__
    return inspect.cleandoc(called.__doc__ or target.__doc__ or "")


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return what a docstring says of the whole, as it is written, and of each parameter."""
    parameters: dict[str, str] = {}

    def take(section: re.Match[str]) -> str:
        google, numpy = section.group("google", "numpy")
        entry, body = (_NUMPY, numpy) if google is None else (_GOOGLE, dedent(google))
        parameters.update(entry.findall(body))
        return f"{entry.sub('', body).strip()}\n"

    words = _SECTION.sub(take, f"{text.strip()}\n")
    parameters.update(_SPHINX.findall(words))
    words = re.sub(r"\n{3,}", "\n\n", _SPHINX.sub("", words)).strip()
    return words, {name: " ".join(told.split()) for name, told in parameters.items()}


_Parameters: typing.TypeAlias = list[tuple[inspect.Parameter, Any, str | None]]


def _parameters_of(
    function: Callable[..., Any], name: str, documented: Mapping[str, str]
) -> _Parameters:
    target = _target_of(function)
    try:
        parameters = list(inspect.signature(function).parameters.values())
        hints = _hints_of(target if inspect.isroutine(target) else type(target).__call__)
    except (TypeError, ValueError, NameError) as error:
        raise InvalidToolError(name, reason=f"its signature cannot be read: {error}") from error
    found: _Parameters = []
    for one in parameters:
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            reason = f"it takes {one}, which no schema names; write the parameters out"
            raise InvalidToolError(name, reason=reason)
        if not found and one.name == "self" and "self" not in hints:
            reason = "it is a method without its object; pass obj.method"
            raise InvalidToolError(name, reason=reason)
        hint = hints.get(one.name, Any)
        found.append((one, hint, _words_in(hint) or documented.get(one.name)))
    return found


def _hints_of(target: Any) -> dict[str, Any]:
    # What it returns may have a name that is there for type checkers alone.
    own = {name: hint for name, hint in target.__annotations__.items() if name != "return"}
    known = getattr(inspect.unwrap(target), "__globals__", {})
    stand_in: Any = SimpleNamespace(__annotations__=own)
    return typing.get_type_hints(stand_in, known, include_extras=True)


def _words_in(hint: Any) -> str | None:
    """Return the text of `Annotated[…, "text"]`, `Annotated[…, Doc("text")]` or its `Field`."""
    for extra in getattr(hint, "__metadata__", ()):
        told = getattr(extra, "description", None) or getattr(extra, "documentation", None)
        for words in (extra, told):
            if isinstance(words, str):
                return words
    return None


def _plain_parameters(found: _Parameters) -> dict[str, Json] | None:
    """Return the schema if all types and defaults are plain, as pydantic would; else `None`."""
    properties: dict[str, Json] = {}
    for one, hint, words in found:
        schema = _plain_schema(hint)
        has_default = one.default is not one.empty
        if schema is None or (has_default and not _is_plain(one.default)):
            return None
        schema |= {"default": one.default} if has_default else {}
        properties[one.name] = schema | ({"description": words} if words else {})
    required = [one.name for one, _, _ in found if one.default is one.empty]
    made = {"type": "object", "properties": properties, "additionalProperties": False}
    return made | ({"required": required} if required else {})


def _plain_schema(hint: Any) -> dict[str, Json] | None:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return {}
    if origin is None:
        return dict(_TYPES[hint]) if hint in _TYPES else None
    if origin is typing.Annotated and all(isinstance(one, str) for one in args[1:]):
        return _plain_schema(args[0])
    if origin is typing.Literal and all(isinstance(one, str) for one in args):
        return {"type": "string", **({"enum": [*args]} if args[1:] else {"const": args[0]})}
    if origin in (typing.Union, UnionType):
        branches = [_plain_schema(one) for one in args]
        return {"anyOf": branches} if all(one and "anyOf" not in one for one in branches) else None
    inner = _plain_schema(args[-1]) if origin in (list, dict) else None
    if inner is None or (origin is dict and args[0] is not str):
        return None
    if origin is list:
        return {"type": "array", "items": inner}
    return {"type": "object", "additionalProperties": inner or True}


def _is_plain(value: Json) -> bool:
    if is_list(value):
        return all(map(_is_plain, value))
    is_number = type(value) is float and isfinite(value)
    return value is None or type(value) in (str, bool, int) or is_number


def _model_of(found: _Parameters) -> Any:
    """Return the pydantic model of parameters; a default may be its `Field(…)`."""
    from pydantic import ConfigDict, Field, create_model

    annotated: Any = typing.Annotated
    fields: dict[str, Any] = {}
    for at, (one, hint, words) in enumerate(found):
        # An alias, because a model reserves some names for itself.
        told = annotated[hint, Field(alias=one.name, description=words)]
        fields[f"argument_{at}"] = (told, ... if one.default is one.empty else one.default)
    # Pydantic's other engine knows fewer patterns.
    config = ConfigDict(extra="forbid", regex_engine="python-re")
    return create_model("Arguments", __config__=config, **fields)


def _schema_of_model(model: Any, name: str) -> JsonObject:
    if not hasattr(model, "model_json_schema"):
        raise InvalidToolError(name, reason="a class is a tool only if it is a pydantic model")
    schema = _described(lambda: model, name)
    return {key: value for key, value in schema.items() if key != "description"}


def _described(make: Callable[[], Any], name: str) -> JsonObject:
    try:
        schema: JsonObject = make().model_json_schema(schema_generator=_quiet_generator())
    except Exception as error:  # types say themselves what they are, in foreign code
        reason = f"no schema describes its arguments: {tell_problem(error).partition('. Set ')[0]}"
        raise InvalidToolError(name, reason=reason) from error
    plain = {key: value for key, value in schema.items() if key != "title"}
    for key, one in plain.get("$defs", {}).items():
        plain["$defs"][key] = {inner: held for inner, held in one.items() if inner != "title"}
    return plain


@cache
def _quiet_generator() -> Any:
    from pydantic.json_schema import GenerateJsonSchema
    from pydantic_core import PydanticSerializationError

    class Quiet(GenerateJsonSchema):
        """Leaves out titles and, without a warning, defaults that are not JSON."""

        ignored_warning_kinds: Any = frozenset({"skipped-choice", "non-serializable-default"})

        def field_title_should_be_set(self, schema: Any) -> bool:
            return schema is None

        def encode_default(self, dft: Any) -> Any:
            if isinstance(dft, float) and not isfinite(dft):
                raise PydanticSerializationError("JSON has no such number")
            return super().encode_default(dft)

    return Quiet
