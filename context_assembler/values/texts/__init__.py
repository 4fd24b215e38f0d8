"""Texts: read, cleaned, fenced, shortened, searched."""
