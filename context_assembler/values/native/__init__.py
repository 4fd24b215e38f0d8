"""Each provider's own blocks and items: read as parts, and told in words."""
