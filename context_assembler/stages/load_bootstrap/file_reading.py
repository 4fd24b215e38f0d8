"""Reads instruction files from disk with their imports, never leaving one folder."""

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from context_assembler.stages.load_bootstrap.bootstrap_text import (
    Imported,
    fingerprint,
    resolve_text,
    with_text,
)
from context_assembler.values.instruction_text import decode_text, split_front_matter
from context_assembler.values.prompt import BootstrapFile, FileState

MAX_IMPORT_HOPS: Final = 5
MAX_IMPORTS: Final = 100
MAX_IMPORTED_CHARS: Final = 4_000_000
MAX_REFERENCES: Final = 2_000
MAX_FILE_BYTES: Final = 4_000_000
_MARKDOWN: Final = frozenset({"", ".md", ".mdc", ".markdown", ".txt"})
_MAX_POINTER_CHARS: Final = 260

Identity: TypeAlias = tuple[int, int, int, int, int] | None


def identity(path: Path) -> Identity:
    """Return what changes when a file is written, replaced or linked elsewhere; `None`: no file."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@dataclass(slots=True, kw_only=True)
class FileReading:
    """One walk over the folder: what was looked at, and how deep the imports are."""

    root: Path
    seen: dict[Path, Identity] = field(default_factory=dict[Path, Identity])
    newest_ns: int = 0
    references: int = 0
    imports: int = 0
    imported_chars: int = 0

    def read_section(self, section: str, folder: Path, names: Sequence[str]) -> BootstrapFile:
        """Read the first of the names that exists."""
        for name in names:
            path = folder / name
            if self._exists(path):
                return self._read_file(section, path)
        return BootstrapFile(section=section, path=str(folder / names[-1]), state="missing")

    def _exists(self, path: Path) -> bool:
        self.seen[path] = identity(path)
        return os.path.lexists(path)

    def _read_file(self, section: str, path: Path, *, follows: bool = True) -> BootstrapFile:
        opened = self._open(path)
        file = BootstrapFile(
            section=section, path=str(path), state=opened.state, warnings=opened.warnings
        )
        if opened.state != "ok":
            return replace(file, fingerprint=fingerprint(section, opened.state))
        if follows and (pointed := self._pointed_at(path, opened.text)):
            hint = f"it only names {opened.text.strip()!r}: read as a link"
            file = self._read_file(section, pointed, follows=False)
            return replace(file, warnings=(*opened.warnings, hint, *file.warnings))
        front = split_front_matter(opened.text)
        templated = front.metadata.get("template") == "jinja2"
        resolved = resolve_text(
            front.text, self._importer(path, (opened.path,)), is_template=templated
        )
        text = resolved.text.rstrip() if templated else resolved.text.strip()
        named = replace(file, metadata=front.metadata, first_line=front.first_line)
        warnings = [*front.warnings, *resolved.warnings]
        if self.references > MAX_REFERENCES:
            warnings.append(f"only the first {MAX_REFERENCES:,} words with @ were looked up")
        return with_text(named, text, warnings=warnings)

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

    def _open(self, path: Path) -> "_Opened":
        try:
            real = Path(os.path.realpath(path))
            self.seen[path] = identity(path)
            if not real.is_relative_to(self.root):
                return _refused(real, "blocked", "it lies outside the folder and was not read")
            found = real.stat()
            self.newest_ns = max(self.newest_ns, found.st_mtime_ns, found.st_ctime_ns)
            if not stat.S_ISREG(found.st_mode):
                kind = "a folder" if stat.S_ISDIR(found.st_mode) else "no regular file"
                return _refused(real, "unreadable", f"it is {kind}")
            with real.open("rb") as file:
                raw_bytes = file.read(MAX_FILE_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            return _refused(path, "unreadable", f"it cannot be read: {reason}")
        decoded = decode_text(raw_bytes[:MAX_FILE_BYTES])
        warnings = list(decoded.warnings)
        if len(raw_bytes) > MAX_FILE_BYTES:
            warnings.append(f"only the first {MAX_FILE_BYTES:,} bytes were read")
        state: FileState = "ok" if decoded.text.strip() else "empty"
        return _Opened(path=real, state=state, text=decoded.text, warnings=tuple(warnings))

    def _importer(self, path: Path, chain: tuple[Path, ...]) -> Callable[[str], Imported]:
        def resolve(reference: str) -> Imported:
            return self._import(reference, path=path, chain=chain)

        return resolve

    def _import(self, reference: str, *, path: Path, chain: tuple[Path, ...]) -> Imported:
        self.references += 1
        if self.references > MAX_REFERENCES:
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
        self.imports += 1
        self.imported_chars += len(opened.text)
        if self.imports > MAX_IMPORTS:
            return Imported(state="refused", reason=f"more than {MAX_IMPORTS} imports in all")
        if self.imported_chars > MAX_IMPORTED_CHARS:
            reason = f"more than {MAX_IMPORTED_CHARS:,} characters imported in all"
            return Imported(state="refused", reason=reason)
        return self._imported(target, opened, chain)

    def _imported(self, target: Path, opened: "_Opened", chain: tuple[Path, ...]) -> Imported:
        if target.suffix.lower() not in _MARKDOWN:
            fence = "`" * 3
            while fence in opened.text:
                fence += "`"
            text = f"{fence}\n{opened.text.strip()}\n{fence}"
            return Imported(state="found", text=text, warnings=opened.warnings)
        body = split_front_matter(opened.text).text
        inner = resolve_text(body, self._importer(target, (*chain, opened.path)))
        warnings = (*opened.warnings, *inner.warnings)
        return Imported(state="found", text=inner.text.strip(), warnings=warnings)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A file's text, or why there is none."""

    path: Path
    state: FileState
    text: str = ""
    warnings: tuple[str, ...] = ()


def _refused(path: Path, state: FileState, reason: str) -> _Opened:
    return _Opened(path=path, state=state, warnings=(reason,))
