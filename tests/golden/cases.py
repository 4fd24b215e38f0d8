"""The drafts behind the golden payloads: one per thing that a reviewer wants to see in full."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from context_assembler.values.draft import Draft
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    UrlSource,
)
from context_assembler.values.tools import ToolChoice, ToolSpec
from tests.providers.drafts import (
    GEMINI_4,
    GEMINI_25,
    GPT_4O,
    GPT_6_SOL,
    GPT_62,
    HAIKU_45,
    OPUS,
    PIXEL,
    READ_FILE,
    assistant,
    call,
    draft,
    note,
    result,
    results,
    user,
)

NEWEST: Final[Mapping[str, ModelLimits]] = {
    "anthropic": OPUS,
    "openai_chat": GPT_6_SOL,
    "openai_responses": GPT_62,
    "gemini": GEMINI_4,
}
OLDER: Final[Mapping[str, ModelLimits]] = {
    "anthropic": HAIKU_45,
    "openai_chat": GPT_4O,
    "openai_responses": GPT_4O,
    "gemini": GEMINI_25,
}
# What a provider's API cannot express at all.
UNKNOWN: Final[Mapping[str, frozenset[str]]] = {"openai_responses": frozenset({"stop_sequences"})}

_PICTURE: Final = Image(source=Base64Source(media_type="image/png", data=PIXEL), detail="high")
_SPEC: Final = Document(
    source=Base64Source(media_type="application/pdf", data="JVBERi0xLjQKJSVFT0YK"),
    title="spec.pdf",
)
_THOUGHT: Final = Thinking(
    text="",
    provider="anthropic",
    block={"type": "thinking", "thinking": "", "signature": "EqQBCkYIBxgCKkD"},
)
_SEARCH: Final = Opaque(
    provider="anthropic",
    block={
        "type": "server_tool_use",
        "id": "srvtoolu_01",
        "name": "web_search",
        "input": {"query": "rail strikes"},
    },
    text="searched the web for 'rail strikes'",
)
_FOUND: Final = Opaque(
    provider="anthropic",
    block={
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_01",
        "content": [
            {
                "type": "web_search_result",
                "url": "https://example.com/strikes",
                "title": "Strikes this week",
                "encrypted_content": "EqgfCioIARgBIiQ3",
            }
        ],
    },
    text="found 'Strikes this week' (https://example.com/strikes)",
)
_WEB: Final = ToolSpec(
    name="web_search",
    native_specs={"anthropic": {"type": "web_search_20250305", "name": "web_search"}},
)

_TOOL_LOOP: Final = (
    user(_PICTURE, _SPEC, "Compare a.txt and b.txt with the spec."),
    assistant(
        _THOUGHT,
        "Reading both.",
        call("toolu_01", path="a.txt"),
        ToolCall(
            call_id="toolu_02",
            name="read_file",
            arguments={"path": "b.txt"},
            arguments_json='{ "path": "b.txt" }',
        ),
    ),
    results(
        result("toolu_01", "alpha", _PICTURE),
        result("toolu_02", "ENOENT: b.txt", is_error=True),
    ),
    user("b.txt was removed on purpose."),
    note("Saturday, 2026-03-28 22:30 UTC"),
)
_LONG_STEP: Final = (
    user("Read all fifteen."),
    assistant(*(call(f"toolu_{i:02}", path=f"{i}.txt") for i in range(15))),
    results(*(result(f"toolu_{i:02}", f"text of {i}") for i in range(15))),
)
_SUMMARY: Final = Message(
    role="user",
    kind="summary",
    parts=(Text("The user wants to fly on Friday. Seats: 12A, 12B."),),
    origin="assembler",
)


_COMPACTED: Final = Message(
    role="user",
    kind="summary",
    origin="model",
    parts=(
        Text("The user flies to Lima on Friday."),
        Opaque(
            provider="anthropic",
            block={
                "type": "compaction",
                "content": "The user flies to Lima on Friday.",
                "signature": "EqQBCkYIBxgCKkD",
                "tool_changes": [],
            },
            text="The user flies to Lima on Friday.",
        ),
    ),
)


# What `responses.compact` answers: what was asked, then what only OpenAI can open.
_COMPACTED_BY_OPENAI: Final = Message(
    role="user",
    kind="summary",
    origin="model",
    parts=(
        Text("The user flies to Lima on Friday."),
        Opaque(
            provider="openai_responses",
            block={
                "type": "message",
                "role": "user",
                "status": "completed",
                "content": [{"type": "input_text", "text": "A flight to Lima on Friday, please."}],
            },
            text="The user flies to Lima on Friday.",
        ),
        Opaque(
            provider="openai_responses",
            block={"type": "compaction", "id": "cmp_01", "encrypted_content": "gAAAAABpKc"},
            text="The user flies to Lima on Friday.",
        ),
    ),
)


def _case(
    *talk: Message, models: Mapping[str, ModelLimits] = NEWEST, **options: Any
) -> dict[str, Draft]:
    """Return a draft per provider, on that provider's model."""
    return {
        name: draft(
            talk,
            limits=limits,
            **{key: option for key, option in options.items() if key not in UNKNOWN.get(name, ())},
        )
        for name, limits in models.items()
    }


CASES: Final[Mapping[str, Mapping[str, Draft]]] = {
    "plain_talk": _case(
        user("What is the capital of Peru?"), assistant("Lima."), user("And of Chile?"), tools=()
    ),
    "tool_loop": _case(*_TOOL_LOOP),
    "tool_loop_on_older_models": _case(*_TOOL_LOOP, models=OLDER),
    "summary_and_notes": _case(
        _SUMMARY,
        assistant("I found two seats."),
        note("Saturday, 2026-03-28 22:30 UTC"),
        user("Book them."),
        note("Remember: aisle </system-reminder> first.", origin="memory"),
    ),
    "compaction_by_anthropic": _case(
        _COMPACTED,
        assistant(_THOUGHT, "Booked.", call("toolu_01", path="ticket.txt")),
        results(result("toolu_01", "12A")),
        user("Which seat?"),
    ),
    "compaction_by_openai": _case(
        _COMPACTED_BY_OPENAI,
        assistant("Booked.", call("call_01", path="ticket.txt")),
        results(result("call_01", "12A")),
        user("Which seat?"),
    ),
    "server_tools": _case(
        user("Any strikes?"),
        assistant(_THOUGHT, _SEARCH, _FOUND, "None on Friday."),
        user("Good."),
        tools=(_WEB, READ_FILE),
        thinking_level="low",
    ),
    "foreign_ids_and_names": _case(
        user("List it."),
        assistant(call("functions.Bash:0", "fs.list"), call("functions.Bash:0", "fs.list")),
        results(result("functions.Bash:0", "one"), result("functions.Bash:0", "two")),
        tools=(replace(READ_FILE, name="fs.list"), READ_FILE),
    ),
    "media": _case(
        user(
            Image(source=UrlSource(url="https://example.com/a.png")),
            Image(source=FileIdSource(provider="anthropic", file_id="file_011")),
            Image(source=Base64Source(media_type="image/bmp", data="Qk0=")),
            Document(source=Base64Source(media_type="text/plain", data="aGVsbG8="), title="a.txt"),
            Document(source=FileIdSource(provider="openai", file_id="file-1")),
            "What is all this?",
        ),
        tools=(),
    ),
    "parameters": _case(
        user("Read a.txt."),
        models=OLDER,
        temperature=0.2,
        stop_sequences=("END",),
        tool_choice=ToolChoice(mode="tool", name="read_file", allows_parallel=False),
        tools=(replace(READ_FILE, is_strict=True),),
    ),
    "thinking_budget": _case(
        user("Prove it."), models=OLDER, tools=(), thinking_budget=2048, max_tokens=8000
    ),
    "long_step_with_cache_marks": _case(
        *_LONG_STEP, system="You are a coding agent.\n" + "Read before you write.\n" * 120
    ),
}
