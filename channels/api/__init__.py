"""Programs as a channel: they ask over HTTP and fetch the answers."""
