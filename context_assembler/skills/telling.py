"""`SkillTeller`: asks for skills, chooses, and says what the prompt says of them."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

from context_assembler.ports import SkillProvider, TokenCounter
from context_assembler.skills.choosing import choose_skills
from context_assembler.skills.listing import LastLists, ListedSkills, list_skills
from context_assembler.skills.prompt_text import describe_skills
from context_assembler.values.options import Settled
from context_assembler.values.prompt import Skill
from context_assembler.values.report import ReportEntry

_KEPT_ANSWERS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldSkills:
    """What one call's prompt says of skills, what became of each, and what went wrong."""

    skills: tuple[Skill, ...] = ()
    active: tuple[str, ...] = ()
    text: str = ""
    entries: tuple[ReportEntry, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def with_tools(self) -> tuple[Skill, ...]:
        """The active skills that bring tools along."""
        return tuple(one for one in self.skills if one.name in self.active and one.tools)


class _Asked(NamedTuple):
    """Everything that an answer depends on."""

    listed: ListedSkills
    skip_reason: str | None
    patterns: tuple[str, ...] | None
    active: tuple[str, ...]
    activates_named: bool
    counter: str


class SkillTeller:
    """Settings at construction, one obvious method.

    What was last said of the same skills is said again without counting anything.

    Args:
        max_tokens: Longest list of skills; the instructions of active ones do not count.
        timeout_seconds: How long one provider may take.
        masks_secrets: Whether secrets in what is told are masked; needs the extra `secrets`.
        now: The clock that says of when the skills of a provider are that fails.
    """

    def __init__(
        self,
        providers: Iterable[SkillProvider] = (),
        *,
        max_tokens: int = 2_000,
        timeout_seconds: float = 30.0,
        masks_secrets: bool = False,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._providers = tuple(providers)
        self._last = LastLists(now=now or partial(datetime.now, UTC))
        self._max_tokens = max_tokens
        self._timeout_seconds = timeout_seconds
        self._masks_secrets = masks_secrets
        self._told: deque[tuple[_Asked, ToldSkills]] = deque(maxlen=_KEPT_ANSWERS)

    @property
    def is_constant(self) -> bool:
        """Whether there is nobody to ask, so that what is told of skills stays the same."""
        return not self._providers

    async def tell(
        self, settled: Settled, *, counter: TokenCounter, skip_reason: str | None = None
    ) -> ToldSkills:
        """Return what this call's prompt says of skills.

        Args:
            skip_reason: Why it says nothing of them, where the options do not say so themselves.
        """
        options = settled.options
        asked = _Asked(
            listed=await list_skills(
                self._providers, timeout_seconds=self._timeout_seconds, last=self._last
            ),
            skip_reason="skip_skills is on" if options.skip_skills else skip_reason,
            patterns=options.skill_filter,
            active=options.active_skills or (),
            activates_named=settled.layers.get("skill_filter") == "request",
            counter=counter.name,
        )
        for known, told in tuple(self._told):
            if known == asked:
                return told
        told = self._tell(asked, counter)
        self._told.append((asked, told))
        return told

    def _tell(self, asked: _Asked, counter: TokenCounter) -> ToldSkills:
        chosen = choose_skills(
            asked.listed.skills,
            skip_reason=asked.skip_reason,
            patterns=asked.patterns,
            active=asked.active,
            activates_named=asked.activates_named,
        )
        skills, masked = chosen.skills, tuple[str, ...]()
        if self._masks_secrets:
            from context_assembler.skills.masking import mask_skills  # noqa: PLC0415 - seldom asked for

            skills, masked = mask_skills(skills)
        described = describe_skills(
            skills,
            max_tokens=self._max_tokens,
            count_text=counter.count_text,
            active=chosen.active,
        )
        return ToldSkills(
            skills=skills,
            active=chosen.active,
            text=described.text,
            entries=(*asked.listed.entries, *chosen.entries, *described.entries),
            warnings=(*asked.listed.warnings, *chosen.warnings, *masked),
        )
