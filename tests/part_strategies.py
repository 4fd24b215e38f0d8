"""Hypothesis strategies for texts, JSON and the parts of messages: clean ones, and any at all."""

from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from context_assembler.values.events import Provenance
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Json,
    JsonObject,
    Opaque,
    Part,
    ResultPart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UrlSource,
)

_PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

_clean_characters = st.characters(codec="utf-8", exclude_characters="\0")

clean_texts: SearchStrategy[str] = st.one_of(
    st.sampled_from(
        ["Find me a flight.", "ok", "今天天气很好。", "Привет, мир", "👩‍👩‍👧 done", "x "]
    ),
    st.text(_clean_characters, min_size=1, max_size=30).map(lambda t: t if t.strip() else f"{t}."),
    st.integers(1, 300).map(lambda n: " ".join(f"word{i}" for i in range(n))),
)
"""Text that needs no cleaning and is not blank."""

dirty_texts: SearchStrategy[str] = st.one_of(
    st.sampled_from(["", " ", "\n\t ", "\0", "\ud800", "a\udc00b", "\ud83d\ude00", "nul\0inside"]),
    st.lists(
        st.sampled_from(["a", " ", "\0", "\ud83d", "\ude00", "é", "\udfff", "\n"]), max_size=8
    ).map("".join),
    clean_texts,
)
"""Any text: blank, with NULs, lone surrogates and surrogate pairs among it."""


def json_objects(texts: SearchStrategy[str]) -> SearchStrategy[dict[str, Json]]:
    """Return a strategy for JSON objects with keys and strings of `texts`, two levels deep."""
    scalars = st.none() | st.booleans() | st.integers(-1000, 1000) | texts
    inner = st.one_of(
        scalars, scalars, st.lists(scalars, max_size=2), st.dictionaries(texts, scalars, max_size=2)
    )
    return st.dictionaries(texts, inner, max_size=2)


_sources = st.one_of(
    st.just(Base64Source(media_type="image/png", data=_PIXEL)),
    st.just(UrlSource(url="https://example.com/picture.png", media_type="image/png")),
    st.just(FileIdSource(provider="anthropic", file_id="file_011")),
)

_PICTURE: Final = Image(
    source=Base64Source(media_type="image/png", data=_PIXEL), width_px=1200, height_px=800
)

images: SearchStrategy[Image] = st.builds(
    Image,
    source=_sources,
    detail=st.sampled_from([None, "low", "high"]),
    width_px=st.none() | st.integers(1, 4000),
    height_px=st.none() | st.integers(1, 4000),
)

documents: SearchStrategy[Document] = st.builds(
    Document,
    source=st.just(Base64Source(media_type="application/pdf", data="JVBERi0xLjQKJSVFT0YK")),
    title=st.none() | st.just("spec.pdf"),
    page_count=st.none() | st.integers(1, 30),
)


def _signed(text: str, signature: str) -> Thinking:
    block = {"type": "thinking", "thinking": text, "signature": signature}
    return Thinking(text=text, provider="anthropic", block=block)


signed_thinking: SearchStrategy[Thinking] = st.builds(
    _signed,
    st.sampled_from(["", "Let me see.", "Two steps are left."]),
    st.sampled_from(["EqQB", "EuYB", "ErUB"]),
)

unsigned_thinking: SearchStrategy[Thinking] = st.builds(Thinking, text=clean_texts)


opaque_blocks: SearchStrategy[Opaque] = st.sampled_from(
    [
        Opaque(
            provider="openai_responses",
            block={
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {"type": "search", "query": "q"},
            },
            text="searched the web",
        ),
        Opaque(provider="gemini", block={"executable_code": {"code": "1 + 1"}}),
    ]
)


def server_tool_blocks(number: int) -> tuple[Opaque, Opaque]:
    """Return a call of a server tool and its result, as Anthropic puts both into one reply."""
    call_id = f"srvtoolu_{number}"
    nothing: list[Json] = []
    call = {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {"query": "q"}}
    result = {"type": "web_search_tool_result", "tool_use_id": call_id, "content": nothing}
    return (
        Opaque(provider="anthropic", block=call, text="searched the web for q"),
        Opaque(provider="anthropic", block=result, text="nothing was found"),
    )


clean_arguments: SearchStrategy[JsonObject] = st.one_of(
    st.sampled_from(
        [
            {},
            {"path": "a.txt"},
            {"from": "Zürich", "to": "上海", "bags": [1, None]},
            {"x": {"y": 1}},
        ]
    ),
    st.integers(100, 2000).map(lambda n: {"content": "x = 1\n" * n, "overwrite": True}),
)
"""Arguments of a well-formed call, some of them long."""

clean_result_contents: SearchStrategy[tuple[ResultPart, ...]] = st.one_of(
    st.sampled_from([(), (Text("ok"),), (Text("one"), Text("two")), (Text("a"), _PICTURE)]),
    st.integers(1, 400).map(lambda n: (Text("\n".join(f"row {i}: 0.25" for i in range(n))),)),
)
"""Contents of a well-formed result, some of them long."""


def tool_calls(
    call_ids: SearchStrategy[str], texts: SearchStrategy[str]
) -> SearchStrategy[ToolCall]:
    return st.builds(
        ToolCall,
        call_id=call_ids,
        name=st.sampled_from(["search_flights", "read_file", "book"]),
        arguments=json_objects(texts),
        arguments_json=st.none() | st.sampled_from(["{}", '{"path": "a.txt"', '{"note": "x"}']),
    )


def result_contents(texts: SearchStrategy[str]) -> SearchStrategy[tuple[ResultPart, ...]]:
    plain: SearchStrategy[ResultPart] = st.builds(Text, texts)
    return st.lists(st.one_of(plain, plain, plain, images), max_size=3).map(tuple)


def tool_results(
    call_ids: SearchStrategy[str], texts: SearchStrategy[str]
) -> SearchStrategy[ToolResult]:
    return st.builds(
        ToolResult,
        call_id=call_ids,
        content=result_contents(texts),
        is_error=st.booleans(),
        tool_name=st.none() | st.just("read_file"),
    )


few_call_ids = st.sampled_from(["c1", "c2", "c3", "call 4!"])
dirty_parts: SearchStrategy[Part] = st.one_of(
    st.builds(Text, dirty_texts),
    st.builds(Thinking, text=dirty_texts),
    signed_thinking,
    opaque_blocks,
    images,
    documents,
    tool_calls(few_call_ids, dirty_texts),
    tool_results(few_call_ids, dirty_texts),
)
"""Any part, fit for its message or not."""

provenances: SearchStrategy[Provenance] = st.builds(
    Provenance,
    provider=st.sampled_from(["anthropic", "openai_chat"]),
    model=st.sampled_from(["claude-opus-5-5", "claude-sonnet-5", "gpt-5.5"]),
    account=st.none() | st.just("main"),
    prefix_fingerprint=st.none() | st.sampled_from(["f0", "f1"]),
)
