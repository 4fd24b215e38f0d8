"""Rules on tools and parameters."""

import re
from collections.abc import Iterator
from typing import Final

from context_assembler.providers.anthropic.adapt import MAX_TEMPERATURE
from context_assembler.providers.anthropic.blocks import THINKING_TYPES
from context_assembler.providers.anthropic.parameter_names import refused_names
from context_assembler.providers.anthropic.rule_book import VERSION_WITHOUT_SAMPLING, Sent, breach
from context_assembler.providers.anthropic.strict import (
    StrictLoad,
    load_of,
    refuse_strict,
    suits_strict,
)
from context_assembler.values.breaches import level_if
from context_assembler.values.compactions import COMPACTION_TYPE
from context_assembler.values.json_bounds import shown
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import (
    as_array,
    as_number,
    as_object,
    as_text,
    objects_in,
    walk_objects,
)
from context_assembler.values.report import Violation
from context_assembler.values.schemas.draft_2020 import older_keywords
from context_assembler.values.schemas.root_objects import ROOT_UNIONS
from context_assembler.values.schemas.schema_examples import objections_to_example

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SAMPLING: Final = ("temperature", "top_p", "top_k")
_HIGHEST_LEVELS: Final = frozenset({"xhigh", "max"})
_LEAST_BUDGET_TOKENS: Final = 1024

# `_calculate_nonstreaming_timeout` in the anthropic package 2.14: ten minutes at 128,000 tokens an
# hour. Above, `messages.create` raises before anything is sent.
MAX_WHOLE_TOKENS: Final = 21_333


def check_tools(sent: Sent) -> Iterator[Violation]:
    """A6, A7, A8, A20, A32, A33: names, schemas, strict mode, deferred loading."""
    names: set[str] = set()
    load = StrictLoad()
    tools = list(objects_in(sent.payload.get("tools")))
    for index, tool in tools:
        where, name = f"tools[{index}]", as_text(tool.get("name"))
        if "name" in tool and not _NAME.fullmatch(name):
            yield breach("A6", f"{where}.name", "must match [a-zA-Z0-9_-]{1,64}")
        if name and name in names:
            yield breach("A6", f"{where}.name", f"{name!r} is taken by another tool")
        names.add(name)
        if "input_schema" in tool:
            yield from _check_schema(tool["input_schema"], where=f"{where}.input_schema")
            yield from _check_examples(tool, where=f"{where}.input_examples")
        elif tool.get("type") in (None, "custom"):
            yield breach("A7", f"{where}.input_schema", "a schema is required")
        if tool.get("strict") is True:
            load += load_of(tool.get("input_schema"))
            yield from _check_strict(tool.get("input_schema"), where=f"{where}.input_schema")
    excess = load.excess()
    if excess is not None:
        yield breach("A8", "tools", excess)
    yield from _check_deferred(sent, [tool for _, tool in tools])
    yield from _check_added(sent)


def _check_strict(schema: Json, *, where: str) -> Iterator[Violation]:
    refusal = refuse_strict(schema)
    if refusal is not None:
        yield breach("A8", where, refusal)
    elif not suits_strict(schema):
        message = "strict mode may not take this schema: references and list lengths are limited"
        yield breach("A8", where, message, level="avoid")


def _check_added(sent: Sent) -> Iterator[Violation]:
    """A tool that is defined behind the history keeps to what one in front of it does."""
    for block in (block for turn in sent.turns for block in turn.blocks):
        tool = as_object(as_object(block.body.get("tool")).get("definition"))
        if block.kind != "tool_addition" or not tool:
            continue
        where = f"{block.where}.tool.definition"
        if "name" in tool and not _NAME.fullmatch(as_text(tool.get("name"))):
            yield breach("A6", f"{where}.name", "must match [a-zA-Z0-9_-]{1,64}")
        if "input_schema" in tool:
            yield from _check_schema(tool["input_schema"], where=f"{where}.input_schema")
        elif tool.get("type") in (None, "custom"):
            yield breach("A7", f"{where}.input_schema", "a schema is required")


def _check_schema(schema: Json, *, where: str) -> Iterator[Violation]:
    fields = as_object(schema)
    if fields.get("type") != "object":
        yield breach("A7", f"{where}.type", "must be 'object'")
    for union in ROOT_UNIONS:
        if union in fields:
            yield breach("A7", f"{where}.{union}", "no union at the root of a schema")
    for older in older_keywords(schema):
        yield breach("A33", where, f"a schema keeps to the draft of 2020: {older}")
    for name in refused_names(schema):
        place = f"{where}.properties[{shown(name)}]"
        yield breach("A32", place, "a parameter's name must match [a-zA-Z0-9_.-]{1,64}")


def _check_examples(tool: JsonObject, *, where: str) -> Iterator[Violation]:
    """Check that examples suit the schema, as far as that can be told."""
    schema = {"type": "object", **as_object(tool.get("input_schema"))}
    for index, example in enumerate(as_array(tool.get("input_examples"))):
        objection = next(objections_to_example(example, schema), None)
        if objection is not None:
            message = f"an example must suit the schema: {objection}"
            yield breach("A7", f"{where}[{index}]", message)


def _check_deferred(sent: Sent, tools: list[dict[str, Json]]) -> Iterator[Violation]:
    if tools and all(tool.get("defer_loading") is True for tool in tools):
        yield breach("A20", "tools", "at least one tool must not be deferred")
    offered = {as_text(tool.get("name")) for tool in tools}
    has_open_sources = any(as_text(tool.get("type")).startswith("mcp") for tool in tools)
    if has_open_sources or sent.payload.get("mcp_servers"):
        return
    for block in (block for turn in sent.turns for block in turn.blocks):
        change = as_object(block.body.get("tool"))
        definition = as_object(change.get("definition"))
        if block.kind == "tool_addition" and definition:
            offered.add(as_text(definition.get("name")))
        elif block.kind in ("tool_result", "tool_addition", "tool_removal"):
            for found in (*walk_objects(block.body.get("content")), change):
                name = as_text(found.get("tool_name") or found.get("name"))
                if found.get("type") == "tool_reference" and name not in offered:
                    yield breach("A20", block.where, f"tool {name!r} is not declared")


def check_tool_choice(sent: Sent) -> Iterator[Violation]:
    """A6, A18: a forced tool is offered, and the model lets itself be forced."""
    choice = as_object(sent.payload.get("tool_choice"))
    mode = choice.get("type")
    if mode not in ("any", "tool"):
        return
    tools = [tool for _, tool in objects_in(sent.payload.get("tools"))]
    name = as_text(choice.get("name"))
    if not tools and not sent.payload.get("mcp_servers"):
        yield breach("A6", "tool_choice", "a call is forced, but no tool is offered")
    elif mode == "tool" and name not in {as_text(tool.get("name")) for tool in tools}:
        yield breach("A6", "tool_choice.name", f"tool {name!r} is not offered")
    if sent.limits is not None and sent.limits.features.get("forced_tools") is False:
        yield breach("A18", "tool_choice", "the model takes no forced tool choice")
    if sent.thinking_type == "enabled":
        yield breach("A18", "tool_choice", "no forced tool choice with a thinking budget")


def check_sampling(sent: Sent) -> Iterator[Violation]:
    """A14: sampling parameters by API version, model and thinking."""
    given = [name for name in _SAMPLING if sent.payload.get(name) is not None]
    if sent.api_version >= VERSION_WITHOUT_SAMPLING:
        for name in given:
            yield breach("A14", name, f"not taken since API version {VERSION_WITHOUT_SAMPLING}")
        return
    temperature = as_number(sent.payload.get("temperature"))
    if temperature is not None and not 0 <= temperature <= MAX_TEMPERATURE:
        yield breach("A14", "temperature", "must be between 0 and 1")
    limits = sent.limits
    for name in given:
        is_default = name != "top_k" and sent.payload[name] == 1
        if limits is not None and limits.parameters.temperature == "never" and not is_default:
            yield breach("A14", name, "the model takes default sampling only")
        elif sent.thinking_type == "enabled" and name != "top_p" and not is_default:
            yield breach("A14", name, "not taken while the model thinks")
    has_both = "temperature" in given and "top_p" in given
    if has_both and limits is not None and not limits.parameters.accepts_top_p_with_temperature:
        yield breach("A14", "top_p", "not taken together with temperature", level="avoid")


def check_thinking(sent: Sent) -> Iterator[Violation]:
    """A15: how the model may be asked to think."""
    thinking = as_object(sent.payload.get("thinking"))
    if sent.thinking_type == "enabled":
        yield from _check_budget(sent, thinking)
        yield from _check_loop(sent)
    if not thinking or sent.limits is None or not sent.limits.thinking.kinds:
        return
    kinds, disable = sent.limits.thinking.kinds, sent.limits.thinking.disable
    effort = as_object(sent.payload.get("output_config")).get("effort")
    is_highest = isinstance(effort, str) and effort in _HIGHEST_LEVELS
    wrong = {
        "enabled": "budget" not in kinds,
        "adaptive": "adaptive" not in kinds,
        "disabled": disable in ("no", "between_tools")
        or (disable == "effort_up_to_high" and is_highest),
        "between_tools": disable != "between_tools" or is_highest,
    }
    if wrong.get(sent.thinking_type):
        yield breach("A15", "thinking.type", f"the model refuses {sent.thinking_type!r}")


def _check_budget(sent: Sent, thinking: dict[str, Json]) -> Iterator[Violation]:
    budget, reply = thinking.get("budget_tokens"), as_number(sent.payload.get("max_tokens"))
    where = "thinking.budget_tokens"
    if not isinstance(budget, int) or budget < _LEAST_BUDGET_TOKENS:
        yield breach("A15", where, f"must be at least {_LEAST_BUDGET_TOKENS:,}")
    elif reply is not None and budget >= reply and not sent.has_betas:
        yield breach("A15", where, "must be less than max_tokens")


def _check_loop(sent: Sent) -> Iterator[Violation]:
    """With a budget, the assistant turn that opened the tool loop in flight begins with thinking."""
    opening = None
    for turn in sent.turns:
        if turn.role == "assistant":
            opening = opening or turn
        elif any(block.kind != "tool_result" for block in turn.blocks):
            opening = None
    if opening is None or not any(block.kind == "tool_use" for block in opening.blocks):
        return
    first = next(block for block in opening.blocks if block.kind != COMPACTION_TYPE)
    if first.kind not in THINKING_TYPES:
        yield breach("A15", first.where, "must begin with a thinking block")


def check_reply_settings(sent: Sent) -> Iterator[Violation]:
    """A16, A23, A24, A27, A28, A31: length, effort, stop sequences, thinking in final position."""
    limits, max_tokens = sent.limits, as_number(sent.payload.get("max_tokens"))
    most = limits.output_tokens if limits is not None and not sent.has_betas else None
    if most is not None and max_tokens is not None and max_tokens > most:
        yield breach("A23", "max_tokens", f"the model's most is {most:,}")
    yield from _check_length_unstreamed(sent)
    effort = as_object(sent.payload.get("output_config")).get("effort")
    if limits is not None and isinstance(effort, str) and effort not in limits.thinking.levels:
        level = level_if(bool(limits.thinking.levels))
        yield breach("A27", "output_config.effort", f"not a level: {effort!r}", level=level)
    for index, stop in enumerate(as_array(sent.payload.get("stop_sequences"))):
        if not as_text(stop).strip():
            yield breach("A28", f"stop_sequences[{index}]", "must not be blank")
    if max_tokens == 0:
        yield from _check_prewarming(sent)
    last = sent.turns[-1] if sent.turns else None
    if last is not None and last.role == "assistant" and _is_idle(sent):
        for block in last.blocks:
            if block.kind in THINKING_TYPES:
                message = "no thinking in a final assistant message while thinking is off"
                yield breach("A16", block.where, message)


def _check_length_unstreamed(sent: Sent) -> Iterator[Violation]:
    """A31: long replies are streamed, or `messages.create` of the SDK raises."""
    max_tokens = as_number(sent.payload.get("max_tokens"))
    is_whole = not sent.payload.get("stream") and sent.payload.get("timeout") is None
    if is_whole and max_tokens is not None and max_tokens > MAX_WHOLE_TOKENS:
        message = f"above {MAX_WHOLE_TOKENS:,} tokens messages.create needs stream or a timeout"
        yield breach("A31", "max_tokens", message, level="avoid")


def _is_idle(sent: Sent) -> bool:
    """Whether thinking is off: by request, or on models that think only when asked to."""
    is_on_demand = sent.limits is not None and "budget" in sent.limits.thinking.kinds
    return sent.thinking_type == "disabled" or (not sent.thinking_type and is_on_demand)


def _check_prewarming(sent: Sent) -> Iterator[Violation]:
    config = as_object(sent.payload.get("output_config"))
    forced = as_object(sent.payload.get("tool_choice")).get("type") in ("any", "tool")
    for is_set, where in (
        (sent.payload.get("stream") is True, "stream"),
        (sent.thinking_type == "enabled", "thinking"),
        (bool(config.get("format")), "output_config.format"),
        (forced, "tool_choice"),
    ):
        if is_set:
            yield breach("A24", where, "not taken with max_tokens 0")
