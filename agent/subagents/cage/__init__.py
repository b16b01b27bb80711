"""What holds a sub-agent's process, and what is said through its bars: confinements, frames, last words."""
