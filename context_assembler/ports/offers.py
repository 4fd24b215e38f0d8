"""Whether what somebody offers beside a socket still says what the socket says."""

from collections.abc import Collection


def is_offered(giver: object, name: str, *, instead_of: Collection[str]) -> bool:
    """Whether a method or an attribute of a class may be asked in place of others.

    A class that replaces one of those alone means it for all of them: what it inherits does not count.
    """
    for defined in map(vars, type(giver).__mro__):
        if name in defined:
            return True
        if any(other in defined for other in instead_of):
            return False
    return False
