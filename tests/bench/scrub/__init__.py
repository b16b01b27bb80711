"""The goals of the scrubber, measured: one module per group of goals."""
