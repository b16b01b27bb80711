"""The life of a sub-agent in this process: from an order, through a slot and its work, to its end in SQL."""
