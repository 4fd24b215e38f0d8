"""What of an instruction file reaches the model: comments dropped, imports put in place."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from context_assembler.stages.load_bootstrap.file_text import with_text
from context_assembler.stages.load_bootstrap.markdown import split_markdown
from context_assembler.values.prompt import BootstrapFile
from context_assembler.values.texts.secret_masking import mask_secrets

# Not within a word (mail addresses), not a second @; up to a space, a quote or a bracket.
_REFERENCE: Final = re.compile(r"(?<![\w@`/.])@(?P<path>(?:\\ |[^\s`'\"<>()\[\]{}|,;@])++)")
_TRAILING: Final = ".:!?*_"
_MAX_SHOWN_CHARS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The answer to one `@path`.

    `found` carries the text; `absent` means that this is no file and stays as it is written;
    `refused` is reported with its reason.
    """

    state: Literal["found", "absent", "refused"]
    text: str = ""
    reason: str = ""
    warnings: tuple[str, ...] = ()


Resolve: TypeAlias = Callable[[str], Imported]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedText:
    """A text with its imports, and what could not be imported."""

    text: str
    warnings: tuple[str, ...] = ()


def resolve_text(text: str, resolve: Resolve, *, is_template: bool = False) -> ResolvedText:
    """Drop HTML comments and put the files that `@path` names in place.

    A reference that has its line to itself is replaced by the file; one within a sentence stays,
    and the file follows at the end. In a template both comments and imports keep the line count,
    so that errors name the right line, and imported text is never executed.
    """
    kept: list[str] = []
    appended: list[str] = []
    warnings: list[str] = []

    def put(match: re.Match[str]) -> str:
        path = match["path"].replace("\\ ", " ")
        answer = resolve(path)
        bare = path.rstrip(_TRAILING)
        if answer.state == "absent" and bare != path:
            path, answer = bare, resolve(bare)
        warnings.extend(answer.warnings)
        if answer.state == "refused":
            warnings.append(f"@{_shown(path)} was not imported: {answer.reason}")
        if answer.state != "found" or not answer.text:
            return match[0]
        if _is_alone(match) and path == match["path"].replace("\\ ", " "):
            return _as_literal(answer.text) if is_template else answer.text
        appended.append(answer.text)
        return match[0]

    after_comment = False
    for piece in split_markdown(text):
        if piece.kind == "comment":
            after_comment = True
            if is_template:
                kept.append("\n" * piece.text.count("\n"))
            continue
        found = piece.text if piece.kind == "code" else _REFERENCE.sub(put, piece.text)
        kept.append(_closed(kept, found) if after_comment and not is_template else found)
        after_comment = False
    body = "".join(kept)
    if is_template:
        appended = [_as_literal(one) for one in appended]
    joined = "\n\n".join([body.rstrip(), *appended]) if appended else body
    return ResolvedText(text=joined, warnings=tuple(warnings))


def _shown(path: str) -> str:
    """Return a path as a warning may carry it: no control characters, no more than anybody reads."""
    short = path if len(path) <= _MAX_SHOWN_CHARS else path[:_MAX_SHOWN_CHARS] + "…"
    return short if short.isprintable() else short.encode("unicode_escape").decode("ascii")


def _is_alone(match: re.Match[str]) -> bool:
    text = match.string
    line_start = text.rfind("\n", 0, match.start()) + 1
    line_end = text.find("\n", match.end())
    around = (
        text[line_start : match.start()] + text[match.end() : line_end if line_end >= 0 else None]
    )
    return not around.strip()


def _as_literal(text: str) -> str:
    """Spell text as a Jinja2 expression of one line that yields exactly this text."""
    escaped = text.encode("unicode_escape", "replace").decode("ascii").replace('"', '\\"')
    return '{{ "' + escaped + '" }}'


def _closed(kept: Sequence[str], text: str) -> str:
    """Return what follows a dropped comment without the blank lines that the comment leaves."""
    before = ""
    for part in reversed(kept):
        before = part[-2:] + before
        if len(before) >= 2:
            break
    if not before or before.endswith("\n\n"):
        return text.lstrip("\n")
    return text.removeprefix("\n") if before.endswith("\n") else text


def mask_file(file: BootstrapFile) -> BootstrapFile:
    """Return the file with its secrets masked, and a warning that says how many there were."""
    masked = mask_secrets(file.text)
    return with_text(file, masked.text, warnings=[masked.notice]) if masked.kinds else file
