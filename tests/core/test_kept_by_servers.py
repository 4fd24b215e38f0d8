"""What a server keeps goes back by its id until it is gone; imports keep a provider's own items."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from context_assembler import (
    AssembledContext,
    AssemblerConfig,
    ContextAssembler,
    ModelRegistry,
    read_transcript,
)
from tests.core.sessions import OPUS, QUIET, assembled, changes, texts_in

RAN: list[dict[str, Any]] = [
    {"type": "code_interpreter_call", "id": "ci_1", "container_id": "cntr_1", "code": "plot()"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [
            {
                "type": "output_text",
                "text": "See p.png.",
                "annotations": [
                    {"type": "container_file_citation", "container_id": "cntr_1", "file_id": "cf"},
                    {"type": "url_citation", "url": "https://a.org"},
                ],
            }
        ],
    },
]
START = datetime(2026, 11, 30, tzinfo=UTC)


async def after(minutes: int, model: str, reply: dict[str, Any]) -> AssembledContext:
    """Return the context of a question that is asked so long after a reply."""
    times, registry = [START], ModelRegistry(overrides=())
    registry.register("gpt-audio", extends="gpt-4o")
    assembler = ContextAssembler(
        config=AssemblerConfig(**QUIET), registry=registry, now=lambda: times[-1]
    )
    await assembler.add_user("s", "plot")
    await assembler.record("s", reply, await assembler.assemble("s", model=model))
    times.append(START + timedelta(minutes=minutes))
    await assembler.add_user("s", "again")
    return await assembler.assemble("s", model=model)


def ran(**fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 9, "output_tokens": 9}
    made = {"object": "response", "status": "completed", "output": RAN, "usage": usage}
    return {**made, "created_at": START.timestamp(), **fields}


def spoken(minutes: int) -> dict[str, Any]:
    expires = int(START.timestamp()) + 60 * minutes
    audio = {"id": "audio_1", "expires_at": expires, "data": "AAAA", "transcript": "Hello."}
    message = {"role": "assistant", "content": None, "audio": audio}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"object": "chat.completion", "model": "m", "choices": [choice]}


@pytest.mark.parametrize(("minutes", "is_kept"), [(5, True), (19, True), (20, False), (600, False)])
async def test_a_container_goes_back_until_it_expires(minutes: int, *, is_kept: bool) -> None:
    context = await after(minutes, "gpt-6.2-sol", ran())

    payload = context.to_request()
    assert ("cntr_1" in {*texts_in(payload)}) == is_kept
    assert (RAN[0] in payload["input"]) == is_kept
    assert ("parameter.expired" in changes(context)) != is_kept
    assert {"See p.png.", "https://a.org"} <= {*texts_in(payload)}
    assert context.check() == []


async def test_a_container_whose_age_nobody_knows_goes_back() -> None:
    context = await after(600, "gpt-6.2-sol", ran(created_at=None))

    assert RAN[0] in context.to_request()["input"]


@pytest.mark.parametrize(
    ("model", "lasts", "sent"),
    [
        ("gpt-audio", 60, {"audio": {"id": "audio_1"}}),
        ("gpt-audio", 5, {"content": "Hello."}),
        ("gpt-4.1", 60, {"content": "Hello."}),
        ("openrouter/openai/gpt-4.1", 60, {"content": "Hello."}),
    ],
)
async def test_a_spoken_answer_goes_back_by_its_id_where_that_is_taken(
    model: str, lasts: int, sent: dict[str, Any]
) -> None:
    context = await after(10, model, spoken(lasts))

    messages = context.to_request("openai_chat")["messages"]
    assert messages[1] == {"role": "assistant", **sent}
    assert ("parameter.expired" in changes(context)) == (model == "gpt-audio" and lasts < 10)
    assert context.check("openai_chat") == []


async def test_a_reply_of_reasoning_alone_leaves_a_line_in_its_place() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "Z0FB"}

    context = await after(5, "gpt-6.2-sol", ran(status="incomplete", output=[thought]))

    roles = [item["role"] for item in context.to_request()["input"]]
    assert roles == ["user", "assistant", "user"]
    assert "reasoning.unfinished" in changes(context)
    assert context.check() == []


# ---- imports ----

HANDED: dict[str, tuple[list[str], list[str], list[str]]] = {  # kept items, issues, rules elsewhere
    "oa_mcp_approved": (
        ["mcp_list_tools", "mcp_approval_request", "mcp_approval_response"],
        [],
        ["content.foreign"],
    ),
    "oa_websearch": (["web_search_call", "url_citation"], [], ["content.foreign"]),
    "oa_code_interp": (
        ["code_interpreter_call", "container_file_citation"],
        [],
        ["content.foreign"],
    ),
    "oa_item_reference": ([], ["input[0].id", "previous_response_id"], []),
}


@pytest.mark.parametrize(("name", "found"), HANDED.items(), ids=HANDED.keys())
def test_a_handed_request_keeps_its_items_for_their_provider(
    name: str, found: tuple[list[str], list[str], list[str]], corpus: Path
) -> None:
    given = (corpus.parent / "cases" / "second" / f"{name}.json").read_text(encoding="utf-8")
    read = read_transcript(json.loads(given))
    kept, issues, elsewhere = found

    own = assembled(*read.events, model="gpt-6.2-sol")
    other = assembled(*read.events, model=OPUS)

    payload = own.to_request()["input"]
    items = [one for one in json.loads(given)["input"] if one["type"] in kept]
    assert all(one in payload for one in items)
    assert set(kept) <= {*texts_in(payload)}
    assert [issue.what for issue in read.issues] == issues
    assert set(elsewhere) <= {*changes(other)}
    assert [own.check(), other.check()] == [[], []]


def test_a_handed_spoken_answer_that_expired_is_read_as_its_words(corpus: Path) -> None:
    path = corpus.parent / "cases" / "second" / "oa_audio_chat.json"
    read = read_transcript(json.loads(path.read_text(encoding="utf-8")))

    context = assembled(*read.events, model="gpt-4.1")

    assert {"role": "assistant", "content": "Hello there"} in context.to_request()["messages"]
    assert context.check() == []
