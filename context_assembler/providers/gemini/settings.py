"""Tools and parameters as the config of `generate_content`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from context_assembler.errors import UnsupportedRequestError
from context_assembler.providers.gemini.generations import SIGNED, generation_of
from context_assembler.providers.gemini.schemas import spell_schema
from context_assembler.values.draft import Draft
from context_assembler.values.limits import ModelLimits
from context_assembler.values.native.gemini_fields import snake_fields
from context_assembler.values.native.gemini_parts import PROVIDER
from context_assembler.values.offered_tools import allowed_names
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import objects_in
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.tool_changes import NO_CHANGES, ChangeForms
from context_assembler.values.tools import ToolSpec
from context_assembler.values.wire import plain_json

# https://ai.google.dev/api/generate-content, GenerationConfig.stopSequences (read 2026-11-27)
MAX_STOP_SEQUENCES: Final = 5

PREVIEW_VERSION: Final = "v1beta"

_MODES: Final = {"auto": "AUTO", "any": "ANY", "tool": "ANY", "none": "NONE"}


def refuse(draft: Draft, problem: str, *, remedy: str) -> UnsupportedRequestError:
    """Return the error for what `generate_content` cannot express."""
    return UnsupportedRequestError(problem, provider=PROVIDER, model=draft.limits.id, remedy=remedy)


def render_tools(draft: Draft, names: Mapping[str, str]) -> list[dict[str, Json]]:
    """Return the functions as one tool, then the tools that the server runs, each verbatim.

    Tools of another provider alone do not exist here.
    """
    functions = [tool for tool in draft.tools if not tool.native_specs]
    declared = [_declare(tool, names[tool.name]) for tool in functions]
    native = [tool.native_specs.get(PROVIDER) for tool in draft.tools]
    rendered: list[dict[str, Json]] = [plain_json(spec) for spec in native if spec is not None]
    return [{"function_declarations": declared}, *rendered] if declared else rendered


def _declare(tool: ToolSpec, name: str) -> dict[str, Json]:
    """Return one function; its schema in the field that takes JSON Schema as it is.

    Source:
        docstring of `google.genai.types.FunctionDeclaration`, google-genai 3.6 (read 2026-11-27)
    """
    rendered: dict[str, Json] = {"name": name}
    description = clean_text(tool.description)
    if description.strip():
        rendered["description"] = description
    rendered["parameters_json_schema"] = spell_schema(tool.input_schema)
    return rendered


def needs_preview(contents: Iterable[JsonObject]) -> bool:
    """Whether the contents have what the SDK's default version of the API, v1, does not know.

    Source:
        https://ai.google.dev/gemini-api/docs/media-resolution (read 2026-11-27)
    """
    parts = (part for content in contents for _, part in objects_in(content.get("parts")))
    return any("media_resolution" in fields for part in parts for fields in part_fields(part))


def part_fields(part: JsonObject) -> Iterator[JsonObject]:
    """Yield the fields of a part, then those of the parts of its function's response."""
    yield part
    response = snake_fields(part.get("function_response"))
    for _, inner in objects_in(response.get("parts")):
        yield snake_fields(inner)


def render_config(
    draft: Draft, names: Mapping[str, str], *, tools: list[dict[str, Json]]
) -> dict[str, Json]:
    """Return the config: instructions, tools, reply length, thinking, sampling.

    Raises:
        UnsupportedRequestError: A parameter that this API cannot express for the model.
    """
    config: dict[str, Json] = {}
    system = clean_text(draft.system.text)
    if system.strip():
        config["system_instruction"] = system
    if tools:
        config["tools"] = tools
    config |= _tool_config(draft, names, tools=tools)
    if tools:
        # The SDK would call functions by itself; the loop is the caller's.
        config["automatic_function_calling"] = {"disable": True}
    config["max_output_tokens"] = draft.parameters.max_tokens
    return config | _thinking(draft) | _stop(draft) | _sampling(draft)


def _tool_config(
    draft: Draft, names: Mapping[str, str], *, tools: list[dict[str, Json]]
) -> dict[str, Json]:
    """Return the tool choice, and that server tools may stand beside functions.

    Source:
        https://ai.google.dev/gemini-api/docs/function-calling (read 2026-11-27)
        https://github.com/ag2ai/ag2/pull/3145 (read 2026-11-27): functions and server tools together
        need the flag, which Vertex AI does not know.
    """
    has_functions = any("function_declarations" in tool for tool in tools)
    is_mixed = has_functions and len(tools) > 1
    is_newer = (generation_of(draft.limits.id) or SIGNED) >= SIGNED
    needs_flag = is_mixed and is_newer and draft.limits.host != "vertex_ai"
    rendered: dict[str, Json] = {}
    choice = draft.parameters.tool_choice
    if choice is not None:
        _check_forced(draft, has_functions=has_functions)
    # Beside server tools the API decides by itself; AUTO is not among what it takes then.
    is_default = needs_flag and choice is not None and choice.mode == "auto"
    allowed = _allowed(draft, names)
    if allowed and has_functions:
        mode = "ANY" if choice is not None and choice.mode == "any" else "VALIDATED"
        calling: dict[str, Json] = {"mode": mode, "allowed_function_names": allowed}
        rendered["function_calling_config"] = calling
    elif choice is not None and has_functions and not is_default:
        calling = {"mode": _MODES[choice.mode]}
        if choice.name is not None:
            calling["allowed_function_names"] = [names[choice.name]]
        rendered["function_calling_config"] = calling
    if needs_flag:
        rendered["include_server_side_tool_invocations"] = True
    return {"tool_config": rendered} if rendered else {}


def _allowed(draft: Draft, names: Mapping[str, str]) -> list[str]:
    """Return the functions that alone may be called; none where all may be, or none.

    Source:
        docstring of `google.genai.types.FunctionCallingConfigMode`, google-genai 3.6
        (read 2026-11-27)
    """
    choice = draft.parameters.tool_choice
    allowed = allowed_names(draft, provider=PROVIDER)
    if allowed is None or (choice is not None and choice.mode not in ("auto", "any")):
        return []
    declared = {tool.name for tool in draft.tools if not tool.native_specs}
    return [names[name] for name in allowed if name in declared]


def change_forms(limits: ModelLimits) -> ChangeForms:
    """Return what the model can be told of tools beside the history: which of them it may call.

    Source:
        docstring of `google.genai.types.FunctionCallingConfigMode`, google-genai 3.6
        (read 2026-11-27)
    """
    is_own = limits.provider == "google" and limits.host in (None, "vertex_ai")
    return ChangeForms(withdraws="choice") if is_own else NO_CHANGES


def _check_forced(draft: Draft, *, has_functions: bool) -> None:
    choice = draft.parameters.tool_choice
    assert choice is not None
    declared = {tool.name for tool in draft.tools if not tool.native_specs}
    if choice.name is not None and choice.name not in declared:
        raise refuse(
            draft,
            f"tool_choice names {choice.name!r}, which is no function that is offered",
            remedy="Name one of the tools, or use mode 'auto'.",
        )
    if choice.mode == "any" and not has_functions:
        raise refuse(draft, "a call is forced, but no function is offered", remedy="Add a tool.")


def _thinking(draft: Draft) -> dict[str, Json]:
    """Return how to think; nothing if nothing is set.

    Levels and budgets exclude each other. Summaries of thoughts are asked for wherever there are
    thoughts: they cost nothing, and a session keeps them for people to read.

    Source:
        https://ai.google.dev/gemini-api/docs/thinking (read 2026-11-27)
    """
    rule, parameters = draft.limits.thinking, draft.parameters
    level, budget = parameters.thinking_level, parameters.thinking_budget
    if (level == "none" or budget == 0) and rule.kinds:
        if rule.disable != "yes" or "budget" not in rule.kinds:
            raise refuse(
                draft,
                "its thinking cannot be switched off",
                remedy="Leave thinking_level and thinking_budget out, or use the lowest level.",
            )
        return {"thinking_config": {"thinking_budget": 0}}
    if level in rule.levels and "effort" in rule.kinds:
        return {"thinking_config": {"thinking_level": str(level).upper(), "include_thoughts": True}}
    if budget and "budget" in rule.kinds:
        return {"thinking_config": {"thinking_budget": budget, "include_thoughts": True}}
    return {}


def _stop(draft: Draft) -> dict[str, Json]:
    sequences = draft.parameters.stop_sequences
    if len(sequences) > MAX_STOP_SEQUENCES:
        raise refuse(
            draft,
            f"it takes at most {MAX_STOP_SEQUENCES} stop sequences, not {len(sequences)}",
            remedy=f"Keep the {MAX_STOP_SEQUENCES} most telling ones.",
        )
    return {"stop_sequences": [clean_text(stop) for stop in sequences]} if sequences else {}


def _sampling(draft: Draft) -> dict[str, Json]:
    parameters = draft.parameters
    given = {name: getattr(parameters, name) for name in ("temperature", "top_p", "top_k")}
    return {name: value for name, value in given.items() if value is not None}
