"""`fit_messages()`: lists that their callers keep."""
