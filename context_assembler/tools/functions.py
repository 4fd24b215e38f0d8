"""Turns a Python function into a tool: schema from its signature, words from its docstring.

Plain types and docstrings are read here; pydantic and griffe, which take long to load, read the rest.
"""

import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial, reduce
from math import isfinite
from operator import or_
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
    overload,
)

from context_assembler.errors import InvalidToolError
from context_assembler.events import Json, JsonObject
from context_assembler.ports import ToolSpec

_SETTINGS: Final = "__context_tool__"
_PLAIN: Final[Mapping[Any, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
    None: "null",
}

F = TypeVar("F", bound=Callable[..., Any])


class _Settings(NamedTuple):
    name: str | None = None
    description: str | None = None
    permission: str | None = None
    safe: bool | None = None
    strict: bool | None = None
    deferred: bool | None = None


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
            searching, if its provider can search.
    """
    chosen = _Settings(**settings)

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
    settings: _Settings = getattr(function, _SETTINGS, None) or _Settings()
    target = function
    while isinstance(target, partial):
        target = target.func
    name = str(settings.name or getattr(target, "__name__", type(target).__name__))
    if name == "<lambda>":
        raise InvalidToolError(name, reason="a lambda has no name; use @tool(name=…) on a function")
    words, documented = read_docstring(_docstring_of(target))
    if isinstance(function, type):
        schema = _schema_of_model(function, name)
    else:
        schema = _schema_of_signature(function, target, name, documented)
    return ToolSpec(
        name=name,
        description=words if settings.description is None else settings.description,
        input_schema=schema,
        source="functions",
        permission=settings.permission,
        is_safe=settings.safe,
        is_strict=settings.strict,
        is_deferred=settings.deferred,
    )


# ---- docstrings ----

_ARGUMENT: Final = re.compile(r"    (?P<name>\w+)(?: \([^()]*\))?: (?P<words>\S.*)")
_MARKED: Final = re.compile(
    r"^(?::\w|[-=~]{2,}|Args:|Arguments:|Parameters:|Params:|[ \t])", re.MULTILINE
)


def _docstring_of(target: Any) -> str:
    if isinstance(target, type):  # the docstrings of pydantic's own classes are not about a model
        for one in target.__mro__:
            words = vars(one).get("__doc__")
            if words or one.__module__.startswith("pydantic."):
                is_own = not one.__module__.startswith("pydantic.")
                return inspect.cleandoc(words) if words and is_own else ""
        return ""
    if inspect.isroutine(target):
        return inspect.getdoc(target) or ""
    own = type(target).__call__.__doc__
    return inspect.cleandoc(own) if own else inspect.getdoc(type(target)) or ""


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return what a docstring says of the whole, and of each parameter (Google, NumPy or Sphinx)."""
    text = text.strip()
    words, has_arguments, rest = text.partition("\n\nArgs:\n")
    if not _MARKED.search(words):
        if not has_arguments:
            return words, {}
        parameters: dict[str, str] = {}
        lines = rest.split("\n")
        for line in lines:
            if found := _ARGUMENT.fullmatch(line):
                parameters[found["name"]] = found["words"]
            elif line.startswith("        ") and line.strip() and parameters:
                last = next(reversed(parameters))
                parameters[last] += f" {line}"
            else:
                break
        else:
            return words.rstrip(), {n: " ".join(one.split()) for n, one in parameters.items()}
    return _read_with_griffe(text)


def _read_with_griffe(text: str) -> tuple[str, dict[str, str]]:
    import griffe

    quiet: Any = {"warnings": False}
    sections = griffe.parse_auto(
        # The style is known by lines that sections begin with, looked for after a line break.
        griffe.Docstring(f"\n{text}", lineno=1),
        default=griffe.Parser.google,
        per_style_options={"google": quiet, "numpy": quiet, "sphinx": quiet},
    )
    words: list[str] = []
    parameters: dict[str, str] = {}
    for section in sections:
        kind, value = section.kind.value, section.value
        if kind in {"parameters", "other parameters"}:
            parameters |= {one.name: " ".join(one.description.split()) for one in value}
        elif kind == "text":
            words.append(str(value).strip())
        elif kind == "admonition":
            words.append(f"{section.title}: {value.description}".strip())
        else:
            lines = [line for line in map(_line_of, value) if line]
            words.append("\n".join([f"{section.title or kind.capitalize()}:", *lines]))
    return "\n\n".join(filter(None, words)), parameters


def _line_of(entry: Any) -> str:
    if isinstance(entry, tuple):  # a piece of an example: its kind, and its text
        return str(entry[1])
    labels = getattr(entry, "name", ""), str(getattr(entry, "annotation", None) or "")
    label = " ".join(filter(None, labels))
    return f"{label}: {entry.description}" if label else str(entry.description)


# ---- signatures ----


def _schema_of_signature(
    function: Callable[..., Any], target: Any, name: str, documented: Mapping[str, str]
) -> JsonObject:
    try:
        parameters = list(inspect.signature(function).parameters.values())
        hints = _hints_of(target)
    except (TypeError, ValueError, NameError) as error:
        raise InvalidToolError(name, reason=f"its signature cannot be read: {error}") from error
    for at, one in enumerate(parameters):
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            stars = "*" if one.kind is one.VAR_POSITIONAL else "**"
            reason = f"it takes {stars}{one.name}, which no schema names; write the parameters out"
            raise InvalidToolError(name, reason=reason)
        if at == 0 and one.name == "self" and "self" not in hints:
            reason = "it is a method without its object; pass obj.method"
            raise InvalidToolError(name, reason=reason)
    found = [
        (one, hint, _words_in(hint) or documented.get(one.name))
        for one in parameters
        for hint in (hints.get(one.name, Any),)
    ]
    return _plain_parameters(found) or _pydantic_parameters(found, name)


def _hints_of(target: Any) -> dict[str, Any]:
    target = target if inspect.isroutine(target) else type(target).__call__
    try:
        return get_type_hints(target, include_extras=True)
    except NameError:  # what it returns may have a name that is there for type checkers alone
        own = {name: hint for name, hint in target.__annotations__.items() if name != "return"}
        inner = inspect.unwrap(target)
        stand_in: Any = SimpleNamespace(
            __annotations__=own,
            __globals__=getattr(inner, "__globals__", {}),
            __type_params__=getattr(inner, "__type_params__", ()),
        )
        return get_type_hints(stand_in, include_extras=True)


def _words_in(hint: Any) -> str | None:
    """Return the text of `Annotated[…, "text"]`, `Annotated[…, Doc("text")]` or its `Field`."""
    for extra in getattr(hint, "__metadata__", ()):
        told = getattr(extra, "description", None) or getattr(extra, "documentation", None)
        for words in (extra, told):
            if isinstance(words, str):
                return words
    return None


_Parameters = list[tuple[inspect.Parameter, Any, str | None]]


def _plain_parameters(found: _Parameters) -> dict[str, Json] | None:
    """Return the schema if all types and defaults are plain, as pydantic would; else `None`."""
    properties: dict[str, Json] = {}
    required = []
    for one, hint, words in found:
        schema = _plain_schema(hint)
        has_default = one.default is not one.empty
        if schema is None or (has_default and not _is_plain(one.default)):
            return None
        if has_default:
            schema["default"] = one.default
        else:
            required.append(one.name)
        if words:
            schema["description"] = words
        properties[one.name] = schema
    made: dict[str, Json] = {"type": "object", "properties": properties}
    return {**made, "additionalProperties": False} | ({"required": required} if required else {})


def _plain_schema(hint: Any) -> dict[str, Json] | None:
    origin, args = get_origin(hint), get_args(hint)
    if origin is None:
        if hint is Any:
            return {}
        if hint is list:
            return {"type": "array", "items": {}}
        if hint is dict:
            return {"type": "object", "additionalProperties": True}
        kind = _PLAIN.get(hint) if hint is None or isinstance(hint, type) else None
        return {"type": kind} if kind else None
    if origin is Annotated:
        is_words = all(isinstance(extra, str) for extra in args[1:])
        return _plain_schema(args[0]) if is_words else None
    if origin is Literal and all(isinstance(one, str) for one in args):
        fixed = {"const": args[0]} if len(args) == 1 else {"enum": list(args)}
        return {"type": "string", **fixed}
    if origin is dict and args[0] is not str:
        return None
    if origin in (list, dict):
        inner = _plain_schema(args[-1])
        if inner is None or origin is list:
            return None if inner is None else {"type": "array", "items": inner}
        return {"type": "object", "additionalProperties": inner or True}
    if origin in (Union, UnionType):
        branches = [_plain_schema(one) for one in args]
        is_flat = all(one and "anyOf" not in one for one in branches)
        return {"anyOf": branches} if is_flat else None
    return None


def _is_plain(value: Json) -> bool:
    if value is None or type(value) in (str, bool, int):
        return True
    if type(value) is list:
        return all(map(_is_plain, value))
    return type(value) is float and isfinite(value)


# ---- pydantic ----


def _pydantic_parameters(found: _Parameters, name: str) -> JsonObject:
    """Return the schema that pydantic makes of parameters; a default may be its `Field(…)`."""

    def make() -> JsonObject:
        from pydantic import ConfigDict, Field, create_model
        from pydantic.fields import FieldInfo

        fields: dict[str, Any] = {}
        for at, (one, given, described) in enumerate(found):
            hint, words, default = _readable(given), described, one.default
            # An alias, because a model reserves some names for itself.
            shared: dict[str, Any] = {"alias": one.name}
            if isinstance(default, FieldInfo):
                hint = Annotated[hint, default]
                words = default.description or words
                if default.default_factory is not None:
                    shared["default_factory"] = default.default_factory
                default = default.default
            if "default_factory" not in shared:
                shared["default"] = ... if default is one.empty else default
            fields[f"argument_{at}"] = (hint, Field(description=words, **shared))
        # Nothing is validated with it, and pydantic's other engine knows fewer patterns.
        config = ConfigDict(extra="forbid", regex_engine="python-re")
        model = create_model("Arguments", __config__=config, **fields)
        schema: JsonObject = model.model_json_schema(schema_generator=_quiet_generator())
        return schema

    return _described(make, name)


def _schema_of_model(model: type, name: str) -> JsonObject:
    make = getattr(model, "model_json_schema", None)
    if make is None:
        raise InvalidToolError(name, reason="a class is a tool only if it is a pydantic model")
    schema = _described(lambda: make(schema_generator=_quiet_generator()), name)
    return {key: value for key, value in schema.items() if key != "description"}


def _described(make: Callable[[], JsonObject], name: str) -> JsonObject:
    try:
        schema = make()
    except Exception as error:  # types say themselves what they are, in foreign code
        said = " ".join(str(error).split("\n", 1)[0].split())
        if not type(error).__module__.startswith("pydantic"):
            said = f"{type(error).__name__}: {said}"
        said = said.split(". Set `arbitrary_types_allowed")[0].rstrip(".")  # advice for models
        reason = f"no schema describes its arguments: {said[:200]}"
        raise InvalidToolError(name, reason=reason) from error
    untitled = {
        key: {inner: held for inner, held in one.items() if inner != "title"}
        for key, one in schema.get("$defs", {}).items()
    }
    plain = {key: value for key, value in schema.items() if key != "title"}
    return {**plain, "$defs": untitled} if untitled else plain


@cache
def _quiet_generator() -> Any:
    from pydantic.json_schema import GenerateJsonSchema
    from pydantic_core import PydanticSerializationError

    class Quiet(GenerateJsonSchema):
        """Leaves out titles and, without a warning, defaults that are not JSON."""

        def field_title_should_be_set(self, schema: Any) -> bool:
            return schema is None

        def encode_default(self, dft: Any) -> Any:
            encoded = super().encode_default(dft)
            try:
                json.dumps(encoded, allow_nan=False)
            except ValueError as error:
                raise PydanticSerializationError(str(error)) from error
            return encoded

        def emit_warning(self, kind: Any, detail: str) -> None:
            """Say nothing: a default that is not JSON is the function's own business."""

    return Quiet


def _readable(hint: Any, above: tuple[Any, ...] = ()) -> Any:
    """Return the hint with every `typing.TypedDict` in it replaced by one that pydantic reads.

    Before Python 3.12 pydantic takes `typing_extensions.TypedDict` alone
    (https://errors.pydantic.dev/2.14/u/typed-dict-version). This can go with Python 3.11.
    """
    if sys.version_info >= (3, 12):
        return hint
    if is_typeddict(hint):
        if hint in above:
            return hint  # one that holds itself stays as it is; pydantic says what is wrong
        import typing_extensions

        fields = {}
        for key, inner in get_type_hints(hint, include_extras=True).items():
            bare = get_args(inner)[0] if get_origin(inner) in (NotRequired, Required) else inner
            twin = _readable(bare, (*above, hint))
            fields[key] = NotRequired[twin] if key in hint.__optional_keys__ else twin
        make: Any = typing_extensions.TypedDict
        made = make(hint.__name__, fields)
        made.__doc__ = hint.__doc__
        return made
    origin, args = get_origin(hint), get_args(hint)
    if origin is None or origin is Literal or not args:
        return hint
    if origin is Annotated:
        return Annotated[(_readable(args[0], above), *args[1:])]
    twins = tuple(_readable(one, above) for one in args)
    if all(twin is one for twin, one in zip(twins, args, strict=True)):
        return hint
    if origin is UnionType:
        return reduce(or_, twins)
    copy_with = getattr(hint, "copy_with", None)  # List[…], Union[…] and others of typing
    return origin[twins] if copy_with is None else copy_with(twins)
