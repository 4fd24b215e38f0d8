"""The local provider's Responses API, spoken to by the official SDK."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from openai import BadRequestError, OpenAI

from context_assembler import ContextAssembler
from context_assembler.testing import ProviderServer, ScriptedReply, serve_providers
from context_assembler.values.parts import Thinking, ToolCall

CALL = ToolCall(call_id="call_1", name="read_file", arguments={"path": "a.txt"})
TOOL: dict[str, Any] = {
    "type": "function",
    "name": "read_file",
    "description": "Read one file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
}
BOUND = "gpt-6.2-sol"


def client_of(server: ProviderServer) -> Any:  # its overloads cannot be told apart by a payload
    return OpenAI(api_key="test", base_url=server.openai_url, max_retries=0)


@pytest.fixture
def echo() -> Iterator[ProviderServer]:
    with serve_providers() as server:
        yield server


def test_the_model_repeats_what_it_heard(echo: ProviderServer) -> None:
    client = client_of(echo)

    response = client.responses.create(model="gpt-5.5", input="hello")
    spoken = client.responses.create(
        model="gpt-4o",
        instructions="Be brief.",
        input=[{"role": "user", "content": [{"type": "input_text", "text": "there"}]}],
    )

    assert response.output_text == "You said: hello"
    assert spoken.output_text == "You said: there"
    assert [seen.provider for seen in echo.requests] == ["openai_responses"] * 2


def test_a_stream_adds_up_to_the_same_response(echo: ProviderServer) -> None:
    with client_of(echo).responses.stream(model="gpt-5.5", input="hello") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()

    assert final.output_text == "You said: hello"
    assert kinds.count("response.output_text.delta") == 2
    assert kinds[-1] == "response.completed"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an output for nobody": (
        {"input": [{"type": "function_call_output", "call_id": "c9", "output": "x"}]},
        r"input\[0\].*\[R1\]",
    ),
    "no room for a reply": ({"input": "hi", "max_output_tokens": 5}, r"\[R8\]"),
    "encrypted reasoning of nobody": (
        {
            "input": [
                {"role": "user", "content": "hi"},
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"},
                {"type": "message", "role": "assistant", "content": "x"},
                {"role": "user", "content": "go"},
            ],
            "store": False,
        },
        "could not be verified",
    ),
    "more than the window": ({"input": "word " * 140_000, "model": "gpt-4o"}, "context window"),
}


@pytest.mark.parametrize(("fields", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(echo: ProviderServer, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        client_of(echo).responses.create(**{"model": "gpt-5.5", **fields})


SCRIPT = [
    ScriptedReply(thinking="Read it first.", text="Reading.", tool_calls=(CALL,)),
    ScriptedReply(thinking="Easy.", text="It says alpha."),
    ScriptedReply(text="Yes.", stop_reason="max_tokens"),
    ScriptedReply(text="I can't.", stop_reason="refusal"),
]


async def play(assembler: ContextAssembler, client: Any, *, streams: bool) -> list[Any]:
    """Play one session: ask, read, answer, ask again; return the payloads that were sent."""
    payloads: list[Any] = []

    async def step() -> None:
        context = await assembler.assemble("s", model=BOUND)
        payloads.append(context.to_request())
        assert context.check() == []
        if streams:
            with client.responses.stream(**context.to_openai_responses()) as stream:
                reply = list(stream)[-1]  # the SDK gives no final response of one that was cut off
        else:
            reply = client.responses.create(**context.to_openai_responses())
        await assembler.record("s", reply, context)

    await assembler.add_user("s", "What is in a.txt?")
    await step()
    await assembler.add_tool_result("s", "call_1", "alpha")
    await step()
    for question in ("Sure?", "Delete it."):
        await assembler.add_user("s", question)
        await step()
    return payloads


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
async def test_a_session_only_grows_and_its_reasoning_stays_valid(streams: bool) -> None:
    with serve_providers(SCRIPT) as server:
        async with ContextAssembler(tools=[TOOL]) as assembler:
            payloads = await play(assembler, client_of(server), streams=streams)
            events = [event async for event in assembler.sessions.load("s")]

    for earlier, later in pairwise(payloads):
        assert later["input"][: len(earlier["input"])] == earlier["input"]
        assert {k: v for k, v in later.items() if k != "input"} == {
            k: v for k, v in earlier.items() if k != "input"
        }
    kinds = [item["type"] for item in payloads[-1]["input"]]
    assert kinds.count("reasoning") == 2
    replies = [event for event in events if event.type == "assistant"]
    assert isinstance(replies[0].parts[0], Thinking)
    assert not any("warnings" in event.metadata for event in events)


def test_a_summary_of_the_reasoning_is_shown_on_request() -> None:
    script = [ScriptedReply(thinking="Easy.", tool_calls=(CALL,)), ScriptedReply(text="Done.")]
    with serve_providers(script) as server:
        client = client_of(server)

        response = client.responses.create(
            model="gpt-5.5",
            input="go",
            tools=[{**TOOL, "strict": False}],
            reasoning={"effort": "low", "summary": "auto"},
        )
        searched = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
        after = client.responses.create(
            model="gpt-5.5", input=[{"role": "user", "content": "go"}, searched]
        )

    assert [entry.type for entry in response.output] == ["reasoning", "function_call"]
    assert response.output[0].summary[0].text == "Easy."
    assert after.output_text == "Done."


async def test_reasoning_whose_prefix_changed_is_left_out_before_it_is_sent() -> None:
    with serve_providers(SCRIPT[:3]) as server:
        async with ContextAssembler(tools=[TOOL]) as assembler:
            await assembler.add_user("s", "What is in a.txt?")
            context = await assembler.assemble("s", model=BOUND)
            client = client_of(server)
            await assembler.record("s", client.responses.create(**context.to_request()), context)
            await assembler.add_tool_result("s", "call_1", "alpha")

            changed = await assembler.assemble("s", model=BOUND, thinking_level="high")
            first = client.responses.create(**changed.to_request())
            stale = [
                item | {"content": "Other."} if item.get("role") == "user" else item
                for item in (await assembler.assemble("s", model=BOUND)).to_request()["input"]
            ]
            second = client.responses.create(**(context.to_request() | {"input": stale}))

    assert not any(item["type"] == "reasoning" for item in changed.to_request()["input"])
    assert first.input_transformations == []
    assert [row.reason for row in second.input_transformations or ()] == ["prefix_mismatch"]


def reasoned(client: Any, **fields: Any) -> list[Any]:
    """Return an input whose reply holds reasoning, with that reply and a question behind it."""
    asked: list[Any] = [{"type": "message", "role": "user", "content": "hi"}]
    reply = client.responses.create(model=BOUND, input=asked, store=False, **fields)
    output = [entry.model_dump(exclude_none=True) for entry in reply.output]
    return [*asked, *output, {"type": "message", "role": "user", "content": "go"}]


UNUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another model": ({"model": "gpt-6.2-astra"}, "model_mismatch"),
    "another effort": ({"reasoning": {"effort": "high"}}, "prefix_mismatch"),
    "another format": ({"text": {"format": {"type": "json_object"}}}, "prefix_mismatch"),
    "other tools": ({"tools": [{**TOOL, "strict": False}]}, "prefix_mismatch"),
}


@pytest.mark.parametrize(("fields", "reason"), UNUSED.values(), ids=UNUSED.keys())
def test_reasoning_that_is_not_used_is_told(fields: dict[str, Any], reason: str) -> None:
    script = [ScriptedReply(thinking="Hm.", text="json"), ScriptedReply(text="json")]
    with serve_providers(script) as server:
        client = client_of(server)

        entries = reasoned(client)
        response = client.responses.create(
            **{"model": BOUND, "input": entries, "store": False, **fields}
        )

    assert [row.reason for row in response.input_transformations] == [reason]
    assert [row.reason for row in server.requests[-1].left_out] == [reason]


def test_all_reasoning_behind_a_change_is_told() -> None:
    script = [ScriptedReply(thinking="Hm.", text="x") for _ in range(3)]
    with serve_providers(script) as server:
        client = client_of(server)

        first = reasoned(client)
        reply = client.responses.create(model=BOUND, input=first, store=False)
        output = [entry.model_dump(exclude_none=True) for entry in reply.output]
        changed = [{"type": "message", "role": "user", "content": "ho"}, *first[1:], *output]
        last = {"type": "message", "role": "user", "content": "?"}
        client.responses.create(model=BOUND, input=[*changed, last], store=False)

    assert [row.reason for row in server.requests[-1].left_out] == ["prefix_mismatch"] * 2
