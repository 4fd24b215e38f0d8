"""Signatures of Gemini hang on texts and calls: the signature goes, the part stays."""

from dataclasses import replace

import pytest

from context_assembler.stages.bind_reasoning import bind_reasoning
from context_assembler.values.events import Provenance
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.parts import JsonObject, Opaque, Part, Text, Thinking, ToolCall
from context_assembler.values.readers import Reader

ARGON = ModelLimits(id="gemini-4-argon", provider="google", window_tokens=1_000_000)
OWN = Provenance(provider="gemini", model="gemini-4-argon", account="main")
THOUGHT = Thinking(provider="gemini", block={"text": "", "thoughtSignature": "e"})
SIGNED: tuple[Part, ...] = (
    Text("Reading.", signature="t"),
    ToolCall(call_id="c1", name="f", signature="c"),
    ToolCall(call_id="c2", name="f"),
)
BARE: tuple[Part, ...] = (
    Text("Reading."),
    ToolCall(call_id="c1", name="f"),
    ToolCall(call_id="c2", name="f"),
)


def reply(made_by: Provenance | None, *parts: Part) -> Message:
    return Message(role="assistant", parts=parts or SIGNED, id="a", made_by=made_by)


def bind(*messages: Message, provider: str = "gemini") -> tuple[list[Message], list[str]]:
    reader = Reader(provider=provider, limits=ARGON, account="main")
    bound, entries = bind_reasoning(messages, reader=reader)
    return list(bound), [f"{entry.rule}: {entry.reason}" for entry in entries]


def test_signatures_of_the_same_model_and_account_stay() -> None:
    message = reply(OWN)

    bound, report = bind(message)

    assert bound[0] is message
    assert report == []


FOREIGN: dict[str, tuple[Provenance | None, str]] = {
    "another model": (replace(OWN, model="gemini-3.8-flash"), "reasoning.model"),
    "another account": (replace(OWN, account="other"), "reasoning.account"),
    "another provider": (replace(OWN, provider="openai_chat"), "reasoning.provider"),
    "nobody knows whom": (None, "reasoning.origin"),
}


@pytest.mark.parametrize(("made_by", "rule"), FOREIGN.values(), ids=FOREIGN.keys())
def test_the_signatures_go_and_the_calls_stay_when_they_are_of(
    made_by: Provenance | None, rule: str
) -> None:
    bound, report = bind(reply(made_by))

    assert bound[0].parts == BARE
    assert len(report) == 1
    assert report[0].startswith(f"{rule}: 2 thought signature(s)")


# Every kind of part that is kept verbatim, signed, in both spellings.
VERBATIM: dict[str, tuple[JsonObject, JsonObject]] = {
    "a picture": (
        {"inline_data": {"mime_type": "image/png", "data": "aGk="}, "thought_signature": "e"},
        {"inline_data": {"mime_type": "image/png", "data": "aGk="}},
    ),
    "a picture as it comes over the wire": (
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": "e"},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
    ),
    "code that was run": (
        {"executable_code": {"language": "PYTHON", "code": "1"}, "thought_signature": "e"},
        {"executable_code": {"language": "PYTHON", "code": "1"}},
    ),
    "what it printed": (
        {"codeExecutionResult": {"outcome": "OUTCOME_OK"}, "thoughtSignature": "e"},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
    ),
    "a call of a tool of Google's": (
        {"tool_call": {"id": "t1", "tool_type": "X"}, "thought_signature": "e"},
        {"tool_call": {"id": "t1", "tool_type": "X"}},
    ),
}


@pytest.mark.parametrize(("block", "bare"), VERBATIM.values(), ids=VERBATIM.keys())
@pytest.mark.parametrize(("made_by", "rule"), FOREIGN.values(), ids=FOREIGN.keys())
def test_a_block_that_is_kept_verbatim_loses_its_signature_and_stays(
    block: JsonObject, bare: JsonObject, made_by: Provenance | None, rule: str
) -> None:
    bound, report = bind(reply(made_by, Opaque(provider="gemini", block=block, text="t")))

    assert bound[0].parts == (Opaque(provider="gemini", block=bare, text="t"),)
    assert [line.split(",")[0] for line in report] == [f"{rule}: 1 thought signature(s)"]


@pytest.mark.parametrize("block", [row[0] for row in VERBATIM.values()], ids=VERBATIM.keys())
def test_a_block_of_the_same_model_and_account_keeps_its_signature(block: JsonObject) -> None:
    message = reply(OWN, Opaque(provider="gemini", block=block))

    assert bind(message) == ([message], [])


def test_a_block_without_a_signature_is_anybodys() -> None:
    blocks = (
        Opaque(provider="gemini", block={"executable_code": {"code": "1"}}),
        Opaque(provider="gemini", block={"video_metadata": {}, "thought_signature": ""}),
        Opaque(provider="anthropic", block={"type": "x", "thought_signature": "none of Gemini's"}),
    )
    message = reply(replace(OWN, model="gemini-3.8-flash"), *blocks)

    assert bind(message) == ([message], [])


def test_signed_thoughts_of_another_model_go_with_the_signatures() -> None:
    bound, report = bind(reply(replace(OWN, model="gemini-3.8-flash"), THOUGHT, *SIGNED))

    assert bound[0].parts == BARE
    assert [line.split(",")[0] for line in report] == [
        "reasoning.model: 1 thinking part(s)",
        "reasoning.model: 2 thought signature(s)",
    ]


def test_there_is_no_chain_an_earlier_own_signature_stays() -> None:
    own, foreign = reply(OWN), reply(replace(OWN, model="gemini-3.8-flash"), THOUGHT, *SIGNED)
    own_thought = reply(OWN, THOUGHT, Text("Done."))

    bound, _ = bind(own, own_thought, foreign, own)

    assert [message.parts for message in bound] == [SIGNED, own_thought.parts, BARE, SIGNED]


def test_other_providers_do_not_look_at_the_signatures() -> None:
    message = reply(replace(OWN, model="gemini-3.8-flash"))

    bound, report = bind(message, provider="anthropic")

    assert bound[0] is message
    assert report == []
