"""A folder of Markdown as a source of memories: its sections, read again whenever a file changes.

A file is looked at before each search and read only if it is another one than before.
"""

import asyncio
import errno
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

from context_assembler.errors import ConfigurationError
from context_assembler.memory import records
from context_assembler.memory.kinds import ChunkMetadata
from context_assembler.memory.records import MemoryRecord
from context_assembler.memory.stores import MemoryStore, open_memory
from context_assembler.texts import decode_text, read_file

MOST_FILE_BYTES: Final = 1_000_000
FRONT: Final = re.compile(r"---[ \t]*\n(.{0,20000}?\n)---[ \t]*(?:\n|$)", re.DOTALL)
FRONT_FIELD: Final = re.compile(
    r"^\s*(name|description|type):[ \t]*(?:[>|]-?\n\s+)?(\S.*?)\s*$", re.MULTILINE
)
MARKDOWN: Final = (".md", ".markdown")
_HEADING: Final = re.compile(r" {0,3}(#{1,6})\s+(\S.*)")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_PASSED: Final = ("it is hidden", "it is not Markdown", "it links to what is read by its own name")
_JUST_NOW_NS: Final = 100_000_000  # a later edit may leave size and times as they are
_MOST_NAMED: Final = 3
_OFFERED: Final = ("get", "list_records", "neighbours", "present_kinds")


# ---- Markdown ----


class Section(NamedTuple):
    """What stands below a heading, up to the next one; above the first heading, `level` is 0."""

    line: int
    end_line: int
    level: int
    title: str
    text: str


def read_sections(text: str) -> Iterator[Section]:
    """Yield the sections of a Markdown text; some say nothing.

    What looks like a heading in front matter, or in a block of code, is none.
    """
    front = FRONT.match(text)
    after = text.count("\n", 0, front.end()) if front else 0
    begun, level, title, lines, fence = 1, 0, "", list[str](), ""
    for number, line in enumerate((*text.rstrip().split("\n"), None), 1):
        heading = None if fence or number <= after or line is None else _HEADING.fullmatch(line)
        if heading or line is None:
            yield Section(begun, max(number - 1, begun), level, title, "\n".join(lines))
        if heading:
            begun, level, lines = number, len(heading[1]), []
            title = re.sub(r"\s+#*\s*$", "", heading[2])
        elif line is not None:
            lines.append(line)
            if mark := _FENCE.match(line):
                fence = "" if fence and line.strip().startswith(fence) else fence or mark[1]


def read_markdown(file: Path, *, inside: str) -> tuple[str, list[str], os.stat_result]:
    """Return the text of a file, what is odd about its bytes, and what the system knows of it.

    Raises:
        OSError: It cannot be read, is too large, binary, or a link below `inside`.
    """
    raw, found = read_file(file, inside=inside, most_bytes=MOST_FILE_BYTES + 1)
    if len(raw) > MOST_FILE_BYTES:
        raise OSError(errno.EFBIG, f"it is larger than {MOST_FILE_BYTES:,} bytes")
    text, encoding, odd = decode_text(raw)
    if b"\0" in raw and encoding.startswith("utf-8"):
        raise OSError(errno.EINVAL, "it is binary")
    return text, odd, found


def find_markdown(root: str) -> Iterator[tuple[str, str, os.stat_result | None]]:
    """Yield name, objection and identity of everything below a folder, in order; no file is read.

    What is hidden, not Markdown, or a link has an objection; `is_refused` tells which of these matter.
    """
    folders = [""]
    while folders:
        inside = folders.pop()
        try:
            entries = sorted(os.scandir(os.path.join(root, inside)), key=lambda one: one.name)
        except OSError as error:
            yield inside or ".", f"it cannot be read ({error.strerror})", None
            continue
        for entry in entries:
            name, objection = f"{inside}/{entry.name}".lstrip("/"), ""
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name.startswith(".") or entry.name == "node_modules":
                objection = _PASSED[0]
            elif entry.is_symlink():
                is_inside = Path(entry.path).resolve().is_relative_to(root)
                objection = _PASSED[2] if is_inside else "it is a link that leaves the folder"
            elif is_folder:
                folders.append(name)
                continue
            elif not entry.name.lower().endswith(MARKDOWN):
                objection = _PASSED[1]
            try:
                yield name, objection, None if objection else entry.stat(follow_symlinks=False)
            except OSError as error:  # it went meanwhile
                yield name, f"it cannot be read ({error.strerror})", None


def is_refused(objection: str) -> bool:
    """Whether somebody may miss what was left out."""
    return bool(objection) and objection not in _PASSED


# ---- the source ----


class _File(NamedTuple):
    identity: tuple[int, ...]  # empty: it is to be read again
    ids: Sequence[str] = ()
    objection: str = ""


class NotesFolder:
    """Finds sections of the Markdown files below a folder; an edit is found by the next search.

    A section is a memory of the kind `chunks`: its id is `guide.md#setup`, its `parent_id` the
    section of the heading above it. Files are never changed by searching.

        memory = MemoryAssembler(NotesFolder("notes"))

    Args:
        name: What the source is called in reports; by default as the folder.
        namespace: The project, or user, whose notes these are.
        masks_secrets: Whether secrets are masked before they are indexed.

    Attributes:
        folder: Where the files are.
        left_out: By path below the folder, why a file is not read, as of the last search.
    """

    def __init__(
        self, folder: str | Path, *, name: str = "", namespace: str = "", masks_secrets: bool = True
    ) -> None:
        self.folder = Path(folder).expanduser().resolve()
        self.name, self.namespace = name or self.folder.name or "notes", namespace
        self.masks_secrets, self.left_out = masks_secrets, dict[str, str]()
        self.lock = Lock()  # of whoever writes files
        self._store: MemoryStore = open_memory("memory:", masks_secrets=masks_secrets)
        self._files: dict[str, _File] = {}
        self._refreshing = Lock()

    @property
    def note(self) -> str:
        """Which files somebody may miss, and why; empty if there are none."""
        missed = [f"{name}: {why}" for name, why in self.left_out.items() if is_refused(why)]
        more = f" and {len(missed) - _MOST_NAMED} more" if len(missed) > _MOST_NAMED else ""
        return (
            f"not read, or not all of it: {'; '.join(missed[:_MOST_NAMED])}{more}" if missed else ""
        )

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        filters: records.MemoryFilters = records.NO_FILTERS,
        vector: records.Vector | None = None,
    ) -> list[records.MemoryHit]:
        """Return at most `limit` sections that fit, best first, as the files are at this moment.

        Raises:
            OSError: There is no such folder.
        """
        await asyncio.to_thread(self._refresh)
        return await self._store.search(query, limit=limit, filters=filters, vector=vector)

    def __getattr__(self, name: str) -> Any:
        if name not in _OFFERED:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

        async def ask(*given: Any, **options: Any) -> Any:
            if name != "neighbours":  # of what a search has found
                await asyncio.to_thread(self._refresh)
            return await getattr(self._store, name)(*given, **options)

        return ask

    async def close(self) -> None:
        """End the threads of the index; the next search begins them again."""
        await self._store.close()
        self._files = {}

    def _refresh(self) -> None:
        root, there, left = str(self.folder), dict[str, os.stat_result](), dict[str, str]()
        if not self.folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "there is no such folder", root)
        with self._refreshing:
            for name, objection, found in find_markdown(root):
                if found is None:
                    left[name] = objection
                else:
                    there[name] = found
            kept = {
                name: file
                for name, file in self._files.items()
                if name in there and file.identity == _identity(there[name])
            }
            gone = [
                one for name, file in self._files.items() if name not in kept for one in file.ids
            ]
            added = list[MemoryRecord]()
            for name in there:
                if name not in kept:
                    kept[name], records = self._read(name)
                    added += records
            if gone or added:
                asyncio.run(self._put(gone, added))
            self._files = kept
            left |= {name: file.objection for name, file in kept.items() if file.objection}
            self.left_out = left

    async def _put(self, gone: Sequence[str], added: Sequence[MemoryRecord]) -> None:
        await self._store.forget(gone)
        await self._store.remember(added)

    def _read(self, name: str) -> tuple[_File, list[MemoryRecord]]:
        try:
            text, odd, found = read_markdown(self.folder / name, inside=str(self.folder))
        except OSError as error:
            return _File((), objection=error.strerror or str(error)), []
        is_settled = abs(time.time_ns() - found.st_ctime_ns) > _JUST_NOW_NS
        records = [*self._records(name, text, datetime.fromtimestamp(found.st_mtime, UTC))]
        identity = _identity(found) if is_settled else ()
        return _File(identity, [one.id for one in records], "; ".join(odd)), records

    def _records(self, name: str, text: str, changed_at: datetime) -> Iterator[MemoryRecord]:
        above: list[tuple[int, str, str]] = []  # level, id and title of the headings above
        seen, sections = Counter[str](), [*read_sections(text)]
        front = FRONT.match(text)
        named = dict(FRONT_FIELD.findall(front[1])).get("name", "") if front else ""
        for at, (line, end_line, level, title, said) in enumerate(sections):
            while above and above[-1][0] >= level:
                above.pop()
            slug = re.sub(r"\W+", "-", title.casefold()).strip("-") if level else ""
            seen[slug] += 1
            own = f"{name}#{slug}" if level else name
            own += f"-{seen[slug]}" if seen[slug] > 1 else ""
            has_more = at + 1 < len(sections) and sections[at + 1].level > level > 0
            path = [one for *_, one in above] + ([title] if title else [named.strip("'\"")])
            if said.strip() or has_more:
                yield MemoryRecord(
                    id=own,
                    kind="chunks",
                    text=said.strip() or title,
                    namespace=self.namespace,
                    parent_id=above[-1][1] if above else name if level else None,
                    created_at=changed_at,
                    metadata=ChunkMetadata(
                        source=name,
                        heading=" > ".join(filter(None, path)) or None,
                        position=at,
                        start_line=line,
                        end_line=end_line,
                    ),
                )
            if level:
                above.append((level, own, title))


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def open_source(given: str | Path) -> MemoryStore | NotesFolder:
    """Return the notes of a folder, or the store that a URL or the path of a file names.

    A text that ends with a slash is a folder, whether it is there or not; a path without a suffix
    must be there.

    Raises:
        ConfigurationError: It is neither.
    """
    told = os.path.expanduser(given)
    is_folder = isinstance(given, str) and ":" not in given and given.endswith(("/", os.sep))
    if isinstance(given, Path) and not given.suffix and not os.path.exists(told):
        remedy = f"For a folder of notes make it first; for a new database write 'sqlite:{given}'."
        raise ConfigurationError(f"There is nothing at {told!r}.", remedy=remedy)
    return NotesFolder(given) if is_folder or os.path.isdir(told) else open_memory(given)
