"""A session's events as a valid history, of which only the end is worked out at every step.

Nearly all of a history is *settled*: no later event can change it. Where a part of a session ends
on what a model is to answer, what follows can be converted and repaired by itself, and stands
behind it as if both had been worked out together. Later events that reach back – a compaction, a reply
to an earlier moment, a result for an earlier call – are noticed, and the whole is worked out anew.
"""

from context_assembler.history.kept_counts import KeptCounts
from context_assembler.history.settled import MAX_OPEN_EVENTS, shape_history
from context_assembler.history.steps import History, HistoryWay

__all__ = ["MAX_OPEN_EVENTS", "History", "HistoryWay", "KeptCounts", "shape_history"]
