import json
from typing import Any

import pytest

from tests.cli.running import run
from tests.cli.samples import CHAT, STORE, long_chat, stored, write_json

CHAT_PAYLOAD: dict[str, Any] = {
    "model": "gpt-4.1",
    "messages": [{"role": "user", "content": "Hello"}],
}
ORPHAN: dict[str, Any] = {
    "model": "gpt-4.1",
    "messages": [{"role": "tool", "tool_call_id": "nobody", "content": "?"}],
}


def test_a_short_session_needs_no_compaction() -> None:
    stored()

    ran = run("check", "chat", "--sessions", STORE, "--model", "gpt-5.5")

    assert ran.exit_code == 0
    assert "Compaction is not needed." in ran.stdout


def test_a_full_window_needs_one() -> None:
    turns = [("user", "And this?"), ("assistant", "word " * 400)] * 45
    stored([{"role": role, "content": text} for role, text in (*turns, turns[0])])
    words = ("check", "chat", "--sessions", STORE, "-m", "gpt-5.5", "--max-context-tokens", "20000")

    shown, listed = run(*words), run(*words, "--json")

    assert shown.exit_code == listed.exit_code == 10
    assert "Compaction is needed: " in shown.stdout
    assert listed.json["needed"] is True


def test_a_fixed_part_over_the_threshold_makes_it_infeasible() -> None:
    stored([{"role": "system", "content": "Rule. " * 3_000}, *CHAT[1:]])
    words = ("check", "chat", "--sessions", STORE, "-m", "gpt-5.5", "--max-context-tokens", "4000")

    ran = run(*words)

    assert ran.exit_code == 11
    assert "It cannot help" in ran.stdout


VERDICTS: dict[str, tuple[dict[str, Any], str, int]] = {
    "an accepted payload": (CHAT_PAYLOAD, "openai_chat", 0),
    "a result without a call": (ORPHAN, "openai_chat", 12),
    "the wrong provider's shape": (CHAT_PAYLOAD, "anthropic", 12),
}


@pytest.mark.parametrize(
    ("payload", "provider", "exit_code"), VERDICTS.values(), ids=VERDICTS.keys()
)
def test_a_payload_is_checked(payload: dict[str, Any], provider: str, exit_code: int) -> None:
    file = write_json("payload.json", payload)

    ran = run("lint-payload", file, "--provider", provider)

    assert ran.exit_code == exit_code
    assert ("would refuse it" in ran.stdout) == (exit_code == 12)


TOOL_USE: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}}
CLAUDES: dict[str, Any] = {
    "model": "claude-opus-5-5",
    "max_tokens": 100,
    "tools": [{"name": "add", "input_schema": {"type": "object"}}],
    "messages": [
        {"role": "user", "content": "1 + 1?"},
        {"role": "assistant", "content": [TOOL_USE]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]},
    ],
}


@pytest.mark.parametrize("model", ["claude-opus-5-5", "my-own-model"])
def test_a_payload_that_is_plainly_another_providers_is_asked_about(model: str) -> None:
    file = write_json("payload.json", {**CLAUDES, "model": model})

    ran = run("lint-payload", file, "--provider", "openai_chat")

    assert ran.exit_code == 2
    assert "is spelled for anthropic, not for openai_chat" in ran.stderr
    assert run("lint-payload", file, "--provider", "anthropic").exit_code == 0
    asked = run("lint-payload", file, "--provider", "openai_chat", "-m", "gpt-4.1")
    assert asked.exit_code == 12


def test_types_of_a_server_of_ones_own_are_nobody_elses() -> None:
    parts = [{"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}]
    messages = [{"role": "user", "content": parts}]
    file = write_json("payload.json", {"model": "my-own-model", "messages": messages})

    ran = run("lint-payload", file, "--provider", "openai_chat")

    assert ran.exit_code == 0
    assert "1 to avoid" in ran.stdout


def test_the_provider_is_the_models_own_unless_one_is_named() -> None:
    file = write_json("payload.json", CHAT_PAYLOAD)

    assert "openai_chat would accept it" in run("lint-payload", file).stdout
    assert "anthropic would refuse it" in run("lint-payload", file, "-m", "claude-opus-5-5").stdout


def test_violations_are_json_for_programs() -> None:
    ran = run(
        *("lint-payload", "-", "--provider", "openai_chat", "--json", "-m", "gpt-4.1"),
        stdin=json.dumps(ORPHAN).encode(),
    )

    assert ran.exit_code == 12
    assert ran.json[0]["level"] == "refused"
    assert ran.json[0]["rule"]


def test_an_unknown_model_in_the_payload_is_checked_by_the_rules_for_every_model() -> None:
    file = write_json("payload.json", {**CHAT_PAYLOAD, "model": "my-own-model"})

    assert run("lint-payload", file, "--provider", "openai_chat").exit_code == 0


def test_what_assemble_prints_passes_the_check() -> None:
    stored(long_chat())
    payload = run("assemble", "chat", "--sessions", STORE, "-m", "claude-opus-5-5").stdout

    ran = run("lint-payload", "-", "--provider", "anthropic", stdin=payload.encode())

    assert ran.exit_code == 0, ran.stdout


REFUSED: dict[str, tuple[bytes, tuple[str, ...], str]] = {
    "what is no JSON": (b"{", ("--provider", "openai_chat"), "is not JSON"),
    "what is no object": (b"[1]", ("--provider", "openai_chat"), "is not a payload"),
    "nesting without end": (b"[" * 100_000, ("--provider", "openai_chat"), "is not JSON"),
    "nobody's payload": (b"{}", (), "not clear whose rules hold"),
    "an unknown provider": (b"{}", ("--provider", "opena"), "Did you mean 'openai_chat'?"),
    "an unknown model": (
        b"{}",
        ("--provider", "openai_chat", "--model", "gpt-55"),
        "No limits are known",
    ),
}


@pytest.mark.parametrize(("stdin", "words", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_checked_is_refused(stdin: bytes, words: tuple[str, ...], said: str) -> None:
    ran = run("lint-payload", "-", *words, stdin=stdin)

    assert ran.exit_code == 2
    assert said in ran.stderr
