"""What no reader knows is refused by name; it is never read as something else."""

import pytest

from context_assembler.errors import TranscriptError
from context_assembler.transcripts import read_transcript

UNKNOWN = {
    "a role that is no text": {"messages": [{"role": []}]},
    "messages of nobody with parts": [
        {"sort": "request", "parts": [{"part_kind": "user-prompt", "content": "list files"}]},
        {"sort": "response", "parts": [{"part_kind": "text", "content": "Done."}]},
    ],
}


@pytest.mark.parametrize("document", UNKNOWN.values(), ids=UNKNOWN)
def test_what_no_reader_knows_is_refused(document: object) -> None:
    with pytest.raises(TranscriptError, match="format is unknown"):
        read_transcript(document)
