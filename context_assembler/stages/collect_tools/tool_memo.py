"""Remembers what each tool's schema is, so that listing it again costs nothing."""

import json
from dataclasses import dataclass, replace

from context_assembler.errors import InvalidToolError
from context_assembler.values.json_shapes import is_object
from context_assembler.values.schemas.tool_schemas import canonical_schema
from context_assembler.values.tools import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOffer:
    """A tool as its source spells it, and what its schema is.

    `raw` sorts tools that share a name; `told` is the same for two tools exactly when a model
    cannot tell them apart, their names aside.
    """

    spec: ToolSpec
    raw: str
    told: str = ""
    repairs: tuple[str, ...] = ()
    problem: InvalidToolError | None = None


class ToolMemo:
    """Remembers each spec's canonical schema, since most sources list the same tools every time.

    Args:
        by_text: Where offers are kept by all that their specs say; memos may share it.
    """

    def __init__(
        self, *, max_entries: int = 4096, by_text: dict[str, ToolOffer] | None = None
    ) -> None:
        self._max_entries = max_entries
        self._by_id: dict[int, tuple[ToolSpec, ToolOffer]] = {}
        self._by_text: dict[str, ToolOffer] = {} if by_text is None else by_text

    def offer_of(self, spec: ToolSpec) -> ToolOffer:
        """Return the offer; a spec that cannot be offered carries its problem."""
        known = self._by_id.get(id(spec))
        if known is not None and known[0] is spec:
            return known[1]
        if max(len(self._by_id), len(self._by_text)) >= self._max_entries:
            self._by_id.clear()
            self._by_text.clear()
        raw = repr(spec)
        offer = self._by_text.get(raw)
        if offer is None:
            offer = self._by_text[raw] = _offer(spec, raw)
        self._by_id[id(spec)] = (spec, offer)
        return offer


def _offer(spec: ToolSpec, raw: str) -> ToolOffer:
    try:
        _refuse_malformed(spec.name, spec.description, spec.native_specs)
        canonical = canonical_schema(spec.input_schema, tool=spec.name)
    except InvalidToolError as problem:
        return ToolOffer(spec=replace(spec, name=problem.name), raw=raw, problem=problem)
    sound = replace(spec, input_schema=canonical.schema)
    return ToolOffer(spec=sound, raw=raw, told=told_text(sound), repairs=canonical.repairs)


def _refuse_malformed(name: object, description: object, natives: object) -> None:
    if not isinstance(name, str) or not isinstance(description, str):
        known = name if isinstance(name, str) else "(unnamed)"
        raise InvalidToolError(known, reason="its name or its description is no text")
    if not is_object(natives) or not all(map(is_object, natives.values())):
        raise InvalidToolError(name, reason="its own shapes are no mapping of providers to objects")


def told_text(spec: ToolSpec) -> str:
    """Return what a model is told of a tool besides its name, as one text to compare."""
    told = [spec.description, spec.input_schema, spec.is_strict, spec.native_specs]
    return json.dumps(told, sort_keys=True, default=repr)
