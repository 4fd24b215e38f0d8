"""What both protocols of OpenAI's object to alike: places, words, and how sure it is."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

import pytest

from context_assembler.providers.openai_chat.rule_book import breaches
from context_assembler.values.breaches import Flaw
from context_assembler.values.openai.flaws import (
    cache_flaws,
    image_count_flaws,
    metadata_flaws,
    retirement_flaws,
    sampling_flaws,
    schema_flaws,
    strict_flaws,
)
from context_assembler.values.parts import Json, JsonObject
from tests.providers.drafts import GPT_4O

TODAY = date(2026, 11, 27)
GONE = replace(GPT_4O, retires_on=TODAY)
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}


def cache(payload: JsonObject, *, model: str = "gpt-6", marks: int = 0) -> Iterator[Flaw]:
    marked: JsonObject = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    pieces: list[JsonObject] = [*[marked] * marks, {"type": "text"}]
    return cache_flaws(payload, model=model, is_openai=True, pieces=pieces, where="input")


def schema(given: Json, *, is_openai: bool = True) -> Iterator[Flaw]:
    return schema_flaws(given, where="tools[0].parameters", is_openai=is_openai)


def strict(given: Json, *, is_strict: bool = True, is_openai: bool = True) -> Iterator[Flaw]:
    return strict_flaws(given, where="x", is_strict=is_strict, is_openai=is_openai)


FOUND: dict[str, tuple[Iterator[Flaw], list[tuple[str, str]]]] = {
    "metadata that is taken": (metadata_flaws({"metadata": {"k" * 64: "v" * 512}}), []),
    "too many keys": (
        metadata_flaws({"metadata": {str(key): "" for key in range(17)}}),
        [("metadata", "refused")],
    ),
    "a long key is named by its beginning": (
        metadata_flaws({"metadata": {"k" * 65: ""}}),
        [("metadata." + "k" * 20, "refused")],
    ),
    "a long value": (
        metadata_flaws({"metadata": {"k": "v" * 513}}),
        [("metadata.k", "refused")],
    ),
    "a cache that is used as it should be": (
        cache({"prompt_cache_key": "k" * 64, "prompt_cache_retention": "24h"}, marks=4),
        [],
    ),
    "a long cache key": (cache({"prompt_cache_key": "k" * 65}), [("prompt_cache_key", "refused")]),
    "a lifetime that newer models have not": (
        cache({"prompt_cache_retention": "in_memory"}),
        [("prompt_cache_retention", "refused")],
    ),
    "a lifetime that older models have": (
        cache({"prompt_cache_retention": "in_memory"}, model="gpt-5.4"),
        [],
    ),
    "more marks than are written": (cache({}, marks=5), [("input", "avoid")]),
    "a model that goes tomorrow": (retirement_flaws(GONE, today=date(2026, 11, 26)), []),
    "a model that is gone": (retirement_flaws(GONE, today=TODAY), [("model", "refused")]),
    "a model that may be gone: nobody tells the day": (retirement_flaws(GONE, today=None), []),
    "a model that nobody knows": (retirement_flaws(None, today=TODAY), []),
    "the default of sampling": (sampling_flaws({"temperature": 1, "top_p": 1.0}), []),
    "sampling": (
        sampling_flaws({"temperature": 0, "top_p": 0.5}),
        [("temperature", "refused"), ("top_p", "refused")],
    ),
    "no schema": (schema(None), []),
    "a schema of an object": (schema(OPEN), []),
    "a schema of something else, with a union": (
        schema({"anyOf": []}),
        [("tools[0].parameters.type", "refused"), ("tools[0].parameters.anyOf", "refused")],
    ),
    "the same for a server that imitates it": (
        schema({"type": "array"}, is_openai=False),
        [("tools[0].parameters.type", "avoid"), ("tools[0].parameters", "avoid")],
    ),
    "a schema that strict mode does not take": (strict(OPEN), [("x", "refused")]),
    "the same for another server": (strict(OPEN, is_openai=False), [("x", "avoid")]),
    "a schema that nobody enforces": (strict(OPEN, is_strict=False), []),
    "a schema that strict mode takes": (
        strict({**OPEN, "required": ["a"], "additionalProperties": False}),
        [],
    ),
    "as many images as every version takes": (image_count_flaws(500, where="input"), []),
    "one image more": (image_count_flaws(501, where="input"), [("input", "avoid")]),
}


SETTLED = {name: (list(flaws), found) for name, (flaws, found) in FOUND.items()}


@pytest.mark.parametrize(("flaws", "found"), SETTLED.values(), ids=SETTLED.keys())
def test_a_flaw_has_its_place_and_is_refused_or_to_be_avoided(
    flaws: list[Flaw], found: list[tuple[str, str]]
) -> None:
    assert [(flaw.where, flaw.level) for flaw in flaws] == found


def test_a_flaw_becomes_a_violation_of_the_rule_it_is_found_by() -> None:
    [first, second] = breaches("C9", [Flaw("a", "is odd"), Flaw("b", "is even", level="avoid")])

    assert (first.rule, first.where, first.message, first.level) == ("C9", "a", "is odd", "refused")
    assert first.source.endswith("(read 2026-11-27)")
    assert (second.where, second.level) == ("b", "avoid")
