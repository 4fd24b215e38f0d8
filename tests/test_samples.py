"""The sample sessions are what the docs and the demo take them for."""

import json
from pathlib import Path
from typing import Any

import pytest

from context_assembler.limits import get_model_limits
from context_assembler.tokens import counter_for
from context_assembler.transcripts import read_transcript


def messages_of(file: Path) -> list[dict[str, Any]]:
    return list(json.loads(file.read_text(encoding="utf-8"))["messages"])


def test_the_coding_session_is_long_and_bulky(samples: Path) -> None:
    messages = messages_of(samples / "coding_agent.json")
    counter = counter_for(get_model_limits("gpt-4o"))
    texts = [json.dumps(message, ensure_ascii=False) for message in messages]

    assert len(messages) >= 120
    assert sum(message["role"] == "user" for message in messages) >= 6
    assert max(len(message.get("tool_calls", ())) for message in messages) >= 3
    assert 40_000 <= sum(map(counter.count_text, texts)) <= 70_000


@pytest.mark.parametrize("name", ["coding_agent.json", "service_desk.json"])
def test_a_whole_session_reads_without_an_issue(samples: Path, name: str) -> None:
    transcript = read_transcript((samples / name).read_text(encoding="utf-8"))

    assert transcript.issues == ()
    assert len(transcript.events) == len(messages_of(samples / name))
    assert len(transcript.tools) >= 5


def test_the_broken_session_is_broken_in_many_ways(samples: Path) -> None:
    messages = messages_of(samples / "broken.json")
    called = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]

    assert set(answered) - set(called), "a result without a call"
    assert set(called) - set(answered), "a call without a result"
    assert len(called) > len(set(called)), "one id twice"
    assert any("\ud83d" in (message["content"] or "") for message in messages), "half a character"
