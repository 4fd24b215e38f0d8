"""Whole payloads, requests and replies, reviewed; `pytest tests/providers --update-golden` writes them.

The tables of `turns/` have what single turns become, and are written by hand.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from context_assembler.events import to_json
from context_assembler.ports import ToolSpec
from context_assembler.providers import PROVIDERS, provider_for_reply
from tests.providers import builders
from tests.providers.builders import render, render_with_entries

HERE = Path(__file__).parent
CASES = {path.stem: path for path in sorted((HERE / "golden").glob("*.json"))}
EACH = [(case, provider) for case in CASES for provider in PROVIDERS]
LIST_KEYS = {"openai_responses": "input", "gemini": "contents"}


@cache
def read(path: Path) -> Any:
    """Return what is in a file, which is read once."""
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)


def cases_of(folder: str) -> list[tuple[Path, str]]:
    """Return the files of a folder, one for each provider, with the names of the cases in them."""
    return [(path, name) for path in sorted((HERE / folder).iterdir()) for name in read(path)]


def printed(value: Any, indent: int = 0, before: int = 0) -> str:
    """Return JSON in which whatever fits is on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if indent + before + len(line) <= 100 or not value or not isinstance(value, dict | list):
        return line
    if isinstance(value, dict):
        named = ((json.dumps(key, ensure_ascii=False), held) for key, held in value.items())
        rows = [f"{name}: {printed(held, indent + 1, len(name) + 3)}" for name, held in named]
    else:
        rows = [printed(held, indent + 1, 1) for held in value]
    pad, (begin, end) = "\n" + " " * indent, "{}" if isinstance(value, dict) else "[]"
    return f"{begin}{pad} {f',{pad} '.join(rows)}{pad}{end}"


def check(path: Path, golden: Any, case: Any, found: Any, request: pytest.FixtureRequest) -> None:
    """Check what a case of a file has now, to the order of its keys, or write it."""
    found = json.loads(json.dumps(found))
    if request.config.getoption("--update-golden", default=False):
        case |= found
        path.write_text(f"{printed(golden)}\n", encoding="utf-8")
    assert json.dumps({key: case[key] for key in found}) == json.dumps(found)


@pytest.mark.parametrize(("case", "provider"), EACH)
def test_a_payload_is_as_reviewed_and_valid(
    case: str, provider: str, request: pytest.FixtureRequest
) -> None:
    golden: dict[str, Any] = read(CASES[case])
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

    check(CASES[case], golden, golden["payloads"], {provider: payload}, request)


@pytest.mark.parametrize(("path", "name"), cases_of("golden/requests"))
def test_a_request_is_read_as_events(path: Path, name: str, request: pytest.FixtureRequest) -> None:
    golden, noted = read(path), list[str]()

    def note(where: str, _what: str) -> None:
        noted.append(where)

    events = PROVIDERS[path.stem].read_messages(golden[name]["given"], note)

    check(path, golden, golden[name], {"events": events, "noted": noted}, request)


@pytest.mark.parametrize(("path", "name"), cases_of("golden/replies"))
def test_a_reply_is_read_as_parts(path: Path, name: str, request: pytest.FixtureRequest) -> None:
    golden = read(path)
    provider = provider_for_reply(golden[name]["reply"])

    reply = provider.read_reply(golden[name]["reply"])

    assert provider is PROVIDERS[path.stem]
    held = {key: to_json(value) for key, value in reply._asdict().items() if value}
    check(path, golden, golden[name], {"read": held}, request)


@pytest.mark.parametrize(("path", "name"), cases_of("turns"))
def test_turns_become_messages(path: Path, name: str) -> None:
    case: dict[str, Any] = read(path)[name]
    options: dict[str, Any] = {"system": "", **case.get("options", {})}
    options |= {"tools": ()} if "tools" in options else {}
    turns = [turn_of(**turn) for turn in case["turns"]]

    payload, entries = render_with_entries(path.stem, *turns, **options)

    sent = json.dumps(list(payload[LIST_KEYS.get(path.stem, "messages")]))
    assert sent == json.dumps(case["sent"])
    assert [" ".join(entry) for entry in entries] == case.get("entries", [])


def turn_of(**turn: Any) -> Any:
    """Return a turn: `user: [a, {type: image, …}]` says who, and what are its parts."""
    [kind] = turn.keys() & {"user", "reply", "results", "note", "summary"}
    parts = turn.pop(kind)
    return getattr(builders, kind)(*parts, **turn)
