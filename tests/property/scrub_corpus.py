"""Made-up secrets, look-alikes and the kinds of sentence they travel in.

Written from the vendors' formats and from how people write, not from `rules.toml`, so that the two check
each other. Everything is drawn from a seed: a new seed is a corpus the rules have never seen.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import random
import re
import string
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

LETTERS: Final = string.ascii_letters
ALPHABETS: Final[Mapping[str, str]] = {
    "base62": LETTERS + string.digits,
    "base64": LETTERS + string.digits + "+/",
    "base64url": LETTERS + string.digits + "-_",
    "letters": LETTERS,
    "lower": string.ascii_lowercase,
    "upper": string.ascii_uppercase,
    "hex": "0123456789abcdef",
    "upperhex": "0123456789ABCDEF",
    "base32": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
    "base36": string.ascii_lowercase + string.digits,
    "upper36": string.ascii_uppercase + string.digits,
    "base58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "digits": "123456789",
    "bech32": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "lowbech32": "qpzry9x8gf2tvdw0s3jn54khce6mua7l",
}
_SLOT: Final = re.compile(r"<([a-z0-9]+)(?::(\d+))?>")


def draw(template: str, *, seed: int) -> str:
    """`template` with every `<alphabet:count>` (and `<uuid>`, `<jwt>`, `<wif>`, …) filled from `seed`."""
    return fill(template, random.Random(seed))


def fill(template: str, rng: random.Random) -> str:
    """`draw` from a running generator. A slot that is no alphabet stays as it is."""

    def one(slot: re.Match[str]) -> str:
        name, count = slot[1], int(slot[2] or 0)
        if name in ALPHABETS:
            return "".join(rng.choice(ALPHABETS[name]) for _ in range(count))
        return _SPECIAL[name](rng) if name in _SPECIAL else slot[0]

    return _SLOT.sub(one, template)


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _jwt(rng: random.Random) -> str:
    header = {"alg": rng.choice(["HS256", "RS256", "ES256"]), "typ": "JWT"}
    payload = {"sub": str(rng.randrange(10**9)), "iat": rng.randrange(10**9), "name": fill("<lower:7>", rng)}
    return ".".join([_b64(json.dumps(header).encode()), _b64(json.dumps(payload).encode()), _b64(rng.randbytes(32))])


def _base58check(payload: bytes) -> str:
    whole = payload + hashlib.sha256(hashlib.sha256(payload).digest()).digest()[:4]
    number = int.from_bytes(whole, "big")
    text = ""
    while number:
        number, digit = divmod(number, 58)
        text = ALPHABETS["base58"][digit] + text
    return text


def _stellar(rng: random.Random) -> str:
    body = bytes([18 << 3]) + rng.randbytes(32)
    return base64.b32encode(body + binascii.crc_hqx(body, 0).to_bytes(2, "little")).decode()


def _discord(rng: random.Random) -> str:
    return ".".join(
        [_b64(str(rng.randrange(10**17, 10**18)).encode()), *(fill(f"<base64url:{n}>", rng) for n in (6, 38))]
    )


_SPECIAL: Final[Mapping[str, Callable[[random.Random], str]]] = {
    "uuid": lambda rng: str(uuid.UUID(bytes=rng.randbytes(16), version=4)),
    "jwt": _jwt,
    "wif": lambda rng: _base58check(b"\x80" + rng.randbytes(32) + b"\x01"),
    "xprv": lambda rng: _base58check(bytes.fromhex("0488ade4") + rng.randbytes(74)),
    "stellar": _stellar,
    "tezos": lambda rng: _base58check(bytes([13, 15, 58, 7]) + rng.randbytes(32)),
    "discord": _discord,
}

TOKENS: Final[Mapping[str, str]] = {
    "github classic": "ghp_<base62:36>",
    "github oauth": "gho_<base62:36>",
    "github server": "ghs_<base62:36>",
    "github fine-grained": "github_pat_<base62:22>_<base62:59>",
    "npm": "npm_<base62:36>",
    "gitlab": "glpat-<base64url:20>",
    "gitlab routable": "glpat-<base64url:27>.01.<base36:9>",
    "gitlab runner": "glrt-<base64url:20>",
    "gitlab deploy": "gldt-<base64url:20>",
    "atlassian": "ATATT3xFfGF0<base64url:170>=<upperhex:8>",
    "bitbucket": "ATBB<base62:32>",
    "grafana": "glsa_<base62:32>_<hex:8>",
    "azure devops": "<base62:76>AZDO<base62:4>",
    "openai classic": "sk-<base62:20>T3BlbkFJ<base62:20>",
    "openai project": "sk-proj-<base64url:74>T3BlbkFJ<base64url:74>",
    "openai service": "sk-svcacct-<base64url:74>T3BlbkFJ<base64url:74>",
    "openai admin": "sk-admin-<base64url:74>T3BlbkFJ<base64url:74>",
    "anthropic api": "sk-ant-api03-<base64url:93>AA",
    "anthropic admin": "sk-ant-admin01-<base64url:93>AA",
    "anthropic oauth": "sk-ant-oat01-<base64url:93>AA",
    "groq": "gsk_<base62:20>WGdyb3FY<base62:24>",
    "openrouter": "sk-or-v1-<hex:64>",
    "deepseek": "sk-<hex:32>",
    "huggingface": "hf_<letters:34>",
    "google": "AIza<base64url:35>",
    "xai": "xai-<base62:80>",
    "replicate": "r8_<base62:37>",
    "perplexity": "pplx-<base62:48>",
    "nvidia": "nvapi-<base64url:64>",
    "together": "tgp_v1_<base64url:43>",
    "langsmith": "lsv2_pt_<hex:32>_<hex:10>",
    "elevenlabs": "sk_<hex:48>",
    "pinecone": "pcsk_<base62:6>_<base62:63>",
    "tavily": "tvly-<base62:32>",
    "firecrawl": "fc-<hex:32>",
    "e2b": "e2b_<hex:40>",
    "cerebras": "csk-<base36:48>",
    "aws access": "AKIA<base32:16>",
    "aws temporary": "ASIA<base32:16>",
    "aws session": "IQoJb3JpZ2luX2Vj<base64:240>",
    "aws bedrock": "ABSK<base64:128>",
    "slack bot": "xoxb-<digits:12>-<digits:12>-<base62:24>",
    "slack user": "xoxp-<digits:12>-<digits:12>-<digits:12>-<hex:32>",
    "slack app": "xapp-1-A<upper36:10>-<digits:13>-<hex:64>",
    "telegram": "<digits:10>:AA<base64url:33>",
    "telegram short id": "<digits:8>:AA<base64url:33>",
    "discord": "<discord>",
    "stripe live": "sk_live_<base62:24>",
    "stripe restricted": "rk_test_<base62:99>",
    "stripe webhook": "whsec_<base62:32>",
    "shopify": "shpat_<hex:32>",
    "shopify secret": "shpss_<hex:32>",
    "square": "sq0atp-<base64url:22>",
    "square oauth": "sq0csp-<base64url:43>",
    "sendgrid": "SG.<base64url:22>.<base64url:43>",
    "twilio": "SK<hex:32>",
    "mailgun": "key-<hex:32>",
    "mailchimp": "<hex:32>-us12",
    "brevo": "xkeysib-<hex:64>-<base62:16>",
    "jwt": "<jwt>",
    "pypi": "pypi-AgEIcHlwaS5vcmc<base64url:150>",
    "rubygems": "rubygems_<hex:48>",
    "docker": "dckr_pat_<base64url:27>",
    "circleci": "CCIPAT_<base62:22>_<hex:40>",
    "terraform": "<base62:14>.atlasv1.<base62:67>",
    "doppler": "dp.pt.<base62:43>",
    "pulumi": "pul-<hex:40>",
    "sonar": "squ_<hex:40>",
    "vault": "hvs.<base64url:92>",
    "vault batch": "hvb.<base64url:140>",
    "databricks": "dapi<hex:32>",
    "digitalocean": "dop_v1_<hex:64>",
    "tailscale": "tskey-auth-k<base62:16>-<base62:32>",
    "age": "AGE-SECRET-KEY-1<bech32:58>",
    "1password": "ops_eyJ<base64:250>",
    "heroku": "HRKU-<base64url:60>",
    "fly": "fm2_<base64:300>",
    "sentry": "sntrys_eyJ<base64:110>_<base64:43>",
    "linear": "lin_api_<base62:40>",
    "notion": "ntn_<base62:46>",
    "figma": "figd_<base64url:40>",
    "airtable": "pat<base62:14>.<hex:64>",
    "postman": "PMAK-<hex:24>-<hex:34>",
    "newrelic": "NRAK-<upper36:27>",
    "yandex cloud": "AQVN<base64url:36>",
    "yandex oauth": "y0_<base64url:55>",
    "yandex iam": "t1.9eu<base64url:180>.<base64url:86>",
    "alibaba": "LTAI5t<base62:18>",
    "tencent": "AKID<base62:32>",
    "vk": "vk1.a.<base64url:198>",
    "bitcoin wif": "<wif>",
    "bitcoin xprv": "<xprv>",
}
"""Kinds that can be told by their looks, without a word about them."""

LINKS: Final[Mapping[str, str]] = {
    "postgres url": "postgres://app:{}@db.example.org:5432/app",
    "redis url": "redis://:{}@127.0.0.1:6379/0",
    "https userinfo": "https://bob:{}@example.org/x.git",
    "query key": "https://api.example.org/v1/x?a=1&api_key={}&b=2",
    "query token": "https://example.org/hook?token={}",
    "signed blob": "https://a.blob.example.net/c?sv=2022-11-02&sig={}",
}
"""Addresses: the value in braces is the secret, host and path must stay."""

VALUES: Final = ("<base62:16>", "<base62:24>", "<hex:32>", "<letters:3><digits:3><letters:4><digits:2>", "<base62:40>")
PASSWORDS: Final = (
    "<letters:6><digits:3>!",
    "<upper:1><lower:5><digits:4>$",
    "<base62:12>",
    "<lower:5><digits:2>@<lower:4>#",
    "<lower:7><digits:2>",
)

ASSIGNMENTS: Final = (
    ("env", "API_KEY={k}"),
    ("env password", "export DB_PASSWORD={p}"),
    ("env quoted", 'AWS_SECRET_ACCESS_KEY="{k}"'),
    ("json", '{{"user": "bob", "password": "{p}", "n": 3}}'),
    ("json minified", '{{"client_secret":"{k}","n":3}}'),
    ("json in a string", '"{{\\"password\\": \\"{p}\\", \\"n\\": 3}}"'),
    ("yaml", "db:\n  user: bob\n  password: {p}\n  port: 5432"),
    ("yaml key", "service:\n  api_key: {k}\n"),
    ("toml", 'secret_key = "{k}"\nport = 80'),
    ("ini", "[db]\npasswd = {p}\n"),
    ("python", 'client = Client(token="{k}", retries=3)'),
    ("javascript", "const apiKey = '{k}';"),
    ("camel", '"clientSecret": "{k}",'),
    ("bearer", "Authorization: Bearer {k}"),
    ("bearer in curl", "curl -H 'Authorization: Bearer {k}' https://example.org"),
    ("own header", "X-Api-Key: {k}"),
    ("gitlab header", "PRIVATE-TOKEN: {k}"),
    ("cookie", "Cookie: theme=dark; session={k}; lang=en"),
    ("flag", "mysql -u root --password={p} app"),
    ("flag with a space", "tool --password {p} --verbose"),
    ("xml", "<user>bob</user><password>{p}</password>"),
    ("sql", "CREATE USER bob WITH PASSWORD '{p}';"),
    ("connection string", "Server=db;User Id=sa;Password={p};Database=app"),
    ("account key", "AccountName=acme;AccountKey={k};EndpointSuffix=x"),
)
PROSE: Final = {
    "en": (
        "my password is {p}.",
        "the password for the staging server is {p}, please keep it",
        "Password: {p}",
        "use this password: `{p}`",
        "password is **{p}** (temporary)",
        "the api key is {k}",
        "here is the token: {k}. thanks!",
        "client secret - {k}",
        "my wifi password is {p}!",
        "API key:\n{k}\n",
        "passphrase: {p}",
        "pwd {p}",
    ),
    "ru": (
        "мой пароль {p}",
        "пароль: {p}.",
        "пароль от почты: {p}, никому не говори",
        "Пароль — {p}",
        "пароль от сервера такой: {p}",
        "вот токен: {k}",
        "секретный ключ: {k}",
        "токен доступа — {k}.",
        "пароль это {p}",
        "ключ апи: {k}",
    ),
    "zh": (
        "密码是{p}",
        "密码：{p}，谢谢",
        "我的密码是 {p}。",
        "数据库密码为{p}",
        "密钥是{k}，请保密",
        "令牌：{k}",
        "口令 {p}",
        "访问密钥：{k}",
        "wifi密码{p}",
        "API密钥是：{k}。",
    ),
}

WRAPPINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "en": (
        "{}",
        "here it is: {}",
        "I use {}. Does it work?",
        "({})",
        "**{}**",
        "`{}`",
        "```\n{}\n```",
        '"{}"',
        "'{}'",
        '{{"value":"{}"}}',
        "{}, and then?",
        "please try {} now",
        "{}!",
        "key={}&x=1",
        "first\n{}\nlast",
        "- {}\n- other",
        "<{}>",
        "[{}]",
        "it says {}\\nnext line",
        "> {}",
    ),
    "ru": ("вот он: {}", "токен {} не работает.", "это {}, проверь", "«{}»", "{} — мой", "ключ:{};"),
    "zh": ("密钥是{}", "请用{}登录", "这是{}。谢谢", "“{}”", "（{}）", "令牌：{}，有效吗？"),
}

LOOK_ALIKES: Final = (
    "commit <hex:40> broke the build",
    "see <hex:7> and <uuid>",
    "the image is sha256:<hex:64>",
    "integrity sha512-<base64:86>==",
    "md5 of the file: <hex:32>",
    "order <digits:12> was shipped on 2024-05-<digits:1>",
    "call +1 202 555 0<digits:3> after 10:30",
    "https://example.org/articles/<base36:8>/how-to-choose-a-good-password?page=2",
    "https://example.org/watch?v=<base64url:11>&list=<base64url:20>",
    "the password policy asks for 12 characters",
    "password: required",
    "Your password must be at least 8 characters long.",
    "my password is not working any more",
    "reset the password for user<digits:3> please",
    "the token limit of the model is 128000",
    "max_tokens=4096, temperature=0.7",
    "token_type: bearer, expires_in: 3600",
    "api_key = os.environ['API_KEY']",
    'API_KEY="${{API_KEY}}"',
    "password=<password>",
    "password: ********",
    "token = request.headers.get('X-Token')",
    "secret: {{ .Values.secret }}",
    "const token = await getToken();",
    "key = lambda row: row[1]",
    "primary key (id), foreign key (user_id)",
    "the key-value store has 3 replicas",
    "sk-learn and sk-toggleable-content are class names",
    "pip install npm_config_registry hf_hub_download",
    "xoxo-hugs-and-kisses",
    "AKIAIOSFODNN7EXAMPLE",
    "ssh-rsa <base64:360> bob@example",
    "data:image/png;base64,iVBORw0KGgo<base64:200>",
    "arn:aws:iam::<digits:12>:role/deploy",
    "id: <uuid>",
    'ETag: "<hex:32>"',
    "bitcoin address 1<base58:33>",
    "ключ к успеху - это терпение и 100500 попыток",
    "пароль должен быть не короче 8 символов",
    "забыл пароль от почты, что делать?",
    "токен истёк, нужно обновить до 2024-06-01",
    "лимит токенов 4096",
    "密码不能少于8个字符",
    "忘记密码了，怎么办？",
    "令牌数量是4096",
    "the secret of good soup is time",
    "-----BEGIN PUBLIC KEY-----\n<base64:64>\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\n<base64:64>\n-----END CERTIFICATE-----",
    "start the file with -----BEGIN RSA PRIVATE KEY----- and end it as usual",
    "version 3.11.<digits:1>, build <digits:5>",
    "basic auth is not enough for this",
    "The bearer of this letter is my friend",
    "cookies are disabled in your browser",
    "def check_password(password: str, hashed: str) -> bool:",
    "if password == other_password: return token",
    'input type="password" name="password"',
    "SELECT token, secret FROM users WHERE id = 5",
    "password_hash: $2b$12$<base62:53>",
    "GET /api/v1/users/<digits:8>/keys HTTP/1.1",
    "trace_id=<hex:32> span_id=<hex:16>",
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One text and the secrets in it (none: a look-alike)."""

    kind: str
    language: str
    text: str
    secrets: tuple[str, ...]


def positives(seed: int) -> Iterator[Sample]:
    """Every kind in every surrounding its language offers."""
    rng = random.Random(seed)
    for kind, template in TOKENS.items():
        for language, wrappings in WRAPPINGS.items():
            for wrapping in wrappings:
                secret = fill(template, rng)
                yield Sample(kind, language, wrapping.format(secret), (secret,))
    for kind, link in LINKS.items():
        for language in WRAPPINGS:
            for _ in range(6):
                secret = fill(rng.choice(("<base62:14>", "<base62:24>", "<hex:32>")), rng)
                yield Sample(kind, language, rng.choice(WRAPPINGS[language]).format(link.format(secret)), (secret,))
    for kind, form in ASSIGNMENTS:
        for _ in range(12):
            yield _announced(kind, "en", form, rng)
    for language, forms in PROSE.items():
        for form in forms:
            for _ in range(8):
                yield _announced(form, language, form, rng)
    for _ in range(12):
        yield _key_file(rng)


def _announced(kind: str, language: str, form: str, rng: random.Random) -> Sample:
    secret = fill(rng.choice(PASSWORDS if "{p}" in form else VALUES), rng)
    return Sample(kind, language, form.format(p=secret, k=secret), (secret,))


def _key_file(rng: random.Random) -> Sample:
    name = rng.choice(
        ["RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "PGP PRIVATE KEY BLOCK"]
    )
    lines = [fill("<base64:64>", rng) for _ in range(rng.randrange(2, 12))]
    newline = rng.choice(["\n", "\\n", "\r\n", "\n    "])
    ending = rng.choice([f"{newline}-----END {name}-----", ""])
    return Sample("key file", "en", f"-----BEGIN {name}-----{newline}{newline.join(lines)}{ending}", tuple(lines))


def look_alikes(seed: int) -> Iterator[Sample]:
    """What must stay as it is."""
    rng = random.Random(seed)
    for template in LOOK_ALIKES:
        for _ in range(8):
            yield Sample(template, "any", fill(template, rng).replace("{{", "{").replace("}}", "}"), ())


def leaks(sample: Sample, clean: str) -> bool:
    """Is a piece of 12 characters (or the whole of a shorter secret) still there?"""
    return any(
        piece in clean
        for secret in sample.secrets
        for piece in ({secret[at : at + 12] for at in range(len(secret) - 11)} if len(secret) >= 12 else {secret})
    )
