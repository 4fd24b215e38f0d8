"""Which servers and models are OpenAI's own, and which of them reason."""

from dataclasses import replace

import pytest

from context_assembler.values.limits import ModelLimits
from context_assembler.values.openai.own_models import is_own_api, is_own_id, reasons_at
from context_assembler.values.parts import Json
from tests.providers.drafts import GPT_4O, GPT_6_SOL, MISTRAL

SERVERS: dict[str, tuple[ModelLimits, bool]] = {
    "the vendor itself": (GPT_4O, True),
    "a cloud that offers its API unchanged": (replace(GPT_4O, host="azure"), True),
    "a gateway": (replace(GPT_4O, host="openrouter"), False),
    "another vendor": (MISTRAL, False),
    "open weights, whoever the row names": (replace(GPT_4O, id="gpt-oss-120b"), False),
}
IDS = {
    "gpt-4o": True,
    "o3": True,
    "o3-mini": True,
    "chatgpt-4o-latest": True,
    "azure/gpt-5": True,
    "gpt-oss-120b": False,
    "o30": False,
    "azure/openai/gpt-5": False,
    "mistral-large-latest": False,
}
EFFORTS: dict[str, tuple[ModelLimits | None, Json, bool]] = {
    "an unknown model is not held to it": (None, "high", False),
    "a model that cannot": (GPT_4O, "high", False),
    "the effort that is asked for": (GPT_6_SOL, "low", True),
    "none is asked for": (GPT_6_SOL, "none", False),
    "its own effort": (GPT_6_SOL, None, True),
    "an empty effort is its own": (GPT_6_SOL, "", True),
    "its own is not known": (
        replace(GPT_6_SOL, thinking=replace(GPT_6_SOL.thinking, default_level=None)),
        None,
        False,
    ),
    "one that takes every temperature": (
        replace(GPT_6_SOL, parameters=GPT_4O.parameters),
        "high",
        False,
    ),
}


@pytest.mark.parametrize(("limits", "is_own"), SERVERS.values(), ids=SERVERS.keys())
def test_only_the_vendor_and_clouds_with_its_api_are_openai(
    limits: ModelLimits, is_own: bool
) -> None:
    assert is_own_api(limits) is is_own


@pytest.mark.parametrize(("asked", "is_own"), IDS.items(), ids=IDS.keys())
def test_without_a_row_the_id_tells_whose_model_it_is(asked: str, is_own: bool) -> None:
    assert is_own_id(asked, prefix="(azure/)?") is is_own


@pytest.mark.parametrize(("limits", "effort", "reasons"), EFFORTS.values(), ids=EFFORTS.keys())
def test_row_and_effort_tell_whether_a_model_reasons(
    limits: ModelLimits | None, effort: Json, reasons: bool
) -> None:
    assert reasons_at(limits, effort) is reasons
