"""Schemas of tools: made canonical, held against what a provider takes."""
