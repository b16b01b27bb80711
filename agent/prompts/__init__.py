"""The prompts, one file each, loaded and checked at start."""
