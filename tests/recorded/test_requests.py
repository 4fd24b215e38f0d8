"""The rules against requests that real servers accepted or refused."""

import json
import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, Final

import pytest

from context_assembler.errors import UnknownModelError
from context_assembler.limits import ModelRegistry
from context_assembler.ports import ReadTranscript
from context_assembler.providers import PROVIDERS
from context_assembler.stages.repair_history import repair_history
from context_assembler.stages.transform_messages import MessageTransformer
from context_assembler.transcripts import TRANSCRIPTS
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.limits import ModelLimits
from context_assembler.values.prompt import SystemPrompt
from context_assembler.values.reading import as_object
from tests.providers.drafts import GEMINI_4, GPT_4O, GPT_6_SOL, HAIKU_45, MISTRAL, OPUS

CORPUS: Final = Path(
    os.environ.get("CONTEXT_ASSEMBLER_CORPUS", Path(__file__).parents[2].parent / "shared" / "data")
)
REQUESTS: Final = CORPUS / "requests"
pytestmark = [
    pytest.mark.recorded,
    pytest.mark.skipif(not REQUESTS.is_dir(), reason=f"no recorded corpus in {CORPUS}"),
]

# The recordings were made before the API version that took sampling parameters out.
RECORDED_BEFORE: Final = date(2026, 10, 20)

# Refusals that a look at the payload cannot foresee.
UNFORESEEABLE_CATEGORIES: Final = frozenset(
    {"availability_or_auth", "model_output_failure", "context_length"}
)
UNFORESEEABLE: Final = {
    "4fab59c35bb73317": "the recording replaced the oversized texts",
    "43ece2c1d094d264": "the type of an uploaded file is known to the server alone",
    "c815745ffc03a196": "the type of an uploaded file is known to the server alone",
    "650594e60c88b779": "the model has no row that says it takes no images",
    "bb666aba9f02d92d": "there is no such model",
    "89616b719956cac9": "the recording kept no reason",
}
registry = ModelRegistry()
every_provider = pytest.mark.parametrize(
    "provider", ["anthropic", "openai_chat", "openai_responses", "gemini"]
)


def _rows(file: str, provider: str) -> Iterator[dict[str, Any]]:
    recorded_name = provider.replace("_", "-")
    with (REQUESTS / file).open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["provider"] == recorded_name:
                yield row


def _model_in(url: str) -> str:
    """Return the model that Gemini's URLs name; an empty one for any other's."""
    return url.partition("/models/")[2].partition(":")[0]


def _limits(row: dict[str, Any]) -> ModelLimits | None:
    try:
        return registry.get(
            row["request"].get("model") or row.get("response_model") or _model_in(row["url"])
        )
    except UnknownModelError:
        return None


def _refusals(provider: str, row: dict[str, Any], limits: ModelLimits | None) -> list[str]:
    found = PROVIDERS[provider].check_payload(row["request"], limits=limits, today=RECORDED_BEFORE)
    return [str(violation) for violation in found if violation.level == "refused"]


@every_provider
@pytest.mark.parametrize("knows_model", [False, True], ids=["without limits", "with limits"])
def test_no_accepted_request_breaks_a_rule(provider: str, knows_model: bool) -> None:
    rows = list(_rows(f"accepted_{provider}.jsonl", provider))

    wrong = {
        row["id"]: found
        for row in rows
        if (found := _refusals(provider, row, _limits(row) if knows_model else None))
    }

    assert len(rows) > 300
    assert wrong == {}


@every_provider
def test_every_refusal_that_the_payload_explains_is_foreseen(provider: str) -> None:
    missed = {
        row["id"]: row["error_message"]
        for row in _rows("rejected.jsonl", provider)
        if row["category"] not in UNFORESEEABLE_CATEGORIES
        and row["id"] not in UNFORESEEABLE
        and not _refusals(provider, row, _limits(row))
    }

    assert missed == {}


@every_provider
def test_what_is_called_unforeseeable_is_not_foreseen(provider: str) -> None:
    foreseen = [
        row["id"]
        for row in _rows("rejected.jsonl", provider)
        if row["id"] in UNFORESEEABLE and _refusals(provider, row, _limits(row))
    ]

    assert foreseen == []


@every_provider
def test_every_recorded_reply_is_read_whole(provider: str) -> None:
    shapes = {
        "anthropic": "content",
        "openai_chat": "choices",
        "openai_responses": "output",
        "gemini": "candidates",
    }
    read = 0
    for row in _rows(f"accepted_{provider}.jsonl", provider):
        response = as_object(row.get("response"))
        if not response.get(shapes[provider]):
            continue
        reply = PROVIDERS[provider].read_reply(response, None)
        read += 1
        assert reply.model == response.get("model", response.get("modelVersion"))
        assert reply.parts or reply.usage is not None

    assert read > 50


# Where a recorded conversation may be carried on.
TARGETS: Final = {
    model.id: model for model in (OPUS, HAIKU_45, GPT_4O, GPT_6_SOL, GEMINI_4, MISTRAL)
}


def _carried_on(read: ReadTranscript, limits: ModelLimits) -> Draft:
    shaped = MessageTransformer().transform(read.events)
    repaired = repair_history(shaped.messages, accepts_prefill=limits.supports("prefill"))
    return Draft(
        limits=limits,
        parameters=Parameters(max_tokens=1000),
        system=SystemPrompt(text="\n\n".join(shaped.leading_system)),
        messages=repaired.messages,
        tools=read.tools,
        session_id="recorded",
    )


@every_provider
@pytest.mark.parametrize("limits", TARGETS.values(), ids=TARGETS.keys())
def test_every_recorded_conversation_can_be_carried_on_anywhere(
    provider: str, limits: ModelLimits
) -> None:
    """Read in, repaired and rendered for a model: no rule of its protocol is broken."""
    wrong: dict[str, list[str]] = {}
    speechless: list[str] = []
    for row in _rows(f"accepted_{provider}.jsonl", provider):
        if "prompt" in row["request"]:
            continue  # a template that lies at the provider
        made = _carried_on(TRANSCRIPTS[provider].read(row["request"]), limits)
        if not made.messages:
            speechless.append(row["id"])  # instructions or results alone, or an empty question
            continue
        for target in PROVIDERS.values():
            payload = target.render(made)
            found = target.check_payload(payload, limits=limits)
            refused = [str(violation) for violation in found if violation.level == "refused"]
            if refused:
                wrong[f"{row['id']} as {target.name}"] = refused
            assert len(target.fingerprints(made)) == len(made.messages) + 1

    assert wrong == {}
    assert len(speechless) < 10
