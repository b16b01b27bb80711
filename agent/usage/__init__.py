"""What models cost: the ledger, the daily limits, and what people read about both."""
