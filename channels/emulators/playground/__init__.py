"""The playground: one page to write on every emulated platform as anybody, and to watch the answers."""
