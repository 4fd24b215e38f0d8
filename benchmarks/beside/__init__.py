"""Ours beside the peers of a harness that is not ours: times, replays, validity, cost."""
