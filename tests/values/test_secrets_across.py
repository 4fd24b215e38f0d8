"""Secrets that stand in several texts are masked in each of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.values.texts.secret_masking import mask_secrets
from context_assembler.values.texts.secrets_across import mask_across
from tests.values.test_secret_masking import SECRETS

# Put together here, so that nobody takes this file for a leak.
BEGIN, END = "-----BEGIN RSA PRIVATE" + " KEY-----", "-----END RSA PRIVATE" + " KEY-----"
LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7AAECAwQFBgcI"
TOKEN = SECRETS["GitHub Token"]
MASKED_KEY, MASKED_TOKEN = "[masked: Private Key]", "[masked: GitHub Token]"


ACROSS: dict[str, tuple[list[str], list[str]]] = {
    "a key in three texts": (
        [f"{BEGIN}\n", f"{LINE}\n{LINE}\n", END],
        [MASKED_KEY, f"{MASKED_KEY}\n", MASKED_KEY],
    ),
    "a key with what stands around it": (
        [f"The key: {BEGIN}\n{LINE}", f"{LINE}\nAAEC=\n{END}\nThat is all."],
        [f"The key: {MASKED_KEY}", f"{MASKED_KEY}\nThat is all."],
    ),
    "a key in numbered lines": (
        [f" 1→{BEGIN}", f" 2→{LINE}", f" 3→{LINE}", f" 4→{END}"],
        [f" 1→{MASKED_KEY}", MASKED_KEY, MASKED_KEY, MASKED_KEY],
    ),
    "a key with a blank text inside": ([BEGIN, "\n", LINE], [MASKED_KEY, "\n", MASKED_KEY]),
    "a token in two texts": (
        [f"a {TOKEN[:9]}", f"{TOKEN[9:]} b"],
        [f"a {MASKED_TOKEN}", f"{MASKED_TOKEN} b"],
    ),
    "a token in three texts": (
        [TOKEN[:9], TOKEN[9:20], TOKEN[20:]],
        [MASKED_TOKEN, MASKED_TOKEN, MASKED_TOKEN],
    ),
    "a name and its value": (
        ["DB_PASSWORD=", "correct-horse"],
        ["DB_PASSWORD=", "[masked: Secret in a setting]"],
    ),
    "a word and what it announces": (
        ["Authorization: Bearer", "a1" * 12],
        ["Authorization: Bearer", "[masked: Bearer Token]"],
    ),
    "one secret in each": ([TOKEN, "plain", TOKEN], [MASKED_TOKEN, "plain", MASKED_TOKEN]),
    "a token with a NUL in it": ([f"{TOKEN[:9]}\0{TOKEN[9:]}", "a\0b"], [MASKED_TOKEN, "a\0b"]),
}


@pytest.mark.parametrize(("texts", "expected"), ACROSS.values(), ids=ACROSS.keys())
def test_a_secret_in_several_texts_is_masked_in_each(texts: list[str], expected: list[str]) -> None:
    masked = mask_across(texts)

    assert list(masked.texts) == expected


LEFT_ALONE = {
    "words behind a key that was only begun": ([BEGIN, "Now to something else."], 1),
    "a long word behind a key that was ended": ([f"{BEGIN}\n{LINE}\n{END}", LINE], 1),
    "a long word behind what is no key": (["-----BEGIN CERTIFICATE-----", LINE], 0),
    "lines of nothing secret": (["The deployment", "runs at noon", "ghp_", "abc"], 0),
}


@pytest.mark.parametrize(("texts", "masked"), LEFT_ALONE.values(), ids=LEFT_ALONE.keys())
def test_what_does_not_go_on_with_a_secret_stays(texts: list[str], masked: int) -> None:
    told = mask_across(texts)

    assert list(told.texts[masked:]) == texts[masked:]
    assert len(told.kinds) == masked


def test_a_key_is_one_secret_however_many_texts_it_stands_in() -> None:
    masked = mask_across([BEGIN, LINE, LINE, END])

    assert masked.kinds == ("Private Key",)
    assert not masked.leaves_open


@pytest.mark.parametrize(
    ("texts", "is_open"),
    [([BEGIN], True), ([BEGIN, LINE], True), ([f"{BEGIN}\n{LINE}\n{END}"], False), (["x"], False)],
)
def test_what_a_key_leaves_open_is_told(texts: list[str], is_open: bool) -> None:
    assert mask_across(texts).leaves_open is is_open


def test_a_key_that_was_begun_before_is_masked_from_the_first_text_on() -> None:
    masked = mask_across([LINE, f"{LINE}\n{END}"], is_open=True)

    assert masked.texts == (MASKED_KEY, MASKED_KEY)
    assert masked.kinds == ("Private Key",)


def test_words_end_a_key_that_was_begun_before() -> None:
    assert mask_across(["No.", LINE], is_open=True).texts == ("No.", LINE)


_pieces = st.one_of(
    st.text(max_size=12),
    st.sampled_from([*SECRETS.values(), BEGIN, LINE, END, TOKEN[:9], TOKEN[9:], "password=", "\0"]),
)
_texts = st.lists(st.lists(_pieces, max_size=3).map("".join), max_size=5)


@given(_texts, st.booleans())
def test_masking_twice_is_masking_once(texts: list[str], is_open: bool) -> None:
    once = mask_across(texts, is_open=is_open)

    assert mask_across(once.texts).texts == once.texts


@given(_texts)
def test_no_secret_is_left_wherever_the_texts_are_joined(texts: list[str]) -> None:
    masked = mask_across(texts).texts

    for seam in ("", "\n"):
        assert mask_secrets(seam.join(masked)).kinds == ()


@given(_texts)
def test_no_text_becomes_empty_and_one_without_a_secret_stays_the_same(texts: list[str]) -> None:
    masked = mask_across(texts)

    for before, after in zip(texts, masked.texts, strict=True):
        assert after == before or after.strip()
    assert masked.kinds or masked.texts == tuple(texts)


@given(_pieces)
def test_one_text_is_masked_as_by_itself(text: str) -> None:
    alone = mask_secrets(text)

    assert mask_across([text]).texts == (alone.text,)
    assert mask_across([text]).kinds == alone.kinds
