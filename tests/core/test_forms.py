"""What is sent otherwise than it is stored: masked, capped, shortened; the same at every step."""

import json
from typing import Any

import pytest

from context_assembler import ToolCall, assistant_event, tool_result_event, user_event
from tests.core.sessions import PROVIDERS, QUIET, add, assembled, changes, opened, stored

TOKEN = "ghp" + "_abcdefghijklmnopqrstuvwxyz0123456789"
LONG = "\n".join(f"line {number}" for number in range(400))
MASKED = {**QUIET, "safety": {"masks_secrets_in": ["tool_results", "user"]}}
CAPPED = {**QUIET, "truncation": {"max_result_tokens_by_tool": {"read_*": 60}}}
READ = assistant_event((ToolCall(call_id="c1", name="read_log"),))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_provider_is_sent_a_secret(provider: str) -> None:
    events = [user_event(f"my {TOKEN}"), READ, tool_result_event("c1", f"their {TOKEN}")]
    context = assembled(*events, "M9-9 " + TOKEN, model=PROVIDERS[provider], config=MASKED)

    for name in PROVIDERS:
        assert TOKEN not in json.dumps(context.to_request(name))
    assert changes(context) == ["secrets.masked"] * 3
    assert context.check() == []


@pytest.mark.parametrize("config", [MASKED, CAPPED])
def test_a_form_is_made_once_and_stays_while_the_store_keeps_the_whole(config: Any) -> None:
    events = [user_event(f"my {TOKEN}"), READ, tool_result_event("c1", f"{LONG} {TOKEN}")]
    store = stored(*events)
    assembler = opened(store, **config)
    first = assembler.assemble_sync("s", model="gpt-4.1").to_request()["messages"]

    add(store, "U and?")
    second = assembler.assemble_sync("s", model="gpt-4.1")
    anew = opened(store, **config).assemble_sync("s", model="gpt-4.1")

    assert second.to_request()["messages"][: len(first)] == first
    assert anew.to_request() == second.to_request()
    assert anew.report.entries == second.report.entries
    assert anew.metadata.ledger == second.metadata.ledger
    assert LONG in json.dumps(store.bodies("s", [(1, 3)])[-1]).replace("\\n", "\n")


def test_other_settings_make_other_forms_of_one_session() -> None:
    store = stored("U a", READ, tool_result_event("c1", f"{LONG} {TOKEN}"))
    sizes = [
        opened(store, **config).assemble_sync("s", model="gpt-4.1").metadata.ledger.used_tokens
        for config in (QUIET, CAPPED, MASKED, QUIET)
    ]

    assert sizes[0] == sizes[3] > sizes[2] > sizes[1]


def test_one_assembler_can_be_asked_with_several_models_in_turn() -> None:
    store = stored("U a", READ, tool_result_event("c1", f"{LONG} {TOKEN}"))
    assembler = opened(store, **CAPPED)

    for _ in range(2):
        for provider, model in PROVIDERS.items():
            context = assembler.assemble_sync("s", model=model)
            assert context.provider == provider
            assert "tokens in full" in json.dumps(context.to_request())
            add(store, "U on")
