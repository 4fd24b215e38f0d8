"""Rules on tools, on the choice of one, and on schemas."""

from collections.abc import Iterator

from context_assembler.providers.openai_chat.dialect import NAME_RULE
from context_assembler.providers.openai_chat.rule_book import Sent, breach, breaches
from context_assembler.values.openai.flaws import schema_flaws, strict_flaws
from context_assembler.values.openai.parameters import MAX_TOOLS
from context_assembler.values.parts import Json
from context_assembler.values.reading import as_object, as_text, objects_in
from context_assembler.values.report import Violation


def check_tools(sent: Sent) -> Iterator[Violation]:
    """C6, C7, C8: number, names and schemas."""
    tools = list(objects_in(sent.payload.get("tools")))
    if len(tools) > MAX_TOOLS and sent.is_openai:
        yield breach("C6", "tools", f"{len(tools)} tools, at most {MAX_TOOLS} are taken")
    old = list(objects_in(sent.payload.get("functions")))
    placed = [
        (f"tools[{index}].{kind}", as_object(tool.get(kind)))
        for index, tool in tools
        if (kind := as_text(tool.get("type"))) in ("function", "custom")
    ]
    placed += [(f"functions[{index}]", function) for index, function in old]
    names: set[str] = set()
    for where, function in placed:
        name = as_text(function.get("name"))
        if not NAME_RULE.allows(name):
            yield breach("C7", f"{where}.name", f"must match {NAME_RULE.pattern.pattern}")
        if name in names:
            yield breach("C7", f"{where}.name", f"{name!r} is taken", level="avoid")
        names.add(name)
        yield from _check_schema(sent, function, where=where)


def _check_schema(sent: Sent, function: dict[str, Json], *, where: str) -> Iterator[Violation]:
    schema, place = function.get("parameters"), f"{where}.parameters"
    is_strict = function.get("strict") is True
    yield from breaches("C8", schema_flaws(schema, where=place, is_openai=sent.is_openai))
    strict = strict_flaws(schema, where=place, is_strict=is_strict, is_openai=sent.is_openai)
    yield from breaches("C8", strict)


def check_format(sent: Sent) -> Iterator[Violation]:
    """C8: the schema of the answer is one that is enforced."""
    asked = as_object(as_object(sent.payload.get("response_format")).get("json_schema"))
    flaws = strict_flaws(
        asked.get("schema"),
        where="response_format.json_schema.schema",
        is_strict=asked.get("strict") is True,
        is_openai=sent.is_openai,
    )
    yield from breaches("C8", flaws)


def check_tool_choice(sent: Sent) -> Iterator[Violation]:
    """C6: choices stand beside tools, and what is chosen is offered."""
    tools = [tool for _, tool in objects_in(sent.payload.get("tools"))]
    choice = sent.payload.get("tool_choice")
    if not tools and sent.is_openai and not sent.payload.get("functions"):
        for name in ("tool_choice", "parallel_tool_calls"):
            if sent.payload.get(name) is not None:
                yield breach("C6", name, "is only taken beside tools")
    chosen = as_object(choice)
    allowed = as_object(chosen.get("allowed_tools")).get("tools")
    offered = {_name_of(tool) for tool in tools}
    for index, tool in objects_in(allowed):
        if _name_of(tool) not in offered:
            where = f"tool_choice.allowed_tools.tools[{index}]"
            yield breach("C6", where, f"tool {_name_of(tool)!r} is not offered")
    target = as_object(chosen.get("function")) or as_object(chosen.get("custom"))
    if target and as_text(target.get("name")) not in offered:
        yield breach("C6", "tool_choice", f"tool {target.get('name')!r} is not offered")


def _name_of(tool: dict[str, Json]) -> str:
    return as_text(as_object(tool.get(as_text(tool.get("type")))).get("name"))
