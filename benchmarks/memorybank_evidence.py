"""Which turns answer MemoryBank's probing questions; the corpus itself names none.

One entry for each question, in the corpus' order: exchanges are counted from 0 through all days of
a user, `u` is what the user says and `a` the answer. An empty entry is a question that nothing
answers. Read and noted by hand.
"""

from collections.abc import Mapping, Sequence
from typing import Final

EVIDENCE: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "en": {
        "Lucy": ("3u", "10u 11u", "6u", "14u", "23a", "21a", "6u"),
        "Sunny": ("6u", "4u", "25a", "19u", "2u", "15a", "27a"),
        "John Zhang": ("4u", "6u 7u 8u", "5u", "9u", "", "15u", "16u"),
        "Henry": ("1u", "11u", "12a", "24a", "31u", "6a", "17a"),
        "Leo": ("2u", "17u", "18u", "20a", "20a", "23a", "28u"),
    },
    "cn": {
        "王峰": ("2u", "15u", "18a", "47u", "50u", "25u", "9a"),
        "孙悦": ("6u", "4u", "25a", "19u", "2u", "15a", "27a"),
        "周立": ("7u", "13u", "7u", "4a", "20u", "26u", "32a"),
        "张志强": ("4u", "6u 7u 8u", "5u", "9u", "16u", "15u", "17u"),
        "宫晓燕": ("1u", "34u", "24u", "8u", "3u", "30a", "24a"),
        "郝明": ("1u", "11u", "12a", "24a", "31u", "6a", "17a"),
        "姚国栋": ("6u", "22a", "26a", "23a", "16u 17u", "10a", "19a"),
        "郑思雨": ("2u", "2u", "14u", "10u", "27a"),
        "陆琳": ("8u", "19u", "36u", "34a", "10u"),
        "焦彦": ("2u", "17u", "18u", "20a", "20a", "23a", "28u"),
    },
}
