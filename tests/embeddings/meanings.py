"""Texts of which one lies nearer to the first than the other."""

from typing import Final

NEARER: Final = {
    "a paraphrase": ("the car is fast", "a quick automobile", "an apple pie recipe"),
    "the same matter": (
        "the database migration failed",
        "SQL schema upgrade error",
        "sunny weather at the beach",
    ),
    "another form": ("fixed the login bug", "fixing bugs of the logins", "she plays the violin"),
}
