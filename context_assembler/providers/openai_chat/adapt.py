"""A draft as Chat Completions can take it."""

from dataclasses import replace
from typing import Final

from context_assembler.providers.openai_chat.content import PART_TYPES, PROVIDER
from context_assembler.providers.openai_chat.dialect import Dialect, dialect_of
from context_assembler.providers.openai_chat.settings import (
    effort_of,
    must_not_reason,
    suits_strict,
)
from context_assembler.values.adapting import (
    Change,
    Judge,
    adapt_messages,
    judge_foreign,
    judge_media,
)
from context_assembler.values.draft import Draft
from context_assembler.values.media import MediaRules
from context_assembler.values.messages import Role
from context_assembler.values.offered_tools import leave_out_foreign, leave_strict
from context_assembler.values.parts import Json, Opaque, ResultPart
from context_assembler.values.report import ReportEntry

IMAGE_TYPES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")

_COMMON: Final = MediaRules(
    api="Chat Completions",
    file_owner="openai",
    image_types=IMAGE_TYPES,
    image_words="JPEG, PNG, GIF and WebP",
    fetches_documents=False,
    takes_image_ids=False,
)


def media_rules(dialect: Dialect) -> MediaRules:
    """Return what the server takes of images and documents; only OpenAI's own limits are known.

    Of the published limits on the images of one request the lower ones.

    Source:
        https://developers.openai.com/api/docs/guides/images-vision
        https://github.com/openai/openai-openapi, InputImageContent, InputFileContent
        (read 2026-11-27)
    """
    if not dialect.is_openai:
        return _COMMON
    return replace(
        _COMMON,
        max_image_chars=20_900_000,
        max_document_chars=73_000_000,
        max_images=500,
        max_media_chars=73_000_000,
    )


def adapt(draft: Draft) -> tuple[Draft, tuple[ReportEntry, ...]]:
    """Return the draft as Chat Completions takes it, and a row for every change.

    What the server cannot take of a message becomes a line that names it. Adapting twice changes
    nothing more.
    """
    dialect = dialect_of(draft.limits)
    rules = media_rules(dialect)
    judges = [
        judge_foreign(provider=PROVIDER),
        judge_media(rules=rules, limits=draft.limits),
        _judge_own(dialect),
    ]
    messages, rows = adapt_messages(draft.messages, judges=judges, rules=rules)
    tools, foreign_rows = leave_out_foreign(draft.tools, provider=PROVIDER)
    tools, strict_rows = leave_strict(tools, object_to=_object_to_strict)
    adapted = replace(draft, messages=messages, tools=tuple(tools))
    adapted, effort_rows = _stop_reasoning(adapted)
    return adapted, (*foreign_rows, *strict_rows, *rows, *effort_rows)


def _judge_own(dialect: Dialect) -> Judge:
    """Return the judge of content parts of this API: some are known to some servers only."""

    def judge(part: ResultPart, role: Role) -> Change | None:
        if not isinstance(part, Opaque) or part.provider != PROVIDER:
            return None
        kind = str(part.block.get("type"))
        if role == "user" and kind != "refusal":
            if not dialect.is_openai or kind in PART_TYPES:
                return None
        elif role == "assistant" and kind == "refusal":
            return None
        has_text = bool(part.text.strip())
        reason = f"A part of type {kind!r} is not taken from the {role}"
        return Change(
            text=part.text if has_text else f"[{kind} left out: not taken from the {role}]",
            decision="repaired" if has_text else "dropped",
            rule="content.type",
            reason=f"{reason}; it is {'sent as its text' if has_text else 'left out'}.",
        )

    return judge


def _object_to_strict(schema: Json) -> str | None:
    return None if suits_strict(schema) else "its schema has what strict mode refuses"


def _stop_reasoning(draft: Draft) -> tuple[Draft, list[ReportEntry]]:
    can_stop = "none" in draft.limits.thinking.levels
    if not can_stop or not must_not_reason(draft) or effort_of(draft) == "none":
        return draft, []
    row = ReportEntry(
        kind="note",
        id="thinking_level",
        decision="repaired",
        reason="Chat Completions takes this model's tools only without reasoning: it is 'none'.",
        rule="parameter.thinking_level",
    )
    parameters = replace(draft.parameters, thinking_level="none", thinking_budget=None)
    return replace(draft, parameters=parameters), [row]
