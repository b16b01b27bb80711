"""What models write, as a tree that each platform writes down again: parsed, laid out, cut under a limit. Pure."""
