"""Which sections, and which settings of them, a system prompt can have."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, get_args

from context_assembler.errors import ConfigurationError
from context_assembler.values.given import check_known, check_type, listed
from context_assembler.values.json_bounds import shown
from context_assembler.values.messages import CLOCK
from context_assembler.values.parts import Origin
from context_assembler.values.prompt import Placement, PromptSection

# Whose text may tell the model what to do. The developer's own instruction files are the developer's.
_WITH_AUTHORITY: Final[frozenset[Origin]] = frozenset({"developer", "assembler"})


def is_in_system(section: PromptSection) -> bool:
    """Whether the section has a place in the system prompt itself."""
    return section.placement == "system" and section.origin in _WITH_AUTHORITY


def by_section(name: str, given: Mapping[str, int] | None) -> dict[str, int]:
    """Return a number for each section that has one of its own.

    Raises:
        InvalidParameterError: It is no mapping of names to whole numbers.
    """
    such_as = "a mapping, such as {'soul': 900}"
    check_type(name, given, Mapping, type(None), such_as=such_as)
    numbers = dict(given or {})
    for section, number in numbers.items():
        check_type(f"{name}[{section!r}]", number, int, such_as="a whole number")
    return numbers


def names_by_agent(given: Mapping[str, Iterable[str]] | None) -> dict[str, frozenset[str]]:
    """Return by agent the names of the only sections of its prompt.

    Raises:
        InvalidParameterError: It is no mapping of names to several names.
    """
    such_as = "a mapping, such as {'writer': ['agent', 'soul']}"
    check_type("inherits", given, Mapping, type(None), such_as=such_as)
    return {
        agent: frozenset(listed("inherits", names, str, such_as=such_as))
        for agent, names in (given or {}).items()
    }


def check_texts(*texts: object) -> None:
    """Refuse what is no text where a section's text is wanted.

    Raises:
        InvalidParameterError: One of them is none.
    """
    for text in texts:
        check_type("the text of a section", text, str, such_as="a string; '' for no section")


def refuse_sections(sections: Collection[PromptSection], *, standard: Collection[str]) -> None:
    """Refuse sections of the application that no prompt can have.

    Raises:
        UnknownOptionError: One has an unknown placement or origin.
        ConfigurationError: One that is not the developer's own is required in the prompt, has no
            text for a name or content, or has the name of another.
    """
    for section in sections:
        _refuse_malformed(section)
    _refuse_shared_names(sections, standard)
    _refuse_required_without_authority(sections)


def refuse_unknown(names: Iterable[str], *, known: Collection[str]) -> None:
    """Refuse the name of a section that there is not.

    Raises:
        UnknownOptionError: There is none of that name.
    """
    for name in names:
        check_known(name, known, kind="prompt section")


def _refuse_malformed(section: PromptSection) -> None:
    has_texts = {type(section.name), type(section.content)} == {str}
    if not has_texts or not section.name.strip():
        raise ConfigurationError(
            f"A section needs a name and text; got {shown(section)}.",
            remedy="Give both as strings; a content that is empty leaves the section out.",
        )
    check_type(
        f"the priority of {section.name!r}", section.priority, int, such_as="a number such as 500"
    )
    check_type(f"the path of {section.name!r}", section.path, str, such_as="a path as text, or ''")
    check_known(section.placement, get_args(Placement), kind="placement")
    check_known(section.origin, get_args(Origin), kind="origin")


def _refuse_shared_names(sections: Iterable[PromptSection], standard: Collection[str]) -> None:
    taken = {*standard, CLOCK}
    for section in sections:
        if section.name in taken:
            raise ConfigurationError(
                f"The name {section.name!r} belongs to another section of the prompt.",
                remedy="Give the section a name of its own: settings and reports go by it.",
            )
        taken.add(section.name)


def _refuse_required_without_authority(sections: Iterable[PromptSection]) -> None:
    for section in sections:
        if section.is_required and section.placement == "system" and not is_in_system(section):
            raise ConfigurationError(
                f"The section {section.name!r} comes from {section.origin!r} and is required in the "
                "system prompt, where only the developer's own text has a place.",
                remedy="Give it placement='note', or is_required=False to have it placed so.",
            )
