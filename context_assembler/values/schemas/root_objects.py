"""Schemas of tools with one plain object at the root, as every provider wants them."""

from collections.abc import Sequence
from typing import Final

from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_object, objects_in
from context_assembler.values.wire import plain_json

# What a schema may say at its root instead of naming properties; the last one joins, the others offer.
ROOT_UNIONS: Final = ("anyOf", "oneOf", "allOf")


def root_object_schema(schema: JsonObject) -> dict[str, Json]:
    """Return the schema with an object at its root, and neither a union nor a reference there.

    Providers refuse a union at the root. Its branches are laid over each other, references and unions
    within them followed: every property of any branch is allowed, as any branch has it, and required
    is what all branches of a choice require.

    Source:
        https://github.com/anthropics/claude-code/issues/40075 (read 2026-11-27)
    """
    root = as_object(plain_json(schema))
    return _Flattening(root).flatten(root, followed=frozenset())


def has_root_union(schema: JsonObject) -> bool:
    """Whether the root is a union, or refers to one."""
    root, followed = schema, set[str]()
    while is_object(root):
        if any(key in root for key in ROOT_UNIONS):
            return True
        reference = root.get("$ref")
        if not isinstance(reference, str) or reference in followed:
            return False
        followed.add(reference)
        root = _target(reference, root=schema)
    return False


class _Flattening:
    """One walk from the root: what each reference leads to is flattened once, however often it is named."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._done: dict[str, dict[str, Json]] = {}

    def flatten(self, schema: JsonObject, *, followed: frozenset[str]) -> dict[str, Json]:
        """Return the schema as one object; a reference that leads back to itself leads nowhere."""
        plain = dict(schema)
        reference = plain.pop("$ref", None)
        if isinstance(reference, str) and reference not in followed:
            plain = {**self._follow(reference, followed=followed), **plain}
        unions = {key: plain.pop(key) for key in ROOT_UNIONS if key in plain}
        plain["type"] = "object"
        plain["properties"] = as_object(plain.get("properties"))
        for key, branches in unions.items():
            flat = [self.flatten(branch, followed=followed) for _, branch in objects_in(branches)]
            _lay_over(plain, flat, is_choice=key != "allOf")
        return plain

    def _follow(self, reference: str, *, followed: frozenset[str]) -> dict[str, Json]:
        if reference not in self._done:
            target = _target(reference, root=self._root)
            self._done[reference] = self.flatten(target, followed=followed | {reference})
        return self._done[reference]


def _target(reference: str, *, root: JsonObject) -> JsonObject:
    """Return what a reference within the schema points to; nothing for any other."""
    found: Json = root if reference.startswith("#") else {}
    for step in reference[1:].split("/")[1:]:
        found = as_object(found).get(step.replace("~1", "/").replace("~0", "~"))
    return as_object(found)


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
