"""What OpenAI's two protocols have in common: servers, parameters, choices, media, usage."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from context_assembler.context import Request
from context_assembler.events import Json, Usage
from context_assembler.models import ModelLimits
from context_assembler.ports import ToolSpec
from context_assembler.providers.schemas import objection_to_strict, root_object_schema
from context_assembler.providers.wire import (
    allowed_names,
    as_object,
    check_forced,
    count_of,
    tool_entry,
)
from context_assembler.report import ReportEntry
from context_assembler.texts import clean_text

if TYPE_CHECKING:
    from context_assembler.providers.media import MediaRules

MAX_TOOLS: Final = 128  # https://github.com/openai/openai-openapi, tools (read 2026-11-27)
MAX_CACHE_KEY_CHARS: Final = 64
MAX_IMAGES: Final = 500  # of one request; some versions of the API take more
MAX_IMAGE_CHARS: Final = 20_971_520
MAX_FILE_CHARS: Final = 73_400_320

_OWN_HOSTS: Final = (None, "azure")  # the vendor, and clouds that offer its API unchanged
_ALLOWED_MODES: Final[Mapping[str, str]] = {"auto": "auto", "any": "required"}


def is_own_api(limits: ModelLimits) -> bool:
    """Whether OpenAI's own API answers, not a server that imitates it."""
    is_open = limits.id.startswith("gpt-oss")  # open weights: everybody but OpenAI serves them
    return limits.provider == "openai" and limits.host in _OWN_HOSTS and not is_open


def media_rules(limits: ModelLimits, **api: Any) -> "MediaRules":
    """Return what the server takes of images and documents; OpenAI's own with published limits.

    Of the published limits the lower hold.
    No side is too long, since the server scales; but an image of more bytes than any picture that
    it looks at needs is scaled, so that a few of them do not fill a request.

    Source:
        https://developers.openai.com/api/docs/guides/images-vision, guides/file-inputs
        https://github.com/openai/openai-openapi, InputImageContent, InputFileContent
        (read 2026-11-27)
    """
    from context_assembler.providers.media import MediaRules

    rules = MediaRules(
        file_owner="openai",
        image_types=("image/jpeg", "image/png", "image/gif", "image/webp"),
        image_words="JPEG, PNG, GIF and WebP",
        takes_animations=False,
        **api,
    )
    if not is_own_api(limits):
        return rules
    return rules._replace(
        max_image_chars=20_900_000,
        fit_image_chars=10 * 1024 * 1024,
        max_document_chars=73_000_000,
        max_images=MAX_IMAGES,
        max_media_chars=73_000_000,
    )


def leave_strict(tools: Iterable[ToolSpec], entries: list[ReportEntry]) -> list[ToolSpec]:
    """Return the tools, without strict mode if their schema cannot be enforced."""
    settled: list[ToolSpec] = []
    for tool in tools:
        asks = bool(tool.is_strict) and not tool.native_specs
        reason = objection_to_strict(root_object_schema(tool.input_schema)) if asks else None
        if reason is not None:
            told = f"It is offered without strict mode: {reason}."
            entries.append(tool_entry(tool, "tool.strict", told, "repaired"))
        settled.append(tool if reason is None else replace(tool, is_strict=False))
    return settled


def effort_of(request: Request) -> str | None:
    """Return the reasoning effort to ask for; `None` leaves it to the model."""
    parameters = request.parameters
    asked = "none" if parameters.thinking_budget == 0 else parameters.thinking_level
    return asked if asked in request.limits.thinking.levels else None


def common_parameters(request: Request, *, is_own: bool) -> dict[str, Json]:
    """Return sampling, and the key that routes a session's requests to one cache.

    Source:
        https://developers.openai.com/api/docs/guides/prompt-caching (read 2026-11-27)
    """
    parameters = request.parameters
    made: dict[str, Json] = {"temperature": parameters.temperature, "top_p": parameters.top_p}
    if is_own and request.cache == "auto" and request.session_id:
        key = clean_text(request.session_id)
        is_short = len(key) <= MAX_CACHE_KEY_CHARS
        made["prompt_cache_key"] = key if is_short else sha256(key.encode()).hexdigest()
    return {name: value for name, value in made.items() if value is not None}


def names_to_choose(request: Request, provider: str, *, is_own: bool) -> tuple[str, ...]:
    """Return the tools that the choice is among; none if it is among all, or cannot be limited.

    Source:
        types of the openai package 3.57, ChatCompletionAllowedToolsParam, ToolChoiceAllowedParam
        (read 2026-11-27)
    """
    choice = request.parameters.tool_choice
    if not is_own or (choice is not None and choice.mode not in _ALLOWED_MODES):
        return ()
    return allowed_names(request, provider) or ()


def allowed_mode(request: Request) -> str:
    """Return the mode of a choice among some of the tools."""
    choice = request.parameters.tool_choice
    return _ALLOWED_MODES[choice.mode] if choice is not None else "auto"


def tool_choice(
    request: Request,
    provider: str,
    tools: list[ToolSpec],
    *,
    has_tools: bool,
    among: Mapping[str, Json],
    choose: Callable[[str], Json],
) -> dict[str, Json]:
    """Return the choice, and whether calls may be parallel: both are taken with tools only.

    Args:
        tools: Those that are offered.
        among: The choice among some of the tools; empty if all may be called, or none.
        choose: Writes the choice of the tool of that name.

    Raises:
        UnsupportedRequestError: A forced call of a tool that is not offered.
    """
    choice = request.parameters.tool_choice
    if choice is None:
        return {"tool_choice": among} if among else {}
    if choice.mode in ("any", "tool"):
        check_forced(request, provider, tools, has_tools=has_tools)
    if not has_tools:
        return {}
    mode = "required" if choice.mode == "any" else choice.mode
    made: dict[str, Json] = {
        "tool_choice": choose(choice.name) if choice.name is not None else among or mode
    }
    if choice.allows_parallel is not None and request.limits.features.get("parallel_tools", True):
        made["parallel_tool_calls"] = choice.allows_parallel
    return made


def read_usage(usage: Json, *, asked: str, answered: str) -> Usage | None:
    """Return the reported tokens; `asked` and `answered` are the protocol's words for both sides.

    Source:
        https://developers.openai.com/api/docs/guides/prompt-caching (read 2026-11-27)
    """
    fields = as_object(usage)
    if not fields:
        return None
    of_asked = as_object(fields.get(f"{asked}_tokens_details"))
    of_answered = as_object(fields.get(f"{answered}_tokens_details"))
    return Usage(
        input_tokens=count_of(fields.get(f"{asked}_tokens")),
        output_tokens=count_of(fields.get(f"{answered}_tokens")),
        cache_read_tokens=count_of(of_asked.get("cached_tokens")),
        cache_write_tokens=count_of(of_asked.get("cache_write_tokens")),
        reasoning_tokens=count_of(of_answered.get("reasoning_tokens")),
    )
