"""Slack, one module a thing.

in     connection ─▶ socket (Socket Mode) | events (HTTP, signature) ─▶ bolt ─▶ buttons | source ─▶ the listener
read   normalize, slash, presses, picking: requests; and what is in them: wording, rich_text, quotes, references,
       commands
back   history: what was missed; context: what a thread said before; moves: channels that got another id
out    adapter ─▶ render, blocks ─▶ posting | streams (growing) | links (for one person) | files; lookup: is it in?
both   address, limits, errors, people, downloads, logs
"""
