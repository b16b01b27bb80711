"""Slack, one module a thing.

in     connection ─▶ socket (Socket Mode) | events (HTTP, signature) ─▶ bolt ─▶ buttons | source ─▶ the listener
read   normalize, slash, presses, picking: requests; wording, rich_text, quotes, references, commands: what is in them
back   history: what was missed; context: what a thread said before; moves: channels that got another id
out    adapter ─▶ render, blocks ─▶ posting | streams (growing) | links (answers for one) | files; lookup: did it arrive?
both   address, limits, errors, people, downloads, logs
"""
