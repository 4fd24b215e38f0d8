"""Reads instruction files from disk with their imports, never leaving one folder."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from context_assembler.stages.load_bootstrap.absence import tell_absence
from context_assembler.stages.load_bootstrap.bootstrap_text import Imported, resolve_text
from context_assembler.stages.load_bootstrap.file_opening import (
    Identity,
    Opened,
    identity,
    is_there,
    open_file,
    refused,
)
from context_assembler.stages.load_bootstrap.file_text import TEMPLATES, fingerprint, with_text
from context_assembler.values.prompt import BootstrapFile
from context_assembler.values.texts.instruction_text import FrontMatter, split_front_matter
from context_assembler.values.texts.section_text import one_line

MAX_IMPORT_HOPS: Final = 5
MAX_IMPORTS: Final = 100
MAX_IMPORTED_CHARS: Final = 4_000_000
MAX_READ_BYTES: Final = 32_000_000
MAX_FRONT_MATTER_CHARS: Final = 131_072
MAX_REFERENCES: Final = 2_000
MAX_WARNINGS: Final = 50
_MARKDOWN: Final = frozenset({"", ".md", ".mdc", ".markdown", ".txt"})
_MAX_POINTER_CHARS: Final = 260
_MAX_PATH_CHARS: Final = 4_096
_MAX_SHOWN_CHARS: Final = 60
_BACKTICKS: Final = re.compile("`+")
_FRONT_MATTER: Final = re.compile(r"---[ \t]*\n(?:(?!---|\.\.\.).*\n)*")


@dataclass(slots=True, kw_only=True)
class FileReading:
    """One walk over the folder: what was looked at, and how much of it was read.

    A file is read once, however many names and imports lead to it.
    """

    root: Path
    seen: dict[Path, Identity] = field(default_factory=dict[Path, Identity])
    opened: dict[Path, Opened] = field(default_factory=dict[Path, Opened])
    newest_ns: int = 0
    read_bytes: int = 0
    references: int = 0
    imported: list[Path] = field(default_factory=list[Path])
    imported_chars: int = 0
    front_matter_chars: int = 0

    def read_section(self, section: str, folder: Path, names: Sequence[str]) -> BootstrapFile:
        """Read the first of the names that exists."""
        for name in names:
            path = folder / name
            if self._exists(path):
                return self._read_file(section, path)
        return BootstrapFile(section=section, path=str(folder / names[-1]), state="missing")

    def tell_absence(
        self, file: BootstrapFile, folder: Path, names: Sequence[str]
    ) -> BootstrapFile:
        """Return the file with why it is missing, if it is."""
        if file.state != "missing":
            return file
        return replace(file, absence=tell_absence(folder, names, self._look_in))

    def _look_in(self, folder: Path) -> None:
        self.seen[folder] = found = identity(folder)
        self.newest_ns = max(self.newest_ns, *found[1][-2:])

    def _exists(self, path: Path) -> bool:
        self.seen[path] = identity(path)
        return is_there(path)

    def _read_file(self, section: str, path: Path, *, follows: bool = True) -> BootstrapFile:
        opened = self._open(path)
        file = BootstrapFile(
            section=section,
            path=str(path),
            state=opened.state,
            warnings=opened.warnings,
            real_path=str(opened.path),
            encoding=opened.encoding,
            size_bytes=opened.size_bytes,
        )
        if opened.state != "ok":
            state = fingerprint(section, opened.state)
            return replace(file, fingerprint=state, source_fingerprint=state)
        if follows and (pointed := self._pointed_at(path, opened.text)):
            hint = f"it only names {opened.text.strip()!r}: read as a link"
            file = self._read_file(section, pointed, follows=False)
            return replace(file, warnings=(*opened.warnings, hint, *file.warnings))
        imported_before = len(self.imported)
        front = self._split_front_matter(opened.text)
        templated = front.metadata.get("template") == TEMPLATES
        resolved = resolve_text(
            front.text, self._importer(path, (opened.path,)), is_template=templated
        )
        text = resolved.text.rstrip() if templated else resolved.text.strip()
        imports = dict.fromkeys(str(one) for one in self.imported[imported_before:])
        named = replace(
            file,
            metadata=front.metadata,
            first_line=front.first_line,
            imports=tuple(imports),
            source_fingerprint=fingerprint(section, text, "template" if templated else ""),
        )
        warnings = [*front.warnings, *_unknown_template(front), *resolved.warnings]
        if self.references > MAX_REFERENCES:
            warnings.insert(0, f"only the first {MAX_REFERENCES:,} words with @ were looked up")
        return with_text(named, text, warnings=_first_of(warnings))

    def _split_front_matter(self, text: str) -> FrontMatter:
        front = _FRONT_MATTER.match(text)
        chars = front.end() if front else 0
        # What is longer is not taken for front matter, and costs nothing.
        self.front_matter_chars += chars if chars <= MAX_FRONT_MATTER_CHARS else 0
        if self.front_matter_chars > MAX_FRONT_MATTER_CHARS:
            too_much = f"more than {MAX_FRONT_MATTER_CHARS:,} characters of front matter in all"
            return FrontMatter(text=text, warnings=(f"{too_much}: this stays text",))
        return split_front_matter(text)

    def _pointed_at(self, path: Path, text: str) -> Path | None:
        """Return the file that a checked-out link without link support consists of."""
        name = text.strip()
        is_name = 0 < len(name) <= _MAX_POINTER_CHARS and name.endswith(".md") and " " not in name
        if not is_name or "\n" in name or name == path.name:
            return None
        target = path.parent / name
        return target if self._exists(target) and self._is_inside(target) else None

    def _is_inside(self, path: Path) -> bool:
        real = Path(os.path.realpath(path))
        return real.is_relative_to(self.root) and real.is_file() and real != self.root

    def _open(self, path: Path) -> Opened:
        self.seen[path] = identity(path)
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(self.root):
            return refused(real, "blocked", "it lies outside the folder and was not read")
        if real in self.opened:
            return self.opened[real]
        if self.read_bytes > MAX_READ_BYTES:
            return refused(real, "unreadable", f"more than {MAX_READ_BYTES:,} bytes read in all")
        opened = self.opened[real] = open_file(real)
        self.read_bytes += opened.read_bytes
        self.newest_ns = max(self.newest_ns, opened.changed_ns)
        return opened

    def _importer(self, path: Path, chain: tuple[Path, ...]) -> Callable[[str], Imported]:
        def resolve(reference: str) -> Imported:
            return self._import(reference, path=path, chain=chain)

        return resolve

    def _import(self, reference: str, *, path: Path, chain: tuple[Path, ...]) -> Imported:
        self.references += 1
        if self.references > MAX_REFERENCES or len(reference) > _MAX_PATH_CHARS:
            return Imported(state="absent")
        if reference.startswith("~") or "\0" in reference:
            return Imported(state="refused", reason="it lies outside the folder")
        target = path.parent / reference
        if not self._exists(target):
            looks_meant = Path(reference).suffix == ".md" or reference.startswith((".", "/"))
            reason = "there is no such file"
            return Imported(state="refused" if looks_meant else "absent", reason=reason)
        opened = self._open(target)
        if opened.state == "unreadable" and "/" not in reference:
            return Imported(state="absent")
        if opened.state in {"unreadable", "blocked"}:
            return Imported(state="refused", reason=opened.warnings[0])
        if opened.path in chain:
            return Imported(state="refused", reason="it imports itself")
        if len(chain) > MAX_IMPORT_HOPS:
            return Imported(state="refused", reason=f"more than {MAX_IMPORT_HOPS} imports deep")
        self.imported_chars += len(opened.text)
        if len(self.imported) >= MAX_IMPORTS:
            return Imported(state="refused", reason=f"more than {MAX_IMPORTS} imports in all")
        if self.imported_chars > MAX_IMPORTED_CHARS:
            reason = f"more than {MAX_IMPORTED_CHARS:,} characters imported in all"
            return Imported(state="refused", reason=reason)
        self.imported.append(opened.path)
        return self._imported(target, opened, chain)

    def _imported(self, target: Path, opened: Opened, chain: tuple[Path, ...]) -> Imported:
        if target.suffix.lower() not in _MARKDOWN:
            longest = max(map(len, _BACKTICKS.findall(opened.text)), default=0)
            fence = "`" * max(3, longest + 1)
            text = f"{fence}\n{opened.text.strip()}\n{fence}"
            return Imported(state="found", text=text, warnings=opened.warnings)
        front = self._split_front_matter(opened.text)
        inner = resolve_text(front.text, self._importer(target, (*chain, opened.path)))
        warnings = (*opened.warnings, *front.warnings, *inner.warnings)
        return Imported(state="found", text=inner.text.strip(), warnings=warnings)


def _unknown_template(front: FrontMatter) -> Iterator[str]:
    asked = front.metadata.get("template")
    if asked and asked != TEMPLATES:
        shown = one_line(str(asked))[:_MAX_SHOWN_CHARS]
        yield f"template: {shown} is unknown, so it is sent as it stands (known: {TEMPLATES})"


def _first_of(warnings: Sequence[str]) -> list[str]:
    """Return each warning once, as many as somebody reads, and how many more there are."""
    distinct = list(dict.fromkeys(warnings))
    more = len(distinct) - MAX_WARNINGS
    rest = [f"{more:,} more of this kind"] if more > 0 else []
    return [*distinct[:MAX_WARNINGS], *rest]
