"""Signatures of texts: the same everywhere, and alike where texts are."""

import random
import string

import numpy as np
import pytest

from context_assembler.values.texts import text_signatures
from context_assembler.values.texts.text_signatures import (
    EMPTY,
    PLACES,
    band_keys,
    shares_in_common,
    sign_texts,
)

TEXT = "The deployment runs every Friday at noon, after the nightly tests have passed."


def pieces(text: str) -> set[str]:
    padded = text + "\0" * 3
    return {padded[at : at + 4] for at in range(len(text))}


def test_signatures_are_the_same_everywhere() -> None:
    # They are stored: other numbers need a new version of the tables.
    [latin, han] = sign_texts(np, [TEXT, "部署在每周五中午进行"])

    assert latin[:4].tolist() == [2174082307, 4101465986, 4294967295, 4294967295]
    assert han[:4].tolist() == [539276183, 4294967295, 559055633, 4294967295]
    keys, _ = band_keys(np, np.array([latin]), step=4)
    assert keys[0, :2].tolist() == [11655978662356326335, 7599507377844973791]


def test_a_signature_does_not_depend_on_the_texts_beside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = [TEXT, "", "short", TEXT * 20, "部署", "\ud83d lone"]
    alone = [sign_texts(np, [text])[0].tolist() for text in texts]

    assert sign_texts(np, texts).tolist() == alone
    monkeypatch.setattr(text_signatures, "_CHARS_AT_ONCE", 10)
    assert sign_texts(np, texts).tolist() == alone


def test_no_texts_have_no_signatures() -> None:
    assert sign_texts(np, []).shape == (0, PLACES)
    assert set(sign_texts(np, [""])[0].tolist()) == {EMPTY}


@pytest.mark.parametrize("chars", [40, 200, 2_000])
def test_signatures_agree_as_far_as_texts_have_pieces_in_common(chars: int) -> None:
    chance = random.Random(chars)
    text = "".join(chance.choices(string.ascii_lowercase, k=chars))
    other = text[: chars * 3 // 4] + "".join(chance.choices(string.ascii_lowercase, k=chars // 4))
    common = len(pieces(text) & pieces(other)) / len(pieces(text) | pieces(other))

    left, right = sign_texts(np, [text, other])
    [share] = shares_in_common(np, np.array([left]), np.array([right]))

    assert share == pytest.approx(common, abs=0.13)


def test_bands_with_hardly_anything_in_them_do_not_count() -> None:
    signatures = np.full((1, PLACES), EMPTY, dtype=np.uint32)
    signatures[0, :3] = (1, 2, 3)

    _, says_enough = band_keys(np, signatures, step=2)

    assert says_enough[0].tolist() == [True, *[False] * 126]
