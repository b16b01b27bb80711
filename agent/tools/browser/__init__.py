"""A browser for the model: Chromium behind a proxy of ours, one set of cookies per conversation."""
