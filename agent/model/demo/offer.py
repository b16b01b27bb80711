"""What the demo model says of itself when somebody asks. Data only."""

from __future__ import annotations

from typing import Final

HINT: Final = "Write `help` to see what I can show you."
HELP: Final = """I am a script without any AI, here to show what works around a model. The first word chooses what I do:

- `split slow 8 one | slow 8 two | slow 8 three`: three **sub-agents** at once, each in a process of its own. Your own \
words do it, too: `Use three sub-agents: read the files, find the tests, write it up`
- `spawn slow 15 one | code: slow 20 two`: the same in the background; go on writing to me meanwhile
- `orchestrate debate cats | dogs`: a strategy. The others: `sequential`, `parallel`, `graph`, `review`, `hierarchical`
- `/plan a boat trip`: a plan that you approve with a button
- `long 9000`, `markdown`, `slow 5 long 3000`, `fail`: long, formatted, slow and broken answers
- `remember I like tea`, `recall tea`, `todo buy tea`, `history`: what is kept of you
- `tool NAME {…}`: any tool, with your own arguments

While sub-agents work, /status tells of them, /stop ends them, and the task board shows each."""
WORDS: Final = frozenset({"help", "?", "hilfe", "ayuda", "помощь", "справка", "帮助"})
"""What one writes to see it."""
