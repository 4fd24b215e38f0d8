"""Whole payloads, reviewed; `pytest tests/providers --update-golden` writes them."""

import json
from pathlib import Path
from typing import Any

import pytest

from context_assembler.ports import ToolSpec
from context_assembler.providers import PROVIDERS
from tests.providers.builders import render

HERE = Path(__file__).parent / "golden"
CASES = {path.stem: path for path in sorted(HERE.glob("*.json"))}
EACH = [(case, provider) for case in CASES for provider in PROVIDERS]


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
    written = json.dumps(payload)
    if request.config.getoption("--update-golden", default=False):
        golden["payloads"][provider] = json.loads(written)
        text = json.dumps(golden, indent=1, ensure_ascii=False)
        CASES[case].write_text(f"{text}\n", encoding="utf-8")

    assert written == json.dumps(golden["payloads"][provider])
