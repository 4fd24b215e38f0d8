"""What the command line's exit codes mean."""

from typing import Final

FINE: Final = 0
UNWRITTEN: Final = 1
ERROR: Final = 2
COMPACTION_NEEDED: Final = 10
COMPACTION_INFEASIBLE: Final = 11
PAYLOAD_REFUSED: Final = 12
MODEL_NEEDS_ATTENTION: Final = 13
LINT_FOUND: Final = 14
INTERRUPTED: Final = 130

MEANINGS: Final = {
    FINE: "fine",
    UNWRITTEN: "not all could be written to stdout or stderr, or nobody reads it any more",
    ERROR: "the input or a setting is wrong; stderr says what to do",
    COMPACTION_NEEDED: "check: the session should be compacted",
    COMPACTION_INFEASIBLE: "check: compaction cannot help, the fixed part alone is too big",
    PAYLOAD_REFUSED: "the provider would refuse the payload",
    MODEL_NEEDS_ATTENTION: "models check: a model is retired, deprecated or about to be",
    LINT_FOUND: "lint: an instruction file has an error",
    INTERRUPTED: "interrupted",
}
