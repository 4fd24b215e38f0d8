"""What a call added to its session: as events, and into the store."""

from context_assembler.recording.answered_call import AnsweredCall, Standing
from context_assembler.recording.reading import read_answer
from context_assembler.recording.storing import store_answer

__all__ = ["AnsweredCall", "Standing", "read_answer", "store_answer"]
