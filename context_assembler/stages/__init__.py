"""Steps from session to payload: one file or folder each, none imports another."""
