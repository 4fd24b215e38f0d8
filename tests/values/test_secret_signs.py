"""A look at the signs never misses what a search for secrets finds."""

import re
from importlib.metadata import PackageNotFoundError
from itertools import product

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from context_assembler.values.texts import secret_masking
from context_assembler.values.texts.key_ends import find_key_ends
from context_assembler.values.texts.secret_masking import (
    PRIVATE_KEY,
    Secret,
    _patterns,
    find_secrets,
)
from context_assembler.values.texts.secret_settings import find_given_secrets
from context_assembler.values.texts.secret_signs import (
    KINDS_WITH_SIGN,
    kinds_to_seek,
    may_hold_secret,
    patterns_are_known,
)
from tests.values.test_secret_masking import SECRETS
from tests.values.test_secret_settings import GIVEN, LEFT_ALONE

ORDINARY = [text.replace("«", "").replace("»", "") for text in (*GIVEN, *LEFT_ALONE)]
KEY_END = f"{'Ab1+' * 16}\n-----END PRIVATE" + " KEY-----"
SAMPLES = [
    *ORDINARY,
    *SECRETS.values(),
    *("xoxb-1-a", "eyJa.b.", "https://user:pw123@host", KEY_END),
]
# Ignoring case makes one of a letter and these; folding does so for the first two only.
LOOKALIKES = str.maketrans({"s": "ſ", "k": "\u212a"})  # noqa: RUF001 – the point of it
DOTLESS = str.maketrans({"i": "ı", "I": "İ"})  # noqa: RUF001 – the point of it

MIXED = "aAkKiIsSſ\u212aıİß1:=/.-_ \n\"'eytokcurnpwdxbh@{"  # noqa: RUF001 – the point of it


def secrets_by_every_pattern(text: str) -> list[Secret]:
    """Return what is found where nothing is left out, overlaps included."""
    found: list[Secret] = []
    for kind, pattern in _patterns():
        for match in pattern.finditer(text):
            group = 0 if kind in secret_masking._WHOLE_MATCHES else match.lastindex or 0
            start, end = match.span(group)
            found.append(Secret(kind=kind, start=start, end=end))
    everything = "keytokensecretpass=--authorizationcurl"  # whatever the gates ask for
    found += [
        Secret(kind=kind, start=start, end=end)
        for kind, start, end in find_given_secrets(text, f"{text} {everything} key=")
    ]
    found += [Secret(kind=PRIVATE_KEY, start=start, end=end) for start, end in find_key_ends(text)]
    return found


def assert_nothing_is_missed(text: str) -> None:
    expected = secrets_by_every_pattern(text)

    assert list(secret_masking._matches(text)) == expected
    assert may_hold_secret(text) or not expected


@pytest.mark.parametrize("text", SAMPLES)
def test_every_sample_is_found_as_without_a_look(text: str) -> None:
    for spelled in (text, text.upper(), text.translate(LOOKALIKES), text.translate(DOTLESS)):
        assert_nothing_is_missed(spelled)


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_what_is_no_secret_is_none_either_way(text: str) -> None:
    assert find_secrets(text) == []


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(SAMPLES), min_size=1, max_size=3), st.sampled_from(' \n"=:é-_/'))
def test_samples_beside_each_other_are_found_as_without_a_look(
    pieces: list[str], glue: str
) -> None:
    assert_nothing_is_missed(glue.join(pieces))


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from(MIXED), max_size=60))
def test_any_text_is_searched_as_without_a_look(text: str) -> None:
    assert_nothing_is_missed(text)


@pytest.mark.parametrize(
    ("kind", "pattern"), _patterns(), ids=[f"{k}-{at}" for at, (k, _) in enumerate(_patterns())]
)
def test_every_match_of_a_pattern_bears_its_sign(kind: str, pattern: re.Pattern[str]) -> None:
    @settings(max_examples=15, deadline=None, database=None, phases=[Phase.generate])
    @given(st.from_regex(pattern))
    def check(text: str) -> None:
        assert kind not in KINDS_WITH_SIGN or kind in kinds_to_seek(text, text.casefold())
        assert may_hold_secret(text)

    check()


def test_every_kind_with_a_sign_has_a_pattern() -> None:
    assert {kind for kind, _ in _patterns()} >= KINDS_WITH_SIGN


def test_ordinary_texts_are_not_worth_a_look() -> None:
    words = ("The deployment", "runs", "at noon: see docs/how-to", "and README.md.")
    dashes = "a heading\n" + "-" * 40

    assert not any(may_hold_secret(" ".join(said)) for said in product(words, repeat=3))
    assert not may_hold_secret("部署在每周五中午进行" * 10)
    assert kinds_to_seek(dashes, dashes) == {"Twilio API Key"}


@pytest.mark.parametrize("installed", ["1.4.0", "99.0"])
def test_with_unknown_patterns_every_text_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, installed: str
) -> None:
    def other(_name: str) -> str:
        return installed

    monkeypatch.setattr("importlib.metadata.version", other)
    patterns_are_known.cache_clear()

    assert may_hold_secret("plain")
    assert kinds_to_seek("plain", "plain") == KINDS_WITH_SIGN
    patterns_are_known.cache_clear()


def test_without_the_library_signs_alone_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    patterns_are_known.cache_clear()

    assert not may_hold_secret("plain")
    assert may_hold_secret(SECRETS["GitHub Token"])
    patterns_are_known.cache_clear()
