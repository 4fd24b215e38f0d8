"""Skills: folders with SKILL.md, which of them are offered, and what the prompt has of them.

Source:
    https://agentskills.io/specification (read 2026-11-27)
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from context_assembler.errors import ConfigurationError, brief, nearest, with_article
from context_assembler.events import Json, JsonObject
from context_assembler.ports import Skill
from context_assembler.prompt import files
from context_assembler.prompt.cutting import seal_text
from context_assembler.prompt.files import Mask, Reading, masking_notice, split_front_matter
from context_assembler.prompt.sections import FROZEN, UNTIL_REWRITE
from context_assembler.report import Decision, ReportEntry
from context_assembler.texts import CountText, clean_text, escape_tag, one_line

_MAX_DEPTH: Final = 6
_MAX_FOLDERS: Final = 10_000
_MAX_NAMED: Final = 50  # problems, and notes, of one listing
_MAX_DESCRIPTION_CHARS: Final = 1_024
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
# `Bash(git add:*)` is one tool; commas are what other clients write between them.
_ALLOWED: Final = re.compile(r"[^\s,()]+(?:\([^()]*\))?")
_INTRODUCTION: Final = (
    "# Skills\n\nEach skill is a file of instructions for one kind of task. "
    "Read the file before you begin a task that its description fits.\n"
)


class SkillProblem(NamedTuple):
    """A skill that was left out, and why; `rule` is the report's word for it."""

    path: str
    reason: str
    rule: str = "broken"

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class FolderSkills:
    """The skills below one or several folders; if two share a name, the earlier folder's wins.

    They are read again only if a file or a folder changed. Links are not followed into folders.

    Args:
        priority: That of its skills: if another provider has a skill of the same name, the higher
            stays.

    Attributes:
        problems: Skills of the last listing that were left out, and why.
        notes: What was odd about the others.
    """

    def __init__(
        self,
        *folders: str | os.PathLike[str],
        priority: int = 0,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.folders = tuple(os.path.expanduser(os.fspath(folder)) for folder in folders)
        self.priority, self._now_ns = priority, now_ns
        self.problems: tuple[SkillProblem, ...] = ()
        self.notes: tuple[str, ...] = ()
        self._skills: list[Skill] = []
        self._readings: list[Reading] = []

    async def list_skills(self) -> Sequence[Skill]:
        """Return the skills, sorted by name; a broken one does not harm the rest."""
        import asyncio

        return await asyncio.to_thread(self.list_now)

    def list_now(self) -> Sequence[Skill]:
        """Return the skills, sorted by name; a broken one does not harm the rest."""
        if self._readings and not any(reading.has_changed() for reading in self._readings):
            return self._skills
        skills, problems, notes = dict[str, Skill](), list[SkillProblem](), list[str]()
        readings = [Reading(os.path.realpath(folder)) for folder in self.folders]
        for reading in readings:
            for path in _skill_files(reading, problems, notes):
                skill, problem, odd = _parse(reading, path, self.priority)
                notes += [f"{path}: {note}" for note in odd]
                earlier = skills.setdefault(skill.name, skill) if skill else None
                if skill is None:
                    problems.append(SkillProblem(path, problem))
                elif earlier is not skill and earlier is not None:
                    reason = f"{earlier.path} has the name {earlier.name!r} already"
                    problems.append(SkillProblem(path, reason, "duplicate"))
        if (more := len(problems) - _MAX_NAMED) > 0:
            rest = SkillProblem("skills", f"{more:,} more were left out", "too_many")
            problems[_MAX_NAMED:] = [rest]
        if (more := len(notes) - _MAX_NAMED) > 0:
            notes[_MAX_NAMED:] = [f"skills: {more:,} more notes of this kind"]
        is_settled = all(reading.is_settled(self._now_ns()) for reading in readings)
        self.problems, self.notes = tuple(problems), tuple(notes)
        self._readings = readings if is_settled else []
        self._skills = [skills[name] for name in sorted(skills)]
        return self._skills


def _skill_files(reading: Reading, problems: list[SkillProblem], notes: list[str]) -> Iterator[str]:
    """Yield every SKILL.md in order of path; what is below a skill belongs to that skill."""
    reading.look_in(reading.root)
    if not os.path.isdir(reading.root):
        problems.append(SkillProblem(reading.root, "there is no such folder"))
        return
    waiting, looked_at = [(reading.root, 0)], 0
    while waiting:
        place, depth = waiting.pop()
        looked_at += 1
        if looked_at > _MAX_FOLDERS:
            most = f"only the first {_MAX_FOLDERS:,} folders below it were searched"
            problems.append(SkillProblem(reading.root, most, "too_many"))
            return
        reading.look_in(place)
        if os.path.lexists(path := os.path.join(place, "SKILL.md")):
            yield path
            continue
        try:
            with os.scandir(place) as entries:
                inner = [one.path for one in entries if one.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        shown = [one for one in inner if not os.path.basename(one).startswith(".")]
        if shown and depth == _MAX_DEPTH:
            notes.append(f"{place}: what is more than {_MAX_DEPTH} levels down was not searched")
        elif shown:
            waiting += [(one, depth + 1) for one in sorted(shown, reverse=True)]


def _parse(reading: Reading, path: str, priority: int) -> tuple[Skill | None, str, list[str]]:
    """Return the skill of a SKILL.md, or why there is none; and what is odd about it."""
    file = reading.open(path)
    if file.state in ("unreadable", "blocked"):
        return None, file.warnings[0], []
    metadata, body, _, odd = split_front_matter(file.text)
    notes = [*file.warnings, *odd]
    folder = os.path.dirname(path)
    given, words = metadata.get("name"), metadata.get("description")
    name = one_line(given) if isinstance(given, str) else ""
    description = one_line(words) if isinstance(words, str) else ""
    if not name:
        notes.append("its front matter has no name; the folder's name is used")
    elif not _NAME.fullmatch(name) or len(name) > 64:
        notes.append(f"{name!r} is not lower-case letters, digits and hyphens")
    elif name != os.path.basename(folder):
        notes.append(f"its name {name!r} is not that of its folder")
    if not description:
        why = ""
        if words is not None and not isinstance(words, str):
            why = f" that is text: put {brief(words)} in quotes"
        elif not file.text.startswith("---"):
            why = ": the file does not begin with a line '---'"
        elif not re.search(r"^(---|\.\.\.)\s*$", file.text[3:], re.MULTILINE):
            why = ": no line '---' closes it"
        return None, f"its front matter has no description{why}", notes
    if len(description) > _MAX_DESCRIPTION_CHARS:
        notes.append(f"its description is longer than {_MAX_DESCRIPTION_CHARS:,} characters")
    specs = list[JsonObject]()
    for entry in _listed(metadata.get("tools")):
        if isinstance(entry, Mapping):
            specs.append(entry)
        elif isinstance(entry, str) and entry.lower().endswith((".json", ".yaml", ".yml")):
            specs += _read_specs(reading, os.path.join(folder, entry), notes)
        else:
            shown = one_line(entry if isinstance(entry, str) else brief(entry))[:80]
            known = "neither a spec nor a file of specs (.json, .yaml, .yml)"
            notes.append(f"of its tools, {shown!r} is {known}")
    lines = (one for one in _listed(metadata.get("allowed-tools")) if isinstance(one, str))
    allowed = dict.fromkeys(tool for line in lines for tool in _ALLOWED.findall(one_line(line)))
    skill = Skill(
        name=name or one_line(os.path.basename(folder)),
        description=description,
        path=path,
        instructions=body.strip(),
        priority=priority,
        tools=tuple(specs),
        allowed_tools=tuple(allowed),
    )
    return skill, "", notes


def _read_specs(reading: Reading, path: str, notes: list[str]) -> list[JsonObject]:
    """Return the specs in a JSON or YAML file: one, a list of them, or a list under `tools`."""
    file = reading.open(path)
    loaded: Any = None
    problem = file.warnings[0] if file.warnings else "an entry is not an object"
    try:
        if path.lower().endswith(".json"):
            loaded = json.loads(file.text or "{}")
        else:
            import yaml

            loaded = files.plain_yaml(yaml.safe_load(file.text))
    except Exception as error:  # of two parsers
        problem = str(getattr(error, "problem", None) or error).splitlines()[0]
    if isinstance(loaded, dict) and isinstance(loaded.get("tools"), list):
        loaded = loaded["tools"]
    entries = loaded if isinstance(loaded, list) else [loaded]
    if file.state == "ok" and all(isinstance(entry, dict) for entry in entries):
        return entries
    notes.append(f"its tool file {os.path.basename(path)!r} holds no specs: {problem.rstrip('.')}")
    return []


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [] if value is None else [value]


def open_skill_providers(given: Any) -> list[Any]:
    """Open the short forms of skills: a folder, a provider, or a list of these.

    Raises:
        ConfigurationError: Something is neither.
    """
    if given is None or isinstance(given, str | os.PathLike):
        return [] if given is None else [FolderSkills(given)]
    if isinstance(given, Sequence):
        return [provider for entry in given for provider in open_skill_providers(entry)]
    if not callable(getattr(given, "list_skills", None)):
        kind = with_article(type(given).__name__, begins_sentence=True)
        remedy = "Pass a folder, an object with list_skills(), or a list of these."
        raise ConfigurationError(f"{kind} is no source of skills.", remedy=remedy)
    return [given]


# ---- asking providers ----


class ListedSkills(NamedTuple):
    """The skills of all providers, in their order; an entry for each broken one; what went wrong."""

    skills: tuple[Skill, ...] = ()
    entries: tuple[ReportEntry, ...] = ()
    warnings: tuple[str, ...] = ()


class SkillLister:
    """Asks providers for their skills; of one that fails, the last list still holds.

    Skills that go if their provider fails once, and come back, would change the prompt both times.
    """

    def __init__(
        self,
        providers: Any = (),
        *,
        timeout_seconds: float = 30.0,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self.providers: tuple[Any, ...] = tuple(open_skill_providers(providers))
        self._timeout_seconds = timeout_seconds
        self._now = now or (lambda: datetime.now(UTC))
        self._last: dict[int, tuple[ListedSkills, datetime]] = {}

    @property
    def is_sync(self) -> bool:
        """Whether every provider can be asked without an event loop."""
        return all(hasattr(provider, "list_now") for provider in self.providers)

    def list_now(self) -> ListedSkills:
        """Return all skills, without an event loop."""

        def ask(at: int, provider: Any) -> ListedSkills:
            try:
                return self._take(at, provider, provider.list_now())
            except Exception as error:  # foreign code: the rest goes on
                return self._failed(at, provider, f"failed: {brief(error)}")

        return _joined([ask(at, provider) for at, provider in enumerate(self.providers)])

    async def list(self) -> ListedSkills:
        """Return all skills; a provider that fails or is late is named in a warning."""
        import asyncio

        async def ask(at: int, provider: Any) -> ListedSkills:
            limit = asyncio.timeout(self._timeout_seconds)
            try:
                async with limit:
                    return self._take(at, provider, await provider.list_skills())
            except (Exception, asyncio.CancelledError) as error:  # foreign code: the rest goes on
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                late = f"did not come within {self._timeout_seconds:g} s"
                is_late, happened = limit.expired(), f"failed: {brief(error)}"
                return self._failed(at, provider, late if is_late else happened)

        asked = (ask(at, provider) for at, provider in enumerate(self.providers))
        return _joined(await asyncio.gather(*asked))

    def _take(self, at: int, provider: Any, given: Iterable[Any]) -> ListedSkills:
        kind, sound = type(provider).__name__, list[Skill]()
        problems = list[Any](getattr(provider, "problems", ()))
        for skill in given:
            if not isinstance(skill, Skill) or not skill.name.strip() or not skill.description:
                odd = f"{brief(skill)} is not a Skill with a name and a description"
                problems.append(SkillProblem(kind, odd))
                continue
            name, words, path = map(one_line, (skill.name, skill.description, skill.path))
            sound.append(replace(skill, name=name, description=words, path=path))
        left_out = tuple(f"Skill left out: {problem}." for problem in problems)
        notes = tuple(f"{note}." for note in getattr(provider, "notes", ()))
        entries = tuple(_dropped(*one) for one in problems if isinstance(one, SkillProblem))
        sound.sort(key=lambda skill: (skill.name, skill.path, skill.description))
        listed = ListedSkills(tuple(sound), entries, left_out + notes)
        self._last[at] = listed, self._now()
        return listed

    def _failed(self, at: int, provider: Any, happened: str) -> ListedSkills:
        lost = f"Skills of {type(provider).__name__} {happened.rstrip('.')}."
        if at not in self._last:
            return ListedSkills(warnings=(lost,))
        last, moment = self._last[at]
        when = f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        lost = f"{lost} What they were last, at {when}, still holds."
        return last._replace(warnings=(lost, *last.warnings))


def _joined(listed: Sequence[ListedSkills]) -> ListedSkills:
    return ListedSkills(
        *(tuple(one for of in each for one in of) for each in zip(*listed, strict=True))
    )


def _dropped(name: str, reason: str, rule: str) -> ReportEntry:
    return ReportEntry("skill", name, "dropped", reason=reason, rule=rule)


# ---- choosing and listing ----


class ShownSkills(NamedTuple):
    """What one call's prompt has of skills, what became of each, and what went wrong."""

    skills: tuple[Skill, ...] = ()
    active: tuple[str, ...] = ()
    text: str = ""
    entries: tuple[ReportEntry, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def with_tools(self) -> list[Skill]:
        """The active skills that bring tools."""
        return [one for one in self.skills if one.name in self.active and one.tools]


def show_skills(
    listed: ListedSkills,
    *,
    count_text: CountText,
    max_tokens: int = 2_000,
    skip_reason: str | None = None,
    patterns: Sequence[str] | None = None,
    active: Iterable[str] = (),
    activates_named: bool = False,
    mask: Mask | None = None,
) -> ShownSkills:
    """Return the section of skills: names, files and descriptions within `max_tokens`.

    If two skills share a name, the higher priority wins; of equal ones the first given. Too long a
    list is shortened fairly: the longest descriptions first, down to a length that all may have. If
    even the names do not fit, those of the lowest priority are left out, and counted. The
    instructions of active skills follow the list, and do not count.

    Args:
        skip_reason: Why all of them are left out; `None`: they are not.
        patterns: Globs over names; `None` keeps all.
        active: Names of skills whose instructions are wanted.
        activates_named: Whether a pattern that is a skill's whole name makes it active.
        mask: Masks secrets.
    """
    entries, warnings = list[ReportEntry](), list[str]()
    by_name: dict[str, Skill] = {}
    for skill in sorted(listed.skills, key=lambda skill: -skill.priority):
        first = by_name.setdefault(skill.name, skill)
        if first is not skill:
            taken = f"{first.path} has that name already"
            entries.append(_dropped(skill.name, taken, "duplicate"))
    known = sorted(by_name)
    wanted = ["*"] if patterns is None else patterns
    chosen = {n: by_name[n] for n in known if any(fnmatchcase(n, one) for one in wanted)}
    chosen = {} if skip_reason else chosen
    reason = skip_reason or "skill_filter does not name it"
    entries += [_dropped(name, reason, "filter") for name in known if name not in chosen]
    for pattern in patterns or ():
        if not any(fnmatchcase(name, pattern) for name in known):
            hint = _hint(pattern, known)
            warnings.append(f"skill_filter names {pattern!r}, which no skill matches.{hint}")
    asked = dict.fromkeys(active)
    adding = {name for name, one in chosen.items() if one.instructions.strip() or one.tools}
    for name in asked if skip_reason is None else ():
        why = f"which is no skill's name.{_hint(name, known)}"
        if name in known:
            why = "which has neither instructions nor tools."
            why = why if name in chosen else "which skill_filter leaves out."
        warnings += [] if name in adding else [f"active_skills names {name!r}, {why}"]
    named = {*asked, *((patterns or ()) if activates_named else ())} & adding
    if mask is not None:
        chosen = {name: _masked(skill, mask, warnings) for name, skill in chosen.items()}
    skills = tuple(chosen.values())
    text, words = _fitting_list(skills, max_tokens, count_text)
    is_active = [name for name in chosen if name in named]
    blocks = {n: active_block(chosen[n]) for n in is_active if chosen[n].instructions.strip()}
    for name, skill in chosen.items():
        size = count_text(blocks.get(name, ""))
        shown = words.get(name)
        entries.append(_shown_entry(skill, shown, size, count_text, is_active=name in named))
    text = "\n\n".join(filter(None, [text, *blocks.values()]))
    entries, warnings = [*listed.entries, *entries], [*listed.warnings, *warnings]
    return ShownSkills(skills, tuple(is_active), text, tuple(entries), tuple(warnings))


def _hint(name: str, known: list[str]) -> str:
    return "".join(f" Did you mean {near!r}?" for near in nearest(name, known, count=1))


def _masked(skill: Skill, mask: Mask, warnings: list[str]) -> Skill:
    (words, kinds), (text, others) = mask(skill.description), mask(skill.instructions)
    if kinds or others:
        warnings.append(f"{skill.path}: {masking_notice([*kinds, *others])}")
    return replace(skill, description=words, instructions=text)


def list_line(skill: Skill, words: str) -> str:
    """Return the skill's line in the list, with these words of its description."""
    head = f"- {skill.name} ({skill.path})" if skill.path else f"- {skill.name}"
    return f"{head}: {words}" if words else head


def active_block(skill: Skill) -> str:
    """Return an active skill's instructions between tags that nothing in them can close."""
    from html import escape

    allowed = one_line(" ".join(skill.allowed_tools))
    given = {"name": skill.name, "file": skill.path, "allowed-tools": allowed}
    told = "".join(f' {name}="{escape(text)}"' for name, text in given.items() if text)
    text = escape_tag("skill", seal_text(clean_text(skill.instructions.strip()))[0])
    return f"<skill{told}>\n{text}\n</skill>"


def _fitting_list(
    skills: Sequence[Skill], max_tokens: int, count_text: CountText
) -> tuple[str, dict[str, str]]:
    room = max_tokens if skills else 0
    ranked = sorted(skills, key=lambda skill: -skill.priority)
    while room > 0:
        # Counts of the pieces need not add up to that of the whole.
        left = room - count_text(_INTRODUCTION) - count_text(_rest(len(skills)))
        named = set[str]()
        for skill in ranked:
            size = count_text(f"{list_line(skill, '')}: \n")
            if size > left:
                break
            left -= size
            named.add(skill.name)
        shown = [skill for skill in skills if skill.name in named]
        cap, fair = left, len(shown)
        sizes = sorted(count_text(skill.description) for skill in shown)
        for size in sizes:
            if size * fair > cap:
                cap = max(0, cap // fair)
                break
            cap, fair = cap - size, fair - 1
        else:
            cap = max(sizes, default=0)
        words = {s.name: _shorten(s.description, cap, count_text) for s in shown}
        lines = [list_line(skill, words[skill.name]) for skill in shown]
        lines += [_rest(len(skills) - len(shown))] if len(shown) < len(skills) else []
        text = "\n".join([_INTRODUCTION, *lines])
        over = count_text(text) - max_tokens
        if over <= 0:
            return text, words
        room -= max(over, room // 16)
    return "", {}


def _rest(count: int) -> str:
    return f"- … and {count:,} more skills"


def _shorten(text: str, max_tokens: int, count_text: CountText) -> str:
    """Return the text, or as many of its first words as fit with an ellipsis."""
    tokens = count_text(text)
    if tokens <= max_tokens:
        return text
    chars = len(text) * max_tokens // tokens
    while chars > 0:
        cut = text[:chars]
        words = cut if text[chars].isspace() else cut.rpartition(" ")[0]
        shorter = (words or cut).rstrip(" ,;:.") + "…"
        if count_text(shorter) <= max_tokens:
            return shorter
        chars -= max(1, chars // 16)
    return ""


def _shown_entry(
    skill: Skill, words: str | None, block_tokens: int, count_text: CountText, *, is_active: bool
) -> ReportEntry:
    """Return the entry of a skill of which the list has these words; `None`: it is not listed."""
    whole = count_text(list_line(skill, skill.description)) + block_tokens
    line = 0 if words is None else count_text(list_line(skill, words))
    is_whole = words == skill.description or (words is None and is_active)
    reasons = []
    if is_active:
        count = len(skill.tools)
        tools = f", and it brings {count:,} tool{'' if count == 1 else 's'}" if count else ""
        follows = ": its instructions follow the list" if skill.instructions.strip() else ""
        reasons.append(f"active{follows}{tools}")
    elif words is None or is_whole:
        reasons.append("no room in the list" if words is None else "listed")
    if words is not None and not is_whole:
        sizes = f"from {len(skill.description):,} to {len(words):,} characters"
        reasons.insert(0, f"its description was cut {sizes}")
    decision: Decision = "kept" if is_whole else "dropped" if words is None else "shortened"
    rule = ("active" if is_active else "listed") if is_whole else "skill_budget"
    after = line + block_tokens
    return ReportEntry("skill", skill.name, decision, whole, after, "; ".join(reasons), rule)


def follow_section(
    shown: ShownSkills, text: str, *, count_text: CountText, is_frozen: bool = False
) -> ShownSkills:
    """Return what holds if another text is sent of the section: cut, or that of an earlier call.

    Args:
        text: What is sent; empty if nothing is.
        is_frozen: Whether it is what the epoch began with.
    """
    if text == shown.text.strip():
        return shown
    by_name = {skill.name: skill for skill in shown.skills}
    entries, active = list(shown.entries), list[str]()
    for at, entry in enumerate(entries):
        skill = by_name.get(entry.id)
        if skill is None or entry.decision not in ("kept", "shortened"):
            continue
        head = list_line(skill, "")
        line = next((line for line in text.split("\n") if line.startswith(head)), "")
        block = active_block(skill) if skill.name in shown.active else ""
        has_block = block in text
        if block and (skill.tools or has_block):
            active.append(skill.name)
        if not has_block or not (line or entry.rule == "active"):
            tokens = count_text(line) + (count_text(block) if has_block else 0)
            reason, rule = f"{entry.reason}; its section does not hold all of it", "section.cut"
            if is_frozen:
                reason = f"The text that the epoch began with differs; {UNTIL_REWRITE}."
                rule = FROZEN
            decision: Decision = "shortened" if tokens else "dropped"
            sizes = entry.tokens_before, tokens
            entries[at] = ReportEntry("skill", entry.id, decision, *sizes, reason, rule)
    return shown._replace(text=text, entries=tuple(entries), active=tuple(active))
