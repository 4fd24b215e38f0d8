"""The registry of models: model_limits.yaml, ids as people write them, overrides, lifecycle."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final, Unpack, get_args

from context_assembler.errors import RegistryError, UnknownModelError, nearest
from context_assembler.limits.assumed import assume_limits, may_be_related
from context_assembler.limits.files import (
    LimitFile,
    ModelFields,
    merge_rows,
    read_bundled_file,
    read_user_file,
    row_from_fields,
)
from context_assembler.limits.ids import Spelling, plainest_spelling, spellings
from context_assembler.limits.learned import learn_from_error
from context_assembler.limits.lifecycle import lifecycle_notes, lifecycle_warnings, price_at
from context_assembler.limits.places import override_paths, read_registry_text
from context_assembler.limits.rows import read_row
from context_assembler.limits.schema import KNOWN_FEATURES, Row
from context_assembler.resources import bundled_path
from context_assembler.values.given import check_known, check_type
from context_assembler.values.limits import ModelLimits
from context_assembler.values.options import UnknownModelPolicy
from context_assembler.values.parts import Json, JsonObject

__all__ = [
    "FEATURE_SYNONYMS",
    "KNOWN_FEATURES",
    "ModelFields",
    "ModelRegistry",
    "default_registry",
    "get_model_limits",
    "learn_from_error",
    "lifecycle_notes",
    "lifecycle_warnings",
    "override_paths",
    "price_at",
    "register_model",
    "supports_feature",
]

FEATURE_SYNONYMS: Final[Mapping[str, str]] = {
    "caching": "prompt_cache",
    "documents": "pdf",
    "function_calling": "tools",
    "images": "vision",
    "parallel_tool_calls": "parallel_tools",
    "prompt_caching": "prompt_cache",
    "reasoning": "thinking",
    "tool_use": "tools",
}

_MAX_ANSWERS: Final = 1_000
_NOT_INHERITED: Final = ("aliases", "api_id", "extends")


class ModelRegistry:
    """What is known about models: the bundled file, with the user's own files laid over it.

    Nothing is read before the first question. Safe to use from several threads.

    Args:
        bundled: The file to start from; by default the one that travels with the package.
        overrides: The user's files, the strongest first; by default those of `override_paths`.
    """

    def __init__(
        self, *, bundled: Path | None = None, overrides: Sequence[Path] | None = None
    ) -> None:
        self._bundled = bundled
        self._overrides = overrides
        self._registered = LimitFile(name="register_model()")
        self._files: list[LimitFile] = []
        self._names: dict[str, tuple[str, str]] = {}
        self._rows: dict[tuple[str, str | None], ModelLimits] = {}
        self._answers: dict[tuple[str, UnknownModelPolicy], ModelLimits] = {}
        self._lock = threading.RLock()

    def get(self, model_id: str, *, unknown: UnknownModelPolicy = "error") -> ModelLimits:
        """Return the limits of a model, whatever prefix, date or case its id is written with.

        Args:
            unknown: With `conservative` an unknown model gets small safe limits, flagged
                `is_assumed`.

        Raises:
            UnknownModelError: No row answers to the id, and `unknown` is `error`.
            RegistryError: The row breaks the schema.
        """
        check_type("model_id", model_id, str, such_as="a model's id, such as 'gpt-4.1'")
        check_known(unknown, get_args(UnknownModelPolicy), kind="policy for unknown models")
        with self._lock:
            answer = self._answers.get((model_id, unknown)) or self._find(model_id)
            if answer is None and unknown == "conservative" and model_id.strip():
                related = [i for i in self.ids() if may_be_related(model_id, i)]
                answer = assume_limits(model_id, map(self._row, related))
            if answer is None:
                name = plainest_spelling(model_id).name
                raise UnknownModelError(model_id, known=self._index(), row_id=name)
            if len(self._answers) < _MAX_ANSWERS:
                self._answers[model_id, unknown] = answer
            return answer

    def supports_feature(self, model_id: str, feature: str) -> bool:
        """Whether the model is known to have the feature; `FEATURE_SYNONYMS` are understood.

        Raises:
            UnknownModelError: No row answers to the id.
        """
        check_type("feature", feature, str, such_as="a feature, such as 'tools'")
        return self.get(model_id).supports(FEATURE_SYNONYMS.get(feature, feature))

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all rows, in order of the files."""
        with self._lock:
            return tuple(row_id for row_id, name in self._index().values() if row_id == name)

    def rows(self) -> Iterator[ModelLimits]:
        """Yield every row, in order of the files."""
        for model_id in self.ids():
            yield self._row(model_id)

    def origins(self, model_id: str) -> dict[str, str]:
        """Return the file behind each field (dotted path) of the model's row."""
        return {path: file for path, _, file in self.fields(model_id)}

    def fields(self, model_id: str) -> list[tuple[str, Json, str]]:
        """Return the model's row field by field: dotted path, value, and file.

        Where the id names a host that sees a field otherwise, that is the field.
        """
        with self._lock:
            limits = self.get(model_id)
            return list(self._merged(limits.id).seen_by(limits.host).leaves())

    def sources(self) -> dict[str, str]:
        """Return what the codes in `ModelLimits.sources` stand for."""
        with self._lock:
            return {code: text for file in self._sources() for code, text in file.sources().items()}

    def problems(self) -> list[RegistryError]:
        """Return what is wrong with the rows, each read for every host that it names."""
        found: list[RegistryError] = []
        for model_id in self.ids():
            try:
                for host in (None, *self._merged(model_id).hosts()):
                    self._row(model_id, host)
            except RegistryError as error:
                found.append(error)
        return found

    def register(self, model_id: str, **fields: Unpack[ModelFields]) -> ModelLimits:
        """Add a model, or change one, for the life of this registry, and return its limits.

        Raises:
            RegistryError: The result breaks the schema; nothing is registered then.
        """
        check_type("model_id", model_id, str, such_as="the id of the model")
        change = row_from_fields(fields)
        with self._lock:
            before = dict(self._registered.rows)
            earlier = before.get(model_id) or {}
            self._registered.rows[model_id] = merge_rows(earlier, change, keeps_none=True)
            self._forget()
            try:
                self._row(model_id)
                return self.get(model_id)
            except Exception:
                self._registered.rows.clear()
                self._registered.rows.update(before)
                self._forget()
                raise

    def _forget(self) -> None:
        self._names, self._rows, self._answers = {}, {}, {}

    def _sources(self) -> list[LimitFile]:
        """Return everything rows come from, the weakest first."""
        if not self._files:
            path = self._bundled or bundled_path("model_limits.yaml")
            files = [read_bundled_file(str(path), read_registry_text(path))]
            paths = override_paths() if self._overrides is None else self._overrides
            self._files = files + [
                read_user_file(str(p), read_registry_text(p)) for p in reversed(paths)
            ]
        return [*self._files, self._registered]

    def _index(self) -> dict[str, tuple[str, str]]:
        """Return, by lower-case name, the row's id and the name as it is spelled; ids first."""
        if self._names:
            return self._names
        sources: dict[str, LimitFile] = {}
        aliases: dict[str, tuple[str, Sequence[str]]] = {}
        for source in self._sources():
            for model_id in source.ids():
                if (listed := source.aliases(model_id)) is not None:
                    aliases[model_id] = (source.name, listed)
                sources[model_id] = source
        ids = [m for m, source in sources.items() if m in source.unread or source.row(m)]
        names = {model_id.lower(): (model_id, model_id) for model_id in ids}
        for model_id in ids:
            file, listed = aliases.get(model_id, ("", ()))
            for alias in listed:
                owner = names.setdefault(str(alias).lower(), (model_id, alias))[0]
                if owner != model_id:
                    reason = f"{alias!r} already means {owner!r}"
                    raise RegistryError(file=file, row=model_id, field="aliases", reason=reason)
        self._names = names
        return names

    def _find(self, asked: str) -> ModelLimits | None:
        names = self._index()
        for spelling in spellings(asked):
            if found := names.get(spelling.name.lower()):
                row = self._row(found[0], spelling.host)
                return _addressed(row, asked, spelling, matched=found[1])
        return None

    def _row(self, model_id: str, host: str | None = None) -> ModelLimits:
        with self._lock:
            if (model_id, host) not in self._rows:
                row = self._merged(model_id)
                if not row.has_window():
                    raise self._windowless(row)
                limits = read_row(row.seen_by(host))
                if row.has_own_dates(host):
                    limits = replace(limits, has_host_dates=True)
                self._rows[model_id, host] = limits
            return self._rows[model_id, host]

    def _windowless(self, row: Row) -> RegistryError:
        known = [name for name in self._index() if name != row.id.lower()]
        near = nearest(row.id, known, count=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        reason = f"it is missing, and no other file knows this model{hint}"
        remedy = "Give limits.window, or extends: <the id of a known model>."
        file = row.file_of("limits.window")
        return RegistryError(
            file=file, row=row.id, field="limits.window", reason=reason, remedy=remedy
        )

    def _merged(self, model_id: str, *, below: tuple[str, ...] = ()) -> Row:
        """Lay the sources' rows of one id over each other, over the row that they extend."""
        layers: list[tuple[str, JsonObject]] = []
        for source in self._sources():
            if model_id in source.ids():
                row = source.row(model_id)
                layers = [] if row is None else [*layers, (source.name, row)]
        file = layers[-1][0]
        files: dict[str, str] = {}
        content: dict[str, Json] = {}
        base_id = next((row["extends"] for _, row in reversed(layers) if "extends" in row), None)
        if base_id is not None:
            base_name, _ = self._index().get(str(base_id).lower(), (None, ""))
            if base_name is None or base_name in (model_id, *below):
                reason = f"{base_id!r} is {'no known model' if base_name is None else 'a circle'}"
                raise RegistryError(file=file, row=model_id, field="extends", reason=reason)
            base = self._merged(base_name, below=(model_id, *below))
            content = {k: v for k, v in base.content.items() if k not in _NOT_INHERITED}
            files |= base.files
        for name, row in layers:
            content = merge_rows(content, row, file=name, files=files)
        content.pop("extends", None)
        return Row(id=model_id, content=content, files=files, file=file)


def _addressed(row: ModelLimits, asked: str, spelling: Spelling, *, matched: str) -> ModelLimits:
    """Fill in how the model was asked for, and what to send to whom."""
    own_id = row.api_id if matched == row.id and not spelling.snapshot else matched
    api_id = spelling.host_id if spelling.host else own_id + spelling.snapshot
    return replace(row, asked_id=asked, api_id=api_id, host=spelling.host)


@lru_cache(maxsize=1)
def default_registry() -> ModelRegistry:
    """Return the registry that the functions of this module ask."""
    return ModelRegistry()


def get_model_limits(model_id: str, *, unknown: UnknownModelPolicy = "error") -> ModelLimits:
    """Return the limits of a model from the default registry; see `ModelRegistry.get`."""
    return default_registry().get(model_id, unknown=unknown)


def supports_feature(model_id: str, feature: str) -> bool:
    """Whether the model is known to have the feature; see `ModelRegistry.supports_feature`."""
    return default_registry().supports_feature(model_id, feature)


def register_model(model_id: str, **fields: Unpack[ModelFields]) -> ModelLimits:
    """Add a model to the default registry, or change one; see `ModelRegistry.register`."""
    return default_registry().register(model_id, **fields)
