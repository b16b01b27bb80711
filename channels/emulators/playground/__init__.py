"""One page to write on every emulated platform as anybody, and to watch what comes back."""
