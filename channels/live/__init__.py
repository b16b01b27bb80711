"""Answers while they grow, shown until their reply is delivered or will never come."""
