"""Named values: the sentences and the syntaxes in which people and programs say a secret, as tables.

`{p}` stands for something a person would choose, `{k}` for something a machine made. Each row must lose its
secret and nothing else, both as a whole text and between other lines.
"""

from __future__ import annotations

import re

import pytest

from gateway.scrub import Scrubber
from tests.scrubbing import draw
from tests.scrubbing.work import attempts_of

SCRUBBER = Scrubber(placeholder_key=b"words")
PASSWORDS = tuple(
    draw(template, seed=seed)
    for seed, template in enumerate(
        (
            "<upper:1><lower:6><digits:3>!",
            "<base62:6>7<base62:5>a",
            "<lower:6>@<digits:4>",
            "<lower:4><digits:2>$<upper:3>",
        )
    )
)
KEYS = tuple(draw(template, seed=7) for template in ("<base62:32>4x", "<hex:40>", "<base36:24>7q"))

ENGLISH = """
my password is {p}
the password is {p}.
Password: {p}
password - {p}
pass: {p}
pw: {p}
login: bob pass: {p}
log in with bob / {p}
username bob, pw {p}
creds: bob / {p}
credentials: bob:{p}
login/password: bob/{p}
I changed the password to {p}
password was changed to {p}
the new password is now {p}
the password for the staging db is {p}
the password for bob@example.com is {p}
the password, by the way, is {p}
Your temporary password is: {p}
password (temporary): {p}
pass phrase: {p}
the passcode is {p}
the mysql password is {p}
user alice pass {p}
the api key is {k}
here's my api key: {k}
API key {k}
the bot token is {k}
client secret is {k}
auth token = {k}
api token → {k}
recovery code: {k}
2fa backup code: {k}
access code: {k}
license key: {k}
"""
VALUE_FIRST = """
{p}, that's the router's
{p} (password for the intranet)
{p} ← wifi password
{p} should be the wifi password
{p} is what I use for netflix
{p} gets you into the router
{p} works for the wifi
{p} is the Intranet password
use {p} for the wifi
use {p} to log in
type {p} when it asks
try {p} on the NAS
just enter {p} at the login screen
nimm {p} fürs WLAN
mets {p} pour le wifi
usa {p} para el wifi
попробуй {p} для вайфая
вводи {p} на роутере
{p} to hasło do wifi
{p} est le mot de passe du wifi
{p} är lösenordet till wifi
{p}, das ist das neue Passwort
{p} là mật khẩu wifi
{p} adalah kata sandi wifi
{p} هي كلمة السر للواي فاي
[{"text":"{p} ist das Passwort für den Router"}]
{p} is the password
{p} is my password, thanks
{p} - that's my password
use {p} as the password
try {p} as your password
{k} is my api key
{k} is the token
{p} — это пароль
{p} это пароль от почты
{p} мой пароль
используй {p} как пароль
возьми {p} в качестве пароля
{k} — это мой токен
{p}是我的密码
{p}就是密码
用{p}作为密码
用{p}当密码
{p}是wifi密码
{k}是我的密钥
{p}がパスワードです
{p} ist das Passwort
{p} es la contraseña
{p} est le mot de passe
{p} é a senha
"""
RUSSIAN = """
мой пароль {p}
пароль: {p}
Пароль — {p}
пароль от вайфая {p}
пароль от почты: {p}, никому не говори
пароль это {p}
пароль поменял на {p}
пароль изменён на {p}
новый пароль {p}
пароль теперь {p}
пароль: {p}, логин: bob
логин/пароль: bob/{p}
логин bob, пасс {p}
учётка bob / {p}
креды: bob:{p}
зайди под bob / {p}
пароль у меня {p}
паролем служит {p}
кодовое слово: {p}
пин-код: 482913
код доступа: {k}
ключ апи: {k}
ключ доступа {k}
токен бота: {k}
вот токен {k}
секретный ключ {k}
мій пароль {p}
таємний ключ: {k}
"""
CHINESE = """
密码是{p}
密码：{p}，谢谢
密码{p}
我的密码是{p}。
登录密码是{p}
账号bob密码{p}
账号：bob 密码：{p}
用户名/密码：bob/{p}
把密码改成{p}
密码设置成{p}
密码我设的是{p}
密码（临时）：{p}
密码「{p}」
解压密码：{p}
口令：{p}
请用密码{p}登录
密钥是{k}
访问令牌：{k}
接口密钥：{k}
token是{k}
授权码：{k}
密碼為{p}
帳號：bob 密碼：{p}
金鑰是{k}
存取權杖：{k}
"""
OTHERS = """
パスワードは{p}です
パスワードを{p}に変更しました
パスワードは「{p}」です
暗証番号は482913です
APIキーは{k}です
비밀번호는 {p}입니다
비번: {p}
la contraseña es {p}
clave del wifi: {p}
cambié la contraseña a {p}
código de acceso: {k}
das Passwort lautet {p}
Kennwort: {p}
Zugangsdaten: bob / {p}
API-Schlüssel: {k}
Passwort geändert auf {p}
mot de passe : {p}
le mdp est {p}
le mot de passe, c'est {p}
clé d'API : {k}
jeton d'accès : {k}
senha do wifi: {p}
mudei a senha para {p}
chave de API: {k}
la password è {p}
chiave segreta: {k}
moje hasło to {p}
klucz API: {k}
wifi şifresi: {p}
كلمة السر: {p}
كلمة المرور هي {p}
पासवर्ड: {p}
मेरा पासवर्ड {p} है
mật khẩu là {p}
kata sandi: {p}
our wifi key is {p}
WLAN key: {p}
lösenordet är {p}
jelszó: {p}
API anahtarı: {k}
"""
CONFIGURATION = """
export X_TOKEN='{k}'
$env:API_KEY = "{k}"
ENV API_SECRET {k}
docker run -e API_TOKEN={k} img
API_TOKEN ?= {k}
PGPASSWORD={p} psql -h db
{"name": "API_KEY", "value": "{k}"}
{\\"token\\": \\"{k}\\", \\"a\\": 1}
{\\\\\\"token\\\\\\":\\\\\\"{k}\\\\\\"}
"tokens": ["{k}", "b"]
password: !!str {p}
//registry.npmjs.org/:_authToken={k}
machine x.org login bob password {p}
requirepass {p}
spring.datasource.password={p}
secret_key = \"\"\"{k}\"\"\"
acme_api_key := "{k}"
key_passphrase="{p}"
MYSQL_PWD = "{p}"
ACME_SK="{k}"
acmeApiSecret => '{k}'
acme_token -> {k}
acme_secret, "{k}"
acme_api_token||'{k}'
<AcmeToken>{k}</AcmeToken>
<add key="DbPassword" value="{p}"/>
<property name="password">{p}</property>
<entry key="password">{p}</entry>
<key>APIKey</key><string>{k}</string>
<input type="password" value="{p}">
<password><![CDATA[{p}]]></password>
<b>Password:</b> {p}
<td>password</td><td>{p}</td>
Authorization: Token token="{k}"
Authorization: ApiKey {k}
Authorization: Key {k}
headers={'Authorization': 'Token {k}'}
X-Vault-Token: {k}
grant_type=password&client_secret={k}&x=1
"""
COMMANDS = """
tool --password {p} --verbose
mysql -u root -p'{p}' app
sshpass -p '{p}' ssh bob@box
docker login -u bob -p '{p}' x.org
redis-cli -a '{p}' ping
curl -u 'bob:{p}' https://x.org
unzip -P '{p}' a.zip
curl -su bob:{p} https://x.org
sqlcmd -S box -U sa -P {p}
mosquitto_pub -u bob -P {p} -t a -m b
ssh-keygen -t rsa -N '{p}' -f key
plink -pw {p} bob@box
xfreerdp /u:bob /p:{p} /v:box
vault login {k}
kubectl create secret generic x --from-literal=password={p}
CREATE USER bob IDENTIFIED BY '{p}'
ALTER ROLE bob PASSWORD '{p}'
CREATE LOGIN bob WITH PASSWORD = '{p}'
"""
CODE = """
const apiKey = "{k}";
let password: String = "{p}";
let api_key: &str = "{k}";
NSString *apiKey = @"{k}";
define('DB_PASSWORD', '{p}');
props.setProperty("db.password", "{p}");
os.getenv("DB_PASSWORD", "{p}")
process.env.TOKEN || '{k}'
'password' => '{p}',
password ||= '{p}'
$token .= "{k}"
api_key <- "{k}"
const char* secret{"{k}"};
token = f'{k}'
char psk[] = "{p}";
new NetworkCredential("bob", "{p}")
new PasswordAuthentication("bob", "{p}".toCharArray())
{s:4:"user";s:3:"bob";s:8:"password";s:11:"{p}";}
"""
CHAT = """
the password is {p}, no wait, {p}
the password on the old box is {p}
the root password got rotated to {p} today
das neue ist jetzt {p}, das alte Passwort geht nicht mehr
du kannst dich mit ann.k und {p} einloggen
connecte-toi avec ann.k@example.org et {p}, merci
la cuenta: ann.k@example.org clave {p}
ادخل بحساب ann.k@example.org وكلمة المرور {p}
password: {p}... sorry, {p}
das Passwort ist {p}, nein, {p}
пароль {p}, ой нет, {p}
the passwords are {p} and {p}
the password was {p} until Friday, now it's {p}
two logins: ann / {p} for mail and bob / {p} for the wiki
password ≈ {p}
password • {p}
password ¦ {p}
password --> {p}
password :: {p}
password // {p}
root pw on web-app7.corp.example: {p}
пароль от вайфая {p}
name=Ann&message=my+password+is+{p}&submit=1
पासवर्ड है {p}
creds: bob // {p}
le code wifi c'est {p}
password is all lower case {p}
| password | {p} |
**Password:** {p}
password: ||{p}||
password: **{p}**
password 👉 {p}
🔑 password: {p}
password → {p}
password... {p}
password >> {p}
- password: {p}
password «{p}»
password: „{p}“
password: [{p}]
password is:{p}
"""
CODES = """
{n} is your code
dial 3311 and enter {n} when asked for the PIN
me llegó el código {n}, gracias
{n} is your Intranet verification code
{n} is the code they texted me
{n} is my sms code
{n} ist dein Code
{n} ist der Türcode
{n} est votre code de connexion
{n} es tu código de verificación
{n} - код из смс
{n} — код от домофона
{n} to twój kod weryfikacyjny
{n} 是你的验证码
{n} opens the gate
type {n} at the gate
you can unlock my phone with {n}, that's the passcode
phone passcode {n} if you need it
name=Ann&message=use+{n}+as+your+OTP+to+sign+in&submit=1
your login code is {n}
the code from the sms is {n}
card PIN {n}
the code for the front door is {n}
the code to the building: {n}
der Code aus der SMS ist {n}
Ihr Bestätigungscode lautet {n}
de code uit de sms is {n}
Din verifieringskod är {n}
Din bekræftelseskode er {n}
Vahvistuskoodisi on {n}
kod z SMS-a: {n}
kód z SMS je {n}
código que me llegó por SMS es {n}
le digicode c'est {n}
il codice del portone è {n}
код из смс {n}
Код для входа {n}
код от домофона {n}
пін-код картки {n}
SMS ile gelen kod {n}
kartın PIN kodu {n}
Kode verifikasi Anda {n}
验证码是{n}
現在の認証コードは{n}です
카드 비밀번호 {n}
รหัส OTP ของคุณคือ {n}
एटीएम का पिन {n} है
קוד האימות שלך הוא {n}
"""
OF_MORE_LANGUAGES = """
nenosiri la wifi ni {p}
პაროლი არის {p}
wifi parole ir {p}
пароль ад пошты {p}
la contrasenya del wifi és {p}
wifi slaptažodis yra {p}
lietotājs anna.k, parole {p}
utilizator ana_m parola {p}
o kwdikos tou wifi einai {p}
รหัสผ่านของ Keycloak คือ {p}
lozinka za server je {p}
heslo je {p}
parola este {p}
salasana on {p}
nieuwe wachtwoord is {p}
WLAN Gast, Schlüssel {p}
le wifi c'est Box-12AB, la clé : {p}
el wifi es Box-12AB y la clave {p}
entra con bob y la clave {p}
the pw for the office box is {p}
creds for the box -> bob:{p}
the old password was {p}, now it's {p}
kunci API-nya {k}
API klíč je {k}
erişim belirteci: {k}
tokennya {k}
"""
IN_SENTENCES = """
the excel sheet is protected, unprotect with {p}
I log into the portal with {p} - can you check?
The PDF is locked; open it using {p}
the wifi is HomeNet_97E2 / {p}
netflix is ann@example.org and {p}, use the second profile
the Synology takes ann72 and {p}, port 5001
Moodle teacher account (ann, {p}) is shared
the printer's admin page wants admin / {p}
I'm logging in as ann.kim with {p}, still rejected
IT reset my Windows account to {p}, I change it on Monday
try {p} as the password, and if that fails {p}
it asked for a password and I typed {p}
my security word is {p}, they ask for it
Kannst du dich als admin mit {p} einloggen?
рут на 10.0.0.7 — {p}, порт 2222
сменил, теперь {p}, старый пароль не работает
пароль поменял, новый {p}
ルーターの管理画面は admin / {p} で入れます
رمز وای‌فای {p} است
The safe opens with {n}, then left
disarm the alarm: type {n} and press OFF
калитка открывается кодом {n}, потом решётка
сейф открывается комбинацией {n}
снять с охраны: {n} и решётка
金庫の番号は{n}、右に回して
TAN für die Überweisung: {n}
Den Schlüsseltresor öffnet man mit der {n}
online banking: customer no 8071, PIN {n}
senha do cartão {n}, a do app é {n}
hulu login: ann@example.org and {p}
il codice dell'allarme è {n}
le code d'entrée {n}
"""
ANSWERS = (
    "what's the wifi password?\n{p}",
    "whats the root pw on pluto01\nBob: {p}",
    "wie ist das Passwort für Keycloak?\n{p}",
    "¿cuál es la contraseña del router?\r\n{p}",
    "какой пароль от админки?\nИгорь: {p}",
    "Grafana密码多少？\n{p}",
    "Grafanaのパスワード何だっけ？\n{p}",
    "here's the password\n{p}",
    '{"text":"what is the password?\\n{p}"}',
)
LINES = (
    "Passwords:\n- mail: {p}\n- nas: {p}",
    "logins\n* mail bob@x.org / {p}\n* shop ann / {p}",
    "password:\n{p}",
    "Пароль:\n\n{p}",
    "password:\n> {p}",
    "passwords:\n  - {p}",
    "api_key: |\n  {k}",
    '- name: DB_PASSWORD\n  value: "{p}"',
    "<token>\n  {k}\n</token>",
    "Password\n{p}\nUser",
)
TABLES = (
    "| user | password |\n|---|---|\n| bob | {p} |\n",
    "| Service | Login | Password |\n|:--|:-:|--:|\n| a box | bob | `{p}` |\n| more | eve | **{p}** |\n",
    "name,login,password\nbob,bob@x.org,{p}\n",
    "url;password;user\nx;{p};bob\ny;{p};eve\n",
    "host\tuser\tpassword\nbox\troot\t{p}\n",
    "User      Password\nadmin     {p}\n",
    "| host | user | pass |\n|---|---|---|\n| a.example | bob | `{p}` |\n",
    "Сервис | Логин | Пароль\nпочта | bob | {p}\n",
    "服务,账号,密码\n邮箱,bob,{p}\n",
    '"user","db_password","note"\n"bob","{p}","is old"\n',
    "user,access token\nbob,{k}\n",
    'user,password,note\nbob,{p},"the password for the nas is {p}"\n',
    '{"text":"| user | password |\\n|---|---|\\n| bob | {p} |"}',
    "user,token,password\nbob,none,{p}\neve,none,{p}\n",
)


def rows(*tables: str) -> list[str]:
    return [row for table in tables for row in table.strip().splitlines()]


def told(text: str) -> str:
    return re.sub(r"\[redacted:[a-z0-9-]+#[0-9a-f]+\]", "…", SCRUBBER.scrub(text))


@pytest.mark.parametrize(
    "form",
    [
        *rows(
            ENGLISH,
            VALUE_FIRST,
            RUSSIAN,
            CHINESE,
            OTHERS,
            CONFIGURATION,
            COMMANDS,
            CODE,
            CHAT,
            CODES,
            OF_MORE_LANGUAGES,
            IN_SENTENCES,
        ),
        *LINES,
        *TABLES,
        *ANSWERS,
    ],
)
def test_a_named_value_goes_and_its_surroundings_stay(form: str) -> None:
    secrets = PASSWORDS if "{p}" in form else KEYS if "{k}" in form else ("482913",)
    for secret in secrets:
        text = form.replace("{p}", secret).replace("{k}", secret).replace("{n}", secret)
        for lead, end in (("", ""), ("hello there\n", "\nthat was it")):
            clean = told(f"{lead}{text}{end}")
            assert secret not in clean, text
            assert clean == f"{lead}{text}{end}".replace(secret, "…"), text


@pytest.mark.parametrize(
    "form",
    [*rows(ENGLISH, VALUE_FIRST, RUSSIAN, CHINESE, OTHERS, CODES, OF_MORE_LANGUAGES, IN_SENTENCES), *TABLES, *ANSWERS],
)
def test_a_stream_of_single_characters_says_what_the_whole_says(form: str) -> None:
    text = form.replace("{p}", PASSWORDS[0]).replace("{k}", KEYS[0]).replace("{n}", "482913")
    stream = SCRUBBER.stream()
    assert "".join(map(stream.feed, text)) + stream.flush() == SCRUBBER.scrub(text)


@pytest.mark.parametrize(
    "piece",
    ["login bob / ", "sshpass -p ", "pass word ", "a1b2c3 is the ", 'password","', "пароль от ", "password\n- "],
)
def test_the_work_grows_with_the_text(piece: str) -> None:
    def attempts(chars: int) -> int:
        return attempts_of(SCRUBBER.machine(), (piece * (chars // len(piece) + 1))[:chars])

    small, large = attempts(20_000), attempts(40_000)
    assert large <= 40_000
    assert large <= 2.5 * small + 50


@pytest.mark.parametrize("gap", range(50, 110))
def test_a_line_that_holds_a_secret_is_no_header_at_the_second_scrub_either(gap: int) -> None:
    head = f"my password is {PASSWORDS[0]}; {'1' * gap} -o host=alpha\tuser\tpassword"
    clean = SCRUBBER.scrub(f"{head}\n10.1.1.1\troot\t{PASSWORDS[1]}\n")
    assert SCRUBBER.scrub(clean) == clean


def test_a_list_of_values_goes_on_behind_one_that_is_hidden_already() -> None:
    clean = SCRUBBER.scrub(f'passwords": ["{PASSWORDS[0]}", "river one _ACCOUNT_SID={KEYS[0]} ", "{PASSWORDS[1]}"]')
    assert PASSWORDS[1] not in clean
    assert SCRUBBER.scrub(clean) == clean


@pytest.mark.parametrize("piece", ['password="', "token=\"'", "password:\n"])
def test_a_word_is_not_followed_up_that_another_takes_the_place_of(piece: str) -> None:
    assert attempts_of(SCRUBBER.machine(), piece * 100) < 10


@pytest.mark.parametrize(
    "text", ["is it the password:\npassword: {p}", "passphrase:\nsecret: {k}", "pwd=\"token\" secret='{k}'"]
)
def test_the_word_that_takes_its_place_announces(text: str) -> None:
    said = text.replace("{p}", PASSWORDS[0]).replace("{k}", KEYS[0])
    assert SCRUBBER.scrub(said).startswith(text[: text.index("{")] + "[redacted:")


@pytest.mark.parametrize("form", rows(CODES, IN_SENTENCES))
def test_the_digits_of_a_placeholder_are_no_code(form: str) -> None:
    scrubbed = form.replace("{p}", "[redacted:named#172228]").replace("{n}", "[redacted:named#482199]")
    assert SCRUBBER.scrub(scrubbed) == scrubbed
