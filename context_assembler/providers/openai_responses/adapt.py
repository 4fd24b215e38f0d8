"""A draft as Responses can take it."""

from dataclasses import replace
from typing import Final

from context_assembler.providers.openai_responses.dialect import is_openai
from context_assembler.providers.openai_responses.settings import suits_strict
from context_assembler.values.adapting import adapt_messages, judge_foreign, judge_media
from context_assembler.values.draft import Draft
from context_assembler.values.limits import ModelLimits
from context_assembler.values.media import MediaRules
from context_assembler.values.offered_tools import leave_out_foreign, leave_strict
from context_assembler.values.parts import Json
from context_assembler.values.report import ReportEntry
from context_assembler.values.response_items import PROVIDER

IMAGE_TYPES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")

# Sound and moving pictures are refused: "got unsupported MIME type 'audio/mpeg'".
_COMMON: Final = MediaRules(
    api="Responses",
    file_owner="openai",
    image_types=IMAGE_TYPES,
    image_words="JPEG, PNG, GIF and WebP",
    document_types=(
        "application/pdf",
        "application/json",
        "application/msword",
        "application/rtf",
        "application/vnd.",
        "text/",
    ),
    document_words="PDF, office documents and text",
)


def media_rules(limits: ModelLimits) -> MediaRules:
    """Return what the server takes of images and documents; only OpenAI's own limits are known.

    Of the published limits on the images of one request the lower ones.

    Source:
        https://developers.openai.com/api/docs/guides/images-vision
        https://developers.openai.com/api/docs/guides/file-inputs
        https://github.com/openai/openai-openapi, InputImageContent, InputFileContent
        (read 2026-11-27)
    """
    if not is_openai(limits):
        return _COMMON
    return replace(
        _COMMON,
        max_image_chars=20_900_000,
        max_document_chars=73_000_000,
        max_images=500,
        max_media_chars=73_000_000,
    )


def adapt(draft: Draft) -> tuple[Draft, tuple[ReportEntry, ...]]:
    """Return the draft as Responses takes it, and a row for every change.

    What the server cannot take of a message becomes a line that names it. Adapting twice changes
    nothing more. Nothing here depends on which reasoning is sent.
    """
    rules = media_rules(draft.limits)
    judges = [judge_foreign(provider=PROVIDER), judge_media(rules=rules, limits=draft.limits)]
    messages, rows = adapt_messages(draft.messages, judges=judges, rules=rules)
    tools, foreign_rows = leave_out_foreign(draft.tools, provider=PROVIDER)
    tools, strict_rows = leave_strict(tools, object_to=_object_to_strict)
    adapted = replace(draft, messages=messages, tools=tuple(tools))
    return adapted, (*foreign_rows, *strict_rows, *rows)


def _object_to_strict(schema: Json) -> str | None:
    return None if suits_strict(schema) else "its schema has what strict mode refuses"
