"""What the scrubber does to things people really write: a table of sentences."""

from __future__ import annotations

import re

import pytest

from gateway.scrub import scrub
from tests.scrubbing import draw

HIDDEN = "…"


def told(text: str) -> str:
    return re.sub(r"\[redacted:[a-z0-9-]+#[0-9a-f]{6}\]", HIDDEN, scrub(text))


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("my password is hunter2!", "my password is …"),
        ("password: hunter2.", "password: …."),
        ("Password (hunter2) works", "Password (…) works"),
        ("пароль: qwerty123, не забудь", "пароль: …, не забудь"),
        ("Пароль от вайфая — Qwe!23asd", "Пароль от вайфая — …"),
        ("密码是Abc12345，登录", "密码是…，登录"),
        ("パスワードは hunter22 です", "パスワードは … です"),
        ("la contraseña es hunter2x", "la contraseña es …"),
        ("das Passwort lautet hunter2x", "das Passwort lautet …"),
        ("le mot de passe: hunter2x", "le mot de passe: …"),
        ("a senha é hunter2x", "a senha é …"),
        ("DB_PASSWORD=hunter2\nDB_HOST=db", "DB_PASSWORD=…\nDB_HOST=db"),
        ('{"password":"a b","port":1}', '{"password":"a b","port":1}'),
        ('password = "correct horse battery staple"', 'password = "…"'),
        ("https://bob:hunter2@example.org/x", "https://bob:…@example.org/x"),
        ("Server=db;Password=hun;ter2x;Database=a", "Server=db;Password=…;Database=a"),
        ("Cookie: a=1; sid=8d1f0ab3c95e72; theme=dark", "Cookie: a=1; sid=…; theme=dark"),
        ("Authorization: Basic Ym9iOmh1bnRlcjI=", "Authorization: Basic …"),
        ("password:\n```\nhunter2\n```", "password:\n```\n…\n```"),
        ("my pin is 4821", "my pin is …"),
        ("my pin has 4821 digits", "my pin has 4821 digits"),
        ("password: berlin.harbor88", "password: …"),
        ("password = hashlib.sha256", "password = hashlib.sha256"),
        ("?text=my%20password%20is%20Berlin2302", "?text=my%20password%20is%20…"),
        ("%D0%BF%D0%B0%D1%80%D0%BE%D0%BB%D1%8C%3A%20Berlin2302", "%D0%BF%D0%B0%D1%80%D0%BE%D0%BB%D1%8C%3A%20…"),
        ('{"log": "user;password\\nbob;Berlin2302"}', '{"log": "user;password\\nbob;…"}'),
        ("# user;password\n# bob;Berlin2302", "# user;password\n# bob;…"),
        ("+kind: Secret\n+stringData:\n+  mode: Berlin2302", "+kind: Secret\n+stringData:\n+  mode: …"),
        ("WITH PASSWORD = N'Berlin2302'", "WITH PASSWORD = N'…'"),
        ("# token: >-\n#   7Gx9Qm2LpZ4vT8Rk", "# token: >-\n#   …"),
        ('PASSWORD: !Sub "${P}"', 'PASSWORD: !Sub "${P}"'),
        ('"SID": "S-1-5-21-5678901234-5678901234-1001"', '"SID": "S-1-5-21-5678901234-5678901234-1001"'),
        (
            '"encryptionKey": "arn:aws:kms:eu-west-1:41:key/c9fe2447-07"',
            '"encryptionKey": "arn:aws:kms:eu-west-1:41:key/c9fe2447-07"',
        ),
        ("--lock-token bcd2f1b8-9a78-44d3-8a7a-4dd07d7cf635", "--lock-token bcd2f1b8-9a78-44d3-8a7a-4dd07d7cf635"),
        ("PIN: 4821", "PIN: …"),
        ("password (change it!): hunter2x", "password (change it!): …"),
        ("password (temporary) hunter2x", "password (temporary) …"),
        ("password: berlin.2302", "password: …"),
        ("ssl.key-password=hunter2x", "ssl.key-password=…"),
        ("enable secret 0 hunter2x9q", "enable secret 0 …"),
        ("the key 4fTqZ81xKpLw93RbVn26YhGd does not work", "the key … does not work"),
        ('let api_key = String::from("4fTqZ81xKpLw93RbVn26");', 'let api_key = String::from("…");'),
        ('jwtSecret := []byte("4fTqZ81xKpLw93RbVn26")', 'jwtSecret := []byte("…")'),
        (
            'let token = secrecy::SecretString::new("4fTqZ81xKpLw93RbVn26");',
            'let token = secrecy::SecretString::new("…");',
        ),
        ('apiKey: aws.String("4fTqZ81xKpLw93RbVn26"),', 'apiKey: aws.String("…"),'),
        ('password = Encoding.UTF8.GetBytes("hunter2x")', 'password = Encoding.UTF8.GetBytes("…")'),
        ("SECRET_KEY='4ftqz81xkplw93rbvn26yhgd(q7m2x5k9w3r8t4b'", "SECRET_KEY='…'"),
        (
            "MAPBOX=pk.eyJ1Ijo4fTqZ81xKpLw93RbVn26Yh.7Gx9Qm2LpZ4vT8Rk",
            "MAPBOX=pk.eyJ1Ijo4fTqZ81xKpLw93RbVn26Yh.7Gx9Qm2LpZ4vT8Rk",
        ),
        ("finnhub-clientsecret = '4fTqZxKpLwRbVnY7hGdQ'", "finnhub-clientsecret = '…'"),
        (
            '{"prompt": "p := os.Getenv(\\"DB_PASSWORD\\")", "completion": "Understood."}',
            '{"prompt": "p := os.Getenv(\\"DB_PASSWORD\\")", "completion": "Understood."}',
        ),
        ("API_TOKEN=u+000000000000000000", "API_TOKEN=u+000000000000000000"),
        ('"bucket_key": "SalesReport-1.2"', '"bucket_key": "SalesReport-1.2"'),
        ("<p>$ wg genkey<br/>\n7Gx9Qm2LpZ4vT8Rk4fTqZ81xKpLw93RbVn26YhGdQm2=</p>", "<p>$ wg genkey<br/>\n…</p>"),
        ("вот доступ к базе: root / hunter2x", "вот доступ к базе: root / …"),
        ("etcdctl --user root:hunter2x get /", "etcdctl --user root:… get /"),
        ("<password>hunter2x_</password>", "<password>…</password>"),
        ("| a | password |\n+---+----------+\n| 1 | hunter2x |", "| a | password |\n+---+----------+\n| 1 | … |"),
        ("my master password is purple monkey dishwasher eleven, ok?", "my master password is …, ok?"),
    ],
)
def test_secrets_go_and_words_stay(text: str, clean: str) -> None:
    assert told(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "password is required",
        "password: string",
        "password = os.environ['DB_PASSWORD']",
        "password=${DB_PASSWORD}",
        "password: <your password>",
        "password: ********",
        "password: [redacted:named#a1b2]",
        "API_KEY=YOUR_API_KEY",
        "token = get_token()",
        "secret: sha256:0123",
        "password_hash = 5f4dcc3b5aa765d61d8327deb882cf99",
        "the token count is 4096",
        "the key is under the mat2",
        "bhv7781 = cookie",
        "it was set by bhv7781 – cookie: no",
        "tokenizer: gpt2-medium-v2",
        "пароль должен содержать 8 символов",
        "забыл пароль",
        "密码错误",
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
        "write -----BEGIN RSA PRIVATE KEY----- first, then the rest",
        "",
        " \n",
        "👩‍👩‍👧 ok",
    ],
)
def test_talk_about_secrets_stays(text: str) -> None:
    assert scrub(text) == text


def test_a_cookie_whose_value_begins_with_a_token_does_not_end_the_line() -> None:
    cookies = draw("Cookie: sid=sk-<base62:48>:x; b=<base62:20>; theme=dark", seed=1)
    assert told(cookies) == "Cookie: sid=……; b=…; theme=dark"


def test_a_token_of_any_length_does_not_end_where_another_seems_to_begin() -> None:
    head, rest = "eyJhbGciOiAiUlNBLU9BRVAiLCAiZW5jIjogIkEyNTZHQ00ifQ.", "<base64url:90>t.<base64url:86>.<base64url:22>"
    assert told(f"see {head}{draw(rest, seed=1)} ok") == "see … ok"


class TestKeyFiles:
    def test_the_block_goes_and_the_text_around_it_stays(self) -> None:
        key = draw("-----BEGIN RSA PRIVATE KEY-----\n<base64:64>\n<base64:40>\n-----END RSA PRIVATE KEY-----", seed=1)
        assert told(f"see\n{key}\nbye") == "see\n…\nbye"

    def test_a_token_right_before_it_does_not_swallow_its_first_line(self) -> None:
        key = draw("-----BEGIN RSA PRIVATE KEY-----\n<base64:64>\n<base64:40>\n-----END RSA PRIVATE KEY-----", seed=1)
        assert told(f"{draw('github_pat_<base62:22>_<base62:59>', seed=1)}{key} bye") == "…… bye"

    def test_escaped_newlines(self) -> None:
        key = draw(
            r'{"key":"-----BEGIN PRIVATE KEY-----\n<base64:64>\n<base64:20>\n-----END PRIVATE KEY-----\n","a":1}',
            seed=1,
        )
        assert told(key) == r'{"key":"…\n","a":1}'

    def test_a_key_without_its_end_goes_up_to_the_next_sentence(self) -> None:
        key = draw("-----BEGIN EC PRIVATE KEY-----\n<base64:64>\n<base64:64>", seed=1)
        assert told(f"{key}\n\nthat was all I could copy from it") == "…\n\nthat was all I could copy from it"

    def test_at_most_twenty_thousand_characters_go(self) -> None:
        key = draw("-----BEGIN PRIVATE KEY-----\n<base64:30000>", seed=1)
        clean = scrub(key)
        assert clean.startswith("[redacted:pem#")
        assert 9_000 < len(clean) < 10_100


class TestDisguises:
    TOKEN = draw("ghp_<base62:36>", seed=5)

    @pytest.mark.parametrize("mark", ["\u200b", "\u00ad", "\u2060", "\ufeff", "\x1b[31m", "\u202e"])
    def test_invisible_characters_between_all_letters(self, mark: str) -> None:
        assert told(f"see {mark.join(self.TOKEN)} there") == f"see {HIDDEN} there"

    def test_full_width_letters(self) -> None:
        wide = "".join(chr(ord(char) + 0xFEE0) for char in self.TOKEN)
        assert told(f"see {wide} there") == f"see {HIDDEN} there"

    def test_invisible_characters_elsewhere_stay(self) -> None:
        assert scrub("a\u200bb \x1b[1mc\u00ad") == "a\u200bb \x1b[1mc\u00ad"
        assert scrub("\u200b\u200b") == "\u200b\u200b"
