"""Rules on tools and on the choice of one."""

import re
from collections.abc import Iterator
from typing import Final

from context_assembler.providers.openai_responses.rule_book import Sent, breach
from context_assembler.providers.openai_responses.settings import MAX_TOOLS
from context_assembler.values.breaches import level_if
from context_assembler.values.parts import Json
from context_assembler.values.reading import as_array, as_object, as_text, objects_in
from context_assembler.values.report import Violation
from context_assembler.values.schemas.root_objects import ROOT_UNIONS
from context_assembler.values.schemas.strict_schemas import object_to_strict

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def check_tools(sent: Sent) -> Iterator[Violation]:
    """R7, R18: number, names, shapes and schemas."""
    declared = [(f"tools[{i}]", tool) for i, tool in objects_in(sent.payload.get("tools"))]
    tools = [*declared, *_added_tools(sent)]
    if len(tools) > MAX_TOOLS and sent.is_openai:
        yield breach("R7", "tools", f"{len(tools)} tools, at most {MAX_TOOLS} are taken")
    names: set[str] = set()
    for where, tool in tools:
        kind = as_text(tool.get("type"))
        if not kind:
            yield breach("R7", f"{where}.type", "is missing")
        if kind == "file_search" and not as_array(tool.get("vector_store_ids")):
            yield breach("R7", f"{where}.vector_store_ids", "is required")
        if kind != "function":
            continue
        name = as_text(tool.get("name"))
        if name in names:
            yield breach("R7", f"{where}.name", f"{name!r} is taken", level="avoid")
        names.add(name)
        yield from _check_function(sent, tool, where=where)


def _added_tools(sent: Sent) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield the tools that are added behind the history, with their places."""
    for entry in sent.items:
        if entry.kind == "additional_tools":
            for index, tool in objects_in(entry.fields.get("tools")):
                yield f"{entry.where}.tools[{index}]", tool


def _check_function(sent: Sent, tool: dict[str, Json], *, where: str) -> Iterator[Violation]:
    if as_object(tool.get("function")):
        yield breach("R7", f"{where}.function", "name and parameters stand beside the type")
    if not _NAME.fullmatch(as_text(tool.get("name"))):
        yield breach("R7", f"{where}.name", f"must match {_NAME.pattern}")
    parameters = tool.get("parameters")
    yield from _check_schema(sent, parameters, where=f"{where}.parameters")
    objection = object_to_strict(parameters)
    if tool.get("strict") is True and objection is not None:
        message = f"strict mode does not take this schema: {objection}"
        level = level_if(sent.is_openai)
        yield breach("R18", f"{where}.parameters", message, level=level)
    if "strict" not in tool:
        message = "is tried where it is not told; tell it"
        yield breach("R18", f"{where}.strict", message, level="avoid")


def _check_schema(sent: Sent, schema: Json, *, where: str) -> Iterator[Violation]:
    fields = as_object(schema)
    level = level_if(sent.is_openai)
    if fields and fields.get("type") != "object":
        yield breach("R7", f"{where}.type", "must be 'object'", level=level)
    for union in ROOT_UNIONS:
        if union in fields:
            yield breach("R7", f"{where}.{union}", "no union at the root", level=level)


def check_format(sent: Sent) -> Iterator[Violation]:
    """R18: the schema of the answer is one that is enforced."""
    asked = as_object(as_object(sent.payload.get("text")).get("format"))
    objection = object_to_strict(asked.get("schema"))
    if asked.get("strict") is True and objection is not None:
        message = f"strict mode does not take this schema: {objection}"
        yield breach("R18", "text.format.schema", message, level=level_if(sent.is_openai))


def check_tool_choice(sent: Sent) -> Iterator[Violation]:
    """R16: what is chosen is offered."""
    choice = sent.payload.get("tool_choice")
    tools = [tool for _, tool in objects_in(sent.payload.get("tools"))]
    tools += [tool for entry in sent.items for _, tool in objects_in(entry.fields.get("tools"))]
    if choice == "required" and not tools and not sent.has_state and sent.is_openai:
        yield breach("R16", "tool_choice", "a call is required, but no tool is offered")
    fields = as_object(choice)
    if fields.get("type") == "allowed_tools":
        for index, tool in objects_in(fields.get("tools")):
            if not _is_offered(tool, tools):
                where = f"tool_choice.tools[{index}]"
                yield breach("R16", where, f"tool {tool.get('name')!r} is not offered")
    elif fields.get("type") in ("function", "custom") and not _is_offered(fields, tools):
        yield breach("R16", "tool_choice", f"tool {fields.get('name')!r} is not offered")


def _is_offered(chosen: dict[str, Json], tools: list[dict[str, Json]]) -> bool:
    """Whether one of the tools is the one chosen: of its kind and, where it has one, its name."""
    return any(
        tool.get("type") == chosen.get("type") and chosen.get("name") in (None, tool.get("name"))
        for tool in tools
    )
