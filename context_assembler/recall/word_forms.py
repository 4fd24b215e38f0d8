"""Forms of English words that cutting endings does not bring together."""

from collections.abc import Iterable
from typing import Final

# Verbs that say little (get, make, take …) are left out: their forms would only add noise.
_IRREGULAR: Final = """
bite bit bitten|blow blew blown|break broke broken breaking|build built building
buy bought buying|catch caught catching|choose chose chosen choosing choice|cut cutting
dig dug digging|draw drew drawn drawing|drink drank drunk drinking|drive drove driven driving
eat ate eaten eating|fall fell fallen falling|feed fed feeding|fight fought fighting
fly flew flown flying flight|forget forgot forgotten|forgive forgave forgiven
freeze froze frozen|go went gone going|grow grew grown growing growth|hear heard hearing
hide hid hidden hiding|hit hitting|hurt hurting|lead led leading|learn learnt learned learning
lend lent lending|lose lost losing loss|meet met meeting|pay paid paying payment
ride rode ridden riding|rise rose risen rising|run ran running|sell sold selling sale
send sent sending|shake shook shaken|shoot shot shooting|sing sang sung singing
sleep slept sleeping|speak spoke spoken speaking speech|spend spent spending
steal stole stolen stealing|swim swam swum swimming|teach taught teaching|tear tore torn
throw threw thrown throwing|wake woke woken waking|wear wore worn wearing|win won winning
write wrote written writing|child children kid kids|person people|man men|woman women
foot feet|tooth teeth|mouse mice|wife wives|life lives|knife knives|leaf leaves|marry marriage
die died death|born birth|mom mother mum|dad father|bike bicycle|photo picture photograph
"""

_GROUPS: Final = tuple(
    tuple(group.split()) for group in _IRREGULAR.replace("\n", "|").split("|") if group
)


def other_forms_of(terms: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return by word its forms that are not among the words; regular words have none."""
    given = dict.fromkeys(terms)
    found = {
        term: dict.fromkeys(f for f in _FORMS.get(term, ()) if f not in given) for term in given
    }
    return {term: tuple(forms) for term, forms in found.items() if forms}


def _by_form() -> dict[str, tuple[str, ...]]:
    forms: dict[str, tuple[str, ...]] = {}
    for group in _GROUPS:
        for form in group:
            forms[form] = (*forms.get(form, ()), *group)
    return forms


_FORMS: Final = _by_form()
