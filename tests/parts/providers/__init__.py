"""Providers on loopback, each on the wire that its vendor documents, with answers that a test describes once."""
