"""What the demo model says when it is to say much, or in every form. Data only."""

from __future__ import annotations

from typing import Final

MARKDOWN: Final = """# A heading

Some **bold**, *italic*, ~~struck~~ and `inline code`, a [link](https://example.org/).

- one
- two
  - nested

1. first
2. second

> A quotation.

```python
def greet(name: str) -> str:
    return f"Hello, {name}!"
```

| platform | limit |
|---|---|
| Telegram | 4096 |
| Discord | 2000 |
"""

PARAGRAPH: Final = (
    "This paragraph is number {number} of a long answer. It exists to be split at a sensible place, "
    "neither inside a word nor inside a block of code, and to arrive complete and in order.\n\n"
)
