"""A draft as `generate_content` can take it."""

from dataclasses import replace
from typing import Final

from context_assembler.providers.gemini.content import IMAGE_TYPES, fetched_type
from context_assembler.values.adapting import (
    Change,
    adapt_messages,
    judge_foreign,
    judge_media,
    leave_out,
)
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.gemini_parts import PROVIDER, is_part
from context_assembler.values.limits import ModelLimits
from context_assembler.values.media import MediaRules, Objection
from context_assembler.values.messages import Role
from context_assembler.values.offered_tools import leave_out_foreign, leave_strict
from context_assembler.values.parts import Document, Image, Json, Opaque, ResultPart, UrlSource
from context_assembler.values.report import ReportEntry

MAX_INLINE_CHARS: Final = 100 * 1024 * 1024  # of base64, in one request
_MAX_IMAGES: Final = 3_600
_MAX_IMAGES_ON_VERTEX: Final = 3_000
_TEXT_ROOM_CHARS: Final = 6 * 1024 * 1024  # of a request, for everything that is not media
_SAMPLING: Final = ("temperature", "top_p", "top_k")

_NO_TYPE: Final = Objection(rule="media.type", reason="its media type is not known")


def media_rules(limits: ModelLimits) -> MediaRules:
    """Return what the model takes of images and documents.

    Source:
        https://ai.google.dev/gemini-api/docs/image-understanding
        https://ai.google.dev/gemini-api/docs/document-processing
        https://ai.google.dev/gemini-api/docs/files (read 2026-11-27)
    """
    is_vertex = limits.host == "vertex_ai"
    return MediaRules(
        api="generate_content",
        file_owner=PROVIDER,
        image_types=IMAGE_TYPES,
        image_words="PNG, JPEG, WebP, HEIC and HEIF",
        max_images=_MAX_IMAGES_ON_VERTEX if is_vertex else _MAX_IMAGES,
        max_media_chars=MAX_INLINE_CHARS - _TEXT_ROOM_CHARS,
    )


def adapt(draft: Draft) -> tuple[Draft, tuple[ReportEntry, ...]]:
    """Return the draft as the API takes it, and a row for every change.

    What it cannot take of a message becomes a line that names it; parameters that the model ignores
    are taken back. Adapting twice changes nothing more.
    """
    rules = media_rules(draft.limits)
    judges = [
        judge_foreign(provider=PROVIDER),
        _judge_own,
        judge_media(rules=rules, limits=draft.limits, takes_from_assistant=True),
        _judge_type,
    ]
    messages, rows = adapt_messages(draft.messages, judges=judges, rules=rules)
    tools, foreign_rows = leave_out_foreign(draft.tools, provider=PROVIDER)
    tools, strict_rows = leave_strict(tools, object_to=_object_to_strict)
    parameters, parameter_rows = _adapt_parameters(draft.parameters, draft.limits)
    adapted = replace(draft, messages=messages, tools=tuple(tools), parameters=parameters)
    return adapted, (*foreign_rows, *strict_rows, *rows, *parameter_rows)


def _judge_own(part: ResultPart, _role: Role) -> Change | None:
    """Leave out what a reply says about its text, such as the sources of a search: no part."""
    if not isinstance(part, Opaque) or part.provider != PROVIDER or is_part(part.block):
        return None
    named = ", ".join(part.block)
    return Change(
        text="",
        decision="dropped",
        rule="content.metadata",
        reason=f"What the reply says about itself ({named}) is not sent back.",
    )


def _judge_type(part: ResultPart, _role: Role) -> Change | None:
    """Leave out what lies at an address that does not tell its type.

    Source:
        docstring of `google.genai.types.FileData.mime_type`, google-genai 3.6 (read 2026-11-27)
    """
    if not isinstance(part, Image | Document) or not isinstance(part.source, UrlSource):
        return None
    is_text = isinstance(part, Document) and part.text is not None
    return None if is_text or fetched_type(part.source) else leave_out(part, _NO_TYPE)


def _object_to_strict(_schema: Json) -> str:
    """Return why no function is strict: the API has no switch for one.

    Source:
        docstring of `google.genai.types.FunctionDeclaration`, google-genai 3.6 (read 2026-11-27)
    """
    return "the API has no strict mode"


def _adapt_parameters(
    parameters: Parameters, limits: ModelLimits
) -> tuple[Parameters, list[ReportEntry]]:
    """Return the parameters that say something to the model, and a row for every other one.

    Source:
        https://ai.google.dev/gemini-api/docs/gemini-4
        https://ai.google.dev/gemini-api/docs/function-calling (read 2026-11-27)
    """
    rows: list[ReportEntry] = []
    if limits.parameters.temperature in ("ignored", "never"):
        given = [name for name in _SAMPLING if getattr(parameters, name) is not None]
        rows += [_row(name, "The model does not heed it.") for name in given]
        parameters = replace(parameters, temperature=None, top_p=None, top_k=None)
    choice = parameters.tool_choice
    if choice is not None and choice.allows_parallel is not None:
        rows.append(_row("parallel_tool_calls", "The API has no switch for parallel calls."))
        parameters = replace(parameters, tool_choice=replace(choice, allows_parallel=None))
    return parameters, rows


def _row(name: str, reason: str) -> ReportEntry:
    return ReportEntry(
        kind="note", id=name, decision="dropped", reason=reason, rule=f"parameter.{name}"
    )
