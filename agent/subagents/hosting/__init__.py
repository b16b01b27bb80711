"""What the parent does for one child: asks models, runs tools, keeps what was said."""
