"""What every provider promises, over arbitrary conversations."""

import json
import re
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.errors import EmptySessionError, ReplyError
from context_assembler.ports import Provider
from context_assembler.providers import PROVIDERS
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.options import CachePolicy
from context_assembler.values.parts import Text, Thinking
from context_assembler.values.tools import ToolSpec
from tests.providers.drafts import MODELS, READ_FILE, draft
from tests.providers.sdk_types import assert_sdk_takes
from tests.strategies import broken_histories, paired_conversations

every_provider = pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS.keys())
models = st.sampled_from(list(MODELS.values()))
HISTORY_KEYS: Final = {"openai_responses": "input", "gemini": "contents"}
FREE_FORM_KEYS: Final = {"input", "args", "response"}
KEYS: Final = re.findall(
    r"\w+",
    "model messages role content type text tools tool_calls id function arguments tool_use_id "
    "tool_choice thinking name system input_schema cache_control source image_url extra_body stop "
    "extra_headers output_config reasoning max_tokens temperature choices message usage "
    "input output call_id arguments summary encrypted_content status instructions "
    "contents parts config functionCall function_response args response candidates generationConfig "
    "thoughtSignature inline_data tool_config parameters properties file_data mime_type",
)
SERVER_TOOL: Final = ToolSpec(name="search", native_specs={"elsewhere": {"type": "search"}})
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=30,
)


def _holds_none(value: Any) -> bool:
    """Whether `None` stands anywhere but in the model's own arguments."""
    if is_object(value):
        return any(_holds_none(item) for key, item in value.items() if key not in FREE_FORM_KEYS)
    return any(map(_holds_none, value)) if is_array(value) else value is None


@every_provider
@settings(max_examples=60)
@given(talk=paired_conversations, limits=models, cache=st.sampled_from(["auto", "off"]))
def test_a_repaired_history_renders_to_a_valid_payload(
    provider: Provider, talk: list[Message], limits: ModelLimits, cache: CachePolicy
) -> None:
    made = replace(draft(talk, limits=limits), cache=cache)

    payload = provider.render(made)

    violations = provider.check_payload(payload, limits=limits)
    assert [str(v) for v in violations if v.level == "refused"] == []
    assert_sdk_takes(provider.name, payload)
    assert json.loads(json.dumps(payload)) == payload
    assert not _holds_none(payload)


@every_provider
@settings(max_examples=40)
@given(talk=paired_conversations, limits=models)
def test_the_same_draft_renders_to_the_same_bytes(
    provider: Provider, talk: list[Message], limits: ModelLimits
) -> None:
    made = draft(talk, limits=limits)

    assert json.dumps(provider.render(made)) == json.dumps(provider.render(made))
    assert provider.fingerprints(made) == provider.fingerprints(made)


@every_provider
@settings(max_examples=60)
@given(talk=paired_conversations, limits=models, data=st.data())
def test_a_longer_history_keeps_the_fingerprints_of_what_stood_before(
    provider: Provider, talk: list[Message], limits: ModelLimits, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(talk)))

    whole = provider.fingerprints(draft(talk, limits=limits))
    shorter = provider.fingerprints(replace(draft(talk, limits=limits), messages=tuple(talk[:cut])))

    assert len(whole) == len(talk) + 1
    assert shorter == whole[: cut + 1]


@every_provider
@settings(max_examples=40)
@given(talk=paired_conversations)
def test_thinking_does_not_count_in_fingerprints(provider: Provider, talk: list[Message]) -> None:
    bare = [
        replace(m, parts=tuple(p for p in m.parts if not isinstance(p, Thinking))) for m in talk
    ]

    assert provider.fingerprints(draft(talk)) == provider.fingerprints(draft(bare))


@every_provider
@settings(max_examples=60)
@given(talk=paired_conversations, limits=models)
def test_each_payload_is_the_one_before_plus_what_is_new(
    provider: Provider, talk: list[Message], limits: ModelLimits
) -> None:
    """The steps of a session at which a model is called: behind a user, a result or a note.

    A turn of which nothing can be sent (unsigned reasoning alone) would let its neighbours merge.
    """
    talk = [
        replace(m, parts=(*m.parts, Text("Done."))) if m.role == "assistant" else m for m in talk
    ]
    calls = [
        end
        for end in range(1, len(talk) + 1)
        if talk[end - 1].role != "assistant" and (end == len(talk) or talk[end].role == "assistant")
    ]
    history_key = HISTORY_KEYS.get(provider.name, "messages")
    payloads = [
        provider.render(replace(draft(talk[:end], limits=limits), cache="off"))[history_key]
        for end in calls
    ]

    for earlier, later in pairwise(payloads):
        assert later[: len(earlier)] == earlier


@every_provider
@settings(max_examples=80)
@given(talk=broken_histories, limits=models)
def test_a_broken_history_renders_to_json_or_raises_on_purpose(
    provider: Provider, talk: list[Message], limits: ModelLimits
) -> None:
    made = draft(talk or [Message(role="user", parts=())], limits=limits)

    try:
        payload = provider.render(made)
    except EmptySessionError:
        return

    json.dumps(payload, ensure_ascii=False).encode()
    provider.check_payload(payload, limits=limits)
    assert len(provider.fingerprints(made)) == len(made.messages) + 1


@every_provider
@settings(max_examples=60)
@given(talk=broken_histories, limits=models)
def test_what_a_provider_can_take_it_takes_unchanged(
    provider: Provider, talk: list[Message], limits: ModelLimits
) -> None:
    made = draft(talk, limits=limits, tools=(READ_FILE, SERVER_TOOL))

    adapted, rows = provider.adapt(made)

    assert len(adapted.messages) == len(made.messages)
    assert provider.adapt(adapted) == (adapted, ())
    assert provider.fingerprints(adapted) == provider.fingerprints(made)
    assert {row.id for row in rows if row.kind == "tool"} == {SERVER_TOOL.name}
    assert all(row.reason.endswith(".") and row.rule for row in rows)


@every_provider
@settings(max_examples=60)
@given(talk=paired_conversations, limits=models)
def test_nothing_but_what_the_rows_name_is_changed(
    provider: Provider, talk: list[Message], limits: ModelLimits
) -> None:
    numbered = [replace(message, id=f"evt_{at}") for at, message in enumerate(talk)]
    made = draft(numbered, limits=limits)

    adapted, rows = provider.adapt(made)

    changed = {
        old.id for old, new in zip(made.messages, adapted.messages, strict=True) if old != new
    }
    assert changed == {row.id for row in rows if row.kind == "message"}
    assert provider.render(adapted) == provider.render(made)


@every_provider
@settings(max_examples=40)
@given(talk=paired_conversations, limits=models)
def test_changing_a_payload_changes_nothing_else(
    provider: Provider, talk: list[Message], limits: ModelLimits
) -> None:
    own = {"type": "function", "name": "own", "function": {"name": "own"}}
    native = replace(SERVER_TOOL, native_specs={provider.name: own})
    made = draft(talk, limits=limits, tools=(READ_FILE, native))
    before = deepcopy(made)

    _overwrite(provider.render(made))

    assert made == before


def _overwrite(value: Any) -> None:
    """Empty every object and array in the value, the innermost first."""
    if is_object(value) or is_array(value):
        for inner in list(value.values() if is_object(value) else value):
            _overwrite(inner)
        assert isinstance(value, dict | list)
        value.clear()


@every_provider
@settings(max_examples=150)
@given(payload=any_json, limits=st.none() | models)
def test_rules_take_any_json(provider: Provider, payload: Any, limits: ModelLimits | None) -> None:
    found = provider.check_payload(payload, limits=limits)

    assert all(violation.source for violation in found)


@every_provider
@given(reply=any_json)
def test_any_reply_is_read_or_refused_with_a_reason(provider: Provider, reply: Any) -> None:
    try:
        provider.read_reply(reply, draft())
    except ReplyError as error:
        reason = error.remedy
    else:
        reason = "it was read"

    assert reason


@every_provider
def test_deep_json_does_not_exhaust_the_rules(provider: Provider) -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = [{"content": deep, "type": "tool_result"}]

    provider.check_payload({"messages": [{"role": "user", "content": deep}], "tools": deep})


@every_provider
def test_a_draft_without_anything_to_say_is_refused(provider: Provider) -> None:
    made = replace(draft(), messages=(Message(role="user", parts=()),))

    with pytest.raises(EmptySessionError, match="trip-42"):
        provider.render(made)
