"""From the bus to a platform: committed replies, step by step, with the ledger written before every call."""
