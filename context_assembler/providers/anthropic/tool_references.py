"""Recorded changes of tools that name a tool which is not declared now.

A session that was recorded elsewhere may tell of tools coming and going that this call does not have.

Source:
    types of the anthropic package 2.14, BetaRequestToolAdditionBlockParam (read 2026-11-28): a
    reference names a declared tool, or one that was defined before it
"""

from collections.abc import Iterator, Sequence
from typing import Final

from context_assembler.providers.anthropic.blocks import PROVIDER
from context_assembler.providers.anthropic.tool_changes import CHANGE_TYPES
from context_assembler.providers.anthropic.units import offered_names, tool_names
from context_assembler.values.adapting import Change, Judge
from context_assembler.values.draft import Draft
from context_assembler.values.messages import Message, Role
from context_assembler.values.parts import JsonObject, Opaque, ResultPart
from context_assembler.values.reading import as_object, as_text

RULE: Final = "content.undeclared"
_REASON: Final = "A change of tools is told in words: the tool that it names is not declared."


def judge_undeclared(draft: Draft) -> Judge:
    """Return the judge of changes that refer to a tool which this request does not have.

    Where a server of the provider brings tools, nobody here knows which: those stay.
    """
    strangers = () if _has_open_sources(draft) else tuple(_strangers(draft))

    def judge(part: ResultPart, _role: Role) -> Change | None:
        if not any(part is stranger for stranger in strangers) or not isinstance(part, Opaque):
            return None
        kind, name = as_text(part.block.get("type")), _referred(part.block)
        words = part.text or f"[{kind.replace('_', ' ')}: {name}]"
        return Change(text=words, decision="repaired", rule=RULE, reason=_REASON)

    return judge


def _strangers(draft: Draft) -> Iterator[Opaque]:
    changes = list(_changes(draft.messages))
    if not changes:
        return
    known = set(offered_names(draft, tool_names(draft)))
    for part in changes:
        definition = as_object(as_object(part.block.get("tool")).get("definition"))
        if definition:
            known.add(as_text(definition.get("name")))
        elif _referred(part.block) not in known:
            yield part


def _changes(messages: Sequence[Message]) -> Iterator[Opaque]:
    parts = (part for message in messages for part in message.parts)
    own = (part for part in parts if isinstance(part, Opaque) and part.provider == PROVIDER)
    return (part for part in own if as_text(part.block.get("type")) in CHANGE_TYPES)


def _referred(block: JsonObject) -> str:
    tool = as_object(block.get("tool"))
    return as_text(tool.get("tool_name") or tool.get("name"))


def _has_open_sources(draft: Draft) -> bool:
    specs = (tool.native_specs.get(PROVIDER, {}) for tool in draft.tools)
    return any(as_text(spec.get("type")).startswith("mcp") for spec in specs)
