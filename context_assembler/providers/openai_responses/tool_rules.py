"""Rules on tools and on the choice of one."""

from collections.abc import Iterator

from context_assembler.providers.openai_responses.dialect import NAME_RULE
from context_assembler.providers.openai_responses.rule_book import Sent, breach, breaches
from context_assembler.values.openai.flaws import schema_flaws, strict_flaws
from context_assembler.values.openai.parameters import MAX_TOOLS
from context_assembler.values.parts import Json
from context_assembler.values.reading import as_array, as_object, as_text, objects_in
from context_assembler.values.report import Violation


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
    if not NAME_RULE.allows(as_text(tool.get("name"))):
        yield breach("R7", f"{where}.name", f"must match {NAME_RULE.pattern.pattern}")
    schema, place = tool.get("parameters"), f"{where}.parameters"
    is_strict = tool.get("strict") is True
    yield from breaches("R7", schema_flaws(schema, where=place, is_openai=sent.is_openai))
    strict = strict_flaws(schema, where=place, is_strict=is_strict, is_openai=sent.is_openai)
    yield from breaches("R18", strict)
    if "strict" not in tool:
        message = "is tried where it is not told; tell it"
        yield breach("R18", f"{where}.strict", message, level="avoid")


def check_format(sent: Sent) -> Iterator[Violation]:
    """R18: the schema of the answer is one that is enforced."""
    asked = as_object(as_object(sent.payload.get("text")).get("format"))
    flaws = strict_flaws(
        asked.get("schema"),
        where="text.format.schema",
        is_strict=asked.get("strict") is True,
        is_openai=sent.is_openai,
    )
    yield from breaches("R18", flaws)


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
