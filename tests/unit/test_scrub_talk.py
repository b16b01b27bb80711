"""What only sounds like a named value: talk about passwords, references, stand-ins, other kinds of key."""

from __future__ import annotations

import random
from typing import Final

import pytest

from gateway.scrub import Scrubber
from tests.scrubbing import draw

SCRUBBER = Scrubber(placeholder_key=b"talk")
READABLE: Final = "ABCDEFGHJKMNPQRSTVWXYZ23456789"

TALK = r"""
I changed the password yesterday, it should work now
I changed the password. It takes 24 hours or so, they said
the password is expired, see page2 of the manual
forgot my password? no, the Samsung2024 is broken
the PIN was changed, it's a long story of 2019
the door code got changed, it's the same for all 40 flats
did you get the login code? yes, at 10:30
the password would be longer than 12 characters
your password should be at least 8 characters, with two digits
use my.package.loader.tests for the password page
password: module.settings.database.default
the password field is called user_login_form_value
ich habe das Passwort geändert, es ist jetzt sicherer
j'ai changé le mot de passe, c'est plus sûr
cambié la contraseña, ahora es más larga
поменял пароль, теперь он длиннее
zmieniłem hasło, teraz jest dłuższe
I encrypted the disk with AES256
we unlock the door at 8:30
modes: fast / slow2 and read / write
$Config12 holds the name of the theme
the recovery code was merged in release 2.4.1
you can connect to db2 with psql and pgcli2
puedes entrar en la sala 2 con Ana y grupo3
added you as reviewer: frontend / v2-api
zum Öffnen bitte Datei2 wählen
Laptop: i7-1260P / 16GB
which code? 404 or 500
GET /login HTTP/1.1
  + Pass LIBFOO4_ARCH_FLAG to make install
seed phrase: write these twelve words down on paper and keep them somewhere safe at home
hand $Base64 and $Server01 as the password
PIN code 131072 is the area code
Pincode: 131072 Old Town
the pin code of the shop is 131072, Old Town, Springfield
482913 is your order number
482913 is the area code
482913 is your discount code
48291 ist die Postleitzahl, der Code kommt per SMS
75999 est le code postal
482913 — номер заказа
482913 是订单号
482913 は注文番号です
4821 is the room number
4821 opens in Rome on Monday
1200 is the code length limit
v2.14.0 is the version with the password fix
build-4821 is the one with the password fix
CVE-2031-4821 is the password bug
OAuth2 is what we use for login
iPad11Pro is on the wifi
HomeNet_97E2 is our guest network, ask Bob for the password
HomeNet_97E2 is the wifi name
use OAuth2 to log in
use WPA2-PSK for the wifi
use Python3.12 for the password script
use port 8443 for the router
use 192.168.0.1 for the router
try Windows11 on the NAS
enter 12.50 when it asks
my host moved to cloud2-eu1, login works
R2D2 is my favourite, that's the robot's
the password is wrong, sorry, try again
the password is too short, no wait, too long
das Passwort steht im Tresor, nein, in der Schublade
пароль не подходит, ой, подошёл
le mot de passe est oublié, pardon
la contraseña no funciona, perdón
password / username
password // see the wiki
password :: string
password --> the next page
password or passkey
my login is ann.keller
firmware 7.57 is the new one for the router
the code is in branch feature-4821
q=how+to+reset+the+password+on+a+phone&hl=en
the password is too short
the exit code is 137137
enter 4000 characters when asked for the PIN
the code on the old box is 2031-04-12
call 555-0142-77 about the code
jetzt 4 Zeilen, das alte Passwort geht
du kannst dich mit ann.k und bob7 einloggen
ann.k@example.org clave de sol
the pairing of rooms 40-2-117 is open
the password on the message box
login failed with error code 18456
the verification failed, status code 404404
your zip code is 101150
the product code is 482913
the code has 4821 lines
class code 482913
the security code is on the back
Утечка: пароли 456531 пользователей попали в сеть
passwords 456531 users had
what's the password policy?\nISO27001
what's the root pw on pluto01
forgot the password?\nnp
where is the password?\nBob: in the safe, ask Ann
here's the password policy\nrev2024
SSH_AUTH_SOCK=/tmp/ssh-0fXVUE4bwvx9/agent.6336
CallSid: CA8b147fc8701aa8e6fba3a54f70e14e68
name,url,username,password\nJira,https://jira.example.org,ann@example.org,
text=never send the password here&trigger=1
- change the password\n- renew it\n¿funcionó?
the key to the wifi box is on the shelf
pin the version to requests2
รหัสผ่านไม่ถูกต้อง
the password is wrong, try again
pass this level: stage-42
password: see 1Password
authority: https://login.microsoftonline.com/2b8fa3f0-19e2-4a7c-9e5a-b7c9d4a1e001
'password' => 'required|min:8|confirmed',
registry key HKLM\Software\Policies\Microsoft2
Sub-agent 8GPWD47W8D (7HQK2MXW9R) is done
he can give you access: **7HQK2MXW9R4T** (for an hour)
с ним он сможет дать вам доступ: **7HQK2MXW9R4T** (действует час)
reCAPTCHA site key: 6L<base64url:38>
password is required
SELECT password FROM users WHERE login = 'deploy';
ο κωδικός προϊόντος είναι 755904
password must be at least 12 characters long
Your password has expired.
enter your password twice
my password is not working any more
I forgot my password again
the password policy asks for 12 characters and 1 digit
password strength: 85%
password length: 16
password changed 2024-05-01
password expires 2024-05-01T10:00:00Z
password reset link: https://example.org/reset
reset the password for user42 please
the password manager KeePass2Android is fine
password field id: pw-input-2
password: string
password: str = ""
password: Optional[str] = None
password: <your password>
password: <password>
password: {{ vault_password }}
password: !vault |
password: ${DB_PASSWORD}
password: $(cat /run/secrets/db)
password: %DB_PASSWORD%
password: $DB_PASSWORD
password: $PASSWORD
password: $env:PASSWORD
password: $$PASSWORD$$
password: @password
password: ‹secret›
password: 00000000-0000-0000-0000-000000000000
password = generate_password(length=16)
PGPASSWORD=$PGPASSWORD psql -h db
kubectl get secret db -o jsonpath='{.data.password}' | base64 -d
pin-sha256="<base64:43>="; max-age=5184000
arn:aws:secretsmanager:eu-west-1:<digits:12>:secret:prod/db-<base62:6>
Sec-WebSocket-Key: <base64:22>==
password: "{{ .Values.db.password }}"
password: vault:secret/data/db#password
password: op://vault/item/password
password: arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-AbC123
password: os.environ["DB_PASSWORD"]
password: process.env.DB_PASSWORD
password: config.get("db.password")
password = getpass.getpass("Password: ")
password = input("Enter password: ")
password = secrets.token_urlsafe(16)
password = request.form["password"]
password: xxxxxxxx
password: ********
password: •••••••
password: changeme
password: changeme123
password: your_password_here
password: YOUR_PASSWORD
password: my-secret-password
password: example
password: <redacted>
password: [hidden]
password: (not set)
password: none
password: password
password: "password"
password=password&username=bob
password: tu-contraseña
contraseña: tu_contraseña
пароль: ваш_пароль
пароль: <ваш пароль>
Пароль: введите пароль
密码：你的密码
密码：请输入密码
密码不能为空
密码不能少于8个字符
密码错误，请重试
密码长度必须为8-16位
忘记密码了怎么办
修改密码成功
密码已过期，请在2024-05-01前修改
パスワードを忘れた場合
パスワードは8文字以上
пароль должен быть не короче 8 символов
пароль неверный, попробуйте ещё раз
забыл пароль от почты, что делать?
пароль истёк 01.05.2024
смените пароль до 31.12.2024
пароль не подошёл
ввести пароль 3 раза
токен истёк, нужно обновить
токенов потрачено 4096
лимит токенов: 128000
ключ к успеху: терпение
ключ от квартиры у соседки
ключ сортировки: created_at
первичный ключ: user_id
секрет успеха прост
token count is 4096
max_tokens: 4096
tokens: 128000
token_type: bearer
token limit 200k
tokens per second: 85.3
prompt_tokens=1523, completion_tokens=420
the tokenizer is cl100k_base
token ring network 802.5
token = await get_token()
token: ${{ secrets.GITHUB_TOKEN }}
token: ${TOKEN:-default}
const token = req.headers["x-access-token"];
if (token === undefined) return;
invalid token at position 42
Unexpected token '<' at line 1
SyntaxError: Unexpected token u in JSON at position 0
the csrf token is missing
secret santa: 24.12.
secret: kubernetes.io/tls
secretName: my-tls-secret
secretKeyRef:\n  name: db-secret\n  key: password
secretKeyRef: {name: db-credentials, key: password}
the secret of good soup is time
secret agent 007
a secret ingredient: paprika
key insight: users want speed
the keys are on the table
key: value
key: user:1234:profile
cache key: sess:42:profile
session key telegram:123
redis key agent:lane:telegram:123
primary key: user_id
primary key (id, created_at)
foreign key user_id
sort key createdAt2024
partition key tenant_2024_05
the arrow key moves 3 rows
press any key to continue
key = lambda row: row[1]
keyboard layout: us-intl
keyword: python3.11
monkey: bananas123
turkey: istanbul34
api key: <your api key>
api_key: YOUR_API_KEY
api_key = os.getenv("API_KEY")
api_key=None
API_KEY=
API_KEY=your-api-key-here
apiKey: process.env.API_KEY,
apiKey: this.config.apiKey
api_key_id: 12345
API key rotated on 2024-05-01
auth: required
auth.method = oauth2
authorization: required
Authorization: Bearer <token>
Authorization: Bearer ${TOKEN}
Authorization: Bearer YOUR_TOKEN
Authorization: Basic <base64>
the bearer of this letter is my friend
basic auth is not enough
basic understanding of OAuth2
pass the salt
pass the value2 to func1
pass 2 of 3 completed
passed 12 of 15 tests
test_login: pass
status: pass
passport AB1234567
a passenger named Bob42
compass heading 240
bypass lane 3
the pin is on pin 13
pin GPIO17 to ground
pin the version to 3.11.4
pinned sha256
login: bob
login page /login?next=/home
login attempts: 5
login as admin2 works
login failed for user bob from 10.0.0.1
credentials: include
credentials expired at 10:30
credentials file ~/.aws/credentials
доступ: с 9:00 до 18:00
доступ в комнату 214/3
логин занят
учётная запись создана 12.05.2024
cookie: chocolate chip
cookies are disabled
order 2024-05-4711 is the key
SHA256 is the password hash we use
iPhone15 is the key product
Windows10 is the secret
user42 is the password reset guy
v1.2.3 - password fixes
item4 - password
room 214b (password protected)
hunter2021 was the password manager name
def check_password(password: str, hashed: str) -> bool:
if password == other_password: return token
input type="password" name="password"
<input type="password" placeholder="Password" required>
<label for="password">Password</label>
SELECT token, secret FROM users WHERE id = 5
SELECT password FROM users WHERE name = 'bob42'
GRANT SELECT ON t TO bob42
ALTER USER bob42 PASSWORD EXPIRE
password_min_length=12
passwordConfirm: form.passwordConfirm
"password": {"type": "string", "minLength": 8}
"token": {"$ref": "#/definitions/token"}
{"name": "password", "type": "string"}
{"key": "size", "value": "42"}
curl -u user:pass https://x.org
curl -u $USER:$PASS https://x.org
curl -u "<user>:<password>" https://x.org
mysql -u root -p app
sshpass -p "$PASS" ssh bob@x
docker login -u bob --password-stdin
docker run -p 8080:80 nginx
ssh -p 2222 bob@example.org
mkdir -p /var/lib/app2
export API_KEY
unset DB_PASSWORD
echo $API_TOKEN
vault login -method=github
salt: 12 rounds
add salt and 2 eggs
seed: 42
random seed 20240501
pat on the back
the pat2 release
clave de sol
la clave del éxito es 100% trabajo
chave do carro: gaveta2
der Schlüssel zum Erfolg
parola d'ordine: coraggio
la clé de voûte
mot de passe oublié ?
Passwort vergessen?
Passwort muss 8 Zeichen lang sein
la contraseña debe tener 8 caracteres
a senha deve ter 8 caracteres
hasło musi mieć 8 znaków
şifre en az 8 karakter olmalı
비밀번호는 8자 이상
model: gpt-4o-mini-2024-07-18, token limit 128k
the secret is out since v2.0
secret sauce v2
access code for room B12
security code is on the back
the wifi key is on the router, wpa key mgmt: WPA-PSK
backup code path: src/backup2.py
recovery codes were printed
sign in with Google2 account
log in to https://example.org/login
log in as root@10.0.0.1
"password": null
"password": ""
"password": "********"
Passwords: 3, Users: 12
the alarm is set for 6:30, wake up at 0700.
the router is AVM / FritzBox7590
Netflix is on Roku4K and AppleTV4K, both fine
we changed it to utf8mb4_0900_ai_ci for the login table
open it with Excel2016, not LibreOffice7
the passphrase failed, if that fails see #12345
root on web1 - v2.3.1-rc4 installed
jetzt Windows11 und kein Passwort
GPIO: pin 1234 is not there
PWD=/opt/shop/releases/20250101
PWD=/home/deploy/2024-11-02
pwd: /data/backups/2023
PWD=/tmp/build/123456
images (ubuntu / debian12)
roles (admin / editor)
runs on (debian / bookworm)
the box has (root / home) mounted
(guest / member) tiers
the 12 words are not hard to learn, but few people learn them all in one day at school
wallet backup is done every night by cron, ask Ann when it fails next time please
mnemonic - a word that helps people remember long rows of letters or numbers by heart
24 words are enough for a headline
the 12 words are: see the paper in the safe
the creds are in the vault, ask bob or 2ndline
credentials -> settings / advanced
basic auth is off, nginx / apache2 both
htaccess is in conf / httpd
creds for the shop are with Tom / Ann
the password page was slow, the new one is faster
the old password policy is gone, new one is 12 signs
the password form v1 is old, new one: v2.3.1
passwort alt, neue ist unterwegs
password dialog: новый экран готов
changed the password from time to time to be safe
changed the password from the console to the portal
contraseña de la red a casa
passwort von Anna auf Papier
changed password from admin panel
choose a new password, at least 12 signs
new password, old habits
te paso la contraseña nueva, mañana
neues passwort, bitte bis 18:00
nova senha, amanhã
the error code they sent me is 40412
the promo code I got is 20240
the code I got is 200 lines
the code that came with the board has 4096 bytes
the code they sent is bad, 1500 errors
ann@corp.example.io / page 12
ann@corp.example.io - +49 170 1234567
bob@example.it / team lead 2
bob@example.dev | since 2019
Bob, bob@x.local / Room 12
the card 4111 2222 3333 4444 is a sample
my account moved to Hetzner2-fsn1, login works
code secret: 3 lines of code, 1200 words
suitcase: weight 2300, size L
contact ann@example.org with Ticket12345
the password page of JavaScript2015 is old
le code d'article 48291 est en stock
account (ID, 4823AB77) was closed
use the app password that will work with mail
"""
IDENTIFIERS = """
the key fingerprint is SHA256:<base62:43>
sha256:<hex:64>
commit <hex:40> is the key fix
md5 key <hex:32>
password_hash = <hex:32>
public_key = "<base62:43>"
public key: <base62:43>
ssh public key <base62:43>
idempotency key <uuid>
idempotency_key: <uuid>
request_id=<uuid>
key: <uuid>
token [redacted:github#a1b2c3] revoked
password: [redacted:named#a1b2c3]
"""


def rows(table: str) -> list[str]:
    return [row.replace("\\n", "\n") for row in table.strip().splitlines()]


@pytest.mark.parametrize("row", rows(TALK))
def test_talk_about_secrets_stays_as_it_is(row: str) -> None:
    for text in (row, f"so:\n{row}\nand more.", f"well, {row} ok"):
        assert SCRUBBER.scrub(text) == text


@pytest.mark.parametrize("template", rows(IDENTIFIERS))
def test_what_names_a_thing_is_no_secret(template: str) -> None:
    for seed in range(8):
        text = draw(template, seed=seed)
        assert SCRUBBER.scrub(text) == text


@pytest.mark.parametrize(
    "template",
    [
        "Sub-agent {} ({}) is done.",
        "| {} | running | {} |",
        "<foreign mark={}>\npage one\n</foreign mark={}>",
        'characters left out; read_more with handle "{}" and offset 7500 reads on',
        "Give this code to an admin, who can let you in with it: **{}** (valid for 2 hours).",
        "с ним он сможет дать вам доступ: **{}** (действует 2 часа).",
        "Something went wrong (reference {}).",
        "/pair {}",
        "/pair deny {}",
    ],
)
def test_what_trivet_draws_itself_stays(template: str) -> None:
    """The codes of questions, pairings, frames, handles and tasks: six to twelve readable letters and digits."""
    rng = random.Random(template)
    for length in (6, 8, 10, 12):
        for _ in range(60):
            text = template.format(*("".join(rng.choices(READABLE, k=length)) for _ in range(2)))
            assert SCRUBBER.scrub(text) == text


@pytest.mark.parametrize("account", ["telegram:1", "discord:80351110224678912", "slack:U024BE7LH", "telegram:/-1001/7"])
def test_an_account_is_no_code(account: str) -> None:
    text = f"This is the code of **Ann** on Telegram: `{account}`. `/link join {account}` joins them."
    assert SCRUBBER.scrub(text) == text
