"""Text as the Bot API sees it: plain characters, and entities that count UTF-16 units."""
