"""The tools of a request as one provider is offered them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from context_assembler.errors import UnsupportedRequestError
from context_assembler.values.draft import Draft
from context_assembler.values.names import NameRule, respell_names
from context_assembler.values.parts import Json
from context_assembler.values.report import ReportEntry
from context_assembler.values.spelled import facts_of
from context_assembler.values.tool_changes import ToolPlan
from context_assembler.values.tool_forms import root_schema_of
from context_assembler.values.tools import ToolSpec
from context_assembler.values.wire import plain_json


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


def plan_for(draft: Draft, *, provider: str) -> ToolPlan | None:
    """Return how the provider is told of tools that came or went; `None`: it is told of all anew."""
    plan = draft.tool_plan
    return plan if plan is not None and plan.provider == provider else None


def declared_tools(draft: Draft, *, provider: str) -> tuple[ToolSpec, ...]:
    """Return the tools that stand in front of the history for this provider."""
    plan = draft.tool_plan
    if plan is None:
        return draft.tools
    return plan.declared if plan.provider == provider else plan.offered


def known_tools(draft: Draft) -> tuple[ToolSpec, ...]:
    """Return every tool that the draft tells any provider of, for the names they go by."""
    plan = draft.tool_plan
    if plan is None:
        return draft.tools
    return (*draft.tools, *plan.declared, *plan.offered, *plan.added)


def callable_tools(draft: Draft) -> tuple[ToolSpec, ...]:
    """Return the tools that the model may call: those declared, less the withdrawn, with the added.

    Each is what the model was told of, and names the source that offers it in this call.
    """
    plan = draft.tool_plan
    if plan is None:
        return draft.tools
    offered = {tool.name: tool for tool in plan.offered}
    told = {tool.name: tool for tool in (*draft.tools, *plan.added)}
    return tuple(_as_offered(told[name], offered[name]) for name in sorted(told.keys() & offered))


def _as_offered(told: ToolSpec, offered: ToolSpec) -> ToolSpec:
    """Return a tool as the model knows it, to be called where it is offered in this call."""
    return replace(
        told,
        source=offered.source,
        own_name=offered.own_name,
        permission=offered.permission,
        is_safe=offered.is_safe,
    )


def allowed_names(draft: Draft, *, provider: str) -> tuple[str, ...] | None:
    """Return the names of the only tools that may be called, sorted; `None`: all declared ones.

    They are those that the choice names, less what was withdrawn from the provider by the choice.
    """
    choice, plan = draft.parameters.tool_choice, plan_for(draft, provider=provider)
    chosen = choice.allowed if choice is not None else None
    standing = plan.allowed if plan is not None else None
    if chosen is None or standing is None:
        names = standing if chosen is None else chosen
        return None if names is None else tuple(sorted(names))
    return tuple(sorted({*chosen} & {*standing}))


def drop_allowed(draft: Draft, *, api: str) -> tuple[Draft, list[ReportEntry]]:
    """Return the draft without a choice among some of the tools, which the API does not know.

    Args:
        api: Who does not, for people.
    """
    choice = draft.parameters.tool_choice
    if choice is None or choice.allowed is None:
        return draft, []
    row = ReportEntry(
        kind="note",
        id="allowed_tools",
        decision="dropped",
        reason=f"{api} cannot be told which of the tools alone may be called.",
        rule="parameter.allowed_tools",
    )
    parameters = replace(draft.parameters, tool_choice=replace(choice, allowed=None))
    return replace(draft, parameters=parameters), [row]


def wire_names(
    draft: Draft, *, rule: NameRule, native_names: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the name of every tool, offered or called, with the one that goes over the wire.

    They are one to one, so that a reply reads back.

    Args:
        rule: What the provider takes.
        native_names: Names that the provider's own tools go by, whatever the rule says.
    """
    native = dict(native_names or {})
    own = (tool.name for tool in known_tools(draft) if not tool.native_specs)
    called = facts_of(draft.messages, draft.spelled).called
    return respell_names({*own, *called} - native.keys(), rule=rule) | native


def check_forced(draft: Draft, *, provider: str, has_tools: bool) -> None:
    """Refuse a forced call that the provider could not make.

    Args:
        has_tools: Whether any tool is sent.

    Raises:
        UnsupportedRequestError: The tool that must be called is not offered, or none is.
    """
    choice = draft.parameters.tool_choice
    offered = {tool.name for tool in draft.tools if is_offered(tool, provider=provider)}
    if choice is not None and choice.name is not None and choice.name not in offered:
        raise UnsupportedRequestError(
            f"tool_choice names {choice.name!r}, which is not offered",
            provider=provider,
            model=draft.limits.id,
            remedy="Name one of the tools, or use mode 'auto'.",
        )
    if not has_tools:
        raise UnsupportedRequestError(
            "a call is forced, but no tool is offered",
            provider=provider,
            model=draft.limits.id,
            remedy="Add a tool.",
        )


def forced_name(draft: Draft) -> str | None:
    """Return the name of the tool that must be called; `None` where none must."""
    choice = draft.parameters.tool_choice
    return choice.name if choice is not None else None


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


def leave_out_surplus(
    tools: Iterable[ToolSpec], *, most: int, forced: str | None, api: str
) -> tuple[list[ToolSpec], list[ReportEntry]]:
    """Return as many tools as are taken, the first ones, and a row for every other one.

    Args:
        forced: The name of the tool that must be called; it stays, wherever it stands.
        api: Who takes no more, for people.
    """
    offered = list(tools)
    places = sorted(range(len(offered)), key=lambda place: offered[place].name != forced)
    kept = frozenset(places[:most])
    rows = [
        ReportEntry(
            kind="tool",
            id=tool.name,
            decision="dropped",
            reason=f"{api} takes at most {most} tools, in their order.",
            rule="tool.count",
        )
        for place, tool in enumerate(offered)
        if place not in kept
    ]
    return [offered[place] for place in sorted(kept)], rows


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
        objection = object_to(root_schema_of(tool)) if asks else None
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
