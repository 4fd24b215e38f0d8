"""New messages behind a request: what they cost, and whether their signed reasoning holds there."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from context_assembler.continuing.last_step import LastStep
from context_assembler.gathered import Gathered
from context_assembler.providers import PROVIDERS, provider_for
from context_assembler.stages.split_window import anchor
from context_assembler.values.changing import changed
from context_assembler.values.draft import Draft
from context_assembler.values.ledger import Ledger
from context_assembler.values.messages import Message


@dataclass(frozen=True, kw_only=True)
class Behind:
    """New messages behind the last request.

    Attributes:
        way: What the step is made from.
        draft: The request with the messages at its end.
        tokens: Of the new messages.
    """

    last: LastStep
    way: Gathered
    draft: Draft
    new: Sequence[Message]
    tokens: int

    @property
    def has_usage(self) -> bool:
        """Whether a provider has reported what a call of the session was charged."""
        return self.last.has_usage or any(one.made_by and one.made_by.usage for one in self.new)

    @property
    def keeps_reasoning(self) -> bool:
        """Whether signed reasoning among them was made behind the very messages before it."""
        if not self.way.limits.thinking.is_prefix_bound:
            return True
        return all(
            message.made_by is not None and message.made_by.prefix_fingerprint == fingerprint
            for message, fingerprint in zip(self.new, self._fingerprints, strict=True)
            if message.is_signed
        )

    @property
    def ledger(self) -> Ledger | None:
        """The ledger of what is sent; `None`: what anchors it is not known."""
        return self._add(self.last.context.metadata.ledger, is_sent=True)

    @property
    def uncut(self) -> Ledger | None:
        """The ledger of the whole history; `None`: what anchors it is not known."""
        return self._add(self.last.uncut, is_sent=not self.last.context.metadata.truncated)

    @cached_property
    def _fingerprints(self) -> Sequence[str]:
        """Those of what stands before each new message."""
        found = PROVIDERS[provider_for(self.way.limits)].fingerprints(self.draft)
        start = len(self.draft.messages) - len(self.new)
        return found[start : start + len(self.new)]

    def _add(self, before: Ledger, *, is_sent: bool) -> Ledger | None:
        """Return the ledger with the messages, anchored in the call that one of them answers.

        Args:
            is_sent: Whether it is of what calls are sent: no reply is the answer to anything else.
        """
        rows = tuple(
            changed(row, tokens=row.tokens + self.tokens) if row.kind == "history" else row
            for row in before.rows
        )
        ledger = changed(before, rows=rows, factor=self.way.token_factor)
        if not (self.has_usage and _is_anchored(ledger)):
            return ledger
        if not (self.last.has_usage and _is_anchored(before)):
            return None
        if before.anchored_tokens is not None:
            ledger = changed(ledger, anchored_tokens=before.anchored_tokens + self.tokens)
        if not (is_sent and any(one.made_by and one.made_by.usage for one in self.new)):
            return ledger
        return anchor(
            ledger,
            self.new,
            fingerprints=self._fingerprints,
            limits=self.way.limits,
            counter=self.way.counter,
        )


def _is_anchored(ledger: Ledger) -> bool:
    return 2 * ledger.used_tokens >= ledger.budget_tokens
