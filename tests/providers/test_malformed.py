"""Blocks that a provider would refuse are told in words, with a row; whatever it takes stays."""

from typing import Any, Final

import pytest

from context_assembler.providers import PROVIDERS
from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import Base64Source, Document, Opaque, Text, Thinking
from tests.providers.drafts import GEMINI_4, GPT_4O, GPT_62, OPUS, assistant, draft, user

LIMITS: Final[dict[str, ModelLimits]] = {
    "anthropic": OPUS,
    "openai_chat": GPT_4O,
    "openai_responses": GPT_62,
    "gemini": GEMINI_4,
}
TEXT: Final = {"type": "text", "text": "a"}
STRICT: Final = {"type": "object", "properties": {"q": {"type": "string"}}}


def source(**fields: Any) -> dict[str, Any]:
    return {"type": "document", "source": fields}


def found(*inner: Any) -> dict[str, Any]:
    return {"type": "search_result", "source": "s", "title": "t", "content": list(inner)}


def offering(tool: Any) -> dict[str, Any]:
    return {"type": "additional_tools", "role": "developer", "tools": [tool]}


MALFORMED: Final[dict[str, tuple[str, dict[str, Any], str]]] = {
    "no type": ("anthropic", {"text": "a"}, "it has no type"),
    "a type that is a list": ("anthropic", {"type": ["text"]}, "it has no type"),
    "a call": ("anthropic", {"type": "tool_use", "name": "x"}, "it lacks what"),
    "text that is none": ("anthropic", {"type": "text", "text": 7}, "its text is amiss"),
    "no text": ("anthropic", {"type": "text"}, "its text is missing"),
    "a picture": ("anthropic", {"type": "image", "source": {"type": "x"}}, "of no known type"),
    "bytes": (
        "anthropic",
        source(type="base64", media_type="application/pdf", data=True),
        "its source's data is amiss",
    ),
    "no base64": (
        "anthropic",
        source(type="base64", media_type="application/pdf", data="ä"),
        "its source's data is no base64",
    ),
    "a text inside": ("anthropic", found({"text": "a"}), "in a block inside, it has no type"),
    "a number inside": ("anthropic", found(7), "in a block inside, it is no block"),
    "what a document holds": (
        "anthropic",
        source(type="content", content=[{"type": "text"}]),
        "in a block inside, its text is missing",
    ),
    "a tool without a name": (
        "anthropic",
        {"type": "tool_addition", "tool": {"type": "tool_reference"}},
        "its tool has no name",
    ),
    "a part without type": ("openai_chat", {"text": "a"}, "it has no type"),
    "a part without text": ("openai_chat", {"type": "text"}, "its text is amiss"),
    "an image without a URL": (
        "openai_chat",
        {"type": "image_url", "image_url": {"url": ["x"]}},
        "its image_url's url is amiss",
    ),
    "a file": ("openai_chat", {"type": "file", "file": {"filename": "x"}}, "its file is nowhere"),
    "an item without type": ("openai_responses", {"text": "a"}, "neither a type nor a role"),
    "what a model says": (
        "openai_responses",
        {"type": "output_text", "text": "a"},
        "only the model says that",
    ),
    "a text that is an object": (
        "openai_responses",
        {"type": "input_text", "text": {}},
        "its text is amiss",
    ),
    "an image that is nowhere": (
        "openai_responses",
        {"type": "input_image", "image_url": 7},
        "it has none of image_url, file_id",
    ),
    "a detail": (
        "openai_responses",
        {"type": "input_image", "file_id": "f", "detail": ["low"]},
        "its detail is amiss",
    ),
    "an approval": (
        "openai_responses",
        {"type": "mcp_approval_response", "approval_request_id": "a", "approve": 1},
        "its approve is amiss",
    ),
    "a tool without type": ("openai_responses", offering({"name": "x"}), "it has no type"),
    "a function without name": ("openai_responses", offering({"type": "function"}), "no name"),
    "a function's schema": (
        "openai_responses",
        offering({"type": "function", "name": "x", "parameters": 7}),
        "its parameters are no schema",
    ),
    "a function's strict schema": (
        "openai_responses",
        offering({"type": "function", "name": "x", "parameters": STRICT, "strict": True}),
        "strict mode does not take this schema",
    ),
    "two things": ("gemini", {"text": "a", "inlineData": {}}, "more than one thing"),
    "a signature": ("gemini", {"text": "a", "thoughtSignature": "ä"}, "thought_signature"),
    "a text of Gemini": ("gemini", {"text": 7}, "its text is amiss"),
    "a response": ("gemini", {"functionResponse": "x"}, "its function_response is amiss"),
    "code": ("gemini", {"executableCode": True}, "its executable_code is amiss"),
    "bytes without type": ("gemini", {"inlineData": {"data": "AAAA"}}, "mime_type is amiss"),
    "no bytes": (
        "gemini",
        {"inlineData": {"mimeType": "video/mp4", "data": "ä"}},
        "inline_data's data is amiss",
    ),
    "no address": ("gemini", {"fileData": {"mimeType": "video/mp4"}}, "file_uri is amiss"),
}


@pytest.mark.parametrize(("provider", "block", "flaw"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_block_is_told_in_words(
    provider: str, block: dict[str, Any], flaw: str
) -> None:
    part = Opaque(provider=provider, block=block, text="in words")
    made = draft([user(part, "go", id="evt_1")], limits=LIMITS[provider])

    adapted, rows = PROVIDERS[provider].adapt(made)

    assert adapted.messages[0].parts[0] == Text("in words")
    assert (rows[0].id, rows[0].decision, rows[0].rule) == (
        "evt_1",
        "repaired",
        "content.malformed",
    )
    assert flaw in rows[0].reason
    assert PROVIDERS[provider].adapt(adapted) == (adapted, ())
    payload = PROVIDERS[provider].render(adapted)
    refused = PROVIDERS[provider].check_payload(payload, limits=made.limits)
    assert [violation for violation in refused if violation.level == "refused"] == []


@pytest.mark.parametrize("provider", LIMITS)
def test_a_line_stands_for_one_that_says_nothing(provider: str) -> None:
    part = Opaque(provider=provider, block={"type": "text", "text": 7})

    adapted, [row] = PROVIDERS[provider].adapt(draft([user(part)], limits=LIMITS[provider]))

    assert adapted.messages[0].parts == (Text(f"[{row.reason}]"),)
    assert row.decision == "shortened"
    assert "(text) is left out" in row.reason


TAKEN: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "a type that nobody knows": ("anthropic", {"type": "hologram"}),
    "an upload": ("anthropic", {"type": "container_upload", "file_id": "f"}),
    "a document at a URL": ("anthropic", source(type="url", url="https://x.org/a.pdf")),
    "what was found": ("anthropic", found(TEXT, "bare")),
    "sound": (
        "openai_chat",
        {"type": "input_audio", "input_audio": {"data": "U", "format": "wav"}},
    ),
    "a file by id": ("openai_chat", {"type": "file", "file": {"file_id": "f"}}),
    "a reference": ("openai_responses", {"type": "item_reference", "id": "x"}),
    "tools": ("openai_responses", offering({"type": "function", "name": "x", "parameters": {}})),
    "a server's tool": ("openai_responses", offering({"type": "web_search"})),
    "a film": ("gemini", {"fileData": {"fileUri": "https://x.org/a.mp4"}}),
    "a recording": ("gemini", {"inlineData": {"mimeType": "audio/wav", "data": "UklG"}}),
    "code of Gemini": ("gemini", {"executableCode": {"language": "PYTHON", "code": "1"}}),
}


@pytest.mark.parametrize(("provider", "block"), TAKEN.values(), ids=TAKEN.keys())
def test_what_is_whole_goes_as_it_came(provider: str, block: dict[str, Any]) -> None:
    made = draft([user(Opaque(provider=provider, block=block), "go")], limits=LIMITS[provider])

    assert PROVIDERS[provider].adapt(made)[1] == ()


CALL: Final[dict[str, Any]] = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "x",
    "input": {},
}
ANSWER: Final[dict[str, Any]] = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [],
}


@pytest.mark.parametrize(
    "pair",
    [
        ({**CALL, "name": 7}, ANSWER),
        (CALL, {**ANSWER, "content": 7}),
        ({**CALL, "id": "call_1"}, {**ANSWER, "tool_use_id": "call_1"}),
        ({**CALL, "id": "srvtoolu_"}, {**ANSWER, "tool_use_id": "srvtoolu_"}),
    ],
    ids=["call", "result", "ids of another API", "ids that end early"],
)
def test_a_server_call_and_its_result_are_told_together(
    pair: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    parts = [Opaque(provider="anthropic", block=block, text="told") for block in pair]

    adapted, rows = PROVIDERS["anthropic"].adapt(draft([user("go"), assistant(*parts), user("?")]))

    assert adapted.messages[1].parts == (Text("told"), Text("told"))
    assert {row.rule for row in rows} == {"content.malformed"}


def test_thinking_that_nobody_signed_is_left_out_and_told() -> None:
    thought = Thinking(provider="anthropic", block={"type": "thinking", "signature": True})
    made = draft([user("go"), assistant(thought, "a", id="evt_2"), user("?")])

    adapted, [row] = PROVIDERS["anthropic"].adapt(made)

    assert adapted.messages[1].parts == (Text("a"),)
    assert (row.id, row.decision, row.rule) == ("evt_2", "cleared", "content.malformed")


def test_a_film_without_bytes_is_left_out_of_gemini() -> None:
    film = Document(source=Base64Source(media_type="video/mp4", data=""))

    adapted, [row] = PROVIDERS["gemini"].adapt(draft([user(film)], limits=GEMINI_4))

    assert row.rule == "media.empty"
    assert isinstance(adapted.messages[0].parts[0], Text)


def test_a_temperature_that_others_take_is_capped_for_anthropic() -> None:
    hot = draft([user("go")], limits=GPT_4O, temperature=1.9)

    adapted, [row] = PROVIDERS["anthropic"].adapt(hot)

    assert adapted.parameters.temperature == 1
    assert (row.id, row.decision, row.rule) == ("temperature", "repaired", "parameter.temperature")
    assert PROVIDERS["anthropic"].adapt(adapted) == (adapted, ())


def test_the_rules_know_how_hot_anthropic_is_asked() -> None:
    payload = PROVIDERS["anthropic"].render(draft([user("go")], limits=GPT_4O, temperature=0.5))
    payload["extra_body"] = {"temperature": 1.9}

    [violation, *_] = PROVIDERS["anthropic"].check_payload(payload)

    assert (violation.rule, violation.where) == ("A14", "temperature")
