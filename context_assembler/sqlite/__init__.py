"""SQLite files that several processes share: opening, migrating, and a thread for each connection."""
