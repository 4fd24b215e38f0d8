"""Where tools come from: functions, literal specs in any provider's shape, objects that list tools.

A function's schema comes from its signature, its words from its docstring. Plain types and docstrings
are read here; pydantic and griffe, which take long to load, read the rest.
"""

import inspect
import json
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from math import isfinite
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Final, NamedTuple, TypedDict, TypeVar, Unpack

from context_assembler.errors import ConfigurationError, InvalidToolError, brief, with_article
from context_assembler.events import Json, JsonObject, is_list, is_object
from context_assembler.ports import Skill, ToolSource, ToolSpec

F = TypeVar("F", bound=Callable[..., Any])


class ReadTools(NamedTuple):
    """The tools that could be read, those that could not, and what is missing of the former."""

    specs: Sequence[ToolSpec] = ()
    problems: Sequence[InvalidToolError] = ()
    notes: Sequence[str] = ()


class ListedTools:
    """Functions, and specs written out in any provider's shape: `ListedTools([search, {…}])`.

    They are read when the tools are first asked for. A tool that cannot be read does not harm the
    rest: it is among the `problems`.

    Args:
        kind: Whose tools these are, for their precedence: `functions`, `listed` or `skills`.
    """

    is_constant: Final = True

    def __init__(self, entries: Iterable[Any], name: str = "listed", kind: str = "listed") -> None:
        self.name, self.kind = name, kind
        self._entries = tuple(entries)
        self._read: ReadTools | None = None

    @property
    def problems(self) -> Sequence[InvalidToolError]:
        """The tools that cannot be offered."""
        return self._tools().problems

    @property
    def notes(self) -> Sequence[str]:
        """What of the specs is not carried over, and which functions have no docstring."""
        return self._tools().notes

    def list_now(self) -> Sequence[ToolSpec]:
        """Return the tools in the order given."""
        return self._tools().specs

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tools in the order given."""
        return self._tools().specs

    def _tools(self) -> ReadTools:
        self._read = self._read or read_tools(self._entries)
        return self._read


class ExecutorTools:
    """The tools of an object with `list_tools()`, asked again each time.

    What that returns, or carries as `tools`, may be specs of any shape, functions or SDK objects.

    Attributes:
        problems: What could not be offered of the last list.
        notes: What of the last list is not carried over.
    """

    kind: Final = "executor"

    def __init__(self, executor: Any, *, name: str | None = None) -> None:
        own = attribute(executor, "name")
        self.name = name or (own if isinstance(own, str) else "") or "executor"
        self.problems: Sequence[InvalidToolError] = ()
        self.notes: Sequence[str] = ()
        self._act: Callable[[], Any] = executor.list_tools
        self._waits = inspect.iscoroutinefunction(self._act)

    @property
    def list_now(self) -> Callable[[], Sequence[ToolSpec]] | None:
        """A function that returns the tools offered at this moment; `None` if they are awaited."""
        return None if self._waits else lambda: self._take(self._act())

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tools offered at this moment.

        A `list_tools` that is not a coroutine function is called in a thread, because it may block.
        """
        import asyncio

        act = self._act
        listed = act() if self._waits else await asyncio.to_thread(lambda: _held(act()))
        return self._take(await listed if inspect.isawaitable(listed) else listed)

    def _take(self, listed: Any) -> Sequence[ToolSpec]:
        specs, self.problems, self.notes = read_tools(_entries_of(listed))
        return specs


def _held(listed: Any) -> Any:
    """Return an answer with everything in it read, for that may block as well."""
    return listed if inspect.isawaitable(listed) else list(_entries_of(listed))


def _entries_of(listed: Any) -> Iterable[Any]:
    entries: Any = getattr(listed, "tools", listed)
    if not hasattr(entries, "__iter__") or isinstance(entries, str | bytes) or is_object(entries):
        raise TypeError(f"list_tools() returned {with_article(type(entries).__name__)}, not a list")
    listing: Iterable[Any] = entries
    return listing


def open_tool_sources(given: Any, *, starts_servers: bool = True) -> list[ToolSource]:
    """Open the short forms of tools: functions, specs, executors, sources, and lists that mix them.

    A mapping with `mcpServers` is what the configuration files of MCP clients hold.

    Args:
        starts_servers: Whether such a mapping is accepted, because it starts programs.

    Returns:
        One source for all functions, one for all literal specs, one for each executor and for each
        MCP server; an empty list if nothing is given.

    Raises:
        ConfigurationError: Something is none of these, or two MCP servers have one name.
        MissingExtraError: MCP servers are named, and the MCP SDK is not installed.
    """
    functions: list[Any] = []
    specs: list[Any] = []
    executors: list[ToolSource] = []
    servers: list[Any] = []
    for entry in _flat(given):
        is_spec = isinstance(entry, ToolSpec) or is_object(entry)
        if attribute(type(entry), "kind") == "mcp":
            servers.append(entry)
        elif is_object(entry) and any(
            is_object(entry.get(key)) for key in ("mcpServers", "servers")
        ):
            if not starts_servers:
                remedy = "Name them in ContextAssembler(tools=…), or pass McpTools objects."
                raise ConfigurationError("One call's tools start no MCP servers.", remedy=remedy)
            from context_assembler.tools.mcp import McpTools

            servers += McpTools.from_config(entry)
        elif not is_spec and callable(attribute(entry, "list_tools")):
            is_ours = isinstance(entry, ListedTools | ExecutorTools)
            executors.append(entry if is_ours else ExecutorTools(entry))
        elif not is_spec and callable(entry):
            functions.append(entry)
        elif is_spec or callable(attribute(entry, "model_dump")):
            specs.append(entry)
        else:
            kind = with_article(type(entry).__name__, begins_sentence=True)
            problem = f"{kind} is no source of tools: {brief(entry)}."
            remedy = "Pass functions, tool specs, an object with list_tools(), or a list of these."
            raise ConfigurationError(problem, remedy=remedy)
    names = [server.name for server in servers]
    if twice := [name for name in names if names.count(name) > 1]:
        remedy = "Give each a name of its own: it tells their tools apart."
        raise ConfigurationError(f"Two MCP servers are called {twice[0]!r}.", remedy=remedy)
    first = [ListedTools(functions, "functions", "functions")] if functions else []
    return [*first, *executors, *servers, *([ListedTools(specs)] if specs else [])]


def open_skill_tools(skills: Iterable[Skill]) -> list[ToolSource]:
    """Open the tools that skills bring along, one source for each skill."""
    return [ListedTools(skill.tools, f"skill {skill.name}", "skills") for skill in skills]


def _flat(given: Any) -> Iterator[Any]:
    entries = given
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        for entry in entries:
            yield from _flat(entry)
    elif given is not None:
        yield given


def attribute(entry: Any, name: str) -> Any:
    """Return an attribute of a foreign object; `None` if there is none, or it cannot be read."""
    try:
        return getattr(entry, name, None)
    except Exception:
        return None


def tell_problem(error: BaseException) -> str:
    """Return a foreign error in one line: its name, and the beginning of what it says."""
    try:
        said = " ".join(str(error)[:200].split())
    except Exception:
        said = ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


# ---- one entry ----

_Read: typing.TypeAlias = tuple[list[ToolSpec], list[str]]


def read_tools(entries: Iterable[Any]) -> ReadTools:
    """Read every entry: a `ToolSpec`, a literal spec, a function, or an SDK's tool object."""
    specs: list[ToolSpec] = []
    problems: dict[str, InvalidToolError] = {}  # one for all that have the same to say
    notes: dict[str, None] = {}
    for entry in entries:
        try:
            read, odd = _read_entry(entry)
            specs += read
            notes |= dict.fromkeys(odd)
        except InvalidToolError as error:
            problems.setdefault(str(error), error)
        except Exception as error:  # what an entry does when it is looked at is its own
            reason = f"it cannot be read: {tell_problem(error)}"
            problem = InvalidToolError(_name_of(entry), reason=reason)
            problems.setdefault(str(problem), problem)
    return ReadTools(tuple(specs), tuple(problems.values()), tuple(notes))


def _read_entry(entry: Any) -> _Read:
    if isinstance(entry, ToolSpec):
        return [entry], []
    if is_object(entry):
        return read_shape(entry)
    dump = getattr(entry, "model_dump", None)
    if dump is not None and not isinstance(entry, type):
        return read_shape(dump(mode="json", by_alias=True, exclude_none=True))
    if not callable(entry):
        reason = f"{with_article(type(entry).__name__)} is neither a spec nor a function"
        raise InvalidToolError(_name_of(entry), reason=reason)
    spec = spec_from_function(entry)
    missing = "has no docstring: the model gets its name and arguments, but not what it does."
    return [spec], [] if spec.description else [f"{spec.name} {missing}"]


def _name_of(entry: Any) -> str:
    names = (attribute(entry, name) for name in ("__name__", "name"))
    return next((name for name in names if isinstance(name, str)), "(unnamed)")


_VERSIONED: Final = re.compile(r"_\d{8}$")  # Anthropic's own tools: web_search_20260209
_GEMINI: Final = frozenset(
    "functionDeclarations googleSearch googleSearchRetrieval codeExecution urlContext fileSearch "
    "googleMaps computerUse retrieval enterpriseWebSearch mcpServers".split()
)
_SCHEMA_KEYS: Final = (
    "input_schema inputSchema parameters parametersJsonSchema parameters_json_schema".split()
)
# Known, or nothing for the model in them, or (cache_control) a matter of the provider's renderer.
_SILENT: Final = frozenset(
    "name description strict type function defer_loading cache_control title outputSchema annotations "
    "_meta icons response".split()
)


def read_shape(spec: JsonObject) -> _Read:
    """Return the tools of a spec of OpenAI (chat, responses), Anthropic, MCP, Gemini or Bedrock.

    A provider's own tools (web search, code execution …) become specs for that provider alone. With
    them comes a sentence for each key that is not carried over.

    Raises:
        InvalidToolError: It has none of these shapes, or no name.
    """
    kind, function, custom = spec.get("type"), spec.get("function"), spec.get("custom")
    kind = kind if isinstance(kind, str) else ""
    name = spec.get("name") if isinstance(spec.get("name"), str) else ""
    bedrock = spec.get("toolSpec")
    if is_object(function):
        return _function(function, function.get("parameters"), outer=spec)
    if is_object(bedrock):
        schema = bedrock.get("inputSchema")
        return _function(bedrock, schema.get("json") if is_object(schema) else None)
    if "systemTool" in spec:
        return _native("bedrock", spec, spec["systemTool"])
    if not kind and not _GEMINI.isdisjoint(map(_camel, map(str, spec))):
        return _gemini(spec)
    if "inputSchema" in spec and "input_schema" not in spec:
        return _mcp(spec)
    if "input_schema" in spec or (name and kind in ("", "function")):
        return _flat_function(spec)
    if _VERSIONED.search(kind) or kind == "mcp_toolset":
        return _native("anthropic", spec, spec)
    if is_object(custom) or kind.startswith("openrouter:"):
        return _native("openai_chat", spec, custom or {"type": kind.replace(":", "_")})
    if kind not in ("", "function"):
        return _native("openai_responses", spec, spec)
    reason = "it has none of the known shapes (OpenAI, Anthropic, MCP, Gemini, Bedrock)"
    raise InvalidToolError(str(name or "(unnamed)"), reason=reason)


def _function(spec: JsonObject, schema: Json, *, outer: JsonObject | None = None) -> _Read:
    name, description, strict = spec.get("name"), spec.get("description"), spec.get("strict")
    if not isinstance(name, str) or not name.strip():
        raise InvalidToolError("(unnamed)", reason="its name is missing or empty")
    if schema is not None and not is_object(schema):
        raise InvalidToolError(name, reason="its schema is not an object")
    deferred = spec.get("defer_loading", (outer or {}).get("defer_loading"))
    tool = ToolSpec(
        name=name,
        description=description if isinstance(description, str) else "",
        input_schema=schema or {},
        is_strict=strict if isinstance(strict, bool) else None,
        is_deferred=deferred if isinstance(deferred, bool) else None,
    )
    extra = [key for key in (*spec, *(outer or ())) if key not in _SILENT.union(_SCHEMA_KEYS)]
    return [tool], [f"Tool {name!r}: {key!r} is not carried over." for key in extra]


def _flat_function(spec: JsonObject) -> _Read:
    schemas = (spec[key] for key in _SCHEMA_KEYS if spec.get(key) is not None)
    return _function(spec, next(schemas, None))


def _mcp(spec: JsonObject) -> _Read:
    """Read a tool as an MCP server lists it; one that only reads, and destroys nothing, is safe.

    Source:
        https://modelcontextprotocol.io/specification/2025-06-18/schema#toolannotations
        (read 2026-11-27)
    """
    [tool], notes = _function(spec, spec["inputSchema"])
    hints = spec.get("annotations")
    hints = hints if is_object(hints) else {}
    if hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True:
        tool = replace(tool, is_safe=True)
    return [tool], notes


def _gemini(spec: JsonObject) -> _Read:
    """Read declarations; their types are in capitals there, which is no mistake.

    Source:
        https://ai.google.dev/api/caching#Schema (read 2026-11-27)
    """
    from context_assembler.providers.schemas import canonical_schema

    specs: list[ToolSpec] = []
    notes: list[str] = []
    for key, value in spec.items():
        if _camel(key) == "functionDeclarations" and is_list(value):
            for one in value:
                [tool], odd = _flat_function(one if is_object(one) else {})
                schema = canonical_schema(tool.input_schema, tool=tool.name).schema
                specs.append(replace(tool, input_schema=schema))
                notes += odd
        elif value is not None:
            name = re.sub(r"(?<!^)(?=[A-Z])", "_", key).lower()
            specs += _native("gemini", {key: value}, {"name": name})[0]
    return specs, notes


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


def _native(provider: str, spec: JsonObject, named: Json) -> _Read:
    keys = ("name", "server_label", "mcp_server_name", "type")
    names = (named.get(key) for key in keys if is_object(named))
    name = next((one for one in names if isinstance(one, str) and one), "None")
    return [ToolSpec(name=name, native_specs={provider: spec})], []


# ---- functions ----

_SETTINGS: Final = "__context_tool__"
_TYPES: Final[Mapping[Any, str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}


class ToolOptions(TypedDict, total=False):
    """What `tool` can say of a function."""

    name: str
    description: str
    permission: str
    safe: bool
    strict: bool
    deferred: bool


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
            searching, if its provider can search.

    Raises:
        TypeError: There is no such option.
    """
    if unknown := options.keys() - ToolOptions.__annotations__.keys():
        raise TypeError(f"tool() has no option {', '.join(sorted(unknown))}")

    def mark(marked: F) -> F:
        try:
            setattr(marked, _SETTINGS, options)
        except AttributeError:  # a method of an object, a function written in C
            reason = "nothing can be kept on it; wrap it in a function of your own"
            raise InvalidToolError(_name_of(marked), reason=reason) from None
        return marked

    return mark if function is None else mark(function)


def spec_from_function(function: Callable[..., Any]) -> ToolSpec:
    """Return the tool that a function, a method, a callable object or a pydantic model is.

    Raises:
        InvalidToolError: It takes `*args` or `**kwargs`, is not bound to its object, or has a type
            that no JSON Schema describes.
    """
    options: Any = getattr(function, _SETTINGS, {})
    target = function
    while isinstance(target, partial):
        target = target.func
    name = options.get("name") or str(getattr(target, "__name__", type(target).__name__))
    if name == "<lambda>":
        raise InvalidToolError(name, reason="a lambda has no name; use @tool(name=…) on a function")
    words, documented = read_docstring(_docstring_of(target))
    is_model = isinstance(function, type)
    return ToolSpec(
        name=name,
        description=options.get("description", words),
        input_schema=_schema_of_model(function, name)
        if is_model
        else _schema_of_signature(function, target, name, documented),
        source="functions",
        permission=options.get("permission"),
        is_safe=options.get("safe"),
        is_strict=options.get("strict"),
        is_deferred=options.get("deferred"),
    )


_ARGUMENT: Final = re.compile(r"    (?P<name>\w+)(?: \([^()]*\))?: (?P<words>\S.*)")
_MARKED: Final = re.compile(
    r"^(?::\w|[-=~]{2,}|(?:Args|Arguments|Parameters|Params):|[ \t])", re.MULTILINE
)


def _docstring_of(target: Any) -> str:
    if isinstance(target, type):  # the docstrings of pydantic's own classes are not about a model
        own = (one for one in target.__mro__ if vars(one).get("__doc__"))
        first = next((one for one in own), object)
        is_own = not first.__module__.startswith(("pydantic.", "builtins"))
        return inspect.cleandoc(first.__doc__ or "") if is_own else ""
    if inspect.isroutine(target):
        return inspect.getdoc(target) or ""
    kind = typing.cast("Any", type(target))
    own_words = kind.__call__.__doc__
    return inspect.cleandoc(own_words) if own_words else inspect.getdoc(kind) or ""


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return what a docstring says of the whole, and of each parameter (Google, NumPy or Sphinx)."""
    text = text.strip()
    words, has_arguments, rest = text.partition("\n\nArgs:\n")
    if _MARKED.search(words):
        return _read_with_griffe(text)
    parameters: dict[str, str] = {}
    for line in rest.split("\n") if has_arguments else ():
        if found := _ARGUMENT.fullmatch(line):
            parameters[found["name"]] = found["words"]
        elif line.startswith("        ") and line.strip() and parameters:
            parameters[next(reversed(parameters))] += f" {line}"
        else:
            return _read_with_griffe(text)
    return words.rstrip(), {name: " ".join(one.split()) for name, one in parameters.items()}


def _read_with_griffe(text: str) -> tuple[str, dict[str, str]]:
    import griffe

    quiet: Any = {style: {"warnings": False} for style in ("google", "numpy", "sphinx")}
    # The style is known by lines that sections begin with, looked for after a line break.
    docstring = griffe.Docstring(f"\n{text}", lineno=1)
    default = griffe.Parser.google
    words: list[str] = []
    parameters: dict[str, str] = {}
    for section in griffe.parse_auto(docstring, default=default, per_style_options=quiet):
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
    if not hasattr(entry, "description"):  # a piece of an example: its kind, and its text
        return str(entry[1])
    labels = getattr(entry, "name", ""), str(getattr(entry, "annotation", None) or "")
    label = " ".join(filter(None, labels))
    return f"{label}: {entry.description}" if label else str(entry.description)


_Parameters: typing.TypeAlias = list[tuple[inspect.Parameter, Any, str | None]]


def _schema_of_signature(
    function: Callable[..., Any], target: Any, name: str, documented: Mapping[str, str]
) -> JsonObject:
    try:
        parameters = list(inspect.signature(function).parameters.values())
        hints = _hints_of(target if inspect.isroutine(target) else type(target).__call__)
    except (TypeError, ValueError, NameError) as error:
        raise InvalidToolError(name, reason=f"its signature cannot be read: {error}") from error
    found: _Parameters = []
    for one in parameters:
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            stars = "*" if one.kind is one.VAR_POSITIONAL else "**"
            reason = f"it takes {stars}{one.name}, which no schema names; write the parameters out"
            raise InvalidToolError(name, reason=reason)
        if not found and one.name == "self" and "self" not in hints:
            reason = "it is a method without its object; pass obj.method"
            raise InvalidToolError(name, reason=reason)
        hint = hints.get(one.name, Any)
        found.append((one, hint, _words_in(hint) or documented.get(one.name)))
    return _plain_parameters(found) or _pydantic_parameters(found, name)


def _hints_of(target: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError:  # what it returns may have a name that is there for type checkers alone
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
        if schema is None or not (one.default is one.empty or _is_plain(one.default)):
            return None
        more = {"default": one.default, "description": words}
        absent = {"default": one.default is one.empty, "description": not words}
        properties[one.name] = schema | {k: v for k, v in more.items() if not absent[k]}
    required = [one.name for one, _, _ in found if one.default is one.empty]
    made = {"type": "object", "properties": properties, "additionalProperties": False}
    return made | ({"required": required} if required else {})


def _plain_schema(hint: Any) -> dict[str, Json] | None:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is None:
        if hint is Any or hint in (list, dict):
            empty: dict[Any, dict[str, Json]] = {
                list: {"type": "array", "items": {}},
                dict: {"type": "object", "additionalProperties": True},
            }
            return empty.get(hint, {})
        kind = "null" if hint in (None, NoneType) else _TYPES.get(hint)
        return {"type": kind} if kind else None
    if origin is typing.Annotated:
        return _plain_schema(args[0]) if all(isinstance(one, str) for one in args[1:]) else None
    if origin is typing.Literal:
        fixed = {"const": args[0]} if len(args) == 1 else {"enum": list(args)}
        return {"type": "string", **fixed} if all(isinstance(one, str) for one in args) else None
    if origin in (typing.Union, UnionType):
        branches = [_plain_schema(one) for one in args]
        return {"anyOf": branches} if all(one and "anyOf" not in one for one in branches) else None
    inner = (
        _plain_schema(args[-1]) if origin is list or (origin is dict and args[0] is str) else None
    )
    if inner is None or origin is list:
        return None if inner is None else {"type": "array", "items": inner}
    return {"type": "object", "additionalProperties": inner or True}


def _is_plain(value: Json) -> bool:
    if is_list(value):
        return all(map(_is_plain, value))
    return (
        value is None
        or type(value) in (str, bool, int)
        or (type(value) is float and isfinite(value))
    )


def _pydantic_parameters(found: _Parameters, name: str) -> JsonObject:
    """Return the schema that pydantic makes of parameters; a default may be its `Field(…)`."""

    def make() -> JsonObject:
        from pydantic import ConfigDict, Field, create_model
        from pydantic.fields import FieldInfo

        fields: dict[str, Any] = {}
        for at, (one, given, described) in enumerate(found):
            hint, words, default = given, described, one.default
            # An alias, because a model reserves some names for itself.
            shared: dict[str, Any] = {"alias": one.name}
            if isinstance(default, FieldInfo):
                hint, words = typing.Annotated[hint, default], default.description or words
                factory, default = default.default_factory, default.default
                shared |= {"default_factory": factory} if factory is not None else {}
            if "default_factory" not in shared:
                shared["default"] = ... if default is one.empty else default
            fields[f"argument_{at}"] = (hint, Field(description=words, **shared))
        # Nothing is validated with it, and pydantic's other engine knows fewer patterns.
        config = ConfigDict(extra="forbid", regex_engine="python-re")
        model = create_model("Arguments", __config__=config, **fields)
        schema: JsonObject = model.model_json_schema(schema_generator=_quiet_generator())
        return schema

    return _described(make, name)


def _schema_of_model(model: Any, name: str) -> JsonObject:
    make = getattr(model, "model_json_schema", None)
    if make is None:
        raise InvalidToolError(name, reason="a class is a tool only if it is a pydantic model")
    schema = _described(lambda: make(schema_generator=_quiet_generator()), name)
    return {key: value for key, value in schema.items() if key != "description"}


def _described(make: Callable[[], JsonObject], name: str) -> JsonObject:
    try:
        schema = make()
    except Exception as error:  # types say themselves what they are, in foreign code
        said = tell_problem(error)
        if type(error).__module__.startswith("pydantic"):
            said = str(error).split("\n", 1)[0].split(". Set `arbitrary_types_allowed")[0]
        reason = f"no schema describes its arguments: {said.rstrip('.')}"
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
