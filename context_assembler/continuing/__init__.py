"""A context made from the one before it and what is new, where that is all that a step changes.

Most steps of a session add an exchange behind a beginning that stays as it was. For these the last
context is kept, and the next one is the same with the new messages behind it: read, repaired, counted
and reported by themselves. Wherever anything else may have changed – a setting, a file, a tool, what
an earlier message became, where the history is cut – the answer is *no*, and the whole is made anew.
What is kept changes what a step costs, never what it returns.
"""

from typing import TYPE_CHECKING

from context_assembler.continuing.last_step import LastStep, find_step, keep_step, leave_step
from context_assembler.on_demand import names_on_demand

if TYPE_CHECKING:
    from context_assembler.continuing.going_on import go_on
else:
    __getattr__ = names_on_demand(__name__, {"going_on": "go_on"})

__all__ = ["LastStep", "find_step", "go_on", "keep_step", "leave_step"]
