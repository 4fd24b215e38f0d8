"""Which names a store of memories can keep."""


def can_be_kept(name: object) -> bool:
    """Whether a store can keep the name of anything: every database keeps Unicode without NUL."""
    return isinstance(name, str) and (
        name.isprintable() or not any(c == "\0" or "\ud800" <= c <= "\udfff" for c in name)
    )
