"""A draft as `generate_content` can take it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from context_assembler.providers.gemini.content import IMAGE_TYPES, fetched_type
from context_assembler.providers.gemini.generations import is_on_vertex
from context_assembler.providers.gemini.malformed import find_flaw
from context_assembler.providers.gemini.schemas import fit_schemas
from context_assembler.providers.gemini.trimming import trim_fields
from context_assembler.values.adapting import (
    Change,
    Judge,
    adapt_messages,
    judge_foreign,
    judge_media,
    leave_out,
)
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.limits import ModelLimits
from context_assembler.values.malformed import judge_malformed
from context_assembler.values.media.media_claims import is_base64
from context_assembler.values.media.media_rules import MediaRules, Objection
from context_assembler.values.messages import Message, Role
from context_assembler.values.native.gemini_fields import (
    CONTINUATION,
    KINDS,
    NOT_ON_VERTEX,
    snake_fields,
)
from context_assembler.values.native.gemini_parts import PROVIDER, is_part
from context_assembler.values.offered_tools import (
    declared_tools,
    leave_out_foreign,
    leave_strict,
)
from context_assembler.values.parts import (
    Base64Source,
    Document,
    Image,
    Json,
    JsonObject,
    Opaque,
    ResultPart,
    UrlSource,
)
from context_assembler.values.report import ReportEntry
from context_assembler.values.spelled import knows_plain
from context_assembler.values.summaries import settle_summaries

MAX_INLINE_CHARS: Final = 100 * 1024 * 1024  # of base64, in one request
MAX_IMAGE_CHARS_ON_VERTEX: Final = 7_000_000 // 3 * 4
MAX_IMAGES: Final = 3_600
MAX_IMAGES_ON_VERTEX: Final = 3_000
MAX_PDF_PAGES: Final = 1_000
_TEXT_ROOM_CHARS: Final = 6 * 1024 * 1024  # of a request, for everything that is not media
_SAMPLING: Final = ("temperature", "top_p", "top_k")

_NO_BYTES: Final = Objection(rule="media.empty", reason="it holds no bytes in base64")
_NO_TYPE: Final = Objection(rule="media.type", reason="its media type is not known")


def media_rules(limits: ModelLimits) -> MediaRules:
    """Return what the model takes of images and documents.

    No side is too long, but Vertex AI takes seven megabytes of one inline image. Every image is scaled
    to that, wherever it goes: it costs the same tokens, and fewer bytes of the whole request.

    Source:
        https://ai.google.dev/gemini-api/docs/image-understanding
        https://ai.google.dev/gemini-api/docs/document-processing
        https://ai.google.dev/gemini-api/docs/files (read 2026-11-27)
    """
    is_vertex = is_on_vertex(limits)
    return MediaRules(
        api="generate_content",
        file_owner=PROVIDER,
        image_types=IMAGE_TYPES,
        image_words="PNG, JPEG, WebP, HEIC and HEIF",
        document_types=("application/pdf", "audio/", "video/"),
        document_words="PDF, plain text, audio and video",
        schemes=("https", "http", "gs"),
        fit_image_chars=MAX_IMAGE_CHARS_ON_VERTEX,
        max_image_chars=MAX_IMAGE_CHARS_ON_VERTEX if is_vertex else None,
        max_pdf_pages=MAX_PDF_PAGES,
        max_images=MAX_IMAGES_ON_VERTEX if is_vertex else MAX_IMAGES,
        max_media_chars=MAX_INLINE_CHARS - _TEXT_ROOM_CHARS,
    )


def adapt(draft: Draft) -> tuple[Draft, tuple[ReportEntry, ...]]:
    """Return the draft as the API takes it, and a row for every change.

    What it cannot take of a message becomes a line that names it; parameters that the model ignores
    are taken back. Adapting twice changes nothing more.
    """
    messages, rows = _adapt_messages(draft)
    declared = declared_tools(draft, provider=PROVIDER)
    tools, foreign_rows = leave_out_foreign(declared, provider=PROVIDER)
    tools, schema_rows = fit_schemas(tools)
    tools, strict_rows = leave_strict(tools, object_to=_object_to_strict)
    parameters, parameter_rows = _adapt_parameters(draft.parameters, draft.limits)
    adapted = replace(draft, messages=messages, tools=tuple(tools), parameters=parameters)
    return adapted, (*foreign_rows, *schema_rows, *strict_rows, *rows, *parameter_rows)


def _adapt_messages(draft: Draft) -> tuple[Sequence[Message], list[ReportEntry]]:
    is_vertex = is_on_vertex(draft.limits)
    messages, rows = draft.messages, list[ReportEntry]()
    if not knows_plain(messages, draft.spelled):
        rules = media_rules(draft.limits)
        judges = [
            judge_malformed(provider=PROVIDER, find_flaw=find_flaw),
            judge_foreign(provider=PROVIDER),
            judge_own(is_vertex=is_vertex),
            judge_media(rules=rules, limits=draft.limits, takes_from_assistant=True),
            _judge_type,
        ]
        messages, summary_rows = settle_summaries(messages, provider=PROVIDER)
        messages, rows = adapt_messages(messages, judges=judges, rules=rules)
        rows = [*summary_rows, *rows]
    elif draft.spelled is not None and draft.spelled.facts_of(messages).is_bare:
        return messages, rows
    messages, field_rows = trim_fields(messages, is_vertex=is_vertex)
    return messages, [*rows, *field_rows]


def judge_own(*, is_vertex: bool) -> Judge:
    """Return the judge of Gemini's own blocks.

    What a reply says about its text, such as the sources of a search, is no part. What the server's
    tools were asked and answered is known to the Gemini API alone; elsewhere its text stands for it.

    Source:
        `_Part_to_vertex` in google-genai 3.6 (read 2026-11-27)
    """

    def judge(part: ResultPart, _role: Role) -> Change | None:
        if not isinstance(part, Opaque) or part.provider != PROVIDER:
            return None
        if not is_part(part.block):
            return Change(
                text="", decision="dropped", rule="content.metadata", reason=_tell_left(part.block)
            )
        foreign = sorted(snake_fields(part.block).keys() & KINDS & NOT_ON_VERTEX)
        if not is_vertex or not foreign:
            return None
        return Change(
            text=part.text,
            decision="repaired",
            rule="content.type",
            reason=f"Vertex AI takes no {foreign[0]}; it is sent as its text.",
        )

    return judge


def _tell_left(block: JsonObject) -> str:
    """Say why what a reply says about itself stays behind.

    Source:
        docstring of `google.genai.types.GenerateContentConfig.automatic_continuation`, google-genai
        3.6 (read 2026-11-27): a token goes with the same request, which the SDK repeats by itself.
    """
    if snake_fields(block).keys() == {CONTINUATION}:
        return (
            "A continuation token holds for the very request that it answered, not for this one: "
            "the model is asked to go on instead."
        )
    return f"What the reply says about itself ({', '.join(block)}) is not sent back."


def _judge_type(part: ResultPart, _role: Role) -> Change | None:
    """Leave out what has no bytes, or lies at an address that does not tell its type.

    Source:
        docstring of `google.genai.types.FileData.mime_type`, google-genai 3.6 (read 2026-11-27)
    """
    if not isinstance(part, Image | Document):
        return None
    if isinstance(part, Document) and part.text is not None:
        return None
    source = part.source
    if isinstance(source, Base64Source) and not (source.data and is_base64(source.data)):
        return leave_out(part, _NO_BYTES)
    is_unknown = isinstance(source, UrlSource) and not fetched_type(source)
    return leave_out(part, _NO_TYPE) if is_unknown else None


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
