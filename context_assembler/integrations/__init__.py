"""One file per framework: its messages in, those that fit out. Each needs its framework installed."""
