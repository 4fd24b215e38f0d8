"""What OpenAI's two protocols have in common."""
