"""Sections of instruction files that the system prompt lacks though their folder was named."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from context_assembler.values.prompt import BootstrapFile, FileState, SystemPrompt

_REASONS: Final[dict[FileState, str]] = {
    "ok": "what its template is filled with leaves nothing of it",
    "empty": "nothing is left of it but comments and white space",
    "unreadable": "it cannot be read",
    "blocked": "it was refused",
    "waiting": "it is not sent before the next rewrite point",
}


def tell_missed(
    files: Sequence[BootstrapFile],
    prompt: SystemPrompt,
    *,
    required: Collection[str],
    allowed: Collection[str] | None,
) -> Iterator[str]:
    """Yield a warning for each reason that a required section is not sent of, or none at all is.

    Args:
        files: Those that were looked for; none where nobody named a folder.
        prompt: What is sent.
        required: Names of the sections that have to be there.
        allowed: The only sections that the agent's prompt has; `None`: all.
    """
    sent = {section.name.partition(":")[0] for section in prompt.sections}
    nearest: dict[str, BootstrapFile] = {}
    for file in files:
        if allowed is None or file.section in allowed:
            nearest.setdefault(file.section, file)
    missed = [file for file in nearest.values() if file.section not in sent and not _is_copy(file)]
    wanted = [file for file in missed if file.section in required]
    if not wanted and sent.isdisjoint(nearest):
        wanted = missed[:1]
    sections: defaultdict[str, list[str]] = defaultdict(list)
    for file in wanted:
        sections[_why(file)].append(file.section)
    for why, names in sections.items():
        yield f"The system prompt lacks {' and '.join(map(repr, names))}: {why}"


def _is_copy(file: BootstrapFile) -> bool:
    """Whether the same text is sent of another file."""
    return file.state == "blocked" and bool(file.encoding)


def _why(file: BootstrapFile) -> str:
    if file.state == "missing":
        return file.absence or f"there is no file {file.path}. Write it."
    return f"of {file.path} nothing is sent: {_REASONS[file.state]}. Correct the file."
