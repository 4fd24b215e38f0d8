"""Whole payloads, events and replies, reviewed; `pytest tests/providers --update-golden` writes them."""

import json
from pathlib import Path
from typing import Any

import pytest

from context_assembler.events import to_json
from context_assembler.ports import ToolSpec
from context_assembler.providers import PROVIDERS, provider_for_reply
from tests.providers.builders import render, render_with_entries

HERE = Path(__file__).parent / "golden"
CASES, REQUESTS, REPLIES = (
    {path.stem: path for path in sorted((HERE / folder).glob("*.json"))}
    for folder in ("", "read", "replies")
)
KEYS = {"anthropic": "messages", "gemini": "contents", "openai_chat": "messages"}
TURNS = {
    f"{path.stem}: {name}": (path, name)
    for path in sorted((HERE / "turns").glob("*.json"))
    for name in json.loads(path.read_text(encoding="utf-8"))
}
EACH = [(case, provider) for case in CASES for provider in PROVIDERS]


def check(
    path: Path, golden: dict[str, Any], found: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    """Check what a case has now, to the order of its keys, or write it."""
    if request.config.getoption("--update-golden", default=False):
        text = json.dumps({**golden, **found}, indent=1, ensure_ascii=path.parent.name == "turns")
        path.write_text(f"{text}\n", encoding="utf-8")
    else:
        assert json.dumps({key: golden[key] for key in found}) == json.dumps(found)


@pytest.mark.parametrize(("case", "provider"), EACH)
def test_a_payload_is_as_reviewed_and_valid(
    case: str, provider: str, request: pytest.FixtureRequest
) -> None:
    golden: dict[str, Any] = json.loads(CASES[case].read_text(encoding="utf-8"))
    asked = golden["requests"].get(provider)
    if asked is None:
        pytest.skip("the provider cannot express this request")

    payload = render(
        provider,
        *golden["turns"],
        model=asked["model"],
        system=golden["system"],
        tools=tuple(ToolSpec(**tool) for tool in asked["tools"]),
        cache="auto",
        **asked["parameters"],
    )

    payloads = {**golden["payloads"], provider: json.loads(json.dumps(payload))}
    check(CASES[case], golden, {"payloads": payloads}, request)


@pytest.mark.parametrize(("path", "name"), TURNS.values(), ids=TURNS.keys())
def test_turns_become_messages(path: Path, name: str, request: pytest.FixtureRequest) -> None:
    golden: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    case = golden[name]
    options = {k: tuple(v) if k == "tools" else v for k, v in case.get("options", {}).items()}

    payload, entries = render_with_entries(path.stem, *case["turns"], **options)

    made = {"messages": list(payload[KEYS.get(path.stem, "input")]), "entries": entries}
    check(path, golden, {name: {**case, **json.loads(json.dumps(made))}}, request)


@pytest.mark.parametrize("path", REQUESTS.values(), ids=REQUESTS.keys())
def test_a_request_is_read_as_events(path: Path, request: pytest.FixtureRequest) -> None:
    golden, noted = json.loads(path.read_text(encoding="utf-8")), list[str]()

    def note(where: str, _what: str) -> None:
        noted.append(where)

    events = PROVIDERS[golden["provider"]].read_messages(golden["given"], note)

    check(path, golden, {"events": to_json(events), "noted": noted}, request)


@pytest.mark.parametrize("path", REPLIES.values(), ids=REPLIES.keys())
def test_a_reply_is_read_as_parts(path: Path, request: pytest.FixtureRequest) -> None:
    golden = json.loads(path.read_text(encoding="utf-8"))
    provider = provider_for_reply(golden["reply"])

    read = provider.read_reply(golden["reply"])

    assert provider is PROVIDERS[golden["provider"]]
    check(path, golden, {"read": to_json(read._asdict())}, request)
