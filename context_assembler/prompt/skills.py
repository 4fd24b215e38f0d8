"""Skills: folders with SKILL.md, which of them are offered, and what the prompt has of them.

Source:
    https://agentskills.io/specification (read 2026-11-27)
    https://code.claude.com/docs/en/skills#frontmatter-reference (read 2026-11-30)
"""

import json
import os
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from operator import methodcaller
from typing import Any, Final, NamedTuple

from context_assembler.errors import ConfigurationError, brief, did_you_mean, with_article
from context_assembler.events import Json, JsonObject, Session, is_list, is_object
from context_assembler.ports import Skill
from context_assembler.prompt.files import Mask, Reading, masking_notice, split_front_matter
from context_assembler.prompt.sections import FROZEN, UNTIL_REWRITE, ShownSkills
from context_assembler.report import Decision, ReportEntry, Rule
from context_assembler.texts import CountText, clean_text, escape_tag, one_line
from context_assembler.tools.sources import LastAnswers, Question, call_away, is_async

_MAX_FOLDERS: Final = 10_000
_MAX_DESCRIPTION_CHARS: Final = 1_024
_NAME: Final = re.compile(r"(?=.{1,64}$)[a-z0-9]+(?:-[a-z0-9]+)*")
# `Bash(git add:*)` is one tool; commas are what other clients write between them.
_ALLOWED: Final = re.compile(r"[^\s,()]+(?:\([^()]*\))?")
_OPENING: Final = (
    "Each skill has instructions for one kind of task: read its file, if it has one, before you begin "
    "a task that its description fits. Instructions of skills in use follow the list."
)


class FolderSkills:
    """The skills below one or several folders; if two share a name, the earlier folder's wins.

    They are read again only if a file or a folder changed. Links are not followed into folders.

    Args:
        priority: That of its skills: if another provider has a skill of the same name, the higher
            stays.

    Attributes:
        problems: An entry for each skill of the last listing that was left out.
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
        self.problems: list[ReportEntry] = []
        self.notes: list[str] = []
        self._skills: list[Skill] = []
        self._readings: list[Reading] = []

    async def list_skills(self, session: Session | None = None) -> Sequence[Skill]:
        """Return the skills, sorted by name; a broken one does not harm the rest."""
        import asyncio

        return await asyncio.to_thread(self.list_now, session)

    def list_now(self, session: Session | None = None) -> Sequence[Skill]:
        """Return the skills, sorted by name; a broken one does not harm the rest."""
        del session  # they are the same for all
        if self._readings and not any(reading.has_changed() for reading in self._readings):
            return self._skills
        skills = dict[str, Skill]()
        self.problems, self.notes = problems, notes = list[ReportEntry](), list[str]()
        readings = list(map(Reading, self.folders))
        for reading in readings:
            for path in _skill_files(reading, problems):
                skill, odd = _parse(reading, path, self.priority)
                notes += [f"{path}: {note}" for note in odd]
                if isinstance(skill, str):
                    problems.append(_dropped(path, skill))
                elif (earlier := skills.setdefault(skill.name, skill)) is not skill:
                    reason = f"{earlier.path} has the name {earlier.name!r} already"
                    problems.append(_dropped(path, reason, "duplicate"))
        is_settled = all(reading.is_settled(self._now_ns()) for reading in readings)
        self._readings = readings if is_settled else []
        self._skills = [skills[name] for name in sorted(skills)]
        return self._skills


def _skill_files(reading: Reading, problems: list[ReportEntry]) -> Iterator[str]:
    """Yield every SKILL.md in order of path; what is below a skill belongs to that skill."""
    reading.look_in(root := reading.root)
    if not os.path.isdir(root):
        problems.append(_dropped(root, "there is no such folder"))
    for number, (place, folders, names) in enumerate(os.walk(root)):
        if number == _MAX_FOLDERS:
            most = f"only the first {_MAX_FOLDERS:,} folders below it were searched"
            problems.append(_dropped(root, most, "too_many"))
            return
        reading.look_in(place)
        is_skill = "SKILL.md" in (*names, *folders)
        if is_skill:
            yield os.path.join(place, "SKILL.md")
        folders[:] = [] if is_skill else sorted(n for n in folders if not n.startswith("."))


def _parse(reading: Reading, path: str, priority: int) -> tuple[Skill | str, list[str]]:
    """Return the skill of a SKILL.md, or why there is none; and what is odd about it."""
    file, folder = reading.open(path), os.path.dirname(path)
    if file.state in ("unreadable", "blocked"):
        return file.warnings[0], []
    metadata, body, _, odd = split_front_matter(file.text)
    given = (metadata.get(key) for key in ("name", "description"))
    name, description = (one_line(text) if isinstance(text, str) else "" for text in given)
    notes = [*file.warnings, *odd]
    if name != os.path.basename(folder) or not _NAME.fullmatch(name):
        form = "in lower-case letters, digits and hyphens"
        notes.append(f"its name {name!r} is not its folder's, {form}")
    if len(description) > _MAX_DESCRIPTION_CHARS:
        notes.append(f"its description is longer than {_MAX_DESCRIPTION_CHARS:,} characters")
    if not description:
        return "it has no front matter with a description that is text", notes
    specs = list[JsonObject]()
    for entry in _listed(metadata.get("tools")):
        read = [entry]
        if isinstance(entry, str) and entry.endswith(".json"):
            read = _read_specs(reading, os.path.join(folder, entry))
        sound = list(filter(is_object, read))
        specs += sound
        if not sound or len(sound) < len(read):
            notes.append(f"of its tools, {brief(entry)} is neither a spec nor a JSON file of specs")
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
        # Where YAML was read line by line, a flag is text.
        is_hidden=str(metadata.get("disable-model-invocation")).lower() in ("true", "yes", "on"),
        examples=tuple(one for one in _listed(metadata.get("examples")) if isinstance(one, str)),
    )
    return skill, notes


def _read_specs(reading: Reading, path: str) -> list[Json]:
    """Return what a JSON file holds: one spec, a list of them, or a list under `tools`."""
    try:
        loaded: Json = json.loads(reading.open(path).text)
    except ValueError:
        return []
    inner = loaded.get("tools") if is_object(loaded) else None
    return inner if is_list(inner) else _listed(loaded)


def _listed(value: Json) -> list[Json]:
    return value if is_list(value) else [] if value is None else [value]


def open_skill_providers(given: Any) -> list[Any]:
    """Open the short forms: a folder, a skill, a function of the session, a list of these.

    Raises:
        ConfigurationError: Something is neither.
    """
    if given is None or isinstance(given, str) or hasattr(given, "__fspath__"):
        return [] if given is None else [FolderSkills(given)]
    if type(given) in (list, tuple):
        return [provider for entry in given for provider in open_skill_providers(entry)]
    if callable(getattr(given, "list_skills", None)):
        return [given]
    if not isinstance(given, Skill) and not callable(given):
        kind = with_article(type(given).__name__, begins_sentence=True)
        remedy = (
            "Pass a folder, a Skill, a function, an object with list_skills(), or a list of these."
        )
        raise ConfigurationError(f"{kind} is not a source of skills.", remedy=remedy)
    return [SkillsOfCode((lambda _: [given]) if isinstance(given, Skill) else given)]


class SkillsOfCode:
    """The skills that a function of the session returns, plain or async."""

    def __init__(self, function: Callable[[Session], Any]) -> None:
        self._function = function
        if not is_async(function):
            self.list_now = function

    async def list_skills(self, session: Session) -> Any:
        """Return the skills for a session."""
        return await call_away(self._function, session)


# ---- asking providers ----


class ListedSkills(NamedTuple):
    """The skills of all providers, in their order; an entry for each broken one; what went wrong."""

    skills: tuple[Skill, ...] = ()
    entries: tuple[ReportEntry, ...] = ()
    warnings: tuple[str, ...] = ()


class SkillLister:
    """Asks providers for their skills; of one that fails, the last list still holds.

    Attributes:
        is_sync: Whether every provider can be asked without an event loop.
    """

    def __init__(
        self,
        providers: Any = (),
        *,
        timeout_seconds: float = 30.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.providers: tuple[Any, ...] = tuple(open_skill_providers(providers))
        self.for_session = partial(
            SkillLister, self.providers, timeout_seconds=timeout_seconds, now=now
        )
        self.is_sync = all(hasattr(provider, "list_now") for provider in self.providers)
        self._answers = LastAnswers[ListedSkills](timeout_seconds=timeout_seconds, now=now)

    def list_now(self, session: Session) -> ListedSkills:
        """Return all skills for a session, without an event loop."""
        return self._joined(self._answers.ask_now(self._asked("list_now", session)))

    async def list(self, session: Session) -> ListedSkills:
        """Return all skills for a session; a warning names a provider that fails or is late."""
        return self._joined(await self._answers.ask(self._asked("list_skills", session)))

    def _asked(self, method: str, session: Session) -> Iterator[Question[ListedSkills]]:
        for one in self.providers:
            yield id(one), partial(methodcaller(method, session), one), partial(_taken, one)

    def _joined(self, answers: Iterable[tuple[ListedSkills | None, str]]) -> ListedSkills:
        told = [ListedSkills()]
        for provider, (listed, happened) in zip(self.providers, answers, strict=True):
            lost = (f"Skill provider {type(provider).__name__} {happened}",) if happened else ()
            told += [ListedSkills(warnings=lost), listed or ListedSkills()]
        columns = zip(*told, strict=True)
        return ListedSkills(*(tuple(one for of in each for one in of) for each in columns))


def _taken(provider: Any, given: Iterable[Skill]) -> ListedSkills:
    skills = list[Skill]()
    for skill in given:
        texts: Any = {key: one_line(getattr(skill, key)) for key in ("name", "path", "description")}
        skills.append(replace(skill, **texts))
    skills.sort(key=lambda skill: (skill.name, skill.path, skill.description))
    problems: Sequence[ReportEntry] = getattr(provider, "problems", ())
    left_out = (f"Skill left out: {problem.id}: {problem.reason}." for problem in problems)
    notes = (f"{note}." for note in getattr(provider, "notes", ()))
    return ListedSkills(tuple(skills), tuple(problems), (*left_out, *notes))


def _dropped(name: str, reason: str, rule: Rule = "broken") -> ReportEntry:
    return ReportEntry("skill", name, "dropped", reason=reason, rule=rule)


# ---- choosing and listing ----


def show_skills(
    listed: ListedSkills,
    *,
    count_text: CountText,
    max_tokens: int = 2_000,
    skip_reason: str | None = None,
    patterns: Sequence[str] | None = None,
    active: Iterable[str] = (),
    activates_named: bool = False,
    shows_examples: bool = False,
    mask: Mask | None = None,
) -> ShownSkills:
    """Return the section of skills: names, files and descriptions within `max_tokens`.

    A hidden skill is left out unless it is active, and never listed. If two skills share a name, the
    higher priority wins; of equal ones the first given. Too long a list is shortened fairly: the
    longest descriptions first, down to a length that all may have. If even the names do not fit,
    those of the lowest priority are left out, and counted. The instructions of active skills follow
    the list, and do not count.

    Args:
        skip_reason: Why all of them are left out; `None`: they are not.
        patterns: Globs over names; `None` keeps all.
        active: Names of skills whose instructions are wanted.
        activates_named: Whether a pattern that is a skill's whole name makes it active.
        shows_examples: Whether examples follow the instructions.
        mask: Masks secrets.
    """
    entries, warnings = list(listed.entries), list(listed.warnings)
    by_name: dict[str, Skill] = {}
    for skill in sorted(listed.skills, key=lambda skill: -skill.priority):
        first = by_name.setdefault(skill.name, skill)
        if first is not skill:
            taken = f"{first.path or 'another'} has that name already"
            entries.append(_dropped(skill.name, taken, "duplicate"))
    wanted = () if skip_reason else patterns
    known = sorted(by_name, key=lambda name: (-by_name[name].priority, name))
    chosen = {
        name: by_name[name]
        for name in known
        if wanted is None or any(fnmatchcase(name, pattern) for pattern in wanted)
    }
    reason = skip_reason or "skill_filter does not name it"
    entries += [_dropped(name, reason, "filter") for name in known if name not in chosen]
    for pattern in patterns or ():
        if not any(fnmatchcase(name, pattern) for name in known):
            hint = did_you_mean(pattern, known, otherwise="")
            warnings.append(f"skill_filter names {pattern!r}, which no skill matches. {hint}")
    asked = dict.fromkeys([*active, *(name for name, one in chosen.items() if one.is_active)])
    adding = {name for name, one in chosen.items() if one.instructions.strip() or one.tools}
    for name in () if skip_reason else filter(lambda name: name not in adding, asked):
        why = "which is no skill that is offered and has instructions or tools."
        hint = did_you_mean(name, sorted(adding), otherwise="")
        warnings.append(f"active_skills names {name!r}, {why} {hint}")
    named = {*asked, *((patterns or ()) if activates_named else ())} & adding
    why = "only people may activate it (disable-model-invocation), and it is not active"
    hidden = [name for name, one in chosen.items() if one.is_hidden and name not in named]
    entries += [_dropped(name, why, "hidden") for name in hidden]
    chosen = {name: one for name, one in chosen.items() if name not in hidden}
    masked: Mask = mask or (lambda text: (text, ()))
    for name, skill in chosen.items():
        shown = [f"- {example}" for example in skill.examples if shows_examples]
        whole = "\n".join([skill.instructions, *(["", "Examples:", *shown] if shown else [])])
        (words, kinds), (text, others) = masked(skill.description), masked(whole)
        chosen[name] = replace(skill, description=words, instructions=text)
        if kinds or others:
            warnings.append(f"{skill.path or name}: {masking_notice([*kinds, *others])}")
    skills, is_active = tuple(chosen.values()), tuple(name for name in chosen if name in named)
    text = _fitting_list([one for one in skills if not one.is_hidden], max_tokens, count_text)
    text = "\n\n".join(filter(None, (text, *(active_block(chosen[name]) for name in is_active))))
    left_out, said = tuple(entries), tuple(map(str.rstrip, warnings))
    made = ShownSkills(skills, is_active, text, (), said, left_out)
    return follow_section(made, text, count_text=count_text)


def list_line(skill: Skill, words: str) -> str:
    """Return the skill's line in the list, with these words of its description."""
    head = f"- {skill.name} ({skill.path})" if skill.path else f"- {skill.name}"
    return f"{head}: {words}" if words else head


def active_block(skill: Skill) -> str:
    """Return an active skill's instructions between tags that nothing in them can close."""
    from html import escape

    if not skill.instructions.strip():
        return ""
    allowed = one_line(" ".join(skill.allowed_tools))
    given = {"name": skill.name, "file": skill.path, "allowed-tools": allowed}
    told = "".join(f' {name}="{escape(text)}"' for name, text in given.items() if text)
    text = escape_tag("skill", clean_text(skill.instructions.strip()))
    return f"<skill{told}>\n{text}\n</skill>"


def _fitting_list(skills: Sequence[Skill], max_tokens: int, count_text: CountText) -> str:
    def rest(count: int) -> str:
        return f"- … and {count:,} more skills"

    room, opening = max_tokens if skills else 0, f"# Skills\n\n{_OPENING}\n"
    while room > 0:
        # Counts of the pieces need not add up to that of the whole.
        left = room - count_text(opening) - count_text(rest(len(skills)))
        named = set[str]()
        for skill in sorted(skills, key=lambda skill: -skill.priority):
            size = count_text(f"{list_line(skill, '')}: \n")
            if size > left:
                break
            left -= size
            named.add(skill.name)
        shown = [skill for skill in skills if skill.name in named]
        sizes = [count_text(skill.description) for skill in shown]
        lengths = range(max(sizes, default=0) + 1)
        fair = bisect_right(lengths, left, key=lambda cap: sum(min(one, cap) for one in sizes)) - 1
        lines = [list_line(one, _shorten(one.description, fair, count_text)) for one in shown]
        lines += [rest(len(skills) - len(shown))] if len(shown) < len(skills) else []
        text = "\n".join([opening, *lines])
        over = count_text(text) - max_tokens
        if over <= 0:
            return text
        room -= max(over, room // 16)
    return ""


def _shorten(text: str, max_tokens: int, count_text: CountText) -> str:
    """Return the text, or as many of its first words as fit with an ellipsis."""
    if count_text(text) <= max_tokens:
        return text

    def cut(chars: int) -> str:
        words = text[:chars] if text[chars].isspace() else text[:chars].rpartition(" ")[0]
        return (words or text[:chars]).rstrip(" ,;:.") + "…"

    ends = range(1, len(text))
    chars = bisect_right(ends, max_tokens, key=lambda end: count_text(cut(end)))
    return cut(chars) if chars else ""


def follow_section(
    shown: ShownSkills, text: str, *, count_text: CountText, is_frozen: bool = False
) -> ShownSkills:
    """Return what holds if this text is sent of the section: all, a part, or an earlier call's.

    Args:
        text: What is sent; empty if nothing is.
        is_frozen: Whether it is what the epoch began with.
    """
    if shown.entries and text == shown.text:
        return shown
    entries, active = list(shown.left_out), list[str]()
    listed, sent = _lines_by_head(shown.text), _lines_by_head(text)
    for skill in shown.skills:
        head = list_line(skill, "")
        whole = "" if skill.is_hidden else list_line(skill, skill.description)
        line, is_active = listed.get(head, ""), skill.name in shown.active
        block = active_block(skill) if is_active else ""
        decision: Decision = "kept"
        rule: Rule = "listed"
        reason = "listed"
        if is_active:
            rule, reason = "active", f"active, with {len(skill.tools)} tools of its own"
            active += [skill.name] if skill.tools or block in text else []
        elif not line:
            decision, rule, reason = "dropped", "skill_budget", "no room in the list"
        if line and line != whole:
            decision, rule, reason = (
                "shortened",
                "skill_budget",
                f"{reason}; its description was cut",
            )
        before = count_text(whole) + count_text(block)
        after = count_text(sent.get(head, "")) + (count_text(block) if block in text else 0)
        if decision != "dropped" and (sent.get(head, "") != line or block not in text):
            decision = "shortened" if after else "dropped"
            reason, rule = f"{reason}; its section does not hold all of it", "section.cut"
            if is_frozen:
                reason = f"The text that the epoch began with differs; {UNTIL_REWRITE}."
                rule = FROZEN
        entries.append(ReportEntry("skill", skill.name, decision, before, after, reason, rule))
    return shown._replace(text=text, entries=tuple(entries), active=tuple(active))


def _lines_by_head(text: str) -> dict[str, str]:
    return {line.partition(": ")[0]: line for line in reversed(text.split("\n"))}
