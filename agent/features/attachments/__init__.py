"""What people send along, on its way into a turn."""
