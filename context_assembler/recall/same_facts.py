"""Whether texts that are nearly equal can say the same: with other numbers, or denied, they do not."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple, TypeAlias

# Words that deny, by language. What denies in one and not in another does no harm: two texts that
# differ in such a word differ in what they say.
_WORDS: Final[Mapping[str, str]] = {
    "English": "not no never none nobody nothing nowhere neither nor without cannot cant dont doesnt "
    "didnt isnt arent wasnt werent wont couldnt shouldnt wouldnt hasnt havent hadnt aint",
    "Danish, Norwegian, Swedish": "ikke ikkje ej inte aldri aldrig ingen intet inget inga ingenting "
    "utan uden uten nej nei",
    "Dutch": "niet geen nooit niets niemand zonder nee nergens",
    "Estonian, Finnish": "ei en et emme ette eivät älä ilman pole mitte ära",
    "French": "pas jamais sans non aucun aucune rien personne ne ni n",
    "German": "nicht kein keine keinen keinem keiner keines nie niemals nichts niemand ohne nein weder "
    "nirgends",
    "Greek": "δεν δε μην μη όχι ποτέ χωρίς",
    "Hebrew": "לא אין אל בלי אינו אינה",
    "Arabic, Persian, Urdu": "لا ليس ليست لم لن غير بدون بلا نه نیست نہیں نہ مت",
    "Hungarian": "nem ne nincs nincsenek soha sem nélkül",
    "Indonesian, Malay, Tagalog": "tidak bukan tak belum jangan tanpa tiada hindi wala huwag",
    "Italian": "non mai senza né nessun nessuno nessuna niente nulla",
    "Polish, Czech, Slovak, South Slavic": "nie ne není není nikdy nigdy bez żaden brak nema nikada "
    "nije nisu nikoli",
    "Portuguese, Spanish, Catalan": "não nunca sem nem nenhum nenhuma ninguém nada nadie jamás sin "
    "ningún ninguno ninguna tampoco sense cap",
    "Romanian": "nu niciodată fără nici nimeni nimic",
    "Russian, Ukrainian, Bulgarian": "не нет ни никогда без нельзя никто ничего ні немає ніколи няма",
    "Swahili": "hapana si bila",
    "Turkish": "değil yok hiç asla olmadan",
    "Vietnamese": "không chẳng chưa đừng",
}

# The same in scripts that write no spaces between words, or vowels as marks.
_SIGNS: Final[Mapping[str, str]] = {
    "Chinese": "不 没 沒 無 无 未 非 勿 莫 别 別 否",
    "Japanese": "ない なく なかっ ません なし ず ぬ",
    "Korean": "않 없 아니 안 못 지마",
    "Thai, Lao, Khmer, Burmese": "ไม่ มิ ไร้ ບໍ່ មិន គ្មាន မ",
    "Bengali, Hindi, Tamil, Telugu": "नहीं नही मत बिना না নয় নেই இல்லை அல்ல లేదు కాదు",
}
_CONTRACTED: Final = re.compile(r"n['\u2019\u02bc]t\b")

_COUNTED: Final = "〇零一二三四五六七八九十百千万萬億亿兆两兩壹贰叁肆伍陆柒捌玖拾"
_NUMBER: Final = re.compile(rf"(?:(?<![^\s(])[-\u2212])?[\d{_COUNTED}]+")
_PIECE: Final = re.compile(rf"(?P<number>[\d{_COUNTED}]+)|[^\W\d_{_COUNTED}]+")
_WORD: Final = re.compile(r"[^\W\d_]+")
_UNSPACED: Final = re.compile("[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

_Key: TypeAlias = tuple[tuple[str, ...], int]


class _Side(NamedTuple):
    """What stands beside a number, and whether nothing is between."""

    said: str
    is_glued: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """What texts state besides their words; each text is read once, where it is compared.

    Args:
        texts: Without what makes no difference, such as case.
    """

    texts: Sequence[str]
    _keys: dict[int, _Key] = field(default_factory=dict[int, _Key])

    def may_agree(self, left: int, right: int) -> bool:
        """Whether the texts of two places have the same numbers, and deny as often.

        A number and the unit behind it are the same with a space between and without one; with
        another letter at it, such as another unit, the number is another one.
        """
        if self._key(left) != self._key(right):
            return False
        numbers, _ = self._key(left)
        return not numbers or _stand_alike(self.texts[left], self.texts[right])

    def groups(self) -> Iterable[Sequence[int]]:
        """Return the places of the texts that may agree, those of each group in order."""
        groups: dict[_Key, list[int]] = {}
        for place in range(len(self.texts)):
            groups.setdefault(self._key(place), []).append(place)
        return groups.values()

    def _key(self, place: int) -> _Key:
        if place not in self._keys:
            self._keys[place] = _key_of(self.texts[place])
        return self._keys[place]


def say_the_same(left: str, right: str) -> bool:
    """Whether two texts have the same numbers, and deny as often."""
    return Facts((left, right)).may_agree(0, 1)


def _key_of(text: str) -> _Key:
    """Return the numbers of a text in their order, and how often it denies."""
    numbers = tuple(map(_in_latin_digits, _NUMBER.findall(text)))
    words, signs = _negations()
    denied = sum(word in words for word in _WORD.findall(text)) + len(_CONTRACTED.findall(text))
    if not text.isascii():
        denied += len(signs.findall(text))
    return numbers, denied


def _in_latin_digits(number: str) -> str:
    if number.isascii():
        return number
    return "".join(str(int(c)) if c.isdecimal() else c for c in number.replace("\u2212", "-"))


def _stand_alike(left: str, right: str) -> bool:
    """Whether beside each number the same is said, where it is said without a space between."""
    return all(
        one.said == other.said
        for one, other in zip(_sides_of(left), _sides_of(right), strict=True)
        if one.is_glued or other.is_glued
    )


def _sides_of(text: str) -> list[_Side]:
    """Return what stands before and behind each number; of a text without spaces one character."""
    pieces = list(_PIECE.finditer(text))
    sides: list[_Side] = []
    for at, piece in enumerate(pieces):
        if piece["number"] is None:
            continue
        before = pieces[at - 1] if at else None
        behind = pieces[at + 1] if at + 1 < len(pieces) else None
        sides.append(
            _side(before, -1, is_glued=before is not None and before.end() == piece.start())
        )
        sides.append(
            _side(behind, 0, is_glued=behind is not None and behind.start() == piece.end())
        )
    return sides


def _side(beside: re.Match[str] | None, nearest: int, *, is_glued: bool) -> _Side:
    said = "" if beside is None else beside[0]
    if said and _UNSPACED.match(said[nearest]):
        said = said[nearest]
    return _Side(said, is_glued)


@cache
def _negations() -> tuple[frozenset[str], re.Pattern[str]]:
    """Return the words that deny, and what finds the signs that do."""
    words = {word for listed in _WORDS.values() for word in _plain(listed).split()}
    signs = {sign for listed in _SIGNS.values() for sign in _plain(listed).split()}
    longest_first = sorted(signs, key=lambda sign: (-len(sign), sign))
    return frozenset(words), re.compile("|".join(map(re.escape, longest_first)))


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
