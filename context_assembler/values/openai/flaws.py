"""What is wrong with settings that both protocols of OpenAI's have: the same in either."""

import re
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Final

from context_assembler.values.breaches import Flaw, level_if
from context_assembler.values.limits import ModelLimits
from context_assembler.values.openai.media import MAX_IMAGES
from context_assembler.values.openai.parameters import MAX_CACHE_KEY_CHARS
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_number, as_object, as_text
from context_assembler.values.schemas.draft_2020 import compiles
from context_assembler.values.schemas.root_objects import ROOT_UNIONS
from context_assembler.values.schemas.strict_schemas import object_to_strict
from context_assembler.values.wire import walk_schemas

_MAX_METADATA: Final = 16
_MAX_KEY_CHARS: Final = 64
_MAX_VALUE_CHARS: Final = 512
_MAX_MARKS: Final = 4
_ONE_RETENTION: Final = re.compile(r"gpt-(5\.[5-9]|[6-9]).*")


def metadata_flaws(payload: JsonObject) -> Iterator[Flaw]:
    """Yield what is too much of the metadata.

    Source:
        https://github.com/openai/openai-openapi, Metadata (read 2026-11-27)
    """
    metadata = as_object(payload.get("metadata"))
    if len(metadata) > _MAX_METADATA:
        yield Flaw("metadata", f"at most {_MAX_METADATA} keys are taken")
    for key, value in metadata.items():
        if len(key) > _MAX_KEY_CHARS or len(as_text(value)) > _MAX_VALUE_CHARS:
            message = f"a key has at most {_MAX_KEY_CHARS} characters, a value {_MAX_VALUE_CHARS}"
            yield Flaw(f"metadata.{key:.20}", message)


def cache_flaws(
    payload: JsonObject,
    *,
    model: str,
    is_openai: bool,
    pieces: Iterable[JsonObject],
    where: str,
) -> Iterator[Flaw]:
    """Yield what is wrong with key, lifetime and marks of the prompt cache.

    Args:
        model: Its id without the vendor's name.
        pieces: All content that may be marked.
        where: What holds them.

    Source:
        https://developers.openai.com/api/docs/guides/prompt-caching (read 2026-11-27)
    """
    if len(as_text(payload.get("prompt_cache_key"))) > MAX_CACHE_KEY_CHARS:
        yield Flaw("prompt_cache_key", f"at most {MAX_CACHE_KEY_CHARS} characters")
    is_short = payload.get("prompt_cache_retention") == "in_memory"
    if is_short and is_openai and _ONE_RETENTION.fullmatch(model):
        yield Flaw("prompt_cache_retention", "is '24h' with this model")
    marks = sum("prompt_cache_breakpoint" in piece for piece in pieces)
    if marks > _MAX_MARKS:
        message = f"of {marks} marks the latest {_MAX_MARKS} are written"
        yield Flaw(where, message, level="avoid")


def retirement_flaws(limits: ModelLimits | None, *, today: date | None) -> Iterator[Flaw]:
    """Yield that the model is not there any more, where its row and the day tell.

    Source:
        https://developers.openai.com/api/docs/deprecations (read 2026-11-27)
    """
    gone = limits.retires_on if limits is not None else None
    if gone is not None and today is not None and gone <= today:
        yield Flaw("model", f"was shut down on {gone}")


def sampling_flaws(payload: JsonObject) -> Iterator[Flaw]:
    """Yield what of the sampling a model does not take while it reasons.

    Source:
        https://developers.openai.com/api/docs/guides/latest-model (read 2026-11-27)
    """
    for name in ("temperature", "top_p"):
        value = as_number(payload.get(name))
        if value is not None and value != 1:
            yield Flaw(name, "only the default of 1 is taken while the model reasons")


def schema_flaws(schema: Json, *, where: str, is_openai: bool) -> Iterator[Flaw]:
    """Yield what a tool's schema may not be: at its root, and in its lists and patterns.

    Source:
        https://developers.openai.com/api/docs/guides/function-calling (read 2026-11-27)
        https://github.com/spacelift-io/spacectl/issues/402
        https://github.com/BerriAI/litellm/pull/40485 (read 2026-11-29)
    """
    fields = as_object(schema)
    level = level_if(is_openai)
    if fields and fields.get("type") != "object":
        yield Flaw(f"{where}.type", "must be 'object'", level=level)
    for union in ROOT_UNIONS:
        if union in fields:
            yield Flaw(f"{where}.{union}", "no union at the root", level=level)
    for one in walk_schemas(schema):
        if one.get("type") == "array" and "items" not in one:
            yield Flaw(where, "an array needs items", level=level)
        if not compiles(as_text(one.get("pattern"))):
            yield Flaw(where, "a pattern is written as Python takes it", level=level)


def strict_flaws(schema: Json, *, where: str, is_strict: bool, is_openai: bool) -> Iterator[Flaw]:
    """Yield why strict mode, where it is asked for, does not take a schema.

    Source:
        https://developers.openai.com/api/docs/guides/structured-outputs (read 2026-11-27)
    """
    objection = object_to_strict(schema) if is_strict else None
    if objection is not None:
        message = f"strict mode does not take this schema: {objection}"
        yield Flaw(where, message, level=level_if(is_openai))


def image_count_flaws(images: int, *, where: str) -> Iterator[Flaw]:
    """Yield that there are more images than every version of the API takes.

    Source:
        https://developers.openai.com/api/docs/guides/images-vision (read 2026-11-27)
    """
    if images > MAX_IMAGES:
        yield Flaw(where, f"{images} images; some versions take {MAX_IMAGES}", level="avoid")
