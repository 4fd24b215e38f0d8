"""What a reply cites is told in words wherever it would be lost."""

from typing import Any

import pytest

from context_assembler.providers import PROVIDERS
from context_assembler.values.draft import Draft
from context_assembler.values.messages import Message
from context_assembler.values.native.citations import tell_sources
from context_assembler.values.parts import Opaque, Part, Text, Thinking, ToolResult
from tests.providers.drafts import GEMINI_4, GPT_4O, GPT_6_SOL, OPUS, call, draft

LIMITS = {
    "anthropic": OPUS,
    "openai_chat": GPT_4O,
    "openai_responses": GPT_6_SOL,
    "gemini": GEMINI_4,
}
WEB: dict[str, Any] = {
    "type": "web_search_result_location",
    "title": "Weather",
    "url": "https://example.org/w",
    "cited_text": "It will\n rain.",
    "encrypted_index": "x",
}
IN_FILE = {
    "type": "char_location",
    "document_title": "notes.txt",
    "cited_text": "a" * 200,
    "document_index": 0,
}
SEARCHED = {"type": "search_result_location", "source": "kb/1", "title": None, "cited_text": ""}
BARE = {"type": "page_location", "document_title": None, "cited_text": "rain"}
LINK = {"type": "url_citation", "title": "Weather", "url": "https://example.org/w"}


def claude(text: str, *citations: Any) -> Opaque:
    block = {"type": "text", "text": text, "citations": list(citations)}
    return Opaque(provider="anthropic", block=block, text=text)


def gpt(text: str, *annotations: Any, by: str = "openai_responses", **fields: Any) -> Text:
    return Text(text, extras={by: {"annotations": list(annotations), **fields}})


def whole_message(text: str, *annotations: Any) -> Opaque:
    content = [{"type": "output_text", "text": text, "annotations": list(annotations)}]
    block = {"type": "message", "role": "assistant", "content": content}
    return Opaque(provider="openai_responses", block=block, text=text)


# A part, and what another provider is told of it.
TOLD: dict[str, tuple[Text | Opaque, str]] = {
    "a page of the web": (
        claude("Rain. ", WEB),
        "Rain. [sources: Weather, https://example.org/w: “It will rain.”] ",
    ),
    "a file, its long quote cut": (
        claude("So.", IN_FILE),
        f"So. [sources: notes.txt: “{'a' * 120}…”]",
    ),
    "a result without title and quote": (claude("So.", SEARCHED), "So. [sources: kb/1]"),
    "a quote alone": (claude("So.", BARE), "So. [sources: “rain”]"),
    "several, each once": (
        claude("So.", SEARCHED, BARE, SEARCHED),
        "So. [sources: kb/1; “rain”]",
    ),
    "an annotation": (gpt("Rain.", LINK), "Rain. [sources: Weather, https://example.org/w]"),
    "one of Chat Completions": (
        gpt("Rain.", {"type": "url_citation", "url_citation": LINK}, by="openai_chat"),
        "Rain. [sources: Weather, https://example.org/w]",
    ),
    "a file by its name": (
        gpt("So.", {"type": "file_citation", "filename": "a.pdf", "file_id": "file_1"}),
        "So. [sources: a.pdf, file_1]",
    ),
    "in a message that is kept whole": (
        whole_message("Rain.", LINK),
        "Rain. [sources: Weather, https://example.org/w]",
    ),
}
UNTOLD: dict[str, Part] = {
    "plain text": Text("So."),
    "fields that cite nothing": Text("So.", extras={"openai_responses": {"phase": "commentary"}}),
    "no citations": claude("So."),
    "citations that say nothing": claude("So.", {"type": "new"}),
    "what the text names": gpt("See https://example.org/w.", LINK),
    "another block": Opaque(provider="anthropic", block={"type": "fallback"}),
}


def sent(part: Part, provider: str) -> tuple[Draft, list[str]]:
    """Return the adapted draft of a reply with that part, and the rules that it was adapted by."""
    reply = Message(role="assistant", parts=(part,), id="evt_2")
    user = Message(role="user", parts=(Text("Go"),))
    adapted, rows = PROVIDERS[provider].adapt(draft([user, reply, user], limits=LIMITS[provider]))
    return adapted, [row.rule for row in rows]


@pytest.mark.parametrize(("part", "words"), TOLD.values(), ids=TOLD.keys())
def test_sources_are_told_to_another_provider_with_a_row(part: Part, words: str) -> None:
    adapted, rules = sent(part, "gemini")

    assert adapted.messages[1].text == words
    assert rules == ["content.citations"]
    assert words.strip() in PROVIDERS["gemini"].render(adapted)["contents"][1]["parts"][0]["text"]
    assert PROVIDERS["gemini"].adapt(adapted) == (adapted, ())


@pytest.mark.parametrize("part", UNTOLD.values(), ids=UNTOLD.keys())
def test_where_nothing_is_cited_nothing_is_told(part: Any) -> None:
    assert tell_sources(part, provider="gemini") is None


def test_who_cited_takes_its_citations_back() -> None:
    claudes, gpts = claude("Rain.", WEB), gpt("Rain.", LINK)

    assert sent(claudes, "anthropic")[0].messages[1].parts == (claudes,)
    assert sent(gpts, "openai_responses")[0].messages[1].parts == (gpts,)


def test_chat_completions_takes_not_even_its_own_back() -> None:
    part = gpt("Rain.", LINK, by="openai_chat")

    assert sent(part, "openai_chat")[1] == ["content.citations"]


def test_other_fields_and_the_signature_of_a_text_stay() -> None:
    part = Text(
        "Rain.",
        extras={
            "openai_responses": {"annotations": [LINK], "phase": "commentary"},
            "gemini": {"media_resolution": {}},
        },
        signature="c2ln",
    )

    told = tell_sources(part, provider="gemini")

    assert told is not None
    assert told.signature == "c2ln"
    assert told.extras == {
        "openai_responses": {"phase": "commentary"},
        "gemini": {"media_resolution": {}},
    }


def test_a_text_inside_a_result_is_told_as_well() -> None:
    result = ToolResult(call_id="c1", content=(gpt("Rain.", LINK),))
    made = draft(
        [
            Message(role="user", parts=(Text("Go"),)),
            Message(role="assistant", parts=(call("c1"),)),
            Message(role="tool", parts=(result,)),
        ]
    )

    adapted, _ = PROVIDERS["anthropic"].adapt(made)

    assert "example.org" in adapted.messages[2].tool_results[0].text


def test_only_texts_and_blocks_cite() -> None:
    assert tell_sources(claude("Rain.", WEB), provider="anthropic") is None
    assert sent(Thinking(text="Hm."), "gemini")[1] == []
