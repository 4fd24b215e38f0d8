"""The table of settings of memory."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator

from context_assembler.config.tables import Table

if TYPE_CHECKING:
    from context_assembler.values.memories.records import MemoryFilters
    from context_assembler.values.recall_settings import RecallSettings


class MemorySettings(Table):
    """What `assemble(query=…)`, `recall` and the like recall from, and how much of it.

    Attributes:
        store: The store's URL (`sqlite:memory.db`), for an assembler that is given no memory.
        max_tokens: The longest note, with its label and fence; `recall_tokens` overrides it for a
            call. It never takes more than a quarter of what the call may send.
        limit: The most memories in a note.
        context_types: The only kinds to look for; by default all.
        namespaces: The only projects to look in; by default all.
        preset: Settings for a kind of agent: see `RECALL_PRESETS`.
        strategy: In the place of the preset's.
        embedder: What finds memories by meaning as well: `bundled`, `minilm`, `openai:MODEL`.
        near_duplicate: From which likeness on two memories are told as one; the preset's by default.
            With other numbers, or where one denies what the other says, they are two.
        merges_alike: From which likeness on (such as 0.9) what is remembered counts as a duplicate;
            by default only the very same does.
        fades_half_life_days: After how long unused a memory is worth half; `memory fade` forgets
            what is worth too little. Nothing fades by itself.
        fades_below: What a memory is worth at least that stays.
        seconds_per_source: How long one source may take to answer, from its turn on.
        seconds_in_all: How long all of them together may take.
    """

    store: str | None = None
    max_tokens: int = Field(default=2_000, gt=0)
    limit: int = Field(default=20, gt=0, le=10_000)
    context_types: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    preset: str = "general"
    strategy: Literal["balanced", "recent", "important"] | None = None
    embedder: str | None = None
    near_duplicate: float | None = Field(default=None, ge=0.5, le=1)
    merges_alike: float | None = Field(default=None, ge=0.5, le=1)
    fades_half_life_days: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    fades_below: float = Field(default=0.05, ge=0, le=1)
    seconds_per_source: float = Field(default=2.0, gt=0)
    seconds_in_all: float = Field(default=5.0, gt=0)

    @field_validator("context_types")
    @classmethod
    def _known_kinds(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        from context_assembler.values.memories.kinds import check_kind  # noqa: PLC0415 - see below

        return tuple(map(check_kind, given))

    @field_validator("preset")
    @classmethod
    def _known_preset(cls, given: str) -> str:
        _preset(given)
        return given

    @property
    def recall(self) -> "RecallSettings":
        """How candidates are scored, and how long sources have."""
        preset = _preset(self.preset)
        return replace(
            preset,
            strategy=self.strategy or preset.strategy,
            near_duplicate=self.near_duplicate or preset.near_duplicate,
            seconds_per_source=self.seconds_per_source,
            seconds_in_all=self.seconds_in_all,
        )

    @property
    def filters(self) -> "MemoryFilters":
        """Which records may be found at all."""
        from context_assembler.values.memories.records import MemoryFilters  # noqa: PLC0415 - see below

        return MemoryFilters(namespaces=self.namespaces)

    def filled(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a call that recalls, with the settings' where the call says nothing.

        Filters that name no project are held to the settings' own as well.
        """
        filters = given.get("filters", self.filters)
        if not getattr(filters, "namespaces", True):
            filters = replace(filters, namespaces=self.namespaces)
        options = {"limit": self.limit, "max_tokens": self.max_tokens, **given, "filters": filters}
        if options.get("context_types") is None and not getattr(filters, "kinds", ()):
            options["context_types"] = self.context_types or None
        return options


def _preset(name: str) -> "RecallSettings":
    # All that recalls is slow to import, and most assemblers have no memory.
    from context_assembler.values.recall_settings import recall_preset  # noqa: PLC0415

    return recall_preset(name)
