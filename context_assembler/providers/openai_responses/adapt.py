"""A draft as Responses can take it."""

from dataclasses import replace
from typing import Final

from context_assembler.providers.openai_responses.dialect import is_openai
from context_assembler.providers.openai_responses.lost_media import (
    judge_pieces,
    tell_lost_media,
)
from context_assembler.providers.openai_responses.settings import MAX_TOOLS, tool_search
from context_assembler.values.adapting import adapt_messages, judge_foreign, judge_media
from context_assembler.values.deferral import is_held_back
from context_assembler.values.draft import Draft
from context_assembler.values.limits import ModelLimits
from context_assembler.values.media.media_rules import MediaRules
from context_assembler.values.native.response_items import PROVIDER
from context_assembler.values.offered_tools import (
    declared_tools,
    leave_out_foreign,
    leave_out_surplus,
    leave_strict,
    plan_for,
)
from context_assembler.values.report import ReportEntry
from context_assembler.values.schemas.strict_schemas import object_to_strict
from context_assembler.values.summaries import settle_summaries
from context_assembler.values.tools import ToolSpec

IMAGE_TYPES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
FIT_IMAGE_CHARS: Final = 10 * 1024 * 1024

# Sound and moving pictures are refused: "got unsupported MIME type 'audio/mpeg'".
_COMMON: Final = MediaRules(
    api="Responses",
    file_owner="openai",
    image_types=IMAGE_TYPES,
    image_words="JPEG, PNG, GIF and WebP",
    takes_animations=False,
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

    Of the published limits on the images of one request the lower ones. No side is too long, the
    server scales by itself; but an image of more bytes than any picture that it looks at needs is
    scaled, so that a few of them do not fill a request.

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
        fit_image_chars=FIT_IMAGE_CHARS,
        max_document_chars=73_000_000,
        max_images=500,
        max_media_chars=73_000_000,
    )


def adapt(draft: Draft) -> tuple[Draft, tuple[ReportEntry, ...]]:
    """Return the draft as Responses takes it, and a row for every change.

    What the server cannot take of a message becomes a line that names it. Adapting twice changes
    nothing more. What can be sent does not depend on which reasoning is; what is told may.
    """
    rules = media_rules(draft.limits)
    judges = [
        judge_foreign(provider=PROVIDER),
        judge_pieces,
        judge_media(rules=rules, limits=draft.limits),
    ]
    told, summary_rows = settle_summaries(draft.messages, provider=PROVIDER)
    messages, rows = adapt_messages(told, judges=judges, rules=rules)
    messages, lost_rows = tell_lost_media(messages, limits=draft.limits)
    rows = [*rows, *lost_rows]
    declared = declared_tools(draft, provider=PROVIDER)
    tools, foreign_rows = leave_out_foreign(declared, provider=PROVIDER)
    tools, surplus_rows = _leave_out_surplus(draft, tools)
    tools, strict_rows = leave_strict(tools, object_to=object_to_strict)
    plan = plan_for(draft, provider=PROVIDER)
    _, added_rows = leave_strict(plan.added if plan else (), object_to=object_to_strict)
    adapted = replace(draft, messages=messages, tools=tuple(tools))
    return adapted, (*foreign_rows, *surplus_rows, *strict_rows, *added_rows, *summary_rows, *rows)


def _leave_out_surplus(
    draft: Draft, tools: list[ToolSpec]
) -> tuple[list[ToolSpec], list[ReportEntry]]:
    """Return the tools that OpenAI takes; how many other servers take is not known."""
    if not is_openai(draft.limits):
        return tools, []
    choice = draft.parameters.tool_choice
    forced = choice.name if choice is not None else None
    is_searched = tool_search(draft.limits) is not None and any(map(is_held_back, tools))
    most = MAX_TOOLS - is_searched  # the tool that searches takes a place of its own
    return leave_out_surplus(tools, most=most, forced=forced, api="Responses")
