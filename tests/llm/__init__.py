"""A real model behind a real server: llama.cpp on loopback, reached as any OpenAI-compatible provider is.

`make test-llm` runs these tests. The server and its model (370 MB) live in an environment of their own, made at first
use from `llama.lock`: only some platforms have wheels for them, and the lock of the project is for all.
"""
