"""What is asked in other languages finds what it asks for, and nothing for the sake of an article."""

# ruff: noqa: RUF001 - Russian words of one letter are what they look like

import pytest

from context_assembler.embeddings import BundledEmbedder
from context_assembler.memory import open_memory
from context_assembler.memory_assembler import MemoryAssembler

# What is kept, what asks for it, and what asks for something else in words as common.
ASKED = {
    "Chinese": ("合同将于明年三月到期。", "合同什么时候到期？", "什么时候可以去公园？"),
    "Danish": (
        "Anna bor i en lejlighed ved havnen i Aarhus.",
        "Hvor er Annas lejlighed?",
        "Hvordan bliver vejret i bjergene?",
    ),
    "Dutch": (
        "Het contract met de firma loopt in maart af.",
        "Wanneer eindigt het contract?",
        "Hoe wordt het weer in de bergen?",
    ),
    "French": (
        "La réunion avec le client est reportée au jeudi.",
        "Quand est la réunion ?",
        "Quelle est la capitale de la Suède ?",
    ),
    "German": (
        "Der Vertrag mit der Firma läuft im März aus, die Kündigung ist geschrieben.",
        "Wann endet der Vertrag?",
        "Wie wird das Wetter in den Bergen, und was ist die Hauptstadt?",
    ),
    "Italian": (
        "Il contratto con la ditta scade a marzo.",
        "Quando scade il contratto?",
        "Qual è la capitale della Svezia?",
    ),
    "Japanese": (
        "会議は毎週月曜日の午前十時からです。",
        "会議はいつですか？",
        "フランスの首都はどこですか？",
    ),
    "Korean": (
        "회의는 매주 월요일 오전에 있습니다.",
        "회의는 언제 있습니까?",
        "프랑스의 수도는 어디입니까?",
    ),
    "Polish": (
        "Umowa z firmą jest do marca, a nie do maja.",
        "Kiedy kończy się umowa?",
        "Jaka jest pogoda do końca tego tygodnia?",
    ),
    "Portuguese": (
        "A reunião com o cliente é na quinta-feira.",
        "Quando é a reunião?",
        "Qual é a capital da Suécia?",
    ),
    "Russian": (
        "Договор с фирмой заканчивается в марте, он не продлён.",
        "Когда заканчивается договор?",
        "Какая погода в горах, и что с ней?",
    ),
    "Spanish": (
        "La contraseña del wifi está en la nevera.",
        "¿Dónde está la contraseña?",
        "¿Cuál es la receta de la paella?",
    ),
    "Swedish": (
        "Mötet med kunden är på torsdag.",
        "När är mötet?",
        "Vad är det för väder på fjället?",
    ),
}


@pytest.mark.parametrize("with_vectors", [False, True], ids=["words", "vectors"])
@pytest.mark.parametrize(("kept", "asked", "other"), ASKED.values(), ids=ASKED.keys())
async def test_a_question_in_another_language_is_answered_by_what_it_asks_for(
    kept: str, asked: str, other: str, *, with_vectors: bool
) -> None:
    embed = BundledEmbedder() if with_vectors else None
    async with open_memory("memory:") as store, MemoryAssembler(store, embed=embed) as recall:
        await recall.remember(kept)

        found = await recall.assemble_context(asked)
        nothing = await recall.assemble_context(other)

    assert kept in found.markdown
    assert nothing.is_empty
    assert set(nothing.source_status.values()) == {"empty"}
