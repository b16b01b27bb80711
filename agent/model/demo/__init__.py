"""What the demo model makes of sub-agents, as a person asks for them, plays one, and is told what they did."""
