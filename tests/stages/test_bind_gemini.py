"""Signatures of Gemini hang on texts and calls: the signature goes, the part stays."""

from dataclasses import replace

import pytest

from context_assembler.stages.bind_reasoning import bind_reasoning
from context_assembler.values.events import Provenance
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.parts import Part, Text, Thinking, ToolCall

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
    bound, entries = bind_reasoning(messages, provider=provider, limits=ARGON, account="main")
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
