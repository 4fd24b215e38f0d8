"""Who a request goes to, and so who can read what a provider signed or sealed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from context_assembler.values.events import AssistantBody, CompactionBody, SessionEvent
from context_assembler.values.limits import ModelLimits
from context_assembler.values.texts.cleaning import is_clean

ResolveModel: TypeAlias = Callable[[str], str]
"""Turns a recorded model id into the registry's; `LookupError` means that nobody knows it."""


def route_of(limits: ModelLimits, *, account: str | None) -> str | None:
    """Return what signed reasoning is bound to: the account, behind a cloud that of the cloud.

    What OpenAI sealed cannot be opened by Azure, nor the other way round; a signature of Gemini's
    holds for the key and the route. Claude models that are bound to no account are the same
    everywhere.

    Source:
        https://github.com/pydantic/pydantic-ai/issues/4608
        https://ai.google.dev/gemini-api/docs/thought-signatures
        https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
        (read 2026-11-27)
    """
    if limits.host is None or not limits.thinking.is_account_bound:
        return account
    return f"{account or ''}@{limits.host}"


def has_spoken(protocol: str, events: Iterable[SessionEvent]) -> bool:
    """Whether any reply of a session came over that wire protocol."""
    bodies = (event.body for event in events)
    makers = (body.made_by for body in bodies if isinstance(body, AssistantBody | CompactionBody))
    return any(made_by is not None and made_by.provider == protocol for made_by in makers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A model behind a wire protocol, asked under an account.

    `account` is the caller's tag for the account or route. `resolve_model` makes a dated snapshot
    count as its model. `other_protocols` are those that the model could be asked over as well.
    """

    provider: str
    limits: ModelLimits
    account: str | None = None
    resolve_model: ResolveModel = str
    other_protocols: tuple[str, ...] = ()

    def is_model(self, model: str) -> bool:
        """Whether a recorded model id means the model that is asked."""
        limits = self.limits
        if model in {limits.id, limits.api_id, limits.asked_id, *limits.aliases} - {""}:
            return True
        try:
            return self.resolve_model(model) == limits.id
        except LookupError:
            return False

    def reads_compaction(self, body: CompactionBody) -> bool:
        """Whether the blocks of a compaction that a provider wrote can be sent.

        They are signed or sealed, and so go back verbatim, to the model and account that they came
        from.

        Source:
            https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
            https://github.com/pydantic/pydantic-ai/issues/4608 (read 2026-11-27)
        """
        made_by = body.made_by
        return (
            made_by is not None
            and {made_by.provider, *(block.provider for block in body.native)} == {self.provider}
            and made_by.account == self.account
            and is_clean(*(block.block for block in body.native))
            and self.is_model(made_by.model)
        )
