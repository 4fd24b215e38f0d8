"""Schemas of tools with one plain object at the root, as every provider wants them."""

from collections.abc import Iterator, Sequence
from typing import Final

from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_object, as_text, objects_in
from context_assembler.values.schemas.references import References, UnusableSchemaError
from context_assembler.values.wire import plain_json

# What a schema may say at its root instead of naming properties; the last one joins, the others offer.
ROOT_UNIONS: Final = ("anyOf", "oneOf", "allOf")
MAX_DEPTH: Final = 150
MAX_VALUES: Final = 500_000
# A schema that stands at a second place keeps what others find it by at the first.
_OWN_NAMES: Final = frozenset({"$id", "$anchor", "$dynamicAnchor"})
_BY_NAME: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


def root_object_schema(schema: JsonObject) -> dict[str, Json]:
    """Return the schema with an object at its root, and neither a union nor a reference there.

    Providers refuse a union at the root. Its branches are laid over each other, references and unions
    within them followed: every property of any branch is allowed, as any branch has it, and required
    is what all branches of a choice require. What a reference leads to is joined with what stands
    beside it, which wins where both say something of the same property.

    Raises:
        UnusableSchemaError: References and unions lead too deep, or unfold to too much.

    Source:
        https://github.com/anthropics/claude-code/issues/40075 (read 2026-11-27)
    """
    root = as_object(plain_json(schema))
    return _Flattening(root).flatten(root)


def root_chain(schema: JsonObject) -> Iterator[JsonObject]:
    """Yield the root, what its reference leads to, and so on, each once."""
    references, followed = References(schema), set[str]()
    current: JsonObject | None = schema
    while current is not None:
        yield current
        reference = as_text(current.get("$ref"))
        current = None if reference in followed else references.target_of(reference)
        followed.add(reference)


def has_root_union(schema: JsonObject) -> bool:
    """Whether the root is a union, or refers to one."""
    return any(key in one for one in root_chain(schema) for key in ROOT_UNIONS)


class _Flattening:
    """One walk from the root: what each reference leads to is flattened once, however often it is named."""

    def __init__(self, root: JsonObject) -> None:
        self._references = References(root)
        self._done: dict[str, dict[str, Json]] = {}
        self._values = 0

    def flatten(
        self, schema: JsonObject, *, followed: frozenset[str] = frozenset(), depth: int = 0
    ) -> dict[str, Json]:
        """Return the schema as one object; a reference that leads back to itself leads nowhere."""
        if depth > MAX_DEPTH:
            reason = f"references and unions lead from its root more than {MAX_DEPTH} levels deep"
            raise UnusableSchemaError(reason)
        plain = dict(schema)
        reference = as_text(plain.pop("$ref", None))
        if reference and reference not in followed:
            plain = _joined(self._follow(reference, followed=followed, depth=depth), plain)
        unions = {key: plain.pop(key) for key in ROOT_UNIONS if key in plain}
        plain["type"] = "object"
        plain["properties"] = as_object(plain.get("properties"))
        for key, branches in unions.items():
            flat = [
                self.flatten(branch, followed=followed, depth=depth + 1)
                for _, branch in objects_in(branches)
            ]
            _lay_over(plain, flat, is_choice=key != "allOf")
        return plain

    def _follow(self, reference: str, *, followed: frozenset[str], depth: int) -> dict[str, Json]:
        if reference not in self._done:
            target = self._references.target_of(reference) or {}
            flat = self.flatten(target, followed=followed | {reference}, depth=depth + 1)
            self._count(flat)
            self._done[reference] = flat
        return self._done[reference]

    def _count(self, schema: Json) -> None:
        """Refuse what unfolds without bound: each level may hold the one below it twice."""
        waiting = [schema]
        while waiting:
            self._values += 1
            if self._values > MAX_VALUES:
                reason = f"its references unfold to more than {MAX_VALUES:,} values"
                raise UnusableSchemaError(reason)
            held = waiting.pop()
            waiting.extend(held.values() if is_object(held) else as_array(held))


def _joined(target: JsonObject, own: JsonObject) -> dict[str, Json]:
    """Return what a reference leads to together with what stands beside it."""
    joined = {key: held for key, held in target.items() if key not in _OWN_NAMES} | dict(own)
    for key in _BY_NAME:
        if key in target and key in own:
            joined[key] = as_object(target[key]) | as_object(own[key])
    required = {*_names(target.get("required")), *_names(own.get("required"))}
    if required:
        joined["required"] = sorted(required)
    return joined


def _lay_over(
    schema: dict[str, Json], branches: Sequence[dict[str, Json]], *, is_choice: bool
) -> None:
    if not branches:
        return
    joint = "anyOf" if is_choice else "allOf"
    own = as_object(schema["properties"])
    variants: dict[str, list[Json]] = {}
    for branch in branches:
        for name, one in as_object(branch.get("properties")).items():
            seen = variants.setdefault(name, [])
            told = as_array(one[joint]) if is_object(one) and list(one) == [joint] else [one]
            seen += [variant for variant in told if variant not in seen]
    joined = {name: {joint: all_} if len(all_) > 1 else all_[0] for name, all_ in variants.items()}
    schema["properties"] = joined | own
    demands = [set(_names(branch.get("required"))) for branch in branches]
    shared = set[str].intersection(*demands) if is_choice else set[str].union(*demands)
    added = [name for branch in branches for name in _names(branch.get("required"))]
    required = [*_names(schema.get("required")), *filter(shared.__contains__, added)]
    if required:
        schema["required"] = sorted(set(required))


def _names(value: Json) -> list[str]:
    return [name for name in as_array(value) if isinstance(name, str)]
