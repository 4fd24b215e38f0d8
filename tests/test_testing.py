"""The doubles that we ship: a clock, a counter, builders, and the local provider over real HTTP."""

import json
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping
from datetime import UTC, date, datetime
from itertools import repeat
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import anthropic
import openai
import pytest

from context_assembler import InvalidParameterError
from context_assembler.testing import (
    ManualClock,
    ProviderServer,
    ScriptedError,
    ScriptedReply,
    WordCounter,
    conversation,
    event_log,
    serve_providers,
)
from context_assembler.values.messages import Message
from context_assembler.values.parts import (
    Document,
    Image,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UrlSource,
)
from context_assembler.values.tools import ToolSpec

MODEL = "claude-opus-5-5"
CHAT_MODEL = "gpt-4o"
SEARCH = ToolCall(call_id="toolu_1", name="search", arguments={"query": "green tea"})
SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TOOLS: Any = [{"name": "search", "description": "Search the shop.", "input_schema": SCHEMA}]
CHAT_TOOLS: Any = [
    {"type": "function", "function": {"name": "search", "parameters": SCHEMA}},
]
FOUND = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Sencha 12.90"}


def ask(text: str = "Find me a tea.") -> list[Any]:
    return [{"role": "user", "content": text}]


def follow_up(messages: list[Any], reply: anthropic.types.Message, answer: Any) -> list[Any]:
    content = [block.model_dump(exclude_unset=True) for block in reply.content]
    return [
        *messages,
        {"role": "assistant", "content": content},
        {"role": "user", "content": answer},
    ]


class AnthropicCaller:
    """A short way to call the server with the real SDK."""

    def __init__(self, server: ProviderServer, **settings: Any) -> None:
        self.url = server.anthropic_url
        self.settings: Any = {"model": MODEL, "max_tokens": 500} | settings

    def __call__(self, messages: list[Any], **settings: Any) -> anthropic.types.Message:
        with anthropic.Anthropic(base_url=self.url, api_key="test", max_retries=0) as client:
            arguments = self.settings | settings
            create: Any = client.messages.create
            reply: anthropic.types.Message = create(messages=messages, **arguments)
            return reply

    def refusal(self, messages: list[Any], **settings: Any) -> str:
        with pytest.raises(anthropic.APIStatusError) as caught:
            self(messages, **settings)
        assert isinstance(caught.value.body, dict)
        return str(caught.value.body["error"]["message"])  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]


@pytest.fixture
def echo() -> Generator[ProviderServer]:
    with serve_providers() as server:
        yield server


# --- clock, counter, builders


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(10.0)

    clock.advance(2.5)

    assert clock() == 12.5
    with pytest.raises(ValueError, match="forward"):
        clock.advance(-1)


PARTS: Mapping[str, tuple[Any, int]] = {
    "text": (Text("two words"), 2),
    "thinking": (Thinking(text="so be it"), 3),
    "image": (Image(source=UrlSource(url="https://example.invalid/a.png")), 100),
    "document": (Document(source=UrlSource(url="https://example.invalid/a.pdf")), 100),
    "call": (ToolCall(call_id="c", name="search", arguments={"q": ["green tea", 3]}), 5),
    "result": (ToolResult(call_id="c", content=(Text("one two"), Text("three"))), 3),
    "opaque with text": (Opaque(provider="x", block={}, text="a b"), 2),
    "opaque without": (Opaque(provider="x", block={"a": 1}), 1),
}


@pytest.mark.parametrize(("part", "words"), PARTS.values(), ids=PARTS.keys())
def test_a_word_is_a_token(part: Any, words: int) -> None:
    counter = WordCounter(message_overhead_tokens=10)

    assert counter.count_message(Message(role="user", parts=(part,))) == 10 + words


def test_words_of_tools_and_system_prompts_count_too() -> None:
    counter = WordCounter()
    tool = ToolSpec(name="search", description="Search the shop.", input_schema={"type": "object"})

    assert counter.count_tool(tool) == 6
    assert counter.count_tools_overhead([tool]) == 0
    assert counter.count_system("You are kind.") == 3


def test_a_conversation_in_shorthand_is_canonical() -> None:
    messages = conversation(
        "S be brief",
        "U find tea",
        'A[c1:search {"q": "a, b", "in": [1, 2]}, c2] looking',
        "T[c1] Sencha",
        "T[c2!] timed out",
        "A done",
    )

    assert [m.role for m in messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert [m.seq for m in messages] == [1, 2, 3, 4, 5]
    assert messages[2].tool_calls == (
        ToolCall(call_id="c1", name="search", arguments={"q": "a, b", "in": [1, 2]}),
        ToolCall(call_id="c2", name="look_up"),
    )
    assert [(r.call_id, r.is_error, r.text) for r in messages[3].tool_results] == [
        ("c1", False, "Sencha"),
        ("c2", True, "timed out"),
    ]


def test_an_event_log_is_timed_but_not_numbered() -> None:
    events = event_log("U hi", "A[c1]", "T[c1] ok")

    assert [e.type for e in events] == ["user", "assistant", "tool_result"]
    assert [e.seq for e in events] == [0, 0, 0]
    assert events[1].created_at == datetime(2026, 11, 3, 9, 1, tzinfo=UTC)
    assert event_log("U hi", start=None)[0].created_at is None


@pytest.mark.parametrize("line", ["X what", "T no id", "A[?] odd", ""])
def test_a_line_that_is_no_shorthand_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="got"):
        conversation(line)


# --- the provider, through the Anthropic SDK


def test_without_a_script_the_model_repeats_what_it_heard(echo: ProviderServer) -> None:
    reply = AnthropicCaller(echo)(ask("Good morning"))

    assert isinstance(reply.content[0], anthropic.types.TextBlock)
    assert reply.content[0].text == "You said: Good morning"
    assert reply.stop_reason == "end_turn"


def test_a_script_is_played_in_order_and_requests_are_remembered() -> None:
    script = [ScriptedReply(tool_calls=(SEARCH,)), ScriptedReply(text="Sencha.")]
    with serve_providers(script) as server:
        first = AnthropicCaller(server)(ask(), tools=TOOLS)
        second = AnthropicCaller(server)(follow_up(ask(), first, [FOUND]), tools=TOOLS)

    assert first.stop_reason == "tool_use"
    assert [block.type for block in first.content] == ["tool_use"]
    assert second.content[0].to_dict()["text"] == "Sencha."
    assert [seen.status for seen in server.requests] == [200, 200]
    assert server.requests[0].headers["anthropic-version"]


def test_a_streamed_reply_adds_up_to_the_same_message() -> None:
    reply = ScriptedReply(text="Looking.", thinking="Tea, then.", tool_calls=(SEARCH,))
    thinking: Any = {"type": "adaptive", "display": "summarized"}
    with serve_providers([reply, reply]) as server:
        whole = AnthropicCaller(server)(ask(), tools=TOOLS, thinking=thinking)
        with (
            anthropic.Anthropic(base_url=server.anthropic_url, api_key="test") as client,
            client.messages.stream(
                model=MODEL, max_tokens=500, messages=ask(), tools=TOOLS, thinking=thinking
            ) as stream,
        ):
            streamed = stream.get_final_message()

    assert [b.to_dict(exclude_unset=False) | {"parsed_output": None} for b in streamed.content] == [
        b.to_dict(exclude_unset=False) | {"parsed_output": None} for b in whole.content
    ]
    assert streamed.usage.output_tokens == whole.usage.output_tokens
    assert whole.content[0].to_dict()["thinking"] == "Tea, then."


def test_an_unplayed_script_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="never asked for"), serve_providers([ScriptedReply()]):
        pass


def test_a_script_that_is_too_short_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="after the last line"), serve_providers([]) as server:
        assert "no line left" in AnthropicCaller(server).refusal(ask())


def test_a_failing_test_is_not_hidden_by_its_script() -> None:
    with pytest.raises(ZeroDivisionError), serve_providers([ScriptedReply()]):
        _ = 1 / 0


def test_a_script_without_an_end_is_refused() -> None:
    with (
        pytest.raises(InvalidParameterError, match="script must end"),
        serve_providers(repeat(ScriptedReply(text="Again."))),
    ):
        _ = 1 / 0


def test_a_scripted_error_is_answered_as_written() -> None:
    with (
        serve_providers([ScriptedError(), ScriptedReply(text="Back.")]) as server,
        anthropic.Anthropic(base_url=server.anthropic_url, api_key="test", max_retries=0) as client,
    ):
        with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
            client.messages.create(model=MODEL, max_tokens=500, messages=ask())
        reply = client.messages.create(model=MODEL, max_tokens=500, messages=ask())

    assert reply.content[0].to_dict()["text"] == "Back."
    assert [seen.status for seen in server.refusals] == [529]


BROKEN: Mapping[str, tuple[list[Any], str]] = {
    "a call without a result": (
        [
            *ask(),
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t1", "name": "search", "input": {}}],
            },
            *ask("And?"),
        ],
        "A1",
    ),
    "a result without a call": ([{"role": "user", "content": [FOUND]}], "A3"),
    "an empty text": ([{"role": "user", "content": [{"type": "text", "text": ""}]}], "A9"),
    "a prefill": ([*ask(), {"role": "assistant", "content": "The best tea is"}], "A11"),
}


@pytest.mark.parametrize(("messages", "rule"), BROKEN.values(), ids=BROKEN.keys())
def test_a_request_that_breaks_a_rule_is_refused(
    echo: ProviderServer, messages: list[Any], rule: str
) -> None:
    message = AnthropicCaller(echo).refusal(messages, tools=TOOLS)

    assert f"[{rule}]" in message
    assert echo.refusals[0].refusal == message


def test_an_unknown_model_is_not_found(echo: ProviderServer) -> None:
    assert AnthropicCaller(echo).refusal(ask(), model="claude-none-9") == "model: claude-none-9"


def test_a_prompt_longer_than_the_window_is_refused() -> None:
    with serve_providers(counter=WordCounter()) as server:
        too_long = AnthropicCaller(server).refusal(ask("tea " * 1_000_001))

    assert too_long == "prompt is too long: 1000005 tokens > 1000000 maximum"


def test_sampling_passes_with_the_older_version_only(echo: ProviderServer) -> None:
    caller = AnthropicCaller(echo, model="claude-haiku-4-5")
    old = {"anthropic-version": "2023-06-01"}

    assert caller(ask(), extra_body={"temperature": 0.5}, extra_headers=old)
    assert "temperature" in AnthropicCaller(echo, model="claude-haiku-4-5").refusal(
        ask(), extra_body={"temperature": 0.5}
    )


def test_tokens_can_be_counted(echo: ProviderServer) -> None:
    with anthropic.Anthropic(base_url=echo.anthropic_url, api_key="test") as client:
        counted = client.messages.count_tokens(model=MODEL, messages=ask("one two three"))

    reply = AnthropicCaller(echo)(ask("one two three"))
    assert counted.input_tokens == reply.usage.input_tokens > 3


MEDIA: Mapping[str, tuple[list[Any], int]] = {
    "an image has a flat price": (
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}],
        1500,
    ),
    "a document has a flat price": (
        [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}}],
        3000,
    ),
    "another block counts as JSON": (
        [
            {
                "type": "search_result",
                "source": "a",
                "title": "b",
                "content": [{"type": "text", "text": "c"}],
            }
        ],
        1,
    ),
}


@pytest.mark.parametrize(("content", "tokens"), MEDIA.values(), ids=MEDIA.keys())
def test_what_is_no_text_counts_too(content: list[Any], tokens: int) -> None:
    with serve_providers(counter=WordCounter()) as server:
        reply = AnthropicCaller(server)([{"role": "user", "content": content}])

    assert reply.usage.input_tokens == tokens + 4
    assert str(reply.content[0].to_dict()["text"]).startswith("You said")


# --- signed thinking


def thinking_reply(text: str, *, call_id: str | None = None) -> ScriptedReply:
    calls = (ToolCall(call_id=call_id, name="search"),) if call_id else ()
    return ScriptedReply(text=text, thinking=f"about {text}", tool_calls=calls)


@pytest.fixture
def two_turns() -> Iterator[tuple[ProviderServer, list[Any]]]:
    """A server, and a conversation with two replies, each with signed thinking."""
    script = [thinking_reply("one"), thinking_reply("two"), ScriptedReply(text="three")]
    with serve_providers(script) as server:
        first = AnthropicCaller(server)(ask("a"))
        messages = follow_up(ask("a"), first, "b")
        second = AnthropicCaller(server)(messages)
        yield server, follow_up(messages, second, "c")


def test_untouched_thinking_is_accepted_though_its_text_is_empty(two_turns: Any) -> None:
    server, messages = two_turns

    assert messages[1]["content"][0]["thinking"] == ""
    assert AnthropicCaller(server)(messages).stop_reason == "end_turn"


def test_cache_marks_do_not_touch_the_prefix(two_turns: Any) -> None:
    server, messages = two_turns
    marked = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]

    assert AnthropicCaller(server)([{"role": "user", "content": marked}, *messages[1:]])


def without_thinking(message: Any) -> Any:
    kept = [block for block in message["content"] if block["type"] != "thinking"]
    return message | {"content": kept}


def test_thinking_may_be_left_out_from_the_start(two_turns: Any) -> None:
    server, messages = two_turns

    assert AnthropicCaller(server)([messages[0], without_thinking(messages[1]), *messages[2:]])


def test_thinking_may_not_be_left_out_in_the_middle() -> None:
    script = [thinking_reply(text) for text in ("one", "two", "three")]
    with serve_providers(script) as server:
        messages = ask("a")
        for answer in ("b", "c", "d"):
            reply = AnthropicCaller(server)(messages)
            messages = follow_up(messages, reply, answer)
        holed = [*messages[:3], without_thinking(messages[3]), *messages[4:]]

        assert "is missing" in AnthropicCaller(server).refusal(holed)


def edit_question(messages: list[Any]) -> list[Any]:
    return [{"role": "user", "content": "A"}, *messages[1:]]


def drop_first_turn(messages: list[Any]) -> list[Any]:
    return messages[2:]


def tamper(messages: list[Any]) -> list[Any]:
    block = messages[1]["content"][0] | {"thinking": "I never thought this."}
    return [
        messages[0],
        messages[1] | {"content": [block, *messages[1]["content"][1:]]},
        *messages[2:],
    ]


def forge(messages: list[Any]) -> list[Any]:
    block = {"type": "thinking", "thinking": "hm", "signature": "bm90IGEgc2VhbA=="}
    return [messages[0], messages[1] | {"content": [block]}, *messages[2:]]


REWRITES = {
    "an edited message": (edit_question, "bound to a different conversation"),
    "a dropped turn": (drop_first_turn, "bound to a different conversation"),
    "a changed thought": (tamper, "Invalid `signature`"),
    "a forged signature": (forge, "Invalid `signature`"),
}


@pytest.mark.parametrize(("rewrite", "message"), REWRITES.values(), ids=REWRITES.keys())
def test_thinking_is_refused_once_what_it_stands_on_changed(rewrite: Any, message: str) -> None:
    with serve_providers([thinking_reply("one"), thinking_reply("two")]) as server:
        messages = follow_up(ask("a"), AnthropicCaller(server)(ask("a")), "b")
        messages = follow_up(messages, AnthropicCaller(server)(messages), "c")

        assert message in AnthropicCaller(server).refusal(rewrite(messages))


def test_a_changed_system_prompt_breaks_the_prefix_too() -> None:
    with serve_providers([thinking_reply("one")]) as server:
        reply = AnthropicCaller(server)(ask("a"), system="Monday")

        messages = follow_up(ask("a"), reply, "b")
        assert "bound to" in AnthropicCaller(server).refusal(messages, system="Tuesday")


def test_older_models_and_other_models_do_not_check_the_prefix() -> None:
    script = [thinking_reply("one"), ScriptedReply(text="two"), ScriptedReply(text="three")]
    with serve_providers(script) as server:
        reply = AnthropicCaller(server, model="claude-opus-5")(ask("a"))
        messages = follow_up(ask("A"), reply, "b")

        assert AnthropicCaller(server, model="claude-opus-5")(messages)
        assert AnthropicCaller(server)(messages)


def test_a_model_that_does_not_think_returns_no_thinking() -> None:
    with serve_providers([thinking_reply("one")]) as server:
        reply = AnthropicCaller(server, model="claude-3-haiku")(ask())

    assert [block.type for block in reply.content] == ["text"]


# --- prompt cache


def test_what_was_written_at_a_breakpoint_is_read_by_the_next_request() -> None:
    marks: Any = {"cache_control": {"type": "ephemeral"}, "system": "word " * 600}
    with serve_providers(counter=WordCounter()) as server:
        first = AnthropicCaller(server)(ask("a"), **marks)
        longer = follow_up(ask("a"), first, "b")
        second = AnthropicCaller(server)(longer, **marks)
        other = AnthropicCaller(server)(ask("a"), **(marks | {"system": "word " * 601}))

    assert first.usage.cache_creation_input_tokens == 605
    assert first.usage.cache_read_input_tokens == 0
    assert second.usage.cache_read_input_tokens == 605
    assert second.usage.cache_creation_input_tokens == 12
    assert other.usage.cache_read_input_tokens == 0


def test_nothing_is_cached_without_a_mark_or_below_the_minimum(echo: ProviderServer) -> None:
    AnthropicCaller(echo)(ask("word " * 600))
    unmarked = AnthropicCaller(echo)(ask("word " * 600))
    short = AnthropicCaller(echo)(ask("a"), cache_control={"type": "ephemeral"})

    assert unmarked.usage.cache_read_input_tokens == 0
    assert short.usage.cache_creation_input_tokens == 0


# --- the provider, through the OpenAI SDK


@pytest.fixture
def chat(echo: ProviderServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=echo.openai_url, api_key="test", max_retries=0) as client:
        yield client


def test_chat_completions_answer_in_their_own_shape() -> None:
    script = [
        ScriptedReply(tool_calls=(SEARCH,)),
        ScriptedReply(text="A", stop_reason="max_tokens"),
    ]
    with (
        serve_providers(script) as server,
        openai.OpenAI(base_url=server.openai_url, api_key="test") as client,
    ):
        called = client.chat.completions.create(
            model=CHAT_MODEL, messages=ask(), tools=CHAT_TOOLS
        ).choices[0]
        cut = client.chat.completions.create(model=CHAT_MODEL, messages=ask()).choices[0]

    assert called.finish_reason == "tool_calls"
    assert called.message.tool_calls is not None
    assert [call.to_dict() for call in called.message.tool_calls] == [
        {
            "id": "toolu_1",
            "type": "function",
            "function": {"name": "search", "arguments": '{"query":"green tea"}'},
        }
    ]
    assert (cut.finish_reason, cut.message.content) == ("length", "A")


def test_streamed_chunks_add_up(echo: ProviderServer) -> None:
    script = [ScriptedReply(text="Looking.", tool_calls=(SEARCH,))]
    with (
        serve_providers(script) as server,
        openai.OpenAI(base_url=server.openai_url, api_key="test") as client,
        client.chat.completions.stream(
            model=CHAT_MODEL,
            messages=ask(),
            tools=CHAT_TOOLS,
            stream_options={"include_usage": True},
        ) as stream,
    ):
        final = stream.get_final_completion()

    assert final.choices[0].message.content == "Looking."
    assert final.choices[0].message.tool_calls is not None
    assert final.usage is not None
    assert final.usage.prompt_tokens > 0


def test_usage_is_streamed_on_request_only(chat: openai.OpenAI) -> None:
    chunks = list(chat.chat.completions.create(model=CHAT_MODEL, messages=ask(), stream=True))

    assert all(chunk.usage is None for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_an_orphan_result_is_refused(echo: ProviderServer, chat: openai.OpenAI) -> None:
    orphan: Any = [*ask(), {"role": "tool", "tool_call_id": "c1", "content": "x"}]

    with pytest.raises(openai.BadRequestError, match="C1"):
        chat.chat.completions.create(model=CHAT_MODEL, messages=orphan)
    assert echo.refusals[0].provider == "openai_chat"


def test_an_overlong_chat_names_both_numbers(chat: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="maximum context length is 128000") as caught:
        chat.chat.completions.create(model=CHAT_MODEL, messages=ask("tea " * 130_000))

    assert caught.value.code == "context_length_exceeded"


def test_an_unknown_chat_model_is_not_found(chat: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        chat.chat.completions.create(model="gpt-none", messages=ask())


def test_a_long_common_prefix_is_read_from_the_cache() -> None:
    system: Any = {"role": "system", "content": "word " * 1100}
    with (
        serve_providers(counter=WordCounter()) as server,
        openai.OpenAI(base_url=server.openai_url, api_key="test") as client,
    ):
        answers = [
            client.chat.completions.create(model=CHAT_MODEL, messages=[system, *ask(text)])
            for text in ("a", "b")
        ]

    cached = [a.usage.prompt_tokens_details for a in answers if a.usage]
    assert [c.cached_tokens for c in cached if c] == [0, 1024]


# --- plain HTTP


def post(url: str, body: bytes) -> tuple[int, Any]:
    try:
        with urlopen(Request(url, data=body, method="POST")) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


BODIES = {
    "no JSON": ("/v1/messages", b"{", 400),
    "no object": ("/v1/chat/completions", b"[]", 400),
    "no model": ("/v1/messages", b"{}", 400),
    "another path": ("/v1/embeddings", b"{}", 404),
    "an empty body": ("/v1/messages", b"", 400),
    "no messages": ("/v1/messages", b'{"model": "claude-opus-5-5", "max_tokens": 9}', 400),
    "messages of no shape": (
        "/v1/messages",
        b'{"model": "claude-opus-5-5", "max_tokens": 9, "messages": [3, {"role": "user", "content": [4]}]}',
        400,
    ),
    "tokens of no messages": (
        "/v1/messages/count_tokens",
        b'{"model": "claude-opus-5-5", "system": [7], "tools": 3, "messages": 3}',
        200,
    ),
}


@pytest.mark.parametrize(("path", "body", "status"), BODIES.values(), ids=BODIES.keys())
def test_what_is_no_request_is_refused(
    echo: ProviderServer, path: str, body: bytes, status: int
) -> None:
    answered, error = post(echo.url + path, body)

    assert answered == status
    assert error["error"]["message"] if status >= 400 else error["input_tokens"] >= 0


def test_a_body_over_32_megabytes_is_too_large(echo: ProviderServer) -> None:
    status, error = post(f"{echo.url}/v1/messages", b" " * (32 * 1024 * 1024 + 1))

    assert (status, error["error"]["type"]) == (413, "request_too_large")


def test_dated_rules_follow_the_given_day() -> None:
    with serve_providers(today=date(2026, 1, 1)) as server:
        assert AnthropicCaller(server)(ask())


def test_the_environment_leads_both_sdks_here(
    echo: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in echo.environment.items():
        monkeypatch.setenv(name, value)

    with anthropic.Anthropic() as client, openai.OpenAI() as other:
        client.messages.create(model=MODEL, max_tokens=100, messages=ask())
        other.chat.completions.create(model=CHAT_MODEL, messages=ask())

    assert [seen.provider for seen in echo.requests] == ["anthropic", "openai_chat"]


BEYOND_JSON = {
    "nested deeply": '{"messages": ' + "[" * 900 + "]" * 900 + "}",
    "nested beyond Python": '{"messages": ' + "[" * 100_000,
    "an overlong integer": '{"n": ' + "9" * 5_000 + "}",
    "not a number": '{"temperature": NaN}',
}


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
@pytest.mark.parametrize("body", BEYOND_JSON.values(), ids=BEYOND_JSON.keys())
def test_a_body_that_is_hardly_json_is_refused_like_any(
    capfd: pytest.CaptureFixture[str], path: str, body: str
) -> None:
    with serve_providers() as server, pytest.raises(HTTPError) as caught:
        urlopen(Request(server.url + path, data=body.encode()))

    assert caught.value.code == 400
    assert "not a JSON object" in caught.value.read().decode()
    caught.value.close()
    assert capfd.readouterr().err == ""


def test_a_program_that_never_stops_the_server_ends() -> None:
    program = (
        "from contextlib import ExitStack\n"
        "from context_assembler.testing import serve_providers\n"
        "stack = ExitStack()\n"
        "stack.enter_context(serve_providers())\n"
    )

    ended = subprocess.run([sys.executable, "-c", program], timeout=60, check=False)

    assert ended.returncode == 0
