"""Reminders and scheduled tasks: the times people write, the rules of recurrence, the service, the scheduler."""
