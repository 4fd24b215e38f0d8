"""Which texts a model of English can read."""

import pytest

from context_assembler.embeddings import BundledEmbedder
from context_assembler.embeddings.latin_texts import can_be_read, is_mostly_latin

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


READABLE = {
    "English": ("Where is the boat?", True),
    "words that say nothing": ("…? 42 — ✓", True),
    "words of no language": ("parse_tool_calls(reply) -> list[ToolCall]", True),
    "a foreign name": ("Guido de Graaf met Che Guevara", True),
    "foreign words among English ones": (
        "He said 'wo ist die Akte' and left the room at once",
        True,
    ),
    "German": ("Wo ist die Akte von Anna?", False),
    "French": ("Où est le serveur de production ?", False),
    "Spanish": ("¿Qué no le gusta a Lucía?", False),
    "Swedish": ("Jag tycker inte om svamp.", False),
    "another script": ("Где лодка?", False),
}


@pytest.mark.parametrize(("text", "expected"), READABLE.values(), ids=READABLE.keys())
def test_texts_of_other_languages_are_not_read(text: str, *, expected: bool) -> None:
    assert can_be_read(text) is expected


async def test_what_the_model_cannot_read_has_no_vector() -> None:
    [read, *unread] = await BundledEmbedder().embed(["a dog", "我喜欢听音乐", "Wo ist der Hund?"])

    assert read is not None
    assert unread == [None, None]
