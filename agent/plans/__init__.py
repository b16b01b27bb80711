"""Plans: written by a sub-agent that looks and does nothing, approved by a person, worked off as a task list."""
