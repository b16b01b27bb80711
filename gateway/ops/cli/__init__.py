"""The commands of `trivet`, in groups. Each loads what it needs when it runs, so that all start quickly."""
