"""Instruction files of one folder: AGENT.md, SOUL.md and CONTEXT.md, read with their imports.

Reading never raises for what is in the folder: a missing, empty, unreadable or refused file is a
state, and the others still load.
"""

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from context_assembler.errors import InvalidParameterError, UnsafePathError
from context_assembler.events import Json, JsonObject, is_object
from context_assembler.prompt.cutting import cut_text
from context_assembler.texts import CountText, decode_text, one_line

FileState: TypeAlias = Literal["ok", "missing", "empty", "unreadable", "blocked", "waiting"]
Mask: TypeAlias = Callable[[str], tuple[str, Sequence[str]]]  # the masked text; kinds of secrets
_Identity: TypeAlias = tuple[int, ...]
_Found: TypeAlias = tuple[str | None, str, Sequence[str]]  # a text, or why there is none; warnings

# If a folder has no AGENT.md, another client's file takes its place.
AGENT_NAMES: Final = ("AGENT.md", "AGENTS.md", "CLAUDE.md")
_TEMPLATES: Final = "jinja2"  # the only value of `template:` in front matter

_UNREADABLE: Final[FileState] = "unreadable"
_BLOCKED: Final[FileState] = "blocked"

_MAX_FILE_BYTES: Final = 4_000_000
_MAX_READ_BYTES: Final = 32_000_000
_MAX_IMPORT_HOPS: Final = 5
_MAX_IMPORTS: Final = 100
_MAX_REFERENCES: Final = 2_000
_MAX_FRONT_MATTER_CHARS: Final = 65_536
_MAX_WARNINGS: Final = 50
# A file that changed this recently may change again and keep its time stamps.
_UNSETTLED_NS: Final = 2_000_000_000
# Opening a pipe would wait for somebody who writes into it.
_OPEN_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class BootstrapFile(NamedTuple):
    """One instruction file as loaded.

    Attributes:
        text: What the model gets: decoded, without front matter and comments, imports resolved.
            Empty unless `state` is `ok`.
        state: `waiting`: an edit that is not sent yet.
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
        return self.state == "ok" and self.metadata.get("template") == _TEMPLATES

    def with_text(self, text: str, *warnings: str) -> "BootstrapFile":
        """Return the file with another text; `empty` if nothing is left of it."""
        state: FileState = "ok" if text else "empty"
        return self._replace(text=text, state=state, warnings=(*self.warnings, *warnings))

    def __repr__(self) -> str:
        return f"BootstrapFile({self.path[-200:]!r}, {self.state}, {len(self.text):,} characters)"


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
        if b"\0" in os.fsencode(folder):
            rule, remedy = "must be a path", "Name a folder that can exist."
            raise InvalidParameterError("the bootstrap folder", folder, rule=rule, remedy=remedy)
        self.folder: str = os.path.expanduser(folder)
        self._root: str | None = None if root is None else os.path.expanduser(root)
        agent = tuple(agent_names)
        self._names = {"agent": agent, "soul": ("SOUL.md",), "context": ("CONTEXT.md",)}
        self._searches_upward, self._mask = searches_upward, mask
        self._caps = max_file_tokens, max_total_tokens
        self._ttl_seconds, self._clock, self._now_ns = ttl_seconds, clock, now_ns
        # Files, the time until which they are good, and all that was looked at for them.
        self._kept: dict[object, tuple[list[BootstrapFile], float, Reading]] = {}
        self._looked_in: set[str] = set()

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
        key, now = (agent_id, count_text), self._clock()
        kept = self._kept.get(key)
        if kept is not None and now < kept[1] and not kept[2].has_changed():
            return list(kept[0])
        reading, files = self._read(agent_id)
        files = list(self._capped(files, count_text)) if count_text is not None else files
        files = list(_without_copies(self._in_order(files)))
        self._looked_in |= reading.folders()
        if reading.is_settled(self._now_ns()):
            self._kept[key] = list(files), now + self._ttl_seconds, reading
        return files

    def read(
        self, agent_id: str | None = None, *, count_text: CountText
    ) -> list[tuple[BootstrapFile, BootstrapFile]]:
        """Return each file whole and as `load` gives it, read from disk, for a review."""
        files = self._read(agent_id)[1]
        shown = self._in_order(list(self._capped(files, count_text)))
        return list(zip(self._in_order(files), _without_copies(shown), strict=True))

    def invalidate(self) -> None:
        """Forget what was read."""
        self._kept = {}

    def watched_folders(self) -> set[str]:
        """Return the folder, and each folder of a file that the loads so far looked for."""
        return {os.path.abspath(self.folder), *self._looked_in}

    def names(self, agent_id: str | None = None) -> dict[str, list[str]]:
        """Return by section the names of files that are looked for, first match first."""
        agent = "" if agent_id is None else f".{agent_id}"
        return {
            section: [*(agent.join(os.path.splitext(n)) for n in own if agent), *own]
            for section, own in self._names.items()
        }

    def _read(self, agent_id: str | None) -> tuple["Reading", list[BootstrapFile]]:
        """Return all files whole, the nearest first."""
        if agent_id is not None and not re.fullmatch(r"(?!\.)[\w.-]{1,100}", agent_id):
            raise UnsafePathError(agent_id, root=self.folder, what="The agent id")
        folder = os.path.abspath(self.folder)
        repository = _repository_of(folder) if self._searches_upward else None
        reading = Reading(os.path.realpath(self._root or repository or folder))
        names = self.names(agent_id)
        files = [reading.read_section(section, folder, own) for section, own in names.items()]
        found, parent = list[BootstrapFile](), folder
        while repository is not None and parent != repository:
            parent = os.path.dirname(parent)
            above = reading.read_section("agent", parent, self._names["agent"])
            found += [above] if above.state != "missing" else []
        if files[0].state == "missing" and all(file.state != "ok" for file in found):
            remedy = "There is no such folder: correct what bootstrap= or [bootstrap] folder names."
            if os.path.isdir(folder):
                remedy = "Write it, or set [bootstrap] required to the sections that you have."
            for at, (file, own) in enumerate(zip(files, names.values(), strict=True)):
                missing = f"there is no {' or '.join(own)} in {one_line(folder)}. {remedy}"
                files[at] = file._replace(absence=missing if file.state == "missing" else "")
        files += found
        for at, file in enumerate(files if self._mask is not None else ()):
            text, kinds = self._mask(file.text) if self._mask else ("", ())
            files[at] = file.with_text(text, masking_notice(kinds)) if kinds else file
        return reading, files

    def _capped(
        self, files: Iterable[BootstrapFile], count_text: CountText
    ) -> Iterator[BootstrapFile]:
        """Shorten what is too long; the first files get their share of the total first.

        Templates stay whole: the prompt's own budget cuts what they render to.
        """
        most_tokens, left_tokens = self._caps
        for whole in files:
            file = whole
            tokens = 0 if file.is_template or not file.text else count_text(file.text)
            if tokens > (room := min(most_tokens, left_tokens)):
                name = re.split(r"[\\/]", file.path)[-1]
                text = cut_text(file.text, max_tokens=room, name=name, count_text=count_text)
                before, tokens = tokens, count_text(text)
                file = file.with_text(text, f"{before:,} tokens were cut to {tokens:,}")
                file = file._replace(is_shortened=True)
            left_tokens -= tokens
            yield file

    def _in_order(self, nearest_first: Sequence[BootstrapFile]) -> list[BootstrapFile]:
        """Return the files in the order of the prompt: the agent's, nearest first, then the others."""
        agent, *others = nearest_first
        own = len(self._names) - 1
        return [agent, *others[own:], *others[:own]]


def _repository_of(folder: str) -> str | None:
    while not os.path.exists(os.path.join(folder, ".git")):
        folder, inner = os.path.dirname(folder), folder
        if folder == inner:
            return None
    return folder


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


def masking_notice(kinds: Sequence[str]) -> str:
    """Say what was masked, for a report."""
    what = "a secret was" if len(kinds) == 1 else f"{len(kinds)} secrets were"
    return f"{what} masked ({', '.join(dict.fromkeys(kinds))})"


def _identity(path: str) -> _Identity:
    """Return what changes if a file is written, replaced, linked elsewhere, made or removed."""
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        return (getattr(error, "errno", None) or 0,)
    times = found.st_mtime_ns, found.st_ctime_ns
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, *times


# ---- reading ----


class Reading:
    """One walk over the folder; each file is read once, whatever names and imports lead to it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.seen: dict[str, _Identity] = {}
        self.newest_ns = 0
        self.opened: dict[str, BootstrapFile] = {}
        self.imported: list[str] = []
        self.read_bytes = self.references = 0

    def is_settled(self, now_ns: int) -> bool:
        """Whether everything that was looked at changed long enough ago to show in time stamps."""
        return now_ns - self.newest_ns > _UNSETTLED_NS

    def has_changed(self) -> bool:
        """Whether anything that was looked at is another one by now."""
        return any(_identity(path) != was for path, was in self.seen.items())

    def folders(self) -> set[str]:
        """Return the folders inside the root in which something was looked for."""
        paths = {os.path.normpath(path) for path in self.seen} | self.opened.keys()
        parents = {os.path.dirname(path) for path in paths}
        real = ((one, os.path.realpath(one)) for one in parents)
        return {one for one, at in real if self._is_inside(at) and os.path.isdir(at)}

    def look_in(self, folder: str) -> None:
        """Note that what is in a folder counts."""
        self.seen[folder] = found = _identity(folder)
        self.newest_ns = max(self.newest_ns, *found[-2:])

    def read_section(self, section: str, folder: str, names: Sequence[str]) -> BootstrapFile:
        """Return the first of the names that exists."""
        for name in names:
            if self._exists(path := os.path.join(folder, name)):
                return self._read_file(section, path)
        return BootstrapFile(section, os.path.join(folder, names[-1]), "missing")

    def _exists(self, path: str) -> bool:
        """Whether something has that name: a broken link, say, or what may not be looked at."""
        self.seen[path] = _identity(path)
        try:
            os.lstat(path)
        except OSError as error:
            return error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
        except ValueError:
            return False
        return True

    def _is_inside(self, real: str) -> bool:
        return os.path.join(real, "").startswith(os.path.join(self.root, ""))

    def _read_file(self, section: str, path: str, *, follows: bool = True) -> BootstrapFile:
        file = self.open(path)
        file = file._replace(section=section, path=path)
        if file.state != "ok":
            return file._replace(text="")
        if follows and (target := self._pointed_at(path, file.text)):
            hint = f"it only names {file.text.strip()!r}: read as a link"
            warnings = (*file.warnings, hint)
            file = self._read_file(section, target, follows=False)
            return file._replace(warnings=(*warnings, *file.warnings))
        before = len(self.imported)
        metadata, text, first_line, odd = split_front_matter(file.text)
        template = metadata.get("template")
        is_template = template == _TEMPLATES
        if template and not is_template:
            shown = f"template: {one_line(str(template))[:60]} is unknown"
            odd.append(f"{shown}, so it is sent as it stands (known: {_TEMPLATES})")
        text, more = self._resolved(text, path, (file.real_path,), is_template=is_template)
        text = text.rstrip() if is_template else text.strip()
        odd = list(dict.fromkeys([*odd, *more]))
        if self.references > _MAX_REFERENCES:
            odd.insert(0, f"only the first {_MAX_REFERENCES:,} words with @ were looked up")
        if (rest := len(odd) - _MAX_WARNINGS) > 0:
            odd[_MAX_WARNINGS:] = [f"{rest:,} more of this kind"]
        imports = tuple(dict.fromkeys(self.imported[before:]))
        file = file._replace(metadata=metadata, first_line=first_line, imports=imports)
        return file.with_text(text, *odd)

    def _pointed_at(self, path: str, text: str) -> str | None:
        """Return the file that is all that the text names: a link, checked out as a file."""
        name = text.strip()
        if not re.fullmatch(r"[^ \n]{1,257}\.md", name) or name == os.path.basename(path):
            return None
        target = os.path.join(os.path.dirname(path), name)
        real = os.path.realpath(target)
        is_file = self._exists(target) and os.path.isfile(real)
        return target if is_file and self._is_inside(real) else None

    def open(self, path: str) -> BootstrapFile:
        """Return the text of a file, or why there is none."""
        self.seen[path] = _identity(path)
        real = os.path.realpath(path)
        reason, state, raw, size, newest_ns = "", _UNREADABLE, b"", 0, 0
        if not self._is_inside(real):
            reason, state = "it is outside the folder and was not read", _BLOCKED
        elif self.read_bytes > _MAX_READ_BYTES:
            reason = f"more than {_MAX_READ_BYTES:,} bytes read in all"
        elif real in self.opened:
            self.read_bytes += self.opened[real].size_bytes
            return self.opened[real]
        else:
            try:
                found = os.stat(real)
                size, newest_ns = found.st_size, max(found.st_mtime_ns, found.st_ctime_ns)
                if stat.S_ISREG(found.st_mode):
                    with os.fdopen(os.open(real, _OPEN_FLAGS), "rb") as opened_file:
                        raw = opened_file.read(_MAX_FILE_BYTES + 1) or b""
                else:
                    what = "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file"
                    reason = f"it is {what}"
            except OSError as error:
                reason = f"it cannot be read: {error.strerror}"
        if reason:
            return BootstrapFile("", path, state, warnings=(reason,), real_path=real)
        self.read_bytes += len(raw)
        self.newest_ns = max(self.newest_ns, newest_ns)
        text, encoding, odd = decode_text(raw[:_MAX_FILE_BYTES])
        if len(raw) > _MAX_FILE_BYTES:
            odd.append(f"only the first {_MAX_FILE_BYTES:,} bytes were read")
        is_empty = not text.strip()
        odd += ["nothing is left of it"] if is_empty and odd else []
        kind: FileState = "empty" if is_empty else "ok"
        opened = BootstrapFile("", path, kind, text, {}, tuple(odd), real_path=real)
        opened = opened._replace(encoding=encoding, size_bytes=size)
        self.opened[real] = opened
        return opened

    def _resolved(
        self, text: str, path: str, chain: tuple[str, ...], *, is_template: bool = False
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
            name = match["path"].replace("\\ ", " ")
            found, reason, more = self._import(name, path, chain)
            bare = name.rstrip(".:!?*_")
            is_whole = True
            if found is None and not reason and bare != name:
                name, is_whole = bare, False
                found, reason, more = self._import(bare, path, chain)
            warnings.extend(more)
            if reason:
                shown = name if len(name) <= 200 else f"{name[:200]}…"
                shown = shown if shown.isprintable() else shown.encode("unicode_escape").decode()
                warnings.append(f"@{shown} was not imported: {reason}")
            if not found:
                return match[0]
            literal = found
            if is_template:  # an expression of one line that yields exactly this text
                escaped = found.encode("unicode_escape", "replace").decode()
                literal = '{{ "' + escaped.replace('"', '\\"') + '" }}'
            around = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
            end = match.string.find("\n", match.end())
            around += match.string[match.end() : end if end >= 0 else None]
            if is_whole and not around.strip():
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
            if after_comment:  # without the blank lines that the comment leaves
                end = "".join(kept[-8:])[-2:]
                is_apart = not end or end == "\n\n"
                once = shown.removeprefix("\n") if end.endswith("\n") else shown
                shown = shown.lstrip("\n") if is_apart else once
            kept.append(shown)
            after_comment = False
        body = "".join(kept)
        return "\n\n".join([body.rstrip(), *appended]) if appended else body, warnings

    def _import(self, name: str, path: str, chain: tuple[str, ...]) -> _Found:
        """Return the text of a file; or `None` and why not, empty if the word stays as written."""
        self.references += 1
        if self.references > _MAX_REFERENCES or len(name) > 4_096:
            return None, "", ()
        if name.startswith("~") or "\0" in name:
            return None, "it is outside the folder", ()
        target = os.path.join(os.path.dirname(path), name)
        if not self._exists(target):
            looks_meant = name.endswith(".md") or name.startswith((".", "/"))
            return None, "there is no such file" if looks_meant else "", ()
        opened = self.open(target)
        if opened.state in ("unreadable", "blocked"):
            is_word = opened.state == "unreadable" and "/" not in name
            return None, "" if is_word else opened.warnings[0], ()
        reasons = {
            "it imports itself": opened.real_path in chain,
            f"more than {_MAX_IMPORT_HOPS} imports deep": len(chain) > _MAX_IMPORT_HOPS,
            f"more than {_MAX_IMPORTS} imports in all": len(self.imported) >= _MAX_IMPORTS,
        }
        if reason := next((reason for reason, holds in reasons.items() if holds), ""):
            return None, reason, ()
        self.imported.append(opened.real_path)
        if os.path.splitext(target)[1].lower() not in ("", ".md", ".mdc", ".markdown", ".txt"):
            longest = max(map(len, re.findall("`+", opened.text)), default=0)
            ticks = "`" * max(3, longest + 1)
            return f"{ticks}\n{opened.text.strip()}\n{ticks}", "", opened.warnings
        _, text, _, warnings = split_front_matter(opened.text)
        text, more = self._resolved(text, target, (*chain, opened.real_path))
        return text.strip(), "", (*opened.warnings, *warnings, *more)


# ---- front matter ----

_FRONT_MATTER: Final = re.compile(
    r"---[ \t]*\n(?P<lines>(?:(?!(?:---|\.\.\.)\s*$).*\n)*)(?:---|\.\.\.)\s*?(?:\n|\Z)",
    re.MULTILINE,
)
_PLAIN_LINE: Final = re.compile(r"(?P<key>[A-Za-z][\w-]*)\s*:(?:\s+(?P<value>.*))?$")
# A line that YAML reads the same way: a word, and text that has no other type.
_SIMPLE_LINE: Final = re.compile(
    r"(?P<key>[A-Za-z][\w-]*): +"
    r'(?:"(?P<quoted>[^"\\]*)"|(?P<plain>[A-Za-z](?:[^:#]|:(?=\S)|(?<=\S)#)*?)) *'
)
_TYPED: Final = frozenset("true false yes no on off null y n".split())


def split_front_matter(text: str) -> tuple[JsonObject, str, int, list[str]]:
    """Return metadata, the text after it, the line (from 1) on which that begins, and warnings.

    A text that only begins with a rule stays whole.
    """
    found, warnings = _FRONT_MATTER.match(text), list[str]()
    if found is None or found.end("lines") > _MAX_FRONT_MATTER_CHARS:
        return {}, text, 1, []
    lines = found["lines"].split("\n")[:-1]
    metadata: Any = {}
    for line in lines:
        if line and not (line.startswith("#") and line.isprintable()):
            simple = _SIMPLE_LINE.fullmatch(line) if line.isprintable() else None
            words = {simple["key"].lower(), (simple["plain"] or "").lower()} if simple else _TYPED
            if simple is None or not _TYPED.isdisjoint(words):
                metadata = _yaml(lines, warnings)
                break
            quoted = simple["quoted"]
            metadata[simple["key"]] = simple["plain"] if quoted is None else quoted
    if metadata is None:
        return {}, text, 1, []
    return metadata, text[found.end() :], len(lines) + 3, warnings


def _yaml(lines: Sequence[str], warnings: list[str]) -> dict[str, Json] | None:
    import yaml

    try:
        loaded = yaml.safe_load("\n".join(lines))
        # A rule, some prose and another rule are not front matter.
        is_one = loaded is None or isinstance(loaded, dict)
        return plain_yaml(loaded or {}) if is_one else None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        read: dict[str, Json] = {}
        for line in lines:
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
        if left[0] < 0 or depth > 32:
            many, deep = "it unfolds to too many values", "it is nested too deeply"
            raise ValueError(many if left[0] < 0 else deep)
        if is_object(value):
            return {str(key): plain(one, depth + 1) for key, one in value.items()}
        if type(value) in (list, tuple, set):
            made = [plain(one, depth + 1) for one in value]
            return sorted(made, key=str) if type(value) is set else made
        if value is None or isinstance(value, str | bool | int | float):
            return value
        return value.isoformat() if hasattr(value, "isoformat") else str(value)

    return plain(loaded, 0)


# ---- Markdown ----

_Kind: TypeAlias = Literal["text", "code", "comment"]
# Not within a word (mail addresses), not a second @; up to a space, a quote or a bracket.
_REFERENCE: Final = re.compile(r"(?<![\w@`/.])@(?P<path>(?:\\ |[^\s`'\"<>()\[\]{}|,;@])++)")
_FENCE: Final = re.compile(r" {0,3}(?:[-*+>] +|\d{1,9}[.)] +)*(?P<fence>`{3,}|~{3,})(?P<rest>.*)")
_TOKENS: Final = re.compile("`+|<!--")
_LIST_START: Final = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s")


def split_markdown(text: str) -> list[tuple[_Kind, str]]:
    """Split into code (fenced, indented or in backticks), HTML comments, and the rest.

    A comment that never closes is text: the rest of the file must not vanish with it.
    """
    pieces: list[tuple[_Kind, list[str]]] = []

    def add(kind: _Kind, piece: str) -> None:
        if not pieces or pieces[-1][0] != kind:
            pieces.append((kind, []))
        pieces[-1][1].append(piece)

    fence, in_comment, after_blank, in_list = "", False, True, False
    last_close, at = text.rfind("-->"), 0
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        is_indented, bare = line.startswith(("    ", "\t")), line.strip()
        opened = None if in_comment or fence else _FENCE.match(line)
        if fence:
            add("code", line)
            is_closed = len(bare) >= len(fence) and bare == fence[0] * len(bare)
            fence = "" if is_closed else fence
        elif opened and not (opened["fence"][0] == "`" and "`" in opened["rest"]):
            fence = opened["fence"]
            add("code", line)
        elif bare and is_indented and after_blank and not in_list and not in_comment:
            add("code", line)
        else:
            if not in_comment:
                goes_on = in_list and line.startswith((" ", "\t"))
                in_list = bool(_LIST_START.match(line)) or goes_on if bare else in_list
                after_blank = not bare
            in_comment = _split_line(line, last_close - at, add, in_comment=in_comment)
        at += len(line)
    return [(kind, "".join(parts)) for kind, parts in pieces]


def _split_line(
    line: str, last_close: int, add: Callable[[_Kind, str], None], *, in_comment: bool
) -> bool:
    """Add the pieces of a line that is not a block of code; whether a comment goes on after it."""
    ends: dict[int, list[int]] = {}  # of runs of backticks by their length, the first one last
    for run in reversed(list(re.finditer("`+", line))):
        ends.setdefault(len(run[0]), []).append(run.end())
    done = 0
    while done < len(line):
        close = line.find("-->", done) + 3 if in_comment else 0
        token = None if in_comment else _TOKENS.search(line, done)
        if in_comment:
            end = close if close > 2 else len(line)
            add("comment", line[done:end])
            in_comment, done = close <= 2, end
        elif token is None:
            add("text", line[done:])
            break
        else:
            if token.start() > done:
                add("text", line[done : token.start()])
            start, done = token.span()
            if token[0] == "<!--":
                in_comment = last_close >= done
                add("comment" if in_comment else "text", token[0])
                continue
            closing = ends[len(token[0])]
            while closing and closing[-1] <= done:
                closing.pop()
            end = closing[-1] if closing else done
            add("code" if closing else "text", line[start:end])
            done = end
    return in_comment
