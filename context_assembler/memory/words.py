"""Words: what a text is found by, what a query searches for, and what its words say of the answer.

Texts and queries go through the same cuts: scripts without spaces become overlapping pairs of
characters, and identifiers in camel case are found by their parts too. Case, accents and endings
are left to SQLite's full-text index, or to `stems` where another engine searches.
"""

import re
import sqlite3
from calendar import month_name
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from threading import local
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from context_assembler.texts import clean_text, is_western

MODEL_FOLDER: Final = Path(__file__).parent / "model"
TOKENIZER: Final = "porter unicode61 remove_diacritics 2"
_MAX_QUERY_TERMS: Final = 256
_MAX_IDENTIFIER_CHARS: Final = 80  # anything longer is encoded bytes, not an identifier
_MOST_KNOWN: Final = 100_000
_CONTEXT_CHARS: Final = 1_500  # of the end
_MOST_CONTEXT_TERMS: Final = 24
# Thai, Lao, Burmese, Khmer, kana, Chinese characters, Hangul: a change needs a rebuilt index.
SPACELESS: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_HUMP: Final = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_HAS_HUMP: Final = re.compile("[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_MAY_HUMP: Final = re.compile("[A-Z](?<=[A-Za-z0-9][A-Z])")  # quick to find out
_CAMEL: Final = re.compile("(?<![A-Za-z0-9])[A-Za-z0-9][a-z0-9]*[A-Z][A-Za-z0-9]*")
_WORD: Final = re.compile(r"[^\W_]+")


def index_text(text: str) -> str:
    """Return the text as it goes into a full-text index.

    It is the same in every process and version: a contentless index forgets a text only if it is
    given exactly what it was given before.
    """
    parts = _parts_of_identifiers(text)
    if not is_western(text):
        text = SPACELESS.sub(_pairs, text)
    return f"{text} {' '.join(parts)}" if parts else text


def query_terms(query: str) -> list[str]:
    """Return the different words of a query in order, lower-case, without those that say nothing.

    If nothing else is left, they stay. Of a long query both ends are read. A word that ends in `*`
    is the beginning of what is searched for.
    """
    query = both_ends(query, 8_000)
    spaced = query if query.isascii() else SPACELESS.sub(_query_pairs, query)
    found = _WORD.findall(" ".join((spaced, *_parts_of_identifiers(query))).lower())
    distinct = dict.fromkeys(
        f"{word}*" if len(word) == 1 and SPACELESS.match(word) else word for word in found
    )
    return (without_stop_words(distinct) or [*distinct])[:_MAX_QUERY_TERMS]


def count_words(terms: Iterable[str]) -> float:
    """Return how many words the terms of a query are: pairs of characters overlap by half."""
    return sum(1.0 if term.isascii() or SPACELESS.match(term) is None else 0.5 for term in terms)


def both_ends(text: str, chars: int) -> str:
    """Return a long text's two ends of so many characters: the question is at one of them."""
    return text if len(text) <= 2 * chars else f"{text[:chars]} {text[-chars:]}"


def _pairs(run: re.Match[str]) -> str:
    """Return each pair of neighbours, then the last character: every one begins a word."""
    text = run[0]
    return f" {' '.join((*map(''.join, pairwise(text)), text[-1]))} "


def _query_pairs(run: re.Match[str]) -> str:
    text = run[0]
    return f" {' '.join(map(''.join, pairwise(text))) or text} "


def _parts_of_identifiers(text: str) -> list[str]:
    """Return the parts of every identifier in camel case, in order."""
    if _MAY_HUMP.search(text) is None:
        return []
    return [
        part
        for word in _CAMEL.findall(text)
        if len(word) <= _MAX_IDENTIFIER_CHARS and _HAS_HUMP.search(word) is not None
        for part in _HUMP.split(word)
    ]


# ---- stems ----

_KNOWN: Final[list[dict[str, tuple[str, ...]]]] = [{}]
_CUTTERS: Final = local()  # a connection for each thread: to open one takes longer than to cut


@cache
def _folded() -> bytes:
    """Return by byte of code page 1252 how the index folds the character; a blank ends a word."""
    characters, known = bytes(range(256)).decode("cp1252", "replace"), dict[str, str]()
    for one, found in _cut([*characters]).items():
        known[one] = found[0] if found and is_western(found[0]) else one if found else " "
    return "".join(map(known.__getitem__, characters)).encode("cp1252", "replace")


def pieces_of(text: str) -> list[str]:
    """Return the pieces of a text in order: its words, folded, or what white space parts."""
    # No word goes beyond white space, and every character is folded by itself.
    if is_western(text):
        text = text.encode("cp1252").translate(_folded()).decode("cp1252")
    return text.split()


def stems_of(pieces: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """Return by piece its stems, exactly as the index in SQLite cuts them: of a word it is one."""
    if len(_KNOWN[0]) > _MOST_KNOWN:
        _KNOWN[0] = {}  # another thread may still read the old one
    known = _KNOWN[0]
    if missing := {*pieces}.difference(known):
        known.update(_cut([*missing]))
    return known


def stems(texts: Iterable[str]) -> list[list[str]]:
    """Return the stems of each text, in order."""
    by_text = [*map(pieces_of, texts)]
    known = stems_of(set[str]().union(*by_text))
    return [[stem for piece in pieces for stem in known[piece]] for pieces in by_text]


def record_stems(texts: Sequence[str]) -> list[list[str]]:
    """Return what each text is found by in an index that knows whole words only.

    Of a pair of characters that is the first one, too: a query may be that one alone.
    """

    def forms(stem: str) -> tuple[str, ...]:
        return (stem, stem[0]) if len(stem) == 2 and SPACELESS.match(stem) else (stem,)

    return [[form for stem in found for form in forms(stem)] for found in stems(texts)]


def query_stems(query: str) -> list[str]:
    """Return what a query searches for in such an index, each once."""
    terms = [term.removesuffix("*") for term in query_terms(query)]
    return [*dict.fromkeys(stems([" ".join(terms)])[0])]


def _cut(pieces: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = dict.fromkeys(pieces, ())
    if not pieces:
        return found
    connection = _CUTTERS.__dict__.get("connection")
    if connection is None:
        connection = _CUTTERS.connection = sqlite3.connect(":memory:")
        connection.execute(
            f"CREATE VIRTUAL TABLE words USING fts5 (text, content = '', tokenize = '{TOKENIZER}')"
        )
        connection.execute("CREATE VIRTUAL TABLE places USING fts5vocab (words, instance)")
    connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
    connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(pieces))
    for at, stem in connection.execute("SELECT doc, term FROM places ORDER BY doc, offset"):
        found[pieces[int(at)]] += (stem,)
    return found


# ---- stop words ----


@cache
def word_lists() -> Mapping[str, Mapping[str, str]]:
    """Return the lists of `words.toml`, by section and name."""
    import tomllib

    text = Path(__file__).with_name("words.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


class _Languages(NamedTuple):
    english: frozenset[str]
    pairs: frozenset[str]
    listed: Mapping[str, frozenset[str]]
    telling: Mapping[str, frozenset[str]]  # words that are in no English text


@cache
def _languages() -> _Languages:
    lists = word_lists()
    listed = {name: frozenset(words.split()) for name, words in lists["stop"].items()}
    english, other = listed.pop("English"), lists["stop_other"]
    unclear = english | {*other["also_english"].split()}
    telling = {name: words - unclear for name, words in listed.items()}
    return _Languages(english, frozenset(other["pairs"].split()), listed, telling)


def without_stop_words(words: Iterable[str]) -> list[str]:
    """Return the words that say something, in order; none if all of them say nothing.

    The words themselves show the language: in "die casting" the first is what is meant, in "wo
    liegt die Akte" it says nothing. If several languages are likely, a word that could be English
    must say nothing in all of them.
    """
    given, known = [*words], _languages()
    likely = _likely_languages({*given})
    silent = known.english | known.pairs
    if likely:
        silent = silent.union(*(known.telling[name] for name in likely))
        silent |= known.listed[likely[0]].intersection(*(known.listed[name] for name in likely))
    return [word for word in given if word not in silent]


def can_be_english(text: str) -> bool:
    """Whether a model of English can read the text; of a long one the beginning decides.

    Vectors of texts in another language say that it is the same language, whatever is said in it.
    """
    if not text.isascii():
        latin = len(re.findall("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]", text))
        if 2 * latin < len(re.findall(r"[^\W\d_]", text)):
            return False
    return not _likely_languages({*re.findall(r"[^\W\d_]+", text[:2_000].lower())})


def _likely_languages(words: set[str]) -> list[str]:
    """Return the languages of which most of the words are, if fewer are English."""
    known = _languages()
    counts = {name: len(words & telling) for name, telling in known.telling.items()}
    best = max(counts.values())
    english = words & known.english
    likely = [name for name, count in counts.items() if count == best > 0]
    return [name for name in likely if best > len(english - known.listed[name])]


# ---- words that mean the same ----


@cache
def _forms() -> Mapping[str, tuple[str, ...]]:
    forms: dict[str, tuple[str, ...]] = {}
    for group in word_lists()["forms"]["English"].split("|"):
        for form in group.split():
            forms[form] = (*forms.get(form, ()), *group.split())
    return forms


def other_forms_of(terms: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return by word its irregular forms that are not among the words."""
    given, known = dict.fromkeys(terms), _forms()
    found = {t: tuple(dict.fromkeys(f for f in known.get(t, ()) if f not in given)) for t in given}
    return {term: forms for term, forms in found.items() if forms}


@cache
def vocabulary() -> list[str]:
    """Return the words and word pieces that the bundled tables are about, in their order."""
    text = (MODEL_FOLDER / "vocabulary.txt").read_text(encoding="utf-8")
    return text.removesuffix("\n").split("\n")


@cache
def _related_table() -> tuple[Mapping[str, int], bytes]:
    """Return where the row of each word starts, and the rows: a count, then triples of bytes."""
    content, starts, at = (MODEL_FOLDER / "related_words.bin").read_bytes(), dict[str, int](), 0
    for word in vocabulary():
        starts[word] = at
        at += 1 + 3 * content[at]
    return starts, content


def related_words(terms: Iterable[str]) -> dict[str, Mapping[str, float]]:
    """Return for each English word that has any those close in meaning, the closest first.

    How close they are is a cosine, from 0 to 1.
    """
    starts, content = _related_table()
    found: dict[str, Mapping[str, float]] = {}
    for term in terms:
        start = starts.get(term)
        if start is not None and content[start]:
            pairs = content[start + 1 : start + 1 + 3 * content[start]]
            found[term] = {
                vocabulary()[pairs[at] + 256 * pairs[at + 1]]: pairs[at + 2] * (1 / 255)
                for at in range(0, len(pairs), 3)
            }
    return found


# ---- dates ----


class DateMention(NamedTuple):
    """A date that a text names; what it leaves open is `None`."""

    year: int | None = None
    month: int | None = None
    day: int | None = None

    def matches(self, year: int | None, month: int | None, day: int | None) -> bool:
        """Whether another date, however it is written, is within this one."""
        pairs = zip(self, (year, month, day), strict=True)
        return all(wanted is None or wanted == given for wanted, given in pairs)


MONTHS: Final = tuple(month_name)[1:]
_NUMBERS: Final = {n[:size].lower(): at for at, n in enumerate(MONTHS, 1) for size in (3, len(n))}
_NAME: Final = "(?P<month>" + "|".join(sorted(_NUMBERS, key=len, reverse=True)) + r")\b\.?"
_DAY: Final = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?\b"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)\b"
_DATES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b{_YEAR}-(?P<month>[01]?\d)-(?P<day>[0-3]?\d)\b",
        rf"\b{_DAY}(?:\s+of)?\s+{_NAME}(?:,?\s+{_YEAR})?",
        rf"\b{_NAME}\s+{_DAY}(?:,?\s+{_YEAR})?",
        rf"\b{_NAME},?\s+(?:of\s+)?{_YEAR}",
        rf"\b(?:in|during|since|early|late|mid|last|this|of|on)[\s-]+{_NAME}",
        rf"\b(?:in|during|of|since)\s+{_YEAR}",
    )
)
_DAYS_AGO: Final = {"today": 0, "tonight": 0, "yesterday": 1}


def find_dates(text: str, *, now: datetime | None) -> tuple[DateMention, ...]:
    """Return the dates that the text names, each once, the most definite form of each.

    Args:
        now: What `today` and `yesterday` are counted from; without it they are not understood.
    """
    text = text[:4_000]
    dates: dict[DateMention, None] = {}
    for pattern in _DATES:
        for match in pattern.finditer(text):
            groups = match.groupdict()
            name = groups.get("month")
            year, day = (int(found) if (found := groups.get(n)) else None for n in ("year", "day"))
            month = None if name is None else _NUMBERS.get(name.lower()) or int(name)
            if (month is None or 0 < month <= 12) and (day is None or 0 < day <= 31):
                dates[DateMention(year, month, day)] = None
        text = pattern.sub(" ; ", text)
    if now is not None:
        for word in sorted({*re.findall("[a-z]+", text.lower())} & _DAYS_AGO.keys()):
            day_then = now - timedelta(days=_DAYS_AGO[word])
            dates[DateMention(day_then.year, day_then.month, day_then.day)] = None
    return tuple(dates)


# ---- signals ----

Intent: TypeAlias = Literal["question", "action", "fix", "explain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What a query reveals of what it searches for.

    Attributes:
        query: As it was given, cleaned.
        search_text: What sources are asked for: the query and other forms of its words.
        terms: Its different words that say something, lower-case, in order.
        related: By term, other words that say it too, and how closely, from 0 to 1.
        entities: Names that it mentions, as written, in order.
        event_types: Kinds of events that it points to, such as `error`.
        wants_time: Whether it asks when something was.
        context_terms: Words of what was said around it, the last first; each weighs less.
    """

    query: str
    search_text: str = ""
    terms: tuple[str, ...] = ()
    related: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Any])
    entities: tuple[str, ...] = ()
    intent: Intent = "action"
    event_types: tuple[str, ...] = ()
    dates: tuple[DateMention, ...] = ()
    wants_time: bool = False
    context_terms: tuple[str, ...] = ()


_NAMES: Final = re.compile(
    r"`([^`\n]{1,80})`|\"([^\"\n]{1,80})\"|((?:[A-Z][\w'’]*)(?:[ -][A-Z][\w'’]*){0,3})"
)


_OPENS: Final = re.compile(r"[.!?:;…\n][\s\-*•>\d)]*\Z")


@cache
def phrases(name: str) -> re.Pattern[str]:
    """Return what finds the phrases of that name."""
    listed = " ".join(word_lists()["phrases"][name].split()).replace(" | ", "|")
    return re.compile(rf"\b(?:{listed})\b", re.IGNORECASE)


def read_signals(query: str, *, now: datetime | None = None, context: str = "") -> Signals:
    """Return what the query reveals: words, names, dates, and what is wanted.

    Any text is a query. Of one that is very long both ends are read.

    Args:
        now: What `yesterday` in the query is counted from.
        context: What helps to find without being the question, such as the last messages. If no word
            of the query says anything ("And then?"), its last words are what is asked for.
    """
    text = both_ends(clean_text(query), 4_000)
    asked = phrases("asked_for").sub(" ", text)
    terms = tuple(query_terms(asked))
    if not terms:
        asked, terms = text, tuple(query_terms(text))
    around = without_stop_words(reversed(query_terms(clean_text(context[-_CONTEXT_CHARS:]))))
    around = [term for term in around if term not in terms][:_MOST_CONTEXT_TERMS]
    if terms and around and not without_stop_words(terms):
        asked, terms, around = " ".join(around), tuple(around), []
    # "Did she run?" is answered by "she ran"; other questions have the form of their answers.
    forms = other_forms_of(terms) if phrases("past").search(text) else {}
    close = related_words(terms)
    is_asking = "?" in text or phrases("begins_question").match(text.lstrip())
    intent: Intent = "question" if is_asking else "action"
    if phrases("fix").search(text):
        intent = "fix"
    elif phrases("explain").search(text):
        intent = "explain"
    words = {*re.findall("[a-z]+", text.lower())}
    return Signals(
        query=text,
        search_text=" ".join((asked, *dict.fromkeys(f for given in forms.values() for f in given))),
        terms=terms,
        related={
            term: {**close.get(term, {}), **dict.fromkeys(forms.get(term, ()), 1.0)}
            for term in terms
            if term in close or term in forms
        },
        entities=_entities(text),
        intent=intent,
        event_types=tuple(
            n for n, cues in word_lists()["events"].items() if words & {*cues.split()}
        ),
        dates=find_dates(text, now=now),
        wants_time=phrases("asks_time").search(text) is not None,
        context_terms=tuple(around),
    )


def _entities(text: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for match in _NAMES.finditer(text):
        code, quoted, plain = (one or "" for one in match.groups())
        words = plain.removesuffix("'s").removesuffix("’s").split(" ")
        # A word that says nothing is capital only because a sentence begins.
        while words and words[0].lower().partition("'")[0] in _languages().english:
            words = words[1:]
        is_first = not match.start() or _OPENS.search(
            text, max(match.start() - 8, 0), match.start()
        )
        if words and is_first and words[0].lower() in word_lists()["asks"]["English"].split():
            words = words[1:]
        found[code or quoted or " ".join(words)] = None
    found.pop("", None)
    return tuple(found)[:32]
