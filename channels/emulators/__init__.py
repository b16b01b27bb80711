"""The vendors' wire APIs on loopback, for tests, demos and the playground. Imports nothing of ours but itself."""
