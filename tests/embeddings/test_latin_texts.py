"""Which texts a model of English can read."""

import pytest

from context_assembler.embeddings import BundledEmbedder
from context_assembler.embeddings.latin_texts import is_mostly_latin

TEXTS = {
    "English": ("Where is the boat?", True),
    "accents": ("Où est le café? Đã đến.", True),
    "no letters": ("…? 42 — ✓", True),
    "a foreign word among others": ("The sign says 出口 in red", True),
    "Chinese": ("我喜欢听什么类型的音乐", False),
    "Chinese with a name": ("你用过 git 吗 我觉得很好用", False),
    "Russian": ("Где лодка?", False),
}


@pytest.mark.parametrize(("text", "expected"), TEXTS.values(), ids=TEXTS.keys())
def test_texts_of_other_scripts_are_not_read(text: str, *, expected: bool) -> None:
    assert is_mostly_latin(text) is expected


async def test_what_the_model_cannot_read_has_no_vector() -> None:
    [read, unread] = await BundledEmbedder().embed(["a dog", "我喜欢听音乐"])

    assert read is not None
    assert unread is None
