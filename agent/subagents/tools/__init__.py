"""The tools by which a model has sub-agents work, waits for them and ends them."""
