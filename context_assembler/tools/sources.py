"""Where tools come from: literal specs in any provider's shape, functions, objects that list tools."""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from context_assembler import errors
from context_assembler.events import Json, JsonObject, is_list, is_object
from context_assembler.ports import Skill, ToolSource, ToolSpec

Answer = TypeVar("Answer")
Question: TypeAlias = tuple[Hashable, Callable[[], Any], Callable[[Any], Answer]]
"""What an answer is kept by (`None`: it is not), what lists, and what makes the answer of that."""


class ReadTools(NamedTuple):
    """The tools that could be read, those that could not, and what is missing of the former."""

    specs: Sequence[ToolSpec] = ()
    problems: Sequence[errors.InvalidToolError] = ()
    notes: Sequence[str] = ()


class ListedTools:
    """Functions, and specs written out in any provider's shape: `ListedTools([search, {…}])`.

    They are read when the tools are first asked for. A tool that cannot be read does not harm the
    rest: it is among the `problems`.

    Args:
        kind: Whose tools these are, for their precedence: `functions`, `listed` or `skills`.

    Attributes:
        entries: What was given.
        binders: What binds arguments to those that were called, by `id`; see `functions.binder_of`.
        problems: The tools that cannot be offered, once they were read.
        notes: What of the specs is not carried over, and which functions have no docstring.
    """

    is_constant: Final = True

    def __init__(self, entries: Iterable[Any], name: str = "listed", kind: str = "listed") -> None:
        self.name, self.kind = name, kind
        self.problems: Sequence[errors.InvalidToolError] = ()
        self.notes: Sequence[str] = ()
        self.entries, self.binders = tuple(entries), dict[int, Any]()
        self._specs: Sequence[ToolSpec] | None = None

    def list_now(self) -> Sequence[ToolSpec]:
        """Return the tools in the order given."""
        if self._specs is None:
            self._specs, self.problems, self.notes = read_tools(self.entries)
        return self._specs

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tools in the order given."""
        return self.list_now()


class ExecutorTools:
    """The tools of an object with `list_tools()`, asked again each time.

    What that returns, or carries as `tools`, may be specs of any shape, functions or SDK objects.

    Attributes:
        problems: What could not be offered of the last list.
        notes: What of the last list is not carried over.
    """

    kind: Final = "executor"

    def __init__(self, executor: Any, *, name: str | None = None) -> None:
        own = getattr(executor, "name", None)
        self.name = name or (own if isinstance(own, str) else "") or "executor"
        self.problems: Sequence[errors.InvalidToolError] = ()
        self.notes: Sequence[str] = ()
        self._act: Callable[[], Any] = executor.list_tools

    @property
    def list_now(self) -> Callable[[], Sequence[ToolSpec]] | None:
        """A function that returns the tools offered at this moment; `None` if they are awaited."""
        return None if is_async(self._act) else lambda: self._take(self._act())

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tools offered at this moment.

        A `list_tools` that is not a coroutine function is called in a thread, because it may block.
        """
        return self._take(await call_away(self._act))

    def _take(self, listed: Any) -> Sequence[ToolSpec]:
        specs, self.problems, self.notes = read_tools(getattr(listed, "tools", listed))
        return specs


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
    functions, specs = list[Any](), list[Any]()
    executors, servers = list[ToolSource](), list[Any]()
    for entry in _flat(given):
        if getattr(entry.__class__, "kind", None) == "mcp":
            servers.append(entry)
        elif isinstance(entry, ToolSpec):
            specs.append(entry)
        elif is_object(entry):
            if not any(is_object(entry.get(key)) for key in ("mcpServers", "servers")):
                specs.append(entry)
                continue
            if not starts_servers:
                remedy = "Name them in ContextAssembler(tools=…), or pass McpTools objects."
                raise errors.ConfigurationError(
                    "One call's tools start no MCP servers.", remedy=remedy
                )
            from context_assembler.tools.mcp import McpTools

            servers += McpTools.from_config(entry)
        elif callable(getattr(entry, "list_tools", None)):
            is_ours = isinstance(entry, ListedTools | ExecutorTools)
            executors.append(entry if is_ours else ExecutorTools(entry))
        elif callable(entry):
            functions.append(entry)
        elif callable(getattr(entry, "model_dump", None)):
            specs.append(entry)
        else:
            kind = errors.with_article(type(entry).__name__, begins_sentence=True)
            problem = f"{kind} is not a source of tools: {errors.brief(entry)}."
            remedy = "Pass functions, tool specs, an object with list_tools(), or a list of these."
            raise errors.ConfigurationError(problem, remedy=remedy)
    names = [server.name for server in servers]
    if twice := [name for name in names if names.count(name) > 1]:
        remedy = "Give each a name of its own: it tells their tools apart."
        raise errors.ConfigurationError(f"Two MCP servers are called {twice[0]!r}.", remedy=remedy)
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


def what_is_read(tool: ToolSpec) -> tuple[Any, ...]:
    """Return what a model reads of a tool besides its name; where it comes from is not sent."""
    own = tool.is_strict, tool.native_specs, tuple(tool.allowed_callers)
    return tool.description, tool.input_schema, *own


def tell_problem(error: BaseException) -> str:
    """Return a foreign error in one line: its name, and the beginning of what it says."""
    said = " ".join(str(error)[:200].split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def is_async(function: Any) -> bool:
    """Whether calling the function returns something that has to be awaited."""
    while isinstance(function, partial):
        function = function.func
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)


async def call_away(function: Callable[..., Any], *given: Any) -> Any:
    """Return what a function of the application returns; a plain one is called in a thread.

    That thread keeps no process alive if the function never ends.
    """
    if is_async(function):
        said = function(*given)
    else:
        from asyncio import wrap_future
        from concurrent.futures import Future
        from contextvars import copy_context
        from threading import Thread

        done: Future[tuple[Any, BaseException | None]] = Future()
        done.set_running_or_notify_cancel()  # nothing can stop it
        context = copy_context()

        def run() -> None:
            try:
                done.set_result((context.run(function, *given), None))
            except BaseException as error:  # StopIteration would be lost in a future
                done.set_result((None, error))

        Thread(target=run, daemon=True).start()
        said, error = await wrap_future(done)
        if error is not None:
            raise error
    return await said if isawaitable(said) else said


class LastAnswers(Generic[Answer]):
    """Asks sources that may fail or be late; what such a source answered last still holds.

    What goes if its source fails once, and comes back, would be sent again both times.
    """

    def __init__(self, *, timeout_seconds: float, now: Callable[[], datetime]) -> None:
        self._timeout_seconds, self._now = timeout_seconds, now
        self._kept: dict[Hashable, tuple[Answer, datetime]] = {}

    def ask_now(self, questions: Iterable[Question[Answer]]) -> list[tuple[Answer | None, str]]:
        """Return each source's answer, or its last one, or `None`; and what happened if it failed."""
        answers = list[tuple[Answer | None, str]]()
        for key, lists, take in questions:
            try:
                answers.append(self._new(key, take(lists())))
            except Exception as error:  # foreign code: the rest goes on
                answers.append(self._last(key, error))
        return answers

    async def ask(self, questions: Iterable[Question[Answer]]) -> list[tuple[Answer | None, str]]:
        """Return the same as `ask_now` of sources that are awaited, all at once."""
        import asyncio

        async def answer(
            key: Hashable, lists: Callable[[], Any], take: Callable[[Any], Answer]
        ) -> tuple[Answer | None, str]:
            limit = asyncio.timeout(self._timeout_seconds)
            try:
                async with limit:
                    made = take(await lists())
            except (Exception, asyncio.CancelledError) as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                return self._last(key, None if limit.expired() else error)
            return self._new(key, made)

        return await asyncio.gather(*(answer(*one) for one in questions))

    def _new(self, key: Hashable, answer: Answer) -> tuple[Answer, str]:
        if key is not None:
            self._kept[key] = answer, self._now()
        return answer, ""

    def _last(self, key: Hashable, error: BaseException | None) -> tuple[Answer | None, str]:
        happened = f"did not answer within {self._timeout_seconds:g} s."
        if error is not None:
            said = str(error) if isinstance(error, errors.AssemblyError) else tell_problem(error)
            happened = f"failed: {said.removesuffix('.')}."
        if key not in self._kept:
            return None, happened
        answer, moment = self._kept[key]
        # A moment, not an age: a warning that differs each time would make every call another.
        when = f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        return answer, f"{happened} What it listed last, at {when}, still holds."


# ---- one entry ----


def read_tools(entries: Iterable[Any]) -> ReadTools:
    """Read every entry: a `ToolSpec`, a literal spec, a function, or an SDK's tool object."""
    specs: list[ToolSpec] = []
    problems: dict[str, errors.InvalidToolError] = {}  # one for all that have the same to say
    notes: dict[str, None] = {}
    for entry in entries:
        try:
            specs += _read_entry(entry, notes)
        except errors.InvalidToolError as error:
            problems.setdefault(str(error), error)
        except Exception as error:  # what an entry does when it is looked at is its own
            reason = f"it cannot be read: {tell_problem(error)}"
            problem = errors.InvalidToolError(name_of(entry), reason=reason)
            problems.setdefault(str(problem), problem)
    return ReadTools(tuple(specs), tuple(problems.values()), tuple(notes))


def _read_entry(entry: Any, notes: dict[str, None]) -> list[ToolSpec]:
    if isinstance(entry, ToolSpec):
        return [entry]
    if is_object(entry):
        return read_shape(entry, notes)
    if hasattr(entry, "model_dump") and not isinstance(entry, type):
        return read_shape(entry.model_dump(mode="json", by_alias=True, exclude_none=True), notes)
    if not callable(entry):
        reason = f"{errors.with_article(type(entry).__name__)} is neither a spec nor a function"
        raise errors.InvalidToolError(name_of(entry), reason=reason)
    from context_assembler.tools.functions import spec_from_function

    spec = spec_from_function(entry)
    if not spec.description:
        notes[f"{spec.name} has no docstring: the model gets its name and arguments alone."] = None
    return [spec]


def name_of(entry: Any) -> str:
    names = (getattr(entry, name, None) for name in ("__name__", "name"))
    return next((name for name in names if isinstance(name, str)), "(unnamed)")


def schema_of(told: Mapping[str, str], *required: str) -> JsonObject:
    """Return the schema of arguments that are given as `{"page": "integer: Which page to read."}`."""
    parts = {name: said.partition(": ") for name, said in told.items()}
    properties = {
        name: {"type": kind, "description": said} for name, (kind, _, said) in parts.items()
    }
    schema = {"type": "object", "properties": properties}
    return schema | ({"required": [*required]} if required else {})


_VERSIONED: Final = r"_\d{8}$"  # Anthropic's own tools: web_search_20260209
_GEMINI: Final = frozenset(
    "functiondeclarations googlesearch googlesearchretrieval codeexecution urlcontext filesearch "
    "googlemaps computeruse retrieval enterprisewebsearch mcpservers".split()
)
_SCHEMA_KEYS: Final = (
    "input_schema inputSchema parameters parametersJsonSchema parameters_json_schema".split()
)
# Known, or nothing for the model in them, or (cache_control) a matter of the provider's renderer.
_SILENT: Final = frozenset(
    "name description strict type function defer_loading cache_control title outputSchema annotations "
    "_meta icons response allowed_callers".split()
).union(_SCHEMA_KEYS)


def read_shape(spec: JsonObject, notes: dict[str, None]) -> list[ToolSpec]:
    """Return the tools of a spec of OpenAI (chat, responses), Anthropic, MCP, Gemini or Bedrock.

    A provider's own tools (web search, code execution …) become specs for that provider alone.

    Args:
        notes: Gets a sentence for each key that is not carried over.

    Raises:
        InvalidToolError: It has none of these shapes, or no name.
    """
    if "input_schema" in spec or "inputSchema" in spec:
        return [_flat_function(spec, notes)]
    given = spec.get("type")
    kind, name = given if isinstance(given, str) else "", spec.get("name")
    function, custom, bedrock = (spec.get(key) for key in ("function", "custom", "toolSpec"))
    if is_object(function):
        return [_function({**spec, **function}, function.get("parameters"), notes)]
    if is_object(bedrock):
        schema = bedrock.get("inputSchema")
        return [_function(bedrock, schema.get("json") if is_object(schema) else None, notes)]
    if "systemTool" in spec:
        return [_native("bedrock", spec, spec["systemTool"])]
    if not kind and not _GEMINI.isdisjoint(key.replace("_", "").lower() for key in spec):
        return _gemini(spec, notes)
    if isinstance(name, str) and name and kind in ("", "function"):
        return [_flat_function(spec, notes)]
    if re.search(_VERSIONED, kind) or kind == "mcp_toolset":
        return [_native("anthropic", spec, spec)]
    if is_object(custom) or kind.startswith("openrouter:"):
        return [_native("openai_chat", spec, custom or {"type": kind.replace(":", "_")})]
    if kind not in ("", "function"):
        return [_native("openai_responses", spec, spec)]
    reason = "it has none of the known shapes (OpenAI, Anthropic, MCP, Gemini, Bedrock)"
    raise errors.InvalidToolError(str(name or "(unnamed)"), reason=reason)


def _function(spec: JsonObject, schema: Json, notes: dict[str, None]) -> ToolSpec:
    name, description = spec.get("name"), spec.get("description")
    if not isinstance(name, str) or not name.strip():
        raise errors.InvalidToolError("(unnamed)", reason="its name is missing or empty")
    if schema is not None and not is_object(schema):
        raise errors.InvalidToolError(name, reason="its schema is not an object")
    for key in spec:
        if key not in _SILENT:
            notes[f"Tool {name!r}: {key!r} is not carried over."] = None
    callers: Json = spec.get("allowed_callers") or ()
    flags = (spec.get(key) for key in ("strict", "defer_loading"))
    strict, deferred = (flag if isinstance(flag, bool) else None for flag in flags)
    return ToolSpec(
        name=name,
        description=description if isinstance(description, str) else "",
        input_schema=schema or {},
        is_safe=True if _only_reads(spec.get("annotations")) else None,
        is_strict=strict,
        is_deferred=deferred,
        allowed_callers=tuple(one for one in callers if isinstance(one, str)),
    )


def _flat_function(spec: JsonObject, notes: dict[str, None]) -> ToolSpec:
    schemas = (spec[key] for key in _SCHEMA_KEYS if spec.get(key) is not None)
    return _function(spec, next(schemas, None), notes)


def _only_reads(hints: Json) -> bool:
    """Whether an MCP server says that a tool only reads, and destroys nothing.

    Source:
        https://modelcontextprotocol.io/specification/2025-06-18/schema#toolannotations
        (read 2026-11-27)
    """
    says = is_object(hints) and hints.get("readOnlyHint") is True
    return says and hints.get("destructiveHint") is not True


def _gemini(spec: JsonObject, notes: dict[str, None]) -> list[ToolSpec]:
    """Read declarations; their types are in capitals there, which is no mistake.

    Source:
        https://ai.google.dev/api/caching#Schema (read 2026-11-27)
    """
    from context_assembler.providers.schemas import canonical_schema

    specs: list[ToolSpec] = []
    for key, value in spec.items():
        if key in ("functionDeclarations", "function_declarations"):
            for one in value if is_list(value) else [value]:
                tool = _flat_function(one if is_object(one) else {}, notes)
                schema = canonical_schema(tool.input_schema, tool=tool.name).schema
                specs.append(replace(tool, input_schema=schema))
        elif value is not None:
            name = re.sub(r"(?<!^)(?=[A-Z])", "_", key).lower()
            specs.append(_native("gemini", {key: value}, {"name": name}))
    return specs


def _native(provider: str, spec: JsonObject, named: Json) -> ToolSpec:
    keys = ("name", "server_label", "mcp_server_name", "type")
    names = (named.get(key) for key in keys if is_object(named))
    name = next((one for one in names if isinstance(one, str) and one), "None")
    return ToolSpec(name=name, native_specs={provider: spec})
