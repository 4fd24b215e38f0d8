"""A draft as the Messages API can take it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from context_assembler.providers.anthropic.blank_blocks import judge_blank
from context_assembler.providers.anthropic.blocks import PROVIDER
from context_assembler.providers.anthropic.fencing import tell_displaced
from context_assembler.providers.anthropic.joining import join_units, opens_with_thinking
from context_assembler.providers.anthropic.malformed import judge_own, leave_thoughts
from context_assembler.providers.anthropic.parameter_names import fit_names
from context_assembler.providers.anthropic.server_calls import judge_unanswered
from context_assembler.providers.anthropic.strict import StrictGate
from context_assembler.providers.anthropic.tool_references import judge_undeclared
from context_assembler.providers.anthropic.units import render_units, tool_names
from context_assembler.values.adapting import adapt_messages, judge_foreign, judge_media
from context_assembler.values.draft import Draft
from context_assembler.values.limits import ModelLimits
from context_assembler.values.media.media_rules import MediaRules
from context_assembler.values.messages import Message
from context_assembler.values.offered_tools import (
    declared_tools,
    drop_allowed,
    leave_out_foreign,
    leave_strict,
    plan_for,
)
from context_assembler.values.report import ReportEntry
from context_assembler.values.spelled import facts_of, knows_plain
from context_assembler.values.summaries import settle_summaries

IMAGE_TYPES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")

MAX_REQUEST_CHARS: Final = 32 * 1024 * 1024
MAX_IMAGE_CHARS: Final = 10 * 1024 * 1024
MAX_IMAGE_CHARS_ON_CLOUDS: Final = 5 * 1024 * 1024
MAX_SIDE_PX: Final = 8_000
MAX_TEMPERATURE: Final = 1.0
CROWD_IMAGES: Final = 20
CROWD_SIDE_PX: Final = 2_000

_TEXT_ROOM_CHARS: Final = 6 * 1024 * 1024  # of a request, for everything that is not media
_SMALL_WINDOW_TOKENS: Final = 200_000
_LARGE_WINDOW_TOKENS: Final = 1_000_000
_CLOUDS: Final = frozenset({"bedrock", "vertex_ai"})


def max_images(window_tokens: int | None) -> int:
    """Return how many images one request may hold, in a window of that size.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/vision (read 2026-11-27)
    """
    is_small = window_tokens is not None and window_tokens <= _SMALL_WINDOW_TOKENS
    return 100 if is_small else 600


def max_pdf_pages(window_tokens: int | None) -> int:
    """Return how many pages a PDF may have, in a window of that size.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/pdf-support (read 2026-11-27)
    """
    is_small = window_tokens is not None and window_tokens < _LARGE_WINDOW_TOKENS
    return 100 if is_small else 600


def media_rules(limits: ModelLimits) -> MediaRules:
    """Return what the model takes of images and documents.

    Every image is scaled to what is taken beside more than twenty others, however few there are: an
    image that was sent once can then stay as it is.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/vision
        https://platform.claude.com/docs/en/build-with-claude/pdf-support
        https://platform.claude.com/docs/en/api/errors (read 2026-11-27)
    """
    return MediaRules(
        api="the Messages API",
        file_owner=PROVIDER,
        image_types=IMAGE_TYPES,
        image_words="JPEG, PNG, GIF and WebP",
        max_image_chars=MAX_IMAGE_CHARS_ON_CLOUDS if limits.host in _CLOUDS else MAX_IMAGE_CHARS,
        max_side_px=MAX_SIDE_PX,
        fit_side_px=CROWD_SIDE_PX,
        max_pdf_pages=max_pdf_pages(limits.window_tokens),
        takes_locked_pdfs=False,
        max_images=max_images(limits.window_tokens),
        crowd_images=CROWD_IMAGES,
        crowd_side_px=CROWD_SIDE_PX,
        max_media_chars=MAX_REQUEST_CHARS - _TEXT_ROOM_CHARS,
    )


def adapt(draft: Draft) -> tuple[Draft, tuple[ReportEntry, ...]]:
    """Return the draft as the Messages API takes it, and a row for every change.

    What it cannot take of a message becomes a line that names it; an assistant message takes
    neither images nor documents. Adapting twice changes nothing more, and tells nothing again.

    Source:
        https://platform.claude.com/docs/en/api/versioning (2026-10-21; read 2026-11-27)
    """
    messages, rows = _adapt_messages(draft)
    declared = declared_tools(draft, provider=PROVIDER)
    tools, foreign_rows = leave_out_foreign(declared, provider=PROVIDER)
    plan = plan_for(draft, provider=PROVIDER)
    tools, name_rows = fit_names(tools)
    _, added_rows = fit_names(plan.added if plan else ())
    tools, strict_rows = leave_strict(tools, object_to=StrictGate().object_to)
    adapted = replace(draft, messages=messages, tools=tuple(tools))
    adapted, allowed_rows = drop_allowed(adapted, api="The Messages API")
    adapted, budget_rows = _drop_budget(adapted)
    adapted, heat_rows = _cap_temperature(adapted)
    tool_rows = (*foreign_rows, *name_rows, *added_rows, *strict_rows, *allowed_rows)
    adapted, place_rows = tell_displaced(adapted)
    return adapted, (
        *tool_rows,
        *rows,
        *place_rows,
        *budget_rows,
        *heat_rows,
    )


def _adapt_messages(draft: Draft) -> tuple[Sequence[Message], list[ReportEntry]]:
    if knows_plain(draft.messages, draft.spelled):
        has_thoughts = facts_of(draft.messages, draft.spelled).has_thoughts
        return leave_thoughts(draft.messages) if has_thoughts else (draft.messages, [])
    rules = media_rules(draft.limits)
    told, summary_rows = settle_summaries(draft.messages, provider=PROVIDER)
    judges = [
        judge_own(told),
        judge_foreign(provider=PROVIDER),
        judge_blank,
        judge_unanswered(draft.messages),
        judge_undeclared(replace(draft, messages=told)),
        judge_media(rules=rules, limits=draft.limits),
    ]
    told, thought_rows = leave_thoughts(told)
    messages, rows = adapt_messages(told, judges=judges, rules=rules)
    return messages, [*summary_rows, *thought_rows, *rows]


def _drop_budget(draft: Draft) -> tuple[Draft, list[ReportEntry]]:
    """Leave the thinking budget out while a tool loop goes on that began without thinking.

    Source:
        https://github.com/mastra-ai/mastra/issues/7799 (read 2026-11-27)
    """
    if not draft.parameters.thinking_budget or "budget" not in draft.limits.thinking.kinds:
        return draft, []
    takes_system = draft.limits.supports("mid_conversation_system")
    units = render_units(draft, tool_names(draft))
    if opens_with_thinking(join_units(units, takes_system=takes_system)):
        return draft, []
    row = ReportEntry(
        kind="note",
        id="thinking_budget",
        decision="dropped",
        reason="The tool calls in flight began without thinking, so the model goes on without.",
        rule="parameter.thinking_budget",
    )
    return replace(draft, parameters=replace(draft.parameters, thinking_budget=None)), [row]


def _cap_temperature(draft: Draft) -> tuple[Draft, list[ReportEntry]]:
    """Return the draft with a temperature that the API takes: others go up to 2.

    Source:
        https://platform.claude.com/docs/en/api/messages/create (read 2026-11-27)
    """
    given = draft.parameters.temperature
    if given is None or given <= MAX_TEMPERATURE:
        return draft, []
    row = ReportEntry(
        kind="note",
        id="temperature",
        decision="repaired",
        reason=f"The Messages API takes {MAX_TEMPERATURE:g} at most; {given:g} is sent as that.",
        rule="parameter.temperature",
    )
    capped = replace(draft.parameters, temperature=MAX_TEMPERATURE)
    return replace(draft, parameters=capped), [row]
