"""Blocks of the API's own that say nothing: it returns them, and refuses to take them back."""

from dataclasses import replace
from typing import Final

from context_assembler.errors.base import with_article
from context_assembler.providers.anthropic.blocks import PROVIDER
from context_assembler.values.adapting import Change
from context_assembler.values.compactions import COMPACTION_TYPE
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.messages import Role
from context_assembler.values.parts import Json, JsonObject, Opaque, ResultPart
from context_assembler.values.reading import as_object

_HOLDS_TEXTS: Final = frozenset({"document", "search_result"})
_RULE: Final = "content.blank"


def judge_blank(part: ResultPart, _role: Role) -> Change | None:
    """Leave out what is blank: text with citations, what stands in a document, a compaction.

    Source:
        https://github.com/anthropics/claude-code/issues/59812 (read 2026-11-27)
        types of the anthropic package 2.14, BetaCompactionBlockParam: "Empty string content is not
        allowed"; a compaction that failed has null for it, and is taken (read 2026-11-27)
    """
    if not isinstance(part, Opaque) or part.provider != PROVIDER:
        return None
    told = _without_blanks(part.block)
    if told == part.block:
        return None
    kind = part.block.get("type")
    if told is None:
        reason = f"{with_article(str(kind), begins_sentence=True)} block is left out: it is blank, which is refused."
        return Change(text="", decision="dropped", rule=_RULE, reason=reason)
    reason = f"Blank text in {with_article(str(kind))} block is left out: it is refused."
    parts = (replace(part, block=told),)
    return Change(text="", decision="repaired", rule=_RULE, reason=reason, parts=parts)


def _without_blanks(block: JsonObject) -> JsonObject | None:
    """Return the block without blank texts; `None` where nothing of it is left."""
    kind = block.get("type")
    if kind == "text":
        return None if _is_blank(block.get("text")) else block
    if kind == COMPACTION_TYPE:
        return None if _is_blank(block.get("content")) else block
    if kind not in _HOLDS_TEXTS:
        return block
    source = block.get("source")
    if is_object(source) and source.get("type") == "content":
        inner = _kept(source.get("content"))
        return None if not inner else {**block, "source": {**as_object(source), "content": inner}}
    if "content" not in block:
        return block
    inner = _kept(block["content"])
    return {**block, "content": inner} if inner else None


def _kept(content: Json) -> Json:
    if not is_array(content):
        return None if _is_blank(content) else content
    blocks = [_without_blanks(inner) if is_object(inner) else inner for inner in content]
    return [inner for inner in blocks if inner is not None]


def _is_blank(value: Json) -> bool:
    return isinstance(value, str) and not value.strip()
