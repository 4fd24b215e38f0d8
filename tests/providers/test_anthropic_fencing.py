"""Where a system message has no place of its own: fenced, and told of."""

import pytest

from context_assembler import ContextAssembler, system_event
from context_assembler.providers.anthropic import ANTHROPIC
from context_assembler.values.messages import Message
from context_assembler.values.parts import Thinking
from tests.providers.drafts import HAIKU_45, OPUS, assistant, draft, note, user

UNSENT = Thinking(text="hm", provider="openai_responses", block={"type": "reasoning"})
FENCED: dict[str, tuple[list[Message], list[str]]] = {
    "before a message of the user": ([user("a"), note("x", id="n"), user("b")], ["n"]),
    "two before a message of the user": (
        [user("a"), note("x", id="m"), note("y", id="n"), user("b")],
        ["m", "n"],
    ),
    "one before the user, one at the end": (
        [user("a"), note("x", id="m"), user("b"), note("y", id="n")],
        ["m"],
    ),
    "behind an assistant message": ([user("a"), assistant("b"), note("x", id="n")], ["n"]),
    "in the first place": ([note("x", id="n"), assistant("a"), user("b")], ["n"]),
    "before a reply of which nothing is sent": (
        [user("a"), note("x", id="n"), assistant(UNSENT), user("b")],
        ["n"],
    ),
    "an assembler's own": ([user("a"), note("x", note="clock"), user("b")], ["clock"]),
}
PLACED: dict[str, list[Message]] = {
    "none": [user("a")],
    "at the end": [user("a"), note("x")],
    "before a reply": [user("a"), note("x"), note("y"), assistant("b"), user("c")],
    "text from memory": [user("a"), note("x", origin="memory"), user("b")],
}


@pytest.mark.parametrize(("talk", "ids"), FENCED.values(), ids=FENCED.keys())
def test_a_system_message_without_a_place_is_told_of(talk: list[Message], ids: list[str]) -> None:
    made = draft(talk)

    adapted, rows = ANTHROPIC.adapt(made)

    assert adapted.messages == made.messages
    assert [(row.id, row.decision, row.rule) for row in rows] == [
        (name, "kept", "system.fenced") for name in ids
    ]


@pytest.mark.parametrize("talk", PLACED.values(), ids=PLACED.keys())
def test_nothing_is_told_where_there_is_a_place_or_no_claim_to_one(talk: list[Message]) -> None:
    assert ANTHROPIC.adapt(draft(talk))[1] == ()


def test_a_model_that_takes_no_system_messages_displaces_none() -> None:
    talk = [user("a"), note("x"), user("b")]

    assert ANTHROPIC.adapt(draft(talk, limits=HAIKU_45))[1] == ()
    assert ANTHROPIC.adapt(draft(talk, limits=OPUS))[1] != ()


async def test_a_call_that_failed_makes_the_next_payload_tell_of_its_rewrite() -> None:
    assembler = ContextAssembler(sessions="memory:")
    await assembler.add_user("s", "hi")
    await assembler.sessions.append("s", [system_event("In French.")])
    failed = await assembler.assemble("s", model="claude-opus-5-5")
    await assembler.add_user("s", "and?")

    context = await assembler.assemble("s", model="claude-opus-5-5")

    told = [row.id for row in context.report.entries if row.rule == "system.fenced"]
    assert failed.to_anthropic()["messages"][-1]["role"] == "system"
    assert [message["role"] for message in context.to_anthropic()["messages"]] == ["user"]
    assert len(told) == len(set(told)) > 0
