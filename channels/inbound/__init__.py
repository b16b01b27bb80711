"""From a platform to the bus: heard in order, admitted, scrubbed, bounded, enqueued, and only then acknowledged."""
