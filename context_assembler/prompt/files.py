"""Instruction files of one folder: AGENT.md, SOUL.md and CONTEXT.md, read with their imports.

Reading never raises for what is in the folder: a missing, empty, unreadable or refused file is a
state, and the others still load.
"""

import errno
import os
import re
import time
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from context_assembler.errors import UnsafePathError
from context_assembler.events import Json, JsonObject, is_object
from context_assembler.prompt.cutting import cut_text
from context_assembler.texts import CountText, decode_text, one_line, read_file

FileState: TypeAlias = Literal["ok", "missing", "empty", "unreadable", "blocked", "waiting"]
Mask: TypeAlias = Callable[[str], tuple[str, Sequence[str]]]  # the masked text; kinds of secrets
_Identity: TypeAlias = tuple[int, ...]

# If a folder has no AGENT.md, another client's file takes its place.
AGENT_NAMES: Final = ("AGENT.md", "AGENTS.md", "CLAUDE.md")
_TEMPLATES: Final = "jinja2"  # the only value of `template:` in front matter
MARKS: Final = "\ue000\ue001"  # around the number of a text that a template embeds

_MAX_FILE_BYTES: Final = 4_000_000
_MAX_READ_BYTES: Final = 32_000_000
_MAX_IMPORT_HOPS: Final = 5
_MAX_REFERENCES: Final = 2_000
_MAX_FRONT_MATTER_CHARS: Final = 65_536
# A file that changed this recently may change again and keep its time stamps.
_UNSETTLED_NS: Final = 2_000_000_000


class BootstrapFile(NamedTuple):
    """One instruction file as loaded.

    Attributes:
        text: What the model gets: decoded, without front matter and comments, imports resolved.
            Empty unless `state` is `ok`.
        state: `waiting`: an edit that is not sent yet.
        first_line: The line of the file, from 1, on which `text` begins.
        real_path: Where the bytes are, if `path` is a link.
        imports: The files that `@path` references brought in.
        embedded: Of a template, the texts of these files, each in place of a mark in `text`: they
            are put in after it is rendered, so that nothing in them is executed.
        absence: Of a missing file, where it was looked for, what is there, and what to do; of one that
            takes another's place, whose.
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
    embedded: tuple[str, ...] = ()
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
        files = self._shown(files, count_text)
        self._looked_in |= reading.folders()
        if reading.is_settled(self._now_ns()):
            self._kept[key] = list(files), now + self._ttl_seconds, reading
        return files

    def read(
        self, agent_id: str | None = None, *, count_text: CountText
    ) -> list[tuple[BootstrapFile, BootstrapFile]]:
        """Return each file whole and as `load` gives it, read from disk, for a review."""
        files = self._read(agent_id)[1]
        return list(zip(self._in_order(files), self._shown(files, count_text), strict=True))

    def invalidate(self) -> None:
        """Forget what was read."""
        self._kept = {}

    def watched_folders(self) -> set[str]:
        """Return the folder, and each folder of a file that the loads so far looked for."""
        return {real_path(self.folder, os.path.abspath), *self._looked_in}

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
        folder = real_path(self.folder, os.path.abspath)
        above = _folders_above(folder) if self._searches_upward else []
        reading = Reading(self._root or [folder, *above][-1])
        names = self.names(agent_id)
        files = [reading.read_section(section, folder, own) for section, own in names.items()]
        outer = [reading.read_section("agent", parent, self._names["agent"]) for parent in above]
        files += [file for file in outer if file.state != "missing"]
        return reading, list(map(self._masked, files))

    def _masked(self, file: BootstrapFile) -> BootstrapFile:
        if self._mask is None:
            return file
        masked = [self._mask(text) for text in (file.text, *file.embedded)]
        (text, *embedded), kinds = (text for text, _ in masked), [k for _, of in masked for k in of]
        file = file._replace(embedded=tuple(embedded))
        return file.with_text(text, masking_notice(kinds)) if kinds else file

    def _shown(
        self, files: Iterable[BootstrapFile], count_text: CountText | None
    ) -> list[BootstrapFile]:
        capped = files if count_text is None else self._capped(files, count_text)
        return list(_without_copies(self._in_order(capped)))

    def _in_order(self, nearest_first: Iterable[BootstrapFile]) -> list[BootstrapFile]:
        """Return the files in the order of the prompt: the agent's, nearest first, then the others."""
        places = list(self._names)
        return sorted(nearest_first, key=lambda file: places.index(file.section))

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


def _folders_above(folder: str) -> list[str]:
    """Return the folders above, up to the root of the repository, nearest first."""
    folders = [folder]
    while not os.path.exists(os.path.join(folders[-1], ".git")):
        folders.append(os.path.dirname(folders[-1]))
        if folders[-1] == folders[-2]:
            return []  # the root of the disk: there is no repository
    return folders[1:]


def _without_copies(files: Iterable[BootstrapFile]) -> Iterator[BootstrapFile]:
    """Show a text once, whether a link or a copy repeats it."""
    shown: dict[object, str] = {}
    for file in files:
        first = shown.setdefault((file.text, file.embedded), file.path)
        if file.state == "ok" and first is not file.path:
            twice = f"the same text as {first}, which is sent already"
            yield file.with_text("", twice)._replace(state="blocked")
        else:
            yield file


def masking_notice(kinds: Sequence[str]) -> str:
    """Say what was masked, for a report."""
    return f"secrets were masked ({', '.join(dict.fromkeys(kinds))})"


def real_path(path: str, resolve: Callable[[str], str] = os.path.realpath) -> str:
    """Return where a path leads; the path itself if that cannot be told: it is being changed, say."""
    try:
        return resolve(path)
    except OSError:  # the working directory may be gone as well
        return os.path.normpath(path)


def _identity(path: str) -> _Identity:
    """Return what changes if a file is written, replaced, linked elsewhere, made or removed."""
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:  # the latter: a name that no system takes
        return (getattr(error, "errno", 0) or 0,)
    times = found.st_mtime_ns, found.st_ctime_ns
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, *times


# ---- reading ----


class Reading:
    """One walk over the folder; each file is read once, whatever names and imports lead to it."""

    def __init__(self, root: str) -> None:
        self.root = real_path(root)
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
        real = ((one, real_path(one)) for one in parents)
        return {one for one, at in real if self._is_inside(at) and os.path.isdir(at)}

    def look_in(self, folder: str) -> None:
        """Note that what is in a folder counts."""
        self.seen[folder] = found = _identity(folder)
        self.newest_ns = max(self.newest_ns, *found[-2:])

    def read_section(self, section: str, folder: str, names: Sequence[str]) -> BootstrapFile:
        """Return the first of the names that exists."""
        for name in names:
            if self._exists(path := os.path.join(folder, name)):
                first, taken = (one.partition(".")[0] for one in (names[0], name))
                stands_in = "" if taken == first else f"{name} is read in place of {first}.md."
                return self._read_file(section, path)._replace(absence=stands_in)
        remedy = "There is no such folder: correct what bootstrap= or [bootstrap] folder names."
        if os.path.isdir(folder):
            remedy = "Write it, or set [bootstrap] required to the sections that you have."
        absence = f"there is no {' or '.join(names)} in {one_line(folder)}. {remedy}"
        return BootstrapFile(section, os.path.join(folder, names[-1]), "missing", absence=absence)

    def _exists(self, path: str) -> bool:
        """Whether something has that name: a broken link, say, or what may not be looked at."""
        self.seen[path] = found = _identity(path)
        is_absent = found in ((errno.ENOENT,), (errno.ENOTDIR,), (errno.ENAMETOOLONG,))
        return not is_absent or os.path.lexists(path)

    def _is_inside(self, real: str) -> bool:
        return os.path.join(real, "").startswith(os.path.join(self.root, ""))

    def _read_file(self, section: str, path: str) -> BootstrapFile:
        file = self.open(path)._replace(section=section, path=path)
        if file.state != "ok":
            return file._replace(text="")
        before = len(self.imported)
        metadata, text, first_line, odd = split_front_matter(file.text)
        template = metadata.get("template")
        is_template = template == _TEMPLATES
        if template and not is_template:
            odd.append(f"template {str(template)[:60]!r} is unknown (known: {_TEMPLATES})")
        if re.fullmatch(r"[^\s@]{1,257}\.md", name := text.strip()):
            # What Git makes of a link on a system without links.
            # https://git-scm.com/docs/git-config#Documentation/git-config.txt-coresymlinks
            odd.append(f"it only names {name!r}: read as a link")
            text = f"@{name}"
        embedded: list[str] | None = [] if is_template else None
        text, more = self._resolved(text, path, (file.real_path,), embedded)
        text = text.rstrip() if is_template else text.strip()
        if self.references > _MAX_REFERENCES:
            odd.append(f"only the first {_MAX_REFERENCES:,} words with @ were looked up")
        imports = tuple(dict.fromkeys(self.imported[before:]))
        file = file._replace(metadata=metadata, first_line=first_line, imports=imports)
        file = file._replace(embedded=tuple(embedded or ()))
        return file.with_text(text, *dict.fromkeys([*odd, *more]))

    def open(self, path: str) -> BootstrapFile:
        """Return the text of a file, or why there is none."""
        self.seen[path] = _identity(path)
        real = real_path(path)
        file = BootstrapFile("", path, "unreadable", real_path=real)
        if not self._is_inside(real):
            outside = "it is outside the folder and was not read"
            return file._replace(state="blocked", warnings=(outside,))
        if self.read_bytes > _MAX_READ_BYTES:
            return file._replace(warnings=(f"more than {_MAX_READ_BYTES:,} bytes read in all",))
        if real not in self.opened:
            self.opened[real] = self._read_text(file)
        self.read_bytes += self.opened[real].size_bytes
        return self.opened[real]

    def _read_text(self, file: BootstrapFile) -> BootstrapFile:
        most = _MAX_FILE_BYTES + 1
        try:
            # Whatever was checked may be another file by now: a link is not followed.
            raw, found = read_file(file.real_path, inside=self.root, most_bytes=most)
        except OSError as error:
            return file._replace(warnings=(f"it cannot be read: {error.strerror or error}",))
        self.newest_ns = max(self.newest_ns, found.st_mtime_ns, found.st_ctime_ns)
        text, encoding, odd = decode_text(raw[:_MAX_FILE_BYTES])
        if len(raw) > _MAX_FILE_BYTES:
            odd.append(f"only the first {_MAX_FILE_BYTES:,} bytes were read")
        file = file._replace(encoding=encoding, size_bytes=found.st_size)
        state: FileState = "ok" if text.strip() else "empty"
        return file._replace(text=text, state=state, warnings=tuple(odd))

    def _resolved(
        self, text: str, path: str, chain: tuple[str, ...], embedded: list[str] | None = None
    ) -> tuple[str, list[str]]:
        """Return the text without HTML comments, files in place of `@path`, and what went wrong.

        A reference that has its line to itself is replaced by the file; one within a sentence stays,
        and the file follows at the end. In a template both comments and imports keep the line count,
        so that errors name the right line, and `embedded` gets the files.
        """
        if "@" not in text and "<!--" not in text:
            return text, []
        body, appended, warnings = "", list[str](), list[str]()

        def put(match: re.Match[str]) -> str:
            found = self._import(match["path"].replace("\\ ", " "), path, chain, warnings)
            if not found:
                return match[0]
            if embedded is not None:
                embedded.append(found)
                found = MARKS[0] + str(len(embedded) - 1) + MARKS[1]
            before, after = match.string[: match.start()], match.string[match.end() :]
            if not (before.rpartition("\n")[2] + after.partition("\n")[0]).strip():
                return found
            appended.append(found)
            return match[0]

        for kind, piece in split_markdown(text):
            if kind == "comment":
                body += "" if embedded is None else "\n" * piece.count("\n")
            else:
                body += piece if kind == "code" else re.sub(_REFERENCE, put, piece)
        return "\n\n".join([body.rstrip(), *appended]) if appended else body, warnings

    def _import(self, name: str, path: str, chain: tuple[str, ...], warnings: list[str]) -> str:
        """Return the text of a file; empty if the word stays as it is written."""

        def refuse(reason: str) -> str:
            warnings.append(f"@{one_line(name[:200])} was not imported: {reason}")
            return ""

        self.references += 1
        if self.references > _MAX_REFERENCES:
            return ""
        if name.startswith("~"):
            return refuse("it is outside the folder")
        target = os.path.join(os.path.dirname(path), name)
        if not self._exists(target):
            looks_meant = name.endswith(".md") or name.startswith((".", "/"))
            return refuse("there is no such file") if looks_meant else ""
        opened = self.open(target)
        if opened.state in ("unreadable", "blocked"):
            is_word = opened.state == "unreadable" and "/" not in name
            return "" if is_word else refuse(opened.warnings[0])
        if opened.real_path in chain:
            return refuse("it imports itself")
        if len(chain) > _MAX_IMPORT_HOPS:
            return refuse(f"more than {_MAX_IMPORT_HOPS} imports deep")
        self.imported.append(opened.real_path)
        warnings += opened.warnings
        if os.path.splitext(target)[1].lower() not in ("", ".md", ".mdc", ".markdown", ".txt"):
            longest = max(map(len, re.findall("`+", opened.text)), default=0)
            ticks = "`" * max(3, longest + 1)
            return f"{ticks}\n{opened.text.strip()}\n{ticks}"
        _, text, _, odd = split_front_matter(opened.text)
        text, more = self._resolved(text, target, (*chain, opened.real_path))
        warnings += [*odd, *more]
        return text.strip()


# ---- front matter ----

# Patterns are texts, compiled when a file first needs them: most instruction files need none.
_FRONT_MATTER: Final = (
    r"(?m)---[ \t]*\n(?P<lines>(?:(?!(?:---|\.\.\.)\s*$).*\n)*)(?:---|\.\.\.)\s*?(?:\n|\Z)"
)
_LINE: Final = r"(?P<key>[A-Za-z][\w-]*)\s*:(?:\s+(?P<value>.*?))?\s*"


def split_front_matter(text: str) -> tuple[JsonObject, str, int, list[str]]:
    """Return metadata, the text after it, the line (from 1) on which that begins, and warnings.

    A text that only begins with a rule stays whole.
    """
    found, warnings = None, list[str]()
    if text.startswith("---"):
        found = re.match(_FRONT_MATTER, text)
    if found is None or found.end("lines") > _MAX_FRONT_MATTER_CHARS:
        return {}, text, 1, []
    lines = found["lines"].split("\n")[:-1]
    metadata = _yaml(lines, warnings)
    if metadata is None:
        return {}, text, 1, []
    return metadata, text[found.end() :], len(lines) + 3, warnings


def _simple_lines(lines: Iterable[str]) -> dict[str, Json] | None:
    """Return keys with their text; `None` if a line is neither such a pair nor part of a list."""
    read: dict[str, Json] = {}
    for line in filter(None, lines):
        if found := re.fullmatch(_LINE, line):
            value = found["value"] or ""
            read[found["key"]] = value.strip(value[:1]) if value[:1] in ("'", '"') else value
        elif not line.startswith((" ", "\t", "-", "#")):
            return None
    return read


def _yaml(lines: Sequence[str], warnings: list[str]) -> dict[str, Json] | None:
    import yaml

    try:
        loaded = yaml.safe_load("\n".join(lines))
        # A rule, some prose and another rule are not front matter.
        is_one = loaded is None or isinstance(loaded, dict)
        return plain_yaml(loaded or {}) if is_one else None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = str(getattr(error, "problem", None) or error).splitlines()[0]
        warnings.append(f"its front matter is not YAML ({reason}); simple lines were read")
        return _simple_lines(lines) or None


def plain_yaml(loaded: Json) -> Json:
    """Return what a YAML loader made as JSON has it: dates, sets and keys as text.

    Raises:
        ValueError: It holds too many values, those that are referred to included, or nests too deeply.
    """
    left = [_MAX_FRONT_MATTER_CHARS]

    def plain(value: Json) -> Json:
        left[0] -= 1
        if left[0] < 0:
            raise ValueError("it unfolds to too many values")
        if is_object(value):
            return {str(key): plain(one) for key, one in value.items()}
        if type(value) in (list, tuple, set):
            made = [plain(one) for one in value]
            return sorted(made, key=str) if type(value) is set else made
        return value if value is None or isinstance(value, str | bool | int | float) else str(value)

    return plain(loaded)


# ---- Markdown ----

_Kind: TypeAlias = Literal["text", "code", "comment"]
# Not within a word (mail addresses), not a second @; up to a space, a quote or a bracket, without
# the punctuation of the sentence.
_REFERENCE: Final = (
    r"(?<![\w@`/.])@(?P<path>(?:\\ |[^\s`'\"<>()\[\]{}|,;@])*[^\s`'\"<>()\[\]{}|,;@.:!?*_])"
)
_PIECE: Final = r"""(?xm)
    ^[ \t]*(?:[-*+>][ ]+|\d{1,9}[.)][ ]+)*  # a block of code, up to the fence that closes it
    (?P<fence>(?P<mark>[`~])(?P=mark){2,}+)(?:(?<=~)[^\n]*|[^`\n]*)(?:\n|\Z)
    (?:(?![ \t>]*(?P=fence)(?P=mark)*[ \t]*$)[^\n]*\n)*[^\n]*\n?
    | (?:\A|(?<=\n\n))(?P<indented>(?:(?:[ ]{4}|\t)[^\n]*\n?)+)
    | (?<!`)(?P<ticks>`++)[^\n]{1,2000}?(?<!`)(?P=ticks)(?!`)
    | (?P<comment><!--)
    """
_LIST_ENTRY: Final = r"\s*(?:[-*+]|\d{1,9}[.)])\s"


def split_markdown(text: str) -> Iterator[tuple[_Kind, str]]:
    """Split into code (fenced, indented or in backticks), HTML comments, and the rest.

    A comment that never closes is text: the rest of the file must not vanish with it.
    """
    at = done = 0
    last_close = text.rfind("-->")
    outer = [0, *(line.start() for line in re.finditer(r"^ {0,3}(?=\S)", text, re.MULTILINE))]
    find, starts_entry = re.compile(_PIECE).search, re.compile(_LIST_ENTRY).match
    while found := find(text, at):
        start, at = found.span()
        kind: _Kind = "code"
        if found["indented"] and starts_entry(text, outer[bisect(outer, start) - 1]):
            at = start + 1  # a paragraph of a list's entry
            continue
        if found["comment"]:
            if at > last_close:
                continue
            kind, at = "comment", text.index("-->", at) + 3
        if start > done:
            yield "text", text[done:start]
        yield kind, text[start:at]
        done = at
    yield "text", text[done:]
