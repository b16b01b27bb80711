"""The Markdown of models as a tree that each platform renders: parsed, laid out, cut under a limit. Pure."""
