"""One session of Claude Code ends, and the next one starts with what is remembered of it.

python examples/claude_code_hook/session.py
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROWS = [
    {"type": "user", "message": {"role": "user", "content": "Make the cart keep its items."}},
    {
        "type": "assistant",
        "message": {
            "role": "assistant",
            "content": [
                {
                    "type": "tool_use",
                    "id": "t1",
                    "name": "Edit",
                    "input": {"file_path": "cart.py", "old_string": "a", "new_string": "b"},
                }
            ],
        },
    },
    {
        "type": "user",
        "message": {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}],
        },
    },
    {
        "type": "assistant",
        "message": {
            "role": "assistant",
            "content": [{"type": "text", "text": "The cart keeps its items now."}],
        },
    },
]


def write_transcript(path: Path, project: Path) -> None:
    """Write a session as Claude Code keeps it."""
    rows = list[str]()
    for number, row in enumerate(ROWS):
        about = {
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "sessionId": "s1",
            "cwd": str(project),
            "timestamp": f"2026-11-01T10:0{number}:00Z",
        }
        rows.append(json.dumps(row | about))
    path.write_text("\n".join(rows) + "\n")


def main() -> None:
    """Observe a session that ended, then run the hook of the next one."""
    with TemporaryDirectory() as folder:
        project, transcript = Path(folder) / "shop", Path(folder) / "s1.jsonl"
        (project / ".git").mkdir(parents=True)
        write_transcript(transcript, project)
        settings = {
            **os.environ,
            "CONTEXT_ASSEMBLER_STATE": f"{folder}/state",
            "CONTEXT_ASSEMBLER_MEMORY": f"sqlite:{folder}/memory.db",
        }
        ended = {"hook_event_name": "SessionEnd", "session_id": "s1", "cwd": str(project)}
        ended["transcript_path"] = str(transcript)
        subprocess.run(
            [sys.executable, "-m", "context_assembler", "memory", "observe"],
            input=json.dumps(ended).encode(),
            env=settings,
            check=True,
        )
        starts = {"hook_event_name": "SessionStart", "session_id": "s2", "cwd": str(project)}
        told = subprocess.run(
            [sys.executable, "-m", "context_assembler.session_start.hook"],
            input=json.dumps(starts).encode(),
            env=settings,
            capture_output=True,
            check=True,
        )
        print(json.loads(told.stdout)["hookSpecificOutput"]["additionalContext"])


if __name__ == "__main__":
    main()
