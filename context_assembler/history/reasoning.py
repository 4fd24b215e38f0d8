"""Which signed reasoning may be sent again, and to whom."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, cast

from context_assembler.events import Body, Json, JsonObject
from context_assembler.models import ModelLimits, other_protocols
from context_assembler.providers.wire import clean_json
from context_assembler.report import ReportEntry, Rule

# A request of Chat Completions has no field for the reasoning of earlier turns.
# https://platform.openai.com/docs/guides/reasoning (read 2026-11-27)
_TAKES_REASONING: Final = frozenset({"anthropic", "openai_responses", "gemini"})
_REASONS: Final = {
    "unsigned": "carry no signature, and only signed reasoning is taken back",
    "unsupported": "cannot be sent: Chat Completions takes no reasoning back",
    "protocol": "cannot be sent in Chat Completions; the payload of to_openai_responses() has them",
    "origin": "come from a reply whose model is not known",
    "provider": "were made by another provider",
    "model": "were made by another model",
    "account": "were made under another account, or over another route",
    "prefix_unknown": "are bound to what stood before them, and that was not recorded",
    "prefix": "are bound to what stood before them, and that has changed",
    "unfinished": "are followed by nothing that they led to, and such are refused",
    "chain": "stand before reasoning that cannot be sent, and holes in a chain are refused",
}


class Reader:
    """A model that is asked over a route, and what it can take of what others signed.

    `route` is what signed reasoning is bound to: the account, behind a cloud that of the cloud. What
    OpenAI sealed cannot be opened by Azure, nor the other way round; a signature of Gemini's holds
    for the key and the route. Claude models that are bound to no account are the same everywhere.

    Prefix-bound blocks of Anthropic's remember the block before them: they may be missing from the
    start of a history, not from the middle.

    Args:
        resolve_model: Returns the registry's id of a recorded one, such as a dated snapshot.

    Source:
        https://github.com/pydantic/pydantic-ai/issues/4608
        https://ai.google.dev/gemini-api/docs/thought-signatures
        https://platform.claude.com/docs/en/build-with-claude/preserved-thinking (read 2026-11-27)
    """

    def __init__(
        self,
        provider: str,
        limits: ModelLimits,
        account: str | None,
        resolve_model: Callable[[str], str],
    ) -> None:
        self.provider, self.limits, self.route = provider, limits, account
        if limits.host is not None and limits.thinking.is_account_bound:
            self.route = f"{account or ''}@{limits.host}"
        self._resolve_model = resolve_model
        self._objections: dict[int, str | None] = {}
        self._missing = 0  # the last event with a link of a chain that cannot be sent

    def is_model(self, model: str) -> bool:
        """Whether a recorded model id means the model that is asked."""
        limits = self.limits
        if model and model in (limits.id, limits.api_id, limits.asked_id, *limits.aliases):
            return True
        try:
            return self._resolve_model(model) == limits.id
        except LookupError:
            return False

    def _objection_to(self, provider: str | None, model: str, account: str | None) -> str | None:
        """Return why signed parts of a reply cannot be sent; `None`: nothing is known against it."""
        if self.provider not in _TAKES_REASONING:
            others = other_protocols(self.limits)
            is_own = provider in others and self.is_model(model) and account == self.route
            return "protocol" if is_own else "unsupported"
        if not provider:
            return "origin"
        if provider != self.provider:
            return "provider"
        if not self.is_model(model):
            return "model"
        return None if account == self.route else "account"

    def keeps_thoughts(self, body: Body) -> bool:
        """Whether the model gets back what it thought and nobody signed, as its row says.

        DeepSeek and Kimi refuse a reply with calls that lacks it. Of an import, whoever wrote it is
        taken for the model, as far as it speaks the protocol.
        https://api-docs.deepseek.com/guides/thinking_mode (read 2026-11-27)
        """
        if self.provider != "openai_chat" or self.limits.thinking.back is None:
            return False
        made_by: JsonObject = body.get("made_by") or {}
        thoughts = (p for p in body["parts"] if p["type"] == "thinking")
        is_own = all(part.get("provider") == self.provider for part in thoughts)
        if made_by:
            is_own = made_by.get("provider") == self.provider and self.is_model(made_by["model"])
        is_due = self.limits.thinking.back == "always"
        return is_own and (is_due or any(part["type"] == "tool_call" for part in body["parts"]))

    def reads(self, body: Body) -> bool:
        """Whether the blocks of a compaction that a provider wrote can be sent.

        They are signed or sealed, so they go back verbatim, to where they came from.
        https://platform.claude.com/docs/en/build-with-claude/preserved-thinking (read 2026-11-27)
        """
        made_by: JsonObject = body.get("made_by") or {}
        maker = made_by.get("provider"), made_by.get("model", ""), made_by.get("account")
        return self._objection_to(*maker) is None and all(
            part["provider"] == self.provider and clean_json(part["block"]) is part["block"]
            for part in body["parts"]
            if part["type"] == "opaque"
        )

    def extend(self, makers: Mapping[int, Sequence[Json]]) -> bool:
        """Take who made events: provider, model, account, prefix. Whether that changes earlier ones."""
        before, is_bound = self._missing, self.limits.thinking.is_prefix_bound
        for seq, (provider, model, account, prefix) in makers.items():
            objection = self._objection_to(provider, model or "", account)
            if objection is None and is_bound and prefix is None:
                objection = "prefix_unknown"
            self._objections[seq] = objection
            is_link = is_bound and self.provider == "anthropic" and provider in (None, "anthropic")
            if objection is not None and is_link:
                self._missing = max(self._missing, seq)
        return self._missing > before and any(
            objection is None
            for seq, objection in self._objections.items()
            if before < seq < self._missing
        )

    def objection(self, seq: int) -> str | None:
        """Return why an event's signed parts cannot be sent, as far as is known without a payload."""
        reason = self._objections.get(seq, "origin")
        return "chain" if reason is None and seq < self._missing else reason


def sum_up(entries: Iterable[ReportEntry]) -> list[ReportEntry]:
    """Return the entries, with one for all parts that were left out for one reason.

    Such an entry stands at the newest message.
    """
    summed: list[ReportEntry] = []
    left_out: dict[str, list[str]] = {}  # by rule, the messages
    for entry in entries:
        if entry.decision == "cleared" and not entry.reason:
            left_out.setdefault(entry.rule, []).append(entry.id)
        else:
            summed.append(entry)
    for rule, ids in left_out.items():
        kind, _, reason = rule.partition(".")
        what = "thinking part(s)" if kind == "reasoning" else "thought signature(s)"
        said = f"{len(ids)} {what}, the last one here, {_REASONS[reason]}."
        cleared = cast("Rule", f"reasoning.{reason}")
        summed.append(ReportEntry("message", ids[-1], "cleared", 0, 0, said, cleared))
    return summed
