"""Instruction files of one folder: AGENT.md, SOUL.md and CONTEXT.md, read with their imports.

Reading never raises for what is in the folder: a missing, empty, unreadable or refused file is a
state, and the others still load.
"""

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from context_assembler.errors import (
    ConfigurationError,
    InvalidParameterError,
    UnsafePathError,
    is_misspelt,
    nearest,
)
from context_assembler.events import Json, JsonObject
from context_assembler.prompt.cutting import cut_text
from context_assembler.texts import CountText, one_line

FileState: TypeAlias = Literal["ok", "missing", "empty", "unreadable", "blocked", "waiting"]
Mask: TypeAlias = Callable[[str], tuple[str, str]]  # the masked text, and a notice if it differs

# If a folder has no AGENT.md, another client's file takes its place.
AGENT_NAMES: Final = ("AGENT.md", "AGENTS.md", "CLAUDE.md")
# What clients call their instruction files, in lower case.
KNOWN_NAMES: Final = frozenset(
    {"agent.md", "agents.md", "claude.md", "claude.local.md", "gemini.md", "soul.md", "context.md"}
    | {"copilot-instructions.md", ".cursorrules", ".windsurfrules"}
)
TEMPLATES: Final = "jinja2"  # the only value of `template:` in front matter

_MAX_FILE_BYTES: Final = 4_000_000
_MAX_READ_BYTES: Final = 32_000_000
_MAX_IMPORT_HOPS: Final = 5
_MAX_IMPORTS: Final = 100
_MAX_IMPORTED_CHARS: Final = 4_000_000
_MAX_REFERENCES: Final = 2_000
_MAX_PATH_CHARS: Final = 4_096
_MAX_POINTER_CHARS: Final = 260
_MAX_AGENT_ID_CHARS: Final = 100
_MAX_FRONT_MATTER_CHARS: Final = 65_536
_MAX_YAML_DEPTH: Final = 32
_MAX_WARNINGS: Final = 50
_MAX_LISTED: Final = 1_000
_MAX_KEPT: Final = 64
# A file that changed this recently may change again and keep its time stamps.
_UNSETTLED_NS: Final = 2_000_000_000
# Opening a pipe would wait for somebody who writes into it.
_OPEN_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
_MARKDOWN: Final = frozenset({"", ".md", ".mdc", ".markdown", ".txt"})

_Identity: TypeAlias = tuple[int, ...]
_Resolve: TypeAlias = Callable[[str], tuple[str | None, str, Sequence[str]]]


class BootstrapFile(NamedTuple):
    """One instruction file as loaded.

    Attributes:
        text: What the model gets: decoded, without front matter and comments, imports resolved.
            Empty unless `state` is `ok`.
        state: `waiting`: an edit that is not sent yet.
        source: Digest of what the file says, before anything is cut, masked or rendered.
        first_line: The line of the file, from 1, on which `text` begins.
        real_path: Where the bytes are, if `path` is a link.
        imports: The files that `@path` references brought in.
        absence: Of a missing file, where it was looked for, what is there, and what to do.
    """

    section: str
    path: str
    state: FileState
    text: str = ""
    metadata: JsonObject = MappingProxyType({})
    warnings: tuple[str, ...] = ()
    source: str = ""
    first_line: int = 1
    is_shortened: bool = False
    real_path: str = ""
    encoding: str = ""
    size_bytes: int = 0
    imports: tuple[str, ...] = ()
    absence: str = ""

    @property
    def is_template(self) -> bool:
        """Whether the file asks to be rendered with Jinja2."""
        return self.state == "ok" and self.metadata.get("template") == TEMPLATES

    def with_text(self, text: str, *warnings: str) -> "BootstrapFile":
        """Return the file with another text; `empty` if nothing is left of it."""
        state: FileState = "ok" if text else "empty"
        return self._replace(text=text, state=state, warnings=(*self.warnings, *warnings))

    def __repr__(self) -> str:
        return f"BootstrapFile({self.path[-200:]!r}, {self.state}, {len(self.text):,} characters)"


class _Loaded(NamedTuple):
    files: tuple[BootstrapFile, ...]
    seen: Mapping[str, _Identity]
    folders: frozenset[str]
    is_settled: bool
    ends_at: float

    def is_current(self, now: float) -> bool:
        is_kept = self.is_settled and now < self.ends_at
        return is_kept and all(_identity(path) == was for path, was in self.seen.items())


class BootstrapLoader:
    """Loads the instruction files of one folder.

    What was read is kept for `ttl_seconds`, and every call compares the files on disk with it, so an
    edit shows in the next call: `BootstrapLoader("bootstrap/").load()`.

    Args:
        folder: Where the files are; it need not exist.
        root: What no path may leave; by default the folder itself, or the repository around it if
            `searches_upward`.
        agent_names: Names accepted for AGENT.md; the first that exists is read.
        searches_upward: Whether the same names in the folders above, up to the root of the
            repository, are read as well, nearest first.
        max_file_tokens: Longest text of one file.
        max_total_tokens: Longest text of all files together; the nearest file is cut last.
        mask: Masks secrets in the files.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        root: str | os.PathLike[str] | None = None,
        agent_names: Sequence[str] = AGENT_NAMES,
        searches_upward: bool = False,
        max_file_tokens: int = 25_000,
        max_total_tokens: int = 50_000,
        ttl_seconds: float = 60.0,
        mask: Mask | None = None,
        clock: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.folder = _folder(folder)
        self._root = None if root is None else _folder(root)
        if not agent_names or isinstance(agent_names, str):
            raise ConfigurationError("agent_names names no file.", remedy="Pass a list of names.")
        self._names = {
            "agent": tuple(agent_names),
            "soul": ("SOUL.md",),
            "context": ("CONTEXT.md",),
        }
        self._searches_upward = searches_upward
        self._caps = max_file_tokens, max_total_tokens
        self._ttl_seconds, self._mask = ttl_seconds, mask
        self._clock, self._now_ns = clock, now_ns
        self._kept: dict[tuple[str | None, CountText | None], _Loaded] = {}
        self._looked_in: frozenset[str] = frozenset()

    def load(
        self, agent_id: str | None = None, *, count_text: CountText | None = None
    ) -> list[BootstrapFile]:
        """Return one file per section, the folder's own first; templates are not rendered yet.

        Args:
            agent_id: `AGENT.<agent_id>.md` wins over `AGENT.md` for this agent, and so do the others.
            count_text: Counts tokens as the model does; without it nothing is cut.

        Raises:
            UnsafePathError: The agent id is no plain name.
        """
        key = agent_id, count_text
        kept = self._kept.get(key)
        if kept is not None and kept.is_current(self._clock()):
            return list(kept.files)
        reading, files = self._read(agent_id)
        if count_text is not None:
            files = self._capped(files, count_text)
        loaded = _Loaded(
            files=tuple(_without_copies(self._in_order(files))),
            seen=reading.seen,
            folders=reading.folders(),
            is_settled=self._now_ns() - reading.newest_ns > _UNSETTLED_NS,
            ends_at=self._clock() + self._ttl_seconds,
        )
        if len(self._kept) >= _MAX_KEPT:
            self._kept = {}
        self._kept[key] = loaded
        self._looked_in |= loaded.folders
        return list(loaded.files)

    def read(
        self, agent_id: str | None = None, *, count_text: CountText
    ) -> list[tuple[BootstrapFile, BootstrapFile]]:
        """Return each file whole and as `load` gives it, read from disk, for a review."""
        files = self._read(agent_id)[1]
        shown = _without_copies(self._in_order(self._capped(files, count_text)))
        return list(zip(self._in_order(files), shown, strict=True))

    def invalidate(self) -> None:
        """Forget what was read."""
        self._kept = {}

    def watched_folders(self) -> set[str]:
        """Return the folder, and each folder of a file that the loads so far looked for."""
        return {os.path.abspath(self.folder), *self._looked_in}

    def names(self, agent_id: str | None = None) -> dict[str, list[str]]:
        """Return by section the names of files that are looked for, first match first."""
        return {section: _with_agent(own, agent_id) for section, own in self._names.items()}

    def _read(self, agent_id: str | None) -> tuple["_Reading", list[BootstrapFile]]:
        """Return all files whole, the nearest first."""
        if agent_id is not None:
            _check_agent_id(agent_id, self.folder)
        folder = os.path.abspath(self.folder)
        repository = _repository_of(folder) if self._searches_upward else None
        reading = _Reading(os.path.realpath(self._root or repository or folder))
        names = self.names(agent_id)
        files = [reading.read_section(section, folder, own) for section, own in names.items()]
        above = (
            reading.read_section("agent", parent, self._names["agent"])
            for parent in _folders_above(folder, repository)
        )
        found = [file for file in above if file.state != "missing"]
        if files[0].state == "missing" and all(file.state != "ok" for file in found):
            files = [
                file
                if file.state != "missing"
                else file._replace(absence=_absence(folder, own, reading.look_in))
                for file, own in zip(files, names.values(), strict=True)
            ]
        files += found
        if self._mask is not None:
            files = [_masked(file, self._mask) for file in files]
        return reading, files

    def _capped(self, files: Iterable[BootstrapFile], count_text: CountText) -> list[BootstrapFile]:
        """Shorten what is too long; the first files get their share of the total first.

        Templates stay whole: the prompt's own budget cuts what they render to.
        """
        capped = []
        most_tokens, left_tokens = self._caps
        for file in files:
            shown = file
            if file.text and not file.is_template:
                tokens, room = count_text(file.text), min(most_tokens, left_tokens)
                if tokens > room:
                    name = re.split(r"[\\/]", file.path)[-1]
                    text = cut_text(file.text, max_tokens=room, name=name, count_text=count_text)
                    left = count_text(text)
                    cut = f"{tokens:,} tokens were cut to {left:,}"
                    shown, tokens = file.with_text(text, cut)._replace(is_shortened=True), left
                left_tokens -= tokens
            capped.append(shown)
        return capped

    def _in_order(self, nearest_first: Sequence[BootstrapFile]) -> list[BootstrapFile]:
        """Return the files in the order of the prompt: the agent's, nearest first, then the others."""
        agent, *others = nearest_first
        own = len(self._names) - 1
        return [agent, *others[own:], *others[:own]]


def _folder(folder: str | os.PathLike[str]) -> str:
    """Return a folder that can exist; a `~` in front is the user's home.

    Raises:
        InvalidParameterError: No folder can have that name.
    """
    try:
        if b"\0" not in os.fsencode(folder):
            return os.path.expanduser(os.fspath(folder))
    except ValueError:  # half a character
        pass
    raise InvalidParameterError(
        "the bootstrap folder",
        folder,
        rule="must be a path",
        remedy="Name a folder that can exist.",
    )


def _check_agent_id(agent_id: str, folder: str) -> None:
    is_plain = all(char.isalnum() or char in "._-" for char in agent_id)
    if is_plain and 0 < len(agent_id) <= _MAX_AGENT_ID_CHARS and not agent_id.startswith("."):
        return
    raise UnsafePathError(agent_id, root=folder, what="The agent id")


def _with_agent(names: Sequence[str], agent_id: str | None) -> list[str]:
    if agent_id is None:
        return list(names)
    return [f".{agent_id}".join(os.path.splitext(name)) for name in names] + list(names)


def _repository_of(folder: str) -> str | None:
    while not os.path.exists(os.path.join(folder, ".git")):
        folder, inner = os.path.dirname(folder), folder
        if folder == inner:
            return None
    return folder


def _folders_above(folder: str, repository: str | None) -> Iterator[str]:
    while repository is not None and folder != repository:
        folder = os.path.dirname(folder)
        yield folder


def _masked(file: BootstrapFile, mask: Mask) -> BootstrapFile:
    text, notice = mask(file.text)
    return file.with_text(text, notice) if text != file.text else file


def _without_copies(files: Iterable[BootstrapFile]) -> Iterator[BootstrapFile]:
    """Show a text once, whether a link or a copy repeats it."""
    shown: dict[str, str] = {}
    for file in files:
        if file.state == "ok" and file.text in shown:
            twice = f"the same text as {shown[file.text]}, which is shown already"
            yield file.with_text("", twice)._replace(state="blocked")
        else:
            shown[file.text] = file.path
            yield file


def digest(*texts: str) -> str:
    """Return a short text that differs if one of the texts does."""
    made = blake2b(digest_size=8)
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        made.update(len(raw).to_bytes(8, "big") + raw)
    return made.hexdigest()


def _identity(path: str) -> _Identity:
    """Return what changes if a file is written, replaced, linked elsewhere, made or removed."""
    try:
        found = os.stat(path)
    except OSError as error:
        return (error.errno or 0,)
    except ValueError:
        return ()
    times = found.st_mtime_ns, found.st_ctime_ns
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, *times


def is_variant(name: str) -> bool:
    """Whether the name is that of one agent's own file (`AGENT.<agent_id>.md`)."""
    return re.fullmatch(r"(AGENT|SOUL|CONTEXT)\.[^.]+\.md", name) is not None


def _absence(folder: str, names: Sequence[str], look_in: Callable[[str], None]) -> str:
    """Say why the folder has none of the names, and what to do."""
    remedy = "Correct what bootstrap= or the setting [bootstrap] folder names."
    if not os.path.lexists(folder):
        parent, name = os.path.split(folder)
        look_in(parent)
        near = nearest(name, _names_in(parent, are_folders=True), count=1)
        is_meant = bool(near) and is_misspelt(name, near)
        hint = f", but {one_line(near[0])!r} next to it" if is_meant else ""
        return f"there is no folder {one_line(folder)}{hint}. {remedy}"
    if not os.path.isdir(folder):
        return f"{one_line(folder)} is not a folder. {remedy}"
    look_in(folder)
    missing = f"there is no {' or '.join(names)} in {one_line(folder)}"
    found = _names_in(folder, are_folders=False)
    meant = next((name for name in found if _may_be_meant(name, names)), None)
    if meant is None:
        return f"{missing}. Write it, or set [bootstrap] required to the sections that you have."
    known = "list its name in the setting [bootstrap] agent_names"
    return f"{missing}, but {one_line(meant)}: rename that, or {known}."


def _names_in(folder: str, *, are_folders: bool) -> list[str]:
    """Return the folders or the other entries there, sorted; of thousands not all."""
    try:
        with os.scandir(folder) as entries:
            looked_at = [entry for entry, _ in zip(entries, range(_MAX_LISTED), strict=False)]
    except OSError:
        return []
    return sorted(entry.name for entry in looked_at if entry.is_dir() == are_folders)


def _may_be_meant(name: str, names: Sequence[str]) -> bool:
    lowered, wanted = name.lower(), [one.lower() for one in names]
    others = {"soul.md", "context.md"}
    if lowered in wanted:
        return True
    if lowered in KNOWN_NAMES:
        return lowered not in others and others.isdisjoint(wanted)
    return not is_variant(name) and is_misspelt(lowered, wanted)


# ---- reading ----


class _Opened(NamedTuple):
    path: str
    state: FileState
    warnings: tuple[str, ...] = ()
    text: str = ""
    encoding: str = ""
    size_bytes: int = 0


class _Reading:
    """One walk over the folder; each file is read once, whatever names and imports lead to it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.seen: dict[str, _Identity] = {}
        self.newest_ns = 0
        self.opened: dict[str, _Opened] = {}
        self.imported: list[str] = []
        self.read_bytes = self.references = self.imported_chars = self.front_matter_chars = 0

    def folders(self) -> frozenset[str]:
        """Return the folders inside the root in which something was looked for."""
        paths = {os.path.normpath(path) for path in self.seen} | self.opened.keys()
        parents = {os.path.dirname(path) for path in paths}
        return frozenset(one for one in parents if _is_below(os.path.realpath(one), self.root))

    def look_in(self, folder: str) -> None:
        self.seen[folder] = found = _identity(folder)
        self.newest_ns = max(self.newest_ns, *found[-2:])

    def read_section(self, section: str, folder: str, names: Sequence[str]) -> BootstrapFile:
        """Return the first of the names that exists."""
        for name in names:
            path = os.path.join(folder, name)
            if self._exists(path):
                return self._read_file(section, path)
        return BootstrapFile(section, os.path.join(folder, names[-1]), "missing")

    def _exists(self, path: str) -> bool:
        """Whether something has that name: a broken link, say, or what may not be looked at."""
        self.seen[path] = _identity(path)
        try:
            os.lstat(path)
        except OSError as error:
            return error.errno not in _ABSENT
        except ValueError:
            return False
        return True

    def _read_file(self, section: str, path: str, *, follows: bool = True) -> BootstrapFile:
        opened = self._open(path)
        file = BootstrapFile(
            section=section,
            path=path,
            state=opened.state,
            warnings=opened.warnings,
            source=digest(section, opened.state),
            real_path=opened.path,
            encoding=opened.encoding,
            size_bytes=opened.size_bytes,
        )
        if opened.state != "ok":
            return file
        if follows and (target := self._pointed_at(path, opened.text)):
            hint = f"it only names {opened.text.strip()!r}: read as a link"
            file = self._read_file(section, target, follows=False)
            return file._replace(warnings=(*opened.warnings, hint, *file.warnings))
        before = len(self.imported)
        metadata, text, first_line, warnings = self._front_matter(opened.text)
        template = metadata.get("template")
        is_template = template == TEMPLATES
        if template and not is_template:
            shown = f"template: {one_line(str(template))[:60]} is unknown"
            warnings.append(f"{shown}, so it is sent as it stands (known: {TEMPLATES})")
        resolve = self._importer(path, (opened.path,))
        text, more = _resolve_text(text, resolve, is_template=is_template)
        text = text.rstrip() if is_template else text.strip()
        warnings = list(dict.fromkeys([*warnings, *more]))
        if self.references > _MAX_REFERENCES:
            warnings.insert(0, f"only the first {_MAX_REFERENCES:,} words with @ were looked up")
        if (rest := len(warnings) - _MAX_WARNINGS) > 0:
            warnings[_MAX_WARNINGS:] = [f"{rest:,} more of this kind"]
        return file.with_text(text, *warnings)._replace(
            metadata=metadata,
            first_line=first_line,
            imports=tuple(dict.fromkeys(self.imported[before:])),
            source=digest(section, text, "template" if is_template else ""),
        )

    def _front_matter(self, text: str) -> tuple[JsonObject, str, int, list[str]]:
        chars = _front_matter_chars(text)
        self.front_matter_chars += chars
        if self.front_matter_chars > 2 * _MAX_FRONT_MATTER_CHARS:
            most = f"more than {2 * _MAX_FRONT_MATTER_CHARS:,} characters of front matter in all"
            return {}, text, 1, [f"{most}: this stays text"]
        return split_front_matter(text)

    def _pointed_at(self, path: str, text: str) -> str | None:
        """Return the file that is all that the text names: a link, checked out as a file."""
        name = text.strip()
        is_name = 0 < len(name) <= _MAX_POINTER_CHARS and name.endswith(".md")
        if not is_name or re.search(r"[ \n]", name) or name == os.path.basename(path):
            return None
        target = os.path.join(os.path.dirname(path), name)
        real = os.path.realpath(target)
        is_found = self._exists(target) and _is_below(real, self.root) and os.path.isfile(real)
        return target if is_found else None

    def _open(self, path: str) -> _Opened:
        self.seen[path] = _identity(path)
        real = os.path.realpath(path)
        if not _is_below(real, self.root):
            return _Opened(real, "blocked", ("it is outside the folder and was not read",))
        if real not in self.opened:
            if self.read_bytes > _MAX_READ_BYTES:
                most = f"more than {_MAX_READ_BYTES:,} bytes read in all"
                return _Opened(real, "unreadable", (most,))
            self.opened[real] = self._open_real(real)
        return self.opened[real]

    def _open_real(self, real: str) -> _Opened:
        try:
            found = os.stat(real)
            if not stat.S_ISREG(found.st_mode):
                kind = "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file"
                return _Opened(real, "unreadable", (f"it is {kind}",))
            raw = read_bytes(real, _MAX_FILE_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            return _Opened(real, "unreadable", (f"it cannot be read: {reason}",))
        self.read_bytes += len(raw)
        self.newest_ns = max(self.newest_ns, found.st_mtime_ns, found.st_ctime_ns)
        text, encoding, warnings = decode_text(raw[:_MAX_FILE_BYTES])
        if len(raw) > _MAX_FILE_BYTES:
            warnings.append(f"only the first {_MAX_FILE_BYTES:,} bytes were read")
        is_empty = not text.strip()
        if is_empty and warnings:
            warnings.append("nothing is left of it")
        state: FileState = "empty" if is_empty else "ok"
        return _Opened(real, state, tuple(warnings), text, encoding, found.st_size)

    def _importer(self, path: str, chain: tuple[str, ...]) -> _Resolve:
        def refuse(reason: str) -> tuple[None, str, tuple[str, ...]]:
            return None, reason, ()

        def resolve(name: str) -> tuple[str | None, str, Sequence[str]]:
            """Return the text; or `None` and why it is refused, empty if it stays as written."""
            self.references += 1
            if self.references > _MAX_REFERENCES or len(name) > _MAX_PATH_CHARS:
                return refuse("")
            if name.startswith("~") or "\0" in name:
                return refuse("it is outside the folder")
            target = os.path.join(os.path.dirname(path), name)
            if not self._exists(target):
                looks_meant = name.endswith(".md") or name.startswith((".", "/"))
                return refuse("there is no such file" if looks_meant else "")
            opened = self._open(target)
            if opened.state in ("unreadable", "blocked"):
                is_word = opened.state == "unreadable" and "/" not in name
                return refuse("" if is_word else opened.warnings[0])
            if opened.path in chain:
                return refuse("it imports itself")
            if len(chain) > _MAX_IMPORT_HOPS:
                return refuse(f"more than {_MAX_IMPORT_HOPS} imports deep")
            self.imported_chars += len(opened.text)
            if len(self.imported) >= _MAX_IMPORTS:
                return refuse(f"more than {_MAX_IMPORTS} imports in all")
            if self.imported_chars > _MAX_IMPORTED_CHARS:
                return refuse(f"more than {_MAX_IMPORTED_CHARS:,} characters imported in all")
            self.imported.append(opened.path)
            if os.path.splitext(target)[1].lower() not in _MARKDOWN:
                longest = max(map(len, re.findall("`+", opened.text)), default=0)
                ticks = "`" * max(3, longest + 1)
                return f"{ticks}\n{opened.text.strip()}\n{ticks}", "", opened.warnings
            _, text, _, warnings = self._front_matter(opened.text)
            text, more = _resolve_text(text, self._importer(target, (*chain, opened.path)))
            return text.strip(), "", (*opened.warnings, *warnings, *more)

        return resolve


def _is_below(real: str, root: str) -> bool:
    return real == root or real.startswith(os.path.join(root, ""))


def read_bytes(path: str, most_bytes: int) -> bytes:
    """Return the beginning of a file, without waiting for anybody who would write to it."""
    with os.fdopen(os.open(path, _OPEN_FLAGS), "rb") as file:
        return file.read(most_bytes) or b""


def decode_text(raw: bytes) -> tuple[str, str, list[str]]:
    """Return the text with Unix line ends, how it was encoded, and what was odd about its bytes."""
    encoding, marks, warnings = "utf-8", "", list[str]()
    for mark, name in (
        (b"\xef\xbb\xbf", "utf-8"),
        (b"\xff\xfe", "utf-16-le"),
        (b"\xfe\xff", "utf-16-be"),
    ):
        if raw.startswith(mark):
            raw, encoding, marks = raw[len(mark) :], name, ", BOM"
            break
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        text = raw.decode(encoding, "replace")
        line = raw.count(b"\n", 0, error.start) + 1
        name = encoding.upper()
        warnings.append(f"bytes that are not {name} were replaced, first in line {line}")
    if "\0" in text:
        text = text.replace("\0", "")
        warnings.append("NUL characters were removed")
    if "\r" in text:
        text, marks = text.replace("\r\n", "\n").replace("\r", "\n"), f"{marks}, CRLF"
    return text.removeprefix("\ufeff"), encoding + marks, warnings


# ---- front matter ----

_FRONT_MATTER: Final = re.compile(
    r"---[ \t]*\n(?P<lines>(?:(?!(?:---|\.\.\.)\s*$).*\n)*)(?:---|\.\.\.)\s*?(?:\n|\Z)",
    re.MULTILINE,
)
_PLAIN_LINE: Final = re.compile(r"(?P<key>[A-Za-z][\w-]*)\s*:(?:\s+(?P<value>.*))?$")
# Lines that YAML reads the same way: a word, and text that is no other type to YAML.
_SIMPLE_LINE: Final = re.compile(
    r"""(?P<key>[A-Za-z][\w-]*): +(?:"(?P<quoted>[^"\\]*)"|(?P<plain>[A-Za-z](?:[^:#]|:(?=\S)|(?<=\S)\#)*?)) *"""
)
_TYPED: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def _front_matter_chars(text: str) -> int:
    found = _FRONT_MATTER.match(text)
    return found.end("lines") if found and found.end("lines") <= _MAX_FRONT_MATTER_CHARS else 0


def split_front_matter(text: str) -> tuple[JsonObject, str, int, list[str]]:
    """Return metadata, the text after it, the line (from 1) on which that begins, and warnings.

    A text that only begins with a rule stays whole.
    """
    found = _FRONT_MATTER.match(text)
    if found is None or found.end("lines") > _MAX_FRONT_MATTER_CHARS:
        return {}, text, 1, []
    lines = found["lines"].split("\n")[:-1]
    warnings = list[str]()
    metadata = _simple_lines(lines)
    if metadata is None:
        metadata = _yaml(found["lines"].removesuffix("\n"), warnings)
    if metadata is None:
        return {}, text, 1, []
    return metadata, text[found.end() :], len(lines) + 3, warnings


def _simple_lines(lines: Sequence[str]) -> dict[str, Json] | None:
    """Return `key: value` lines that YAML would read the same way; `None` if only YAML can."""
    read: dict[str, Json] = {}
    for line in lines:
        if not line or (line.startswith("#") and line.isprintable()):
            continue
        found = _SIMPLE_LINE.fullmatch(line) if line.isprintable() else None
        if found is None or not _TYPED.isdisjoint(
            map(str.lower, (found["key"], found["plain"] or ""))
        ):
            return None
        read[found["key"]] = found["plain"] if found["quoted"] is None else found["quoted"]
    return read


def _yaml(text: str, warnings: list[str]) -> dict[str, Json] | None:
    import yaml

    try:
        loaded = yaml.safe_load(text)
        if loaded is None:
            return {}
        # A rule, some prose and another rule are not front matter.
        return plain_yaml(loaded) if isinstance(loaded, dict) else None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        read: dict[str, Json] = {}
        for line in text.split("\n"):
            if found := _PLAIN_LINE.match(line):
                read[found["key"]] = (found["value"] or "").strip().strip("\"'")
            elif line.strip() and not line.startswith((" ", "\t", "-", "#")):
                return None
        reason = str(getattr(error, "problem", None) or error).splitlines()[0]
        warnings.append(f"its front matter is not YAML ({reason}); simple lines were read")
        return read or None


def plain_yaml(loaded: Json) -> Json:
    """Return what a YAML loader made as JSON has it: dates, sets and keys as text.

    Raises:
        ValueError: It holds too many values, those that are referred to included, or nests too deeply.
    """
    left = [_MAX_FRONT_MATTER_CHARS]

    def plain(value: Json, depth: int) -> Json:
        left[0] -= 1
        if left[0] < 0:
            raise ValueError("it unfolds to too many values")
        if depth > _MAX_YAML_DEPTH:
            raise ValueError("it is nested too deeply")
        if isinstance(value, dict):
            return {str(key): plain(one, depth + 1) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [plain(one, depth + 1) for one in value]
        if isinstance(value, set):  # its own order changes from process to process
            return sorted((plain(one, depth + 1) for one in value), key=str)
        if value is None or isinstance(value, str | bool | int | float):
            return value
        return value.isoformat() if hasattr(value, "isoformat") else str(value)

    return plain(loaded, 0)


# ---- Markdown ----

# Not within a word (mail addresses), not a second @; up to a space, a quote or a bracket.
_REFERENCE: Final = re.compile(r"(?<![\w@`/.])@(?P<path>(?:\\ |[^\s`'\"<>()\[\]{}|,;@])++)")
_FENCE: Final = re.compile(r" {0,3}(?:[-*+>] +|\d{1,9}[.)] +)*(?P<fence>`{3,}|~{3,})(?P<rest>.*)")
_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
_TOKENS: Final = re.compile(r"`+|<!--")
_LIST_START: Final = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s")


def _resolve_text(
    text: str, resolve: _Resolve, *, is_template: bool = False
) -> tuple[str, list[str]]:
    """Return the text without HTML comments, files in place of `@path`, and what went wrong.

    A reference that has its line to itself is replaced by the file; one within a sentence stays,
    and the file follows at the end. In a template both comments and imports keep the line count,
    so that errors name the right line, and imported text is never executed.
    """
    kept: list[str] = []
    appended: list[str] = []
    warnings: list[str] = []

    def put(match: re.Match[str]) -> str:
        path = match["path"].replace("\\ ", " ")
        found, reason, more = resolve(path)
        bare = path.rstrip(".:!?*_")
        is_whole = True
        if found is None and not reason and bare != path:
            path, is_whole = bare, False
            found, reason, more = resolve(bare)
        warnings.extend(more)
        if reason:
            shown = path if len(path) <= 200 else f"{path[:200]}…"
            shown = shown if shown.isprintable() else shown.encode("unicode_escape").decode()
            warnings.append(f"@{shown} was not imported: {reason}")
        if not found:
            return match[0]
        literal = _as_literal(found) if is_template else found
        if is_whole and _is_alone(match):
            return literal
        appended.append(literal)
        return match[0]

    after_comment = False
    for kind, piece in split_markdown(text):
        if kind == "comment":
            after_comment = not is_template
            kept += ["\n" * piece.count("\n")] if is_template else []
            continue
        shown = piece if kind == "code" else _REFERENCE.sub(put, piece)
        kept.append(_after_comment(kept, shown) if after_comment else shown)
        after_comment = False
    body = "".join(kept)
    return "\n\n".join([body.rstrip(), *appended]) if appended else body, warnings


def _is_alone(match: re.Match[str]) -> bool:
    before = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
    return not before.strip() and not match.string[match.end() :].partition("\n")[0].strip()


def _as_literal(text: str) -> str:
    """Return a Jinja2 expression of one line that yields exactly this text."""
    escaped = text.encode("unicode_escape", "replace").decode("ascii").replace('"', '\\"')
    return '{{ "' + escaped + '" }}'


def _after_comment(kept: Sequence[str], text: str) -> str:
    """Return what follows a dropped comment without the blank lines that the comment leaves."""
    before = "".join(kept[-8:])[-2:]
    if not before or before == "\n\n":
        return text.lstrip("\n")
    return text.removeprefix("\n") if before.endswith("\n") else text


def split_markdown(text: str) -> list[tuple[Literal["text", "code", "comment"], str]]:
    """Split into code (fenced, indented or in backticks), HTML comments, and the rest.

    A comment that never closes is text: the rest of the file must not vanish with it.
    """
    pieces: list[tuple[Literal["text", "code", "comment"], str]] = []
    fence, in_comment, after_blank, in_list = "", False, True, False
    last_close, at = text.rfind("-->"), 0
    for line in _LINES.findall(text):
        is_indented = line.startswith(("    ", "\t")) and bool(line.strip())
        opened = None if in_comment or fence else _FENCE.match(line)
        if fence:
            bare = line.strip()
            if len(bare) >= len(fence) and bare == fence[0] * len(bare):
                fence = ""
            pieces.append(("code", line))
        elif opened and not (opened["fence"][0] == "`" and "`" in opened["rest"]):
            fence = opened["fence"]
            pieces.append(("code", line))
        elif is_indented and after_blank and not in_list and not in_comment:
            pieces.append(("code", line))
        else:
            was_in_comment = in_comment
            in_comment = _split_line(line, at, last_close, pieces, in_comment=in_comment)
            if not was_in_comment:
                if line.strip():
                    goes_on = in_list and line.startswith((" ", "\t"))
                    in_list = bool(_LIST_START.match(line)) or goes_on
                after_blank = not line.strip()
        at += len(line)
    joined: list[tuple[Literal["text", "code", "comment"], list[str]]] = []
    for kind, piece in pieces:
        if joined and joined[-1][0] == kind:
            joined[-1][1].append(piece)
        elif piece:
            joined.append((kind, [piece]))
    return [(kind, "".join(parts)) for kind, parts in joined]


def _split_line(
    line: str,
    at: int,
    last_close: int,
    pieces: list[tuple[Literal["text", "code", "comment"], str]],
    *,
    in_comment: bool,
) -> bool:
    """Add the pieces of a line that is not a block of code; whether a comment goes on after it."""
    ends: dict[int, list[int]] = {}
    for run in re.finditer("`+", line):
        ends.setdefault(len(run[0]), []).append(run.end())
    for found in ends.values():
        found.reverse()
    done = 0
    while done < len(line):
        if in_comment:
            close = line.find("-->", done)
            end = len(line) if close < 0 else close + 3
            pieces.append(("comment", line[done:end]))
            in_comment, done = close < 0, end
            continue
        token = _TOKENS.search(line, done)
        if token is None:
            pieces.append(("text", line[done:]))
            break
        pieces.append(("text", line[done : token.start()]))
        done = token.end()
        if token[0] == "<!--":
            in_comment = last_close >= at + done
            pieces.append(("comment" if in_comment else "text", token[0]))
            continue
        closing = ends[len(token[0])]  # of runs with as many backticks
        while closing and closing[-1] <= token.end():
            closing.pop()
        kind: Literal["text", "code"] = "code" if closing else "text"
        done = closing[-1] if closing else done
        pieces.append((kind, line[token.start() : done]))
    return in_comment
