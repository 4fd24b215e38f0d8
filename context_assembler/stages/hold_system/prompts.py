"""The system prompt that the files ask for by now, and what is sent of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from context_assembler.values.epochs import Epoch, PromptPiece
from context_assembler.values.prompt import BootstrapFile, SystemPrompt
from context_assembler.values.report import ReportEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedPrompt:
    """The system prompt that is sent, with a row for every section that was considered.

    `pieces` is what the files ask for by now, whatever is sent; `epoch` what `record` keeps.
    """

    system: SystemPrompt
    rows: tuple[ReportEntry, ...]
    pieces: tuple[PromptPiece, ...]
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshPrompt:
    """The system prompt that the files and the settings ask for by now.

    Attributes:
        built: Before it is cut to the window.
        fitted: What the window leaves of it.
        built_rows: One for each section of `built`, and for what is none.
        fitted_rows: The same, with what was cut from each.
        pieces: What the sections of `built` are made from.
        files: The instruction files; a template that does not render is unreadable.
        budget_tokens: What the window has for the whole input.
    """

    built: SystemPrompt
    fitted: SystemPrompt
    built_rows: tuple[ReportEntry, ...]
    fitted_rows: tuple[ReportEntry, ...]
    pieces: tuple[PromptPiece, ...]
    budget_tokens: int
    count_text: Callable[[str], int]
    files: Sequence[BootstrapFile] = ()

    @property
    def lacks_template(self) -> bool:
        """Whether a template does not render, so that this prompt cannot be sent."""
        return any(
            file.state == "unreadable" and "template" in file.metadata for file in self.files
        )

    @property
    def is_cut(self) -> bool:
        """Whether the window does not hold all of it."""
        return self.built.sections != self.fitted.sections

    @property
    def chosen(self) -> FittedPrompt:
        """This very prompt as the one that is sent."""
        epoch = Epoch(
            sections=self.fitted.sections,
            pieces=self.pieces,
            cut_for_tokens=self.budget_tokens if self.is_cut else 0,
        )
        return FittedPrompt(
            system=self.fitted, rows=self.fitted_rows, pieces=self.pieces, epoch=epoch
        )


def contents_of(prompt: SystemPrompt) -> Mapping[str, str]:
    """Return the texts of the prompt by the names of their sections."""
    return {section.name: section.content for section in prompt.sections}
