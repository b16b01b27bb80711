"""The web: pages and searches, behind a guard that lets no request into a private network."""
