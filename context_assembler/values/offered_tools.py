"""The tools of a request as one provider is offered them."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from context_assembler.values.parts import Json
from context_assembler.values.report import ReportEntry
from context_assembler.values.tools import ToolSpec
from context_assembler.values.wire import plain_json, root_object_schema


def spell_tools(
    tools: Iterable[ToolSpec], *, provider: str, spell: Callable[[ToolSpec], dict[str, Json]]
) -> list[dict[str, Json]]:
    """Return the tools in their order: the provider's own verbatim, the others as `spell` says.

    Tools of other providers alone do not exist here.
    """
    return [
        spell(tool) if not tool.native_specs else plain_json(tool.native_specs[provider])
        for tool in tools
        if is_offered(tool, provider=provider)
    ]


def is_offered(tool: ToolSpec, *, provider: str) -> bool:
    """Whether the provider can be offered the tool."""
    return not tool.native_specs or provider in tool.native_specs


def leave_out_foreign(
    tools: Iterable[ToolSpec], *, provider: str
) -> tuple[list[ToolSpec], list[ReportEntry]]:
    """Return the tools that the provider can be offered, and a row for every other one."""
    kept: list[ToolSpec] = []
    rows: list[ReportEntry] = []
    for tool in tools:
        if is_offered(tool, provider=provider):
            kept.append(tool)
        else:
            owners = ", ".join(sorted(tool.native_specs))
            reason = f"It exists for {owners} alone."
            rows.append(
                ReportEntry(
                    kind="tool", id=tool.name, decision="dropped", reason=reason, rule="tool.native"
                )
            )
    return kept, rows


def leave_strict(
    tools: Iterable[ToolSpec], *, object_to: Callable[[Json], str | None]
) -> tuple[list[ToolSpec], list[ReportEntry]]:
    """Return the tools, those not strict any more whose schema cannot be enforced, with a row each.

    Args:
        object_to: Says why strict mode does not take a schema as it is sent; asked for one strict
            tool after the other, in their order.
    """
    settled: list[ToolSpec] = []
    rows: list[ReportEntry] = []
    for tool in tools:
        asks = bool(tool.is_strict) and not tool.native_specs
        objection = object_to(root_object_schema(tool.input_schema)) if asks else None
        if objection is None:
            settled.append(tool)
            continue
        settled.append(replace(tool, is_strict=False))
        rows.append(
            ReportEntry(
                kind="tool",
                id=tool.name,
                decision="repaired",
                reason=f"It is offered without strict mode: {objection}.",
                rule="tool.strict",
            )
        )
    return settled, rows
