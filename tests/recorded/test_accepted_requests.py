"""Every accepted request, sent once more as the library spells it: valid for its own model."""

from pathlib import Path
from typing import Final

import pytest

from benchmarks.accepted import judge, recorded_rows
from context_assembler.limits import ModelRegistry

pytestmark = pytest.mark.recorded

# Accepted requests of which a session alone has nothing to send, and why.
NOTHING_TO_SEND: Final = {
    "8c59feef8369146d": "an empty question",
    "2a396388989ee22b": "instructions alone",
    "38da5996edcedf27": "an empty question",
    "abf3ddbd94e8d638": "results of calls that lie at the provider",
    "f027d7035c04efaf": "results of calls that lie at the provider",
    "b6383a6581d80305": "results of calls that lie at the provider",
    "972b8e710df53655": "results of calls that lie at the provider",
    "2d244a50f0b89d39": "results of calls that lie at the provider",
    "9e677414699555c5": "results of calls that lie at the provider",
    "4ef8fd495b04d96c": "results of calls that lie at the provider",
    "e50fd4ff0568c06e": "a template that lies at the provider",
}
ACCEPTED: Final = {
    "anthropic": 463,
    "openai_chat": 552,
    "openai_responses": 368,
    "gemini": 306,
}
# Requests that hold what only another vendor's server knows.
OF_OTHER_VENDORS: Final = {"openai_chat": 3}


@pytest.mark.parametrize("provider", ACCEPTED)
def test_every_accepted_request_is_read_rendered_and_valid_for_its_own_model(
    provider: str, corpus: Path
) -> None:
    """Rules and strict types; `vendor` are those that OpenAI's types cannot describe."""
    registry = ModelRegistry()
    rows = recorded_rows(corpus, f"accepted_{provider}.jsonl", provider)

    verdicts = [judge(provider, row, registry) for row in rows]

    speechless = {verdict.id for verdict in verdicts if verdict.kind in ("nothing", "template")}
    vendors = [verdict for verdict in verdicts if verdict.kind == "vendor"]
    assert {v.id: v.problems for v in verdicts if v.problems} == {}
    assert len(verdicts) == ACCEPTED[provider]
    assert len(vendors) == OF_OTHER_VENDORS.get(provider, 0)
    assert speechless <= NOTHING_TO_SEND.keys()
