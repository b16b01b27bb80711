"""What happens once a turn is finished: work that never delays its reply."""
