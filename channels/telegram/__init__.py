"""Telegram, by python-telegram-bot: without the ciphers that it has for Telegram Passport, 2 MB of a process."""

from gateway.process import load_without

load_without("cryptography.hazmat", "telegram")
