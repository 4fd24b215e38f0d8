"""The hook that a coding agent runs when a session starts.

    python -I -S …/session_start/hook.py [CLIENT]

It reads the client's JSON on stdin and prints the client's envelope. Without site-packages this file
is compiled anew on every start, so all it does is to call `inject`, whose compiled form is kept.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import inject  # type: ignore[import-not-found]  # of this folder, by its file

if __name__ == "__main__":
    inject.main(sys.argv[1:])
