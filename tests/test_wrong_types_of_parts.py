"""Whatever is passed to a part of an assembler in the place of something else is refused by name."""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

import context_assembler
from context_assembler import (
    AssemblyCache,
    BootstrapLoader,
    CompactionDetector,
    DefaultsResolver,
    FolderSkills,
    InMemoryStore,
    McpTools,
    MemoryAssembler,
    Message,
    MessageTransformer,
    ModelRegistry,
    Session,
    SqliteStore,
    SystemPromptBuilder,
    TaskStack,
    Text,
    TokenCounter,
    ToolCall,
    ToolCollector,
    Truncator,
    UrlSource,
    assistant_event,
    call_mcp_tool,
    draw_costs,
    evaluate_recall,
    get_model_limits,
    load_stack,
    open_store,
    read_questions,
    read_transcript,
    save_stack,
    system_event,
    tool,
    tool_result_event,
    user_event,
)
from context_assembler.errors import InvalidParameterError, InvalidToolError, TranscriptError
from context_assembler.values.calibration import UsageObservation
from context_assembler.values.prompt import SystemPrompt
from tests.wrong_types import Call, call_of, find_bare_errors

MODEL = "claude-opus-5-5"
USAGE = UsageObservation(
    provider="anthropic",
    model=MODEL,
    shape="text",
    counter="c",
    counted_tokens=1_000,
    reported_tokens=1_000,
)
# Values that the library makes itself: nobody else has what they are made of.
MADE_HERE_ALONE: Final = frozenset({"AssembledContext", "AssemblyCache", "CacheForecast"})
GOOD: Final[Mapping[str, Any]] = {
    "role": "user",
    "parts": (Text("hi"),),
    "source": UrlSource(url="https://example.com/a.png"),
}


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of its own to be in: "x" is a good name for a file."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


SESSIONS: Mapping[str, Callable[[InMemoryStore | SqliteStore], Call]] = {
    "create": lambda s: call_of(s.create, Session(id="another")),
    "append": lambda s: call_of(s.append, "s", [user_event("and?")]),
    "load": lambda s: call_of(s.load, "s"),
    "read_batch": lambda s: call_of(s.read_batch, "s"),
    "head": lambda s: call_of(s.head, "s"),
    "observe_usage": lambda s: call_of(s.observe_usage, USAGE),
    "find_counts": lambda s: call_of(s.find_counts, "s", counter="c"),
    "keep_counts": lambda s: call_of(s.keep_counts, "s", {}, counter="c", incarnation="i"),
    "new": lambda _: Call(function=SqliteStore, args=("sessions.db",)),
    "open": lambda _: call_of(open_store, "memory:"),
}


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.parametrize("opened", [InMemoryStore, partial(SqliteStore, "s.db")])
async def test_no_store_of_sessions_raises_a_bare_error(
    opened: Callable[[], InMemoryStore | SqliteStore], name: str
) -> None:
    async with opened() as store:
        await store.append("s", [user_event("hi")])

        assert await find_bare_errors(SESSIONS[name](store)) == []


async def _load(*args: Any, **kwargs: Any) -> None:
    await BootstrapLoader(*args, **kwargs).load()


async def _list_skills(*args: Any, **kwargs: Any) -> None:
    await FolderSkills(*args, **kwargs).list_skills()


async def _collect(*args: Any, **kwargs: Any) -> None:
    await ToolCollector(*args, **kwargs).collect()


LIMITS = get_model_limits(MODEL)
COUNTER = TokenCounter(LIMITS)
MESSAGES = [Message(role="user", parts=(Text("hi"),))]
STACK = TaskStack().push("a goal")
SERVERS = {"mcpServers": {"files": {"command": "no-such-program"}}}
QUESTION = '{"question": "boats?", "evidence": ["m1"]}'

PARTS: Mapping[str, Callable[[], Call]] = {
    "bootstrap": lambda: Call(
        function=_load,
        args=(".",),
        others=("root", "agent_names", "ttl_seconds", "clock", "now_ns"),
    ),
    "bootstrap load": lambda: call_of(BootstrapLoader(".").load),
    "bootstrap lint": lambda: call_of(BootstrapLoader(".").lint, count_text=len),
    "skills": lambda: Call(function=_list_skills, args=(".",), others=("priority", "now_ns")),
    "collector": lambda: Call(
        function=_collect, others=("sources", "include", "exclude", "on_conflict")
    ),
    "collect": lambda: call_of(ToolCollector().collect),
    "ask": lambda: call_of(ToolCollector().ask),
    "mcp": lambda: call_of(McpTools, "docs", url="http://localhost:9/mcp"),
    "mcp command": lambda: call_of(McpTools, "docs", command="no-such-program"),
    "mcp config": lambda: call_of(McpTools.from_config, SERVERS),
    "mcp file": lambda: Call(function=McpTools.from_file, args=("servers.json",)),
    "mcp call": lambda: call_of(
        call_mcp_tool, ToolCall(call_id="c1", name="x"), offered=[], servers=[]
    ),
    "counter": lambda: call_of(TokenCounter, LIMITS),
    "truncator": lambda: call_of(Truncator),
    "truncate": lambda: call_of(Truncator().truncate, MESSAGES, room_tokens=500, counter=COUNTER),
    "grow": lambda: call_of(Truncator().grow, MESSAGES, room_tokens=500, counter=COUNTER),
    "detector": lambda: call_of(CompactionDetector),
    "resolver": lambda: call_of(DefaultsResolver),
    "resolve": lambda: call_of(DefaultsResolver().resolve, {"model": MODEL}),
    "prompt builder": lambda: call_of(SystemPromptBuilder),
    "build": lambda: call_of(SystemPromptBuilder().build),
    "sections_of": lambda: call_of(SystemPromptBuilder().sections_of, "writer"),
    "find_missed": lambda: call_of(SystemPromptBuilder().find_missed, (), SystemPrompt()),
    "transform": lambda: call_of(MessageTransformer().transform, [user_event("hi")]),
    "registry": lambda: call_of(ModelRegistry),
    "registry get": lambda: call_of(ModelRegistry().get, MODEL),
    "registry supports": lambda: call_of(ModelRegistry().supports_feature, MODEL, "tools"),
    "registry fields": lambda: call_of(ModelRegistry().fields, MODEL),
    "registry register": lambda: Call(
        function=ModelRegistry().register,
        args=("mine",),
        kwargs={"window_tokens": 9_000, "output_tokens": 900},
        others=("aliases", "features", "row", "provider", "extends", "windows"),
    ),
    "limits": lambda: call_of(get_model_limits, MODEL),
    "supports": lambda: call_of(LIMITS.supports, "tools"),
    "cache": lambda: Call(
        function=AssemblyCache,
        others=("max_entries", "ttl_seconds", "clock", "max_bytes", "size_of"),
    ),
    "push": lambda: call_of(STACK.push, "another"),
    "pop": lambda: call_of(STACK.pop, "done"),
    "load a stack": lambda: call_of(TaskStack.load, STACK.dump()),
    "save_stack": lambda: call_of(save_stack, STACK, "stack.json"),
    "load_stack": lambda: call_of(load_stack, "stack.json"),
    "read_questions": lambda: call_of(read_questions, [QUESTION]),
    "read_transcript": lambda: call_of(read_transcript, [{"role": "user", "content": "hi"}]),
    "evaluate": lambda: call_of(evaluate_recall, MemoryAssembler("memory:"), []),
    "user_event": lambda: call_of(user_event, "hi"),
    "assistant_event": lambda: call_of(assistant_event, "hi"),
    "system_event": lambda: call_of(system_event, "hi"),
    "tool_result_event": lambda: call_of(tool_result_event, "c1", "done"),
    "tool": lambda: Call(function=tool, args=(lambda: "tea",)),
    "tool settings": lambda: Call(function=tool, kwargs={"name": "x"}, others=("safe", "names")),
}


@pytest.mark.parametrize("name", PARTS)
async def test_no_part_of_an_assembler_raises_a_bare_error(name: str, in_folder: Path) -> None:
    (in_folder / "servers.json").write_text(json.dumps(SERVERS))

    assert await find_bare_errors(PARTS[name]()) == []


def has_default(field: "Field[Any]") -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


VALUES = [
    getattr(context_assembler, name)
    for name in context_assembler.__all__
    if is_dataclass(getattr(context_assembler, name)) and name not in MADE_HERE_ALONE
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.__name__)
async def test_no_value_is_made_with_a_bare_error(value: Any) -> None:
    needed = [f for f in fields(value) if f.init and not has_default(f)]
    call = Call(
        function=value,
        kwargs={field.name: GOOD.get(field.name, "x") for field in needed},
        others=[f.name for f in fields(value) if f.init and f not in needed],
    )

    assert await find_bare_errors(call) == []


def test_what_keeps_no_settings_is_no_tool() -> None:
    for marked in (len, "x".upper):
        with pytest.raises(InvalidToolError, match="wrap it in a function"):
            tool(marked)


def test_a_key_that_is_no_text_is_no_transcript() -> None:
    for source in ([{"role": "user", "content": "hi", 3: 3}], {"contents": [{"parts": [{3: 3}]}]}):
        with pytest.raises(TranscriptError, match="its key 3 is no text"):
            read_transcript(source)


def test_what_a_simulation_is_asked_is_refused_by_name() -> None:
    for wrong in (None, 3, "x", [3]):
        with pytest.raises(InvalidParameterError, match="simulation"):
            draw_costs(wrong)  # type: ignore[arg-type] # on purpose
