"""The request before anything is cut."""

from dataclasses import dataclass, replace

from context_assembler.gathered import Gathered
from context_assembler.providers import PROVIDERS, provider_for
from context_assembler.stages.hold_system import FittedPrompt
from context_assembler.stages.tell_changes import count_rows
from context_assembler.values.ledger import Ledger
from context_assembler.values.messages import Message
from context_assembler.values.prompt import PromptSection, SystemPrompt
from context_assembler.values.report import ReportEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaped:
    """The request before anything is cut."""

    prompt: FittedPrompt
    messages: tuple[Message, ...]
    notes: tuple[PromptSection, ...]  # wanted behind the history
    ledger: Ledger  # of the fixed part
    repairs: tuple[ReportEntry, ...]

    @property
    def system(self) -> SystemPrompt:
        """The system prompt that is sent."""
        return self.prompt.system

    def adapted(self, gathered: Gathered) -> "Shaped":
        """Spell what the provider cannot take as text before anything is cut: that text counts."""
        draft = gathered.draft(self.system, self.messages)
        adapted, rows = PROVIDERS[provider_for(gathered.limits)].adapt(draft)
        counted = count_rows(rows, before=draft, after=adapted, counter=gathered.counter)
        repairs = [row for row in counted if row.kind == "message"]
        return replace(self, messages=adapted.messages, repairs=(*self.repairs, *repairs))
