"""The web: pages and searches, guarded so that no request reaches a private network."""
