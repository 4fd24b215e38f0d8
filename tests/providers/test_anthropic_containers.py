"""The container of code execution, kept from a reply to the next request."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from context_assembler import AssemblerConfig, ContextAssembler
from context_assembler.providers.anthropic import ANTHROPIC
from context_assembler.values.codec import dump_event, load_event
from context_assembler.values.draft import Draft
from context_assembler.values.events import AssistantBody, Container, Provenance, SessionEvent
from context_assembler.values.messages import Message
from context_assembler.values.parts import Text
from context_assembler.values.tools import ToolSpec
from tests.providers.drafts import OPUS, READ_FILE, draft
from tests.providers.sdk_types import assert_sdk_takes

NOON: Final = datetime(2026, 11, 27, 12, tzinfo=UTC)
CODE: Final = ToolSpec(
    name="code_execution",
    native_specs={"anthropic": {"type": "code_execution_20250825", "name": "code_execution"}},
)
LASTING: Final = Container(id="container_1", expires_at=NOON + timedelta(days=30))


def reply(**fields: Any) -> dict[str, Any]:
    text = {"type": "text", "text": "Done."}
    return {"type": "message", "role": "assistant", "model": "m", "content": [text], **fields}


def ran(container: Container | None, *, by: str = "anthropic") -> Message:
    """Return a reply that ran code there."""
    made_by = Provenance(provider=by, model=OPUS.id, container=container)
    return Message(role="assistant", parts=(Text("Done."),), origin="model", made_by=made_by)


def asked(text: str, at: datetime | None = None) -> Message:
    return Message(role="user", parts=(Text(text),), created_at=at)


def talk(*messages: Message, tools: tuple[ToolSpec, ...] = (CODE,)) -> Draft:
    return draft([asked("go"), *messages, asked("on", NOON)], tools=tools)


# What a reply says of its container, and what is read of it.
READ: dict[str, tuple[Any, Container | None]] = {
    "with its end": (
        {"id": "c1", "expires_at": "2026-11-27T12:00:00Z"},
        Container(id="c1", expires_at=NOON),
    ),
    "an end without a zone": (
        {"id": "c1", "expires_at": "2026-11-27T12:00:00"},
        Container(id="c1", expires_at=NOON),
    ),
    "no end": ({"id": "c1"}, Container(id="c1")),
    "an end that is no date": ({"id": "c1", "expires_at": "soon"}, Container(id="c1")),
    "no id": ({"expires_at": "2026-11-27T12:00:00Z"}, None),
    "none": (None, None),
}


@pytest.mark.parametrize(("told", "container"), READ.values(), ids=READ.keys())
def test_a_reply_tells_where_its_code_ran(told: Any, container: Container | None) -> None:
    assert ANTHROPIC.read_reply(reply(container=told), None).container == container


# The draft, and the container that is asked for.
SENT: dict[str, tuple[Draft, str | None]] = {
    "a lasting one": (talk(ran(LASTING)), "container_1"),
    "one without an end": (talk(ran(Container(id="c0"))), "c0"),
    "the newest": (talk(ran(Container(id="c0")), asked("x"), ran(LASTING)), "container_1"),
    "one before a reply without": (talk(ran(LASTING), asked("x"), ran(None)), "container_1"),
    "beside a function": (talk(ran(LASTING), tools=(CODE, READ_FILE)), "container_1"),
    "no server tool": (talk(ran(LASTING), tools=(READ_FILE,)), None),
    "one that is over": (talk(ran(Container(id="c0", expires_at=NOON))), None),
    "another provider's": (talk(ran(LASTING, by="gemini")), None),
    "none": (talk(ran(None)), None),
}


@pytest.mark.parametrize(("made", "container"), SENT.values(), ids=SENT.keys())
def test_a_request_goes_on_where_code_ran_before(made: Draft, container: str | None) -> None:
    payload = ANTHROPIC.render(made)

    assert payload.get("container") == container
    assert ANTHROPIC.check_payload(payload, limits=OPUS) == []
    assert_sdk_takes("anthropic", payload)


def test_what_time_it_is_need_not_be_known() -> None:
    made = replace(talk(ran(LASTING)), messages=(asked("go"), ran(LASTING), asked("on")))

    assert ANTHROPIC.render(made)["container"] == "container_1"


def test_a_container_is_no_part_of_the_prefix() -> None:
    assert ANTHROPIC.fingerprints(talk(ran(LASTING))) == ANTHROPIC.fingerprints(talk(ran(None)))


def test_a_container_is_stored_with_its_reply() -> None:
    body = AssistantBody(
        parts=(), made_by=Provenance(provider="anthropic", model="m", container=LASTING)
    )
    event = SessionEvent(body=body, id="e1", seq=1, origin="model")

    assert load_event(dump_event(event), where="row") == event


async def session(account: str | None) -> ContextAssembler:
    """Return the assembler of an account, over a session whose reply ran code under `mine`."""
    assembler = ContextAssembler(sessions="memory:", config=AssemblerConfig(account="mine"))
    await assembler.add_user("s", "go")
    context = await assembler.assemble("s", model="claude-opus-5-5", additional_tools=[CODE])
    await assembler.record("s", reply(container={"id": "container_1"}), context)
    await assembler.add_user("s", "on")
    if account == "mine":
        return assembler
    return ContextAssembler(sessions=assembler.sessions, config=AssemblerConfig(account=account))


async def test_the_next_request_of_a_session_goes_on_in_the_container() -> None:
    assembler = await session("mine")

    context = await assembler.assemble("s", model="claude-opus-5-5", additional_tools=[CODE])

    assert context.to_anthropic()["container"] == "container_1"
    assert "container" not in str(context.to_gemini())


async def test_another_account_has_no_use_for_it_and_a_row_says_so() -> None:
    assembler = await session("theirs")

    context = await assembler.assemble("s", model="claude-opus-5-5", additional_tools=[CODE])

    assert "container" not in context.to_anthropic()
    [row] = [row for row in context.report.entries if row.rule == "reasoning.account"]
    assert "container" in row.reason
