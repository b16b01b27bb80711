"""What the process does beside turns: the control lane, what is due, files, suggestions, strangers at the door."""
