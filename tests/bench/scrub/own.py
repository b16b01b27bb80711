"""Goal 11: our own secrets, in every coding, cut anywhere, never come out."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import quote, quote_plus, unquote_plus

from gateway.scrub import Scrubber
from tests.bench.scrub.detection import Tally
from tests.bench.scrub.goal import Goal, Measured, percent
from tests.scrubbing import SPLITS, TOKENS, fill, is_left, streamed
from tests.scrubbing.named import PASSWORDS
from tests.scrubbing.reading import base64_read, hex_read, json_read

SECRETS_OF_A_SEED: Final = 60
_TEXTS: Final = ("{}", "it is {} you know", "вот {}.", "密码是{}，谢谢", "a={}&b=1", '"{}"', "x\n{}\ny")
_SHAPES: Final = (*PASSWORDS, "<words4>", "<base62:8>'<base62:6>", '<base62:6>"<base62:6>', "<cyrillic:8><decimal:3>")
_CODINGS: Final[Mapping[str, tuple[Callable[[str], str], Callable[[str], str]]]] = {
    "raw": (str, str),
    "base64": (lambda secret: base64.b64encode(secret.encode()).decode(), base64_read),
    "base64, after a name": (lambda secret: base64.b64encode(f"bob:{secret}".encode()).decode(), base64_read),
    "base64, inside": (lambda secret: base64.urlsafe_b64encode(f'{{"a":"{secret}"}}'.encode()).decode(), base64_read),
    "percent": (lambda secret: quote(secret, safe=""), unquote_plus),
    "percent, form": (quote_plus, unquote_plus),
    "json": (lambda secret: json.dumps(secret)[1:-1], json_read),
    "json in json": (lambda secret: json.dumps(json.dumps({"a": secret})), json_read),
    "hex": (lambda secret: secret.encode().hex(), hex_read),
}


def kept(seeds: Sequence[int]) -> Measured:
    """Whole and in every split."""
    tally = Tally()
    for seed in seeds:
        rng = random.Random(seed)
        shapes = [
            *rng.sample(list(TOKENS.values()), SECRETS_OF_A_SEED // 2),
            *rng.choices(_SHAPES, k=SECRETS_OF_A_SEED // 2),
        ]
        for secret in (fill(shape, rng) for shape in shapes):
            scrubber = Scrubber([secret])
            for coding, (code, read) in _CODINGS.items():
                text = rng.choice(_TEXTS).replace("{}", code(secret))
                for split in SPLITS.values():
                    clean = "".join(streamed(scrubber, split(text, rng)))
                    is_wrong = is_left(secret, clean) or is_left(secret, read(clean)) or clean != scrubber.scrub(text)
                    tally.add(coding, is_wrong=is_wrong, example=f"{secret}  in  {text}")
    share = 1 - tally.share_wrong()
    goal = Goal(11, f"own secrets hidden, {len(_CODINGS)} codings, any split", "100 %", percent(share), share == 1)
    return Measured([goal], {"own secrets that come out": tally.worst()})
