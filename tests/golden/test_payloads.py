"""Whole payloads, reviewed; `pytest tests/golden --update-golden` writes them anew."""

import json
from pathlib import Path
from typing import Final

import pytest

from context_assembler.providers import PROVIDERS
from context_assembler.values.draft import Draft
from tests.golden.cases import CASES
from tests.providers.sdk_types import assert_sdk_takes

HERE: Final = Path(__file__).parent
PAYLOADS: Final = {
    f"{case}/{provider}": (case, provider, draft)
    for case, drafts in CASES.items()
    for provider, draft in drafts.items()
}


@pytest.mark.parametrize(("case", "provider", "draft"), PAYLOADS.values(), ids=PAYLOADS.keys())
def test_a_payload_is_as_reviewed_and_valid(
    case: str, provider: str, draft: Draft, request: pytest.FixtureRequest
) -> None:
    golden = HERE / case / f"{provider}.json"

    payload = PROVIDERS[provider].render(draft)
    if request.config.getoption("--update-golden", default=False):
        golden.parent.mkdir(exist_ok=True)
        text = json.dumps(payload, indent=2, ensure_ascii=False)
        golden.write_text(f"{text}\n", encoding="utf-8")

    assert payload == json.loads(golden.read_text(encoding="utf-8"))
    assert PROVIDERS[provider].check_payload(payload, limits=draft.limits) == []
    assert_sdk_takes(provider, payload)


def test_every_golden_file_belongs_to_a_case() -> None:
    found = {path.relative_to(HERE).with_suffix("").as_posix() for path in HERE.glob("*/*.json")}

    assert found == set(PAYLOADS)


def test_every_provider_has_every_case() -> None:
    assert {provider for _, provider, _ in PAYLOADS.values()} == set(PROVIDERS)
    assert all(drafts.keys() == PROVIDERS.keys() for drafts in CASES.values())
