"""The documentation site: its references, which are made of the source, its pictures, and its build."""
