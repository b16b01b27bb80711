"""Values and what only looks like one: how people write passwords, and how code, labels and talk write about them."""

from __future__ import annotations

import base64

import pytest

from gateway.scrub import Scrubber, scrub
from tests.scrubbing import draw

SECRET = "otterLamp77"
ANNOUNCED = r"""
we reset your account password. For now it is {p}
das Passwort müsste {p} sein
la contraseña debería ser {p}
a senha ficou {p}
парлоь {p}
jelszo: {p}
losenord {p}
kelmet el ser {p}
la clé wifi est {p}
you can get on host7 with bob and {p}
du kommst auf host7 mit bob und {p}
made you an account on the wiki: bob / {p}
bob@example.org – {p}
Laptop: bob / {p}
to open it use {p}
la password e' {p}
type /login {p} when you are in
the wifi box: http://10.0.0.7:8080 admin {p}
👤 bob 🔒 {p}
auth: { user: 'bob', pass: '{p}!' }
mongo "mongodb://bob:{p}@db/x"
ssh bob@host  # pw {p}!
GRANT ALL ON *.* TO 'bob'@'%' IDENTIFIED BY '{p}'
curl --user bob:{p} https://x
[sudo] password for bob_smith: {p}
export RESTIC_PASSWORD={p}
Zugangsdaten: bob / {p}
mot de passe wifi : {p}
contraseña del router: {p}
пароль от роутера {p}
логин bob пароль {p}
账号：bob 密码：{p}
パスワードは{p}です
비밀번호 {p}
รหัสผ่านคือ {p}
ססמה: {p}
הסיסמה שלי היא {p}
رمز عبور من {p} است
ο κωδικός είναι {p}
parola mea este {p}
šifra je {p}
шифра: {p}
SMTPPASS: {p}
smtpPass = "{p}"
P/W {p}
DB_PASSWORD=%4{p}
password: $ecret${p}
net user bob {p} /add
cmdkey /generic:x /user:bob /pass:{p}
psexec \\pc -u bob -p {p} cmd
printf '{p}' | docker login -u bob --password-stdin ghcr.io
echo {p} | sudo -S ls
echo 'bob:{p}' | sudo chpasswd
: ${SECRET:-{p}}
client.login("bob", "{p}")
auth: ['bob', '{p}']
passwrod: {p}
my paswword = {p}
DBPASS={p}
DB_PW: {p}
sshPassword: "{p}"
adminPw = '{p}'
REDIS_PASS {p}
login with ann:{p}
the account is ann@example.org with password {p}
Host: db1 User: ann Pass: {p}
server=db1;uid=ann;pwd={p}
Mot de passe: {p} (à changer)
Heslo je {p}
Hasło do serwera to {p}
Lozinka je {p}
Jelszó: {p}
Salasana on {p}
Adgangskode: {p}
Kata sandi: {p}
Mật khẩu: {p}
كلمة السر: {p}
گذرواژه: {p}
סיסמא: {p}
รหัสผ่าน {p}
Κωδικός: {p}
Parola: {p}
Парола: {p}
Пороль: {p}
Доступы: ann / {p}
Identifiants: ann / {p}
Credenziali: ann / {p}
ID: ann PW: {p}
docker login -u ann -p {p} ghcr.io
helm registry login -u ann -p {p}
git clone https://ann:{p}@github.com/a/b
wget --http-password={p} https://x
ldapsearch -D cn=admin -w {p}
openssl enc -aes-256-cbc -k {p}
gpg --passphrase {p} -d f.gpg
unzip -P {p} f.zip
7z x -p{p} f.7z
mysqldump -u root -p{p} db
PGPASSWORD={p} psql
mongosh -u ann -p {p}
vncpasswd {p}
az login -u ann -p {p}
winexe -U ann%{p} //host cmd
[code]bcp x out y -S db -U sa -P {p}[/code]
{code} PGPASSWORD='{p}' pg_dump x {code}
curl https://example.org/me -b 'sid={p}{p}' -X POST
kadmin -p admin/admin -w {p}
ann Cleartext-Password :=3D "{p}"
a=1&password=ab%2B{p}%2Fcd&b=2
<p>{p} is my password</p>
WLAN-Kennwort (WPA2): {p}
vaulttool unlock --password <(echo {p}) disk
trojan://{p}@example.org:443
smb ann:{p}@nas.example.org/share
deploy:{p}@10.0.0.9:/srv
smbclient //srv/share -U ann%{p}
veracrypt -t -p '{p}' /dev/sdc1 /mnt
pihole -a -p {p}
steghide extract -sf a.jpg -p {p}
slappasswd -s {p}
nuget push a.nupkg -ApiKey {p}{p}
fly secrets set MAILER={p}
yarn config set npmAuthToken {p}{p}
login("bob", "{p}7")
authenticate('bob@example.org', '{p}7')
#0 /srv/db.php(4): PDO->__construct('mysql:host=x', 'root', '{p}')
mysql_real_connect(c, "db1", "root", "{p}", "db", 0, NULL, 0);
conn.simple_bind_s("cn=admin,dc=x", "{p}")
SESSION_SECRET={p}
jwtSecret: "{p}"
curl https://example.org/oauth2/token -d grant_type=client_credentials -u shop-web:{p}
<password>{p}</password>
<add key="Password" value="{p}"/>
""".strip().splitlines()
HARMLESS = r"""
ssh -i ~/.ssh/build_key ann.smith@web-old.studio-mare.example
login.token=3DZugangsschl=C3=BCssel
hast du das Passwort ge=C3=A4ndert? sag
API_SECRET = env("API_SECRET")
api_key: env:OTHER_NAME2
'password' => ['required', 'confirmed', 'regex:/[0-9]/', 'min:10', 'max:72'],
fn verify(password: &SecretString) -> bool {
def login(user: str, password: SecretStr) -> Session:
password:e=>e.length>8?null:1
PASS tests/auth/test_password.py::test_rounds_12[secret1]
how do I change the wifi password on the Fritzbox7590?
где поменять пароль на роутере keenetic41?
min_token = "Kt7Wren9Larch88Otter3Lamp5"
repo.Api('3f2a9c1b7d8e4f60a1b2c3d4e5f60718293a4b5c')
passwd="password="passphrase="
password = config.get("db", "password")
SECRET_KEY = Env.get('SECRET_KEY')
const token = this.getToken();
$token = $this->token;
'password' => $request->input('password'),
let password = process.env.DB_PASSWORD || '';
DB_PASS=$(cat /run/secrets/db_pass)
PASSWORD=`cat pw.txt`
password: ${{ secrets.DB_PASSWORD }}
PWD=/home/runner/work/acme/acme
login("ann", "/home/ann2")
login('admin', 'Welcome back 2024')
await authenticate('github', 'oauth2')
appid=wx1234567890abcdef
tokens { id = "7f9c1d2e-0a1b-1c2d-2e3f-33445566778a" }
encrypt = "aes256"
secret_id = aws_secretsmanager_secret.db.id
SESSION_SECRET_LENGTH=32
jwt_secret = get_secret("jwt1")
webhook_secret: shop-webhook-secret-v2
signing_key = "RS256"
root: /dev/sda2
postgres: 15.3-alpine
terraform output -raw vpc_id
is the token still valid? Yes-it-is-valid-until-2026
/api/v1/organizationsettings/attributes
docker run -u 1000:1000 shop7
password = String("Password must have 8 chars")
token = bytes("token")
pragma key_length = 256
echo $PWD
OLDPWD=/root
<Input type="password" placeholder="Password" {...register('password')} />
<PasswordField login={login} onChange={e => setPassword(e.target.value)} />
https://github.com/login/oauth/authorize?client_id=abc
https://accounts.example.org/login?return_to=%2Fdashboard%2Fsettings
/usr/sbin/nologin
loginctl enable-linger ann
loginUrl: "/auth/login/callback"
s.password_validator.validate(value)
s.token_endpoint_auth_method = "client_secret_basic"
def test_password_reset_sends_an_email_to_the_user_2():
password: "AES-256-GCM"
password: {{ .Values.auth.password | b64enc | quote }}
printf %s "$DB_PASSWORD" | sha256sum
INFO auth: login ok user=ann method=password ip=10.177.233.135
cache miss key=billing:v2:3b25540cdd55deaf ttl=300
pin: GPIO4
site_key: 6LcAbC0UAAAAAPqXfQb1W2oG8gVbK3yZpQx7RtNe
Der Pass ist auf 2350 m
the pass is 2100 metres high
--- PASS: TestToken2 (0.00s)
password: "PBES2-HS256+A128KW"
password: "RSA/ECB/OAEPWithSHA-256AndMGF1Padding"
password: "$ANSIBLE_VAULT;1.2;AES256;dev"
password: "ENC(VeryLongEncryptedPayload123==)"
password: "vault:v1:AbCdEfGhIjKlMnOpQrStUvWxYz012345"
password: "$argon2id$v=19$m=65536,t=3,p=4$YWJj$ZGVm"
password: "SCRAM-SHA-512$4096:c2FsdA==$c3RvcmVkOnNlcnZlcg=="
withCredentials([usernamePassword(credentialsId: '29f63271-dc2f-4734-8221-5b31b5169bac')])
dev.credentials.url=dev-lb1.api.f4ke.com:5215
keyVaultToStoreSecrets: cmp2-qat-1208358310
pub const SN_id_Gost28147_89_None_KeyMeshing = "id-Gost28147-89-None-KeyMeshing"
publicToken = "9Cnzj4p4WGeKLs1Pt8QuKUpRKfFLfRYC9AIKjbJTWit"
csrf-token=Mj2qykJO5rELyHgezQ69nzUX0i3OH67V7+V4eUrLfpuyOuxmiW9rhROG
SERVICE_SECRET_KEY=srv_production_00000000000000000000000000000000
"token": "xoxp-572370529330-573807301142-572331691188-####################"
it('should reset password2 when token is valid', async () => {
credentials: AwsCredentialIdentityProvider
private final PasswordEncoder passwordEncoder;
implements StringCredentialValue
auth: com.example.security.JwtTokenProvider
"LABEL_PASSWORD": "Répétez le mot de passe",
"password": "Passwort",
"confirm_password": "Подтвердите пароль",
"login": "Anmelden",
"password_placeholder": "Wpisz hasło",
password = "Nytt lösenord"
msgid "Enter your new password"
msgstr "Saisissez votre nouveau mot de passe"
github.com/pkg/errors v0.9.1 h1:FEBLx1zS214owpjy7qsBeixbURkuhQAwrK5UwLGTwt4=
golang.org/x/oauth2 v0.0.0-20200107190931-bf48bf16ab8d // indirect
Get a key at [OpenAI](https://platform.openai.com/api-keys) or [Stripe](https://dashboard.stripe.com/apikeys)
method=password result=failed user=bob id=12
auth method=password status=ok
mysql -uroot -p{{password}}
mysql -u root -p$DBPW
%sudo ALL=(ALL:ALL) NOPASSWD: ALL
key: ${{ runner.os }}-node-${{ hashFiles('**/package-lock.json') }}
  key: v2-cache-{{ arch }}-{{ checksum "yarn.lock" }}
restore-keys: linux-pip-
key: 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12
password_regex = "^(?=.*[a-z])(?=.*[0-9])[A-Za-z0-9]{8,}$"
passwordPattern: /^[A-Za-z\d@$!%*?&]{8,}$/,
ERROR: password authentication failed for user "postgres"
Traceback: KeyError: 'password'
kubectl get secret db-credentials -o yaml
      - name: DB_PASSWORD
        valueFrom:
          secretKeyRef:
            name: db-secret
            key: password
secretName: wildcard-tls
imagePullSecrets: [{name: regcred}]
ALTER USER postgres PASSWORD NULL;
CREATE TABLE users (id SERIAL, password TEXT NOT NULL, token VARCHAR(64));
SELECT id, password_hash FROM users WHERE token = ?
INSERT INTO users (name, password) VALUES ($1, $2)
INSERT INTO users (name, password) VALUES (?, ?)
input[name="password"]:focus{outline:none}
var t=e.password,n=e.token;if(!t||!n)return;
commit 2fd4e1c6: rotate token handling (#1234)
PIN code 600028 is Chennai
the pin code of my aunt is 302004, Jaipur, Rajasthan
password = Crypto.Sha256
the passphrase is never-stored-here
[code]the code is in Main42[/code]
To:AnnSmith77@example.org
cc:Ann.Smith77@example.org
12:30pm:Room77x@example.org
image: registry/app:1.25-Alpine77@sha256:0
a WIFI:T:nopass;S:Guests;;
q=python+password+manager+1Password8&hl=en
fix(auth): token refresh when password changed
Password must contain 8-64 characters
the login page shows "Wrong password, try again in 30s"
Пароль должен быть не короче 8 символов
密码长度为8到20位
パスワードは8文字以上で入力してください
비밀번호는 8자 이상이어야 합니다
""".strip("\n").splitlines()
CREDENTIALS = (
    "Authorization: Bearer abcdefghijklmnopqrstuvwxyz",
    "authorization: bearer ghfjdkslaqpwoeirutyg",
    "Proxy-Authorization: Basic abcdbcdefghijklmnopqr",
    "Authorization: Token 123456789012345678901234",
    "headers = {'Authorization': 'Bearer 17|hsdkfjhsdkfjhsdkfjhskdjf'}",
)


@pytest.mark.parametrize("form", ANNOUNCED)
def test_an_announced_password_goes(form: str) -> None:
    assert SECRET not in scrub(form.replace("{p}", SECRET))


@pytest.mark.parametrize(
    "form",
    [
        "change my pw from Kt7!wren to Kt9-larch88.",
        "password changed from 'Kt7!wren' to 'Kt9-larch88'",
        "сменил пароль с Kt7!wren на Kt9-larch88",
        "Passwort von Kt7!wren auf Kt9-larch88 geändert",
    ],
)
def test_where_one_takes_the_place_of_another_both_go(form: str) -> None:
    clean = scrub(form)
    assert "wren" not in clean
    assert "larch" not in clean


def test_what_follows_an_old_password_is_no_new_one_without_a_word_that_says_so() -> None:
    assert scrub("change my pw from Kt7!wren at 10:30AM! for Ann-2024").endswith("] at 10:30AM! for Ann-2024")


def test_a_key_that_somebody_owns_may_look_like_a_commit() -> None:
    assert "[redacted:" in scrub(draw("here is my key <hex:40>", seed=3))
    assert scrub(commit := draw("the key <hex:40>", seed=3)) == commit


@pytest.mark.parametrize(
    "text",
    [
        '> # userlist.txt\n> "ann" "{p}"\n> "bob" "{p}"',
        '{"text": "\\"user\\",\\"password\\",\\"note\\"\\n\\"ann\\",\\"{p}\\",\\"\\""}]}',
        "/*\n *  id | name | password\n * ----+------+----------\n *   1 | ann  | {p}\n */",
        'id,text\n1,"echo ""{p}"" | passwd --stdin ann"',
        "body: 'DBI->connect($dsn, ''ann'', ''{p}'');'",
        "login ok password=Otter.Lamp77",
        "name=ann&message=my+password+is+{p}+i+think&submit=1",
        "body=grant+it+to+ann+identified+by+%27{p}%27%3B&draft=1",
        "<p>user;password<br/>\nann;{p}<br/>\n</p>",
        "User: | host | password |\n|---|---|\n| nas | {p} |",
        r"net use Z: \\nas7\share {p} /user:ann",
        "postgres://ann:%23x{p}@db7/shop",
    ],
)
def test_what_quotes_a_row_or_doubles_its_quotes_hides_nothing(text: str) -> None:
    clean = scrub(text.replace("{p}", SECRET))
    assert SECRET not in clean
    assert "Lamp77" not in clean


@pytest.mark.parametrize(
    "text",
    ["mysql -u root -p\n#+END_SRC2", "DB_PASSWORD=********\nAPI_KEY=********", "DB_PASSWORD=\nDB_HOST=localhost"],
)
def test_nothing_is_taken_from_the_line_below(text: str) -> None:
    assert scrub(text) == text


def test_a_long_name_with_a_strange_sign_is_judged_in_one_pass() -> None:
    """One that tries every way to part it would not end."""
    assert "some_name" in scrub("otpauth://totp/a?secret=" + "some_name_in_code_" * 9 + "?x=")


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_a_value_stays(text: str) -> None:
    assert scrub(text) == text


@pytest.mark.parametrize("header", CREDENTIALS)
def test_behind_the_scheme_of_a_header_any_long_value_is_a_credential(header: str) -> None:
    assert scrub(header).count("[redacted:") == 1


def test_a_list_of_passwords_goes_to_its_end() -> None:
    values = [f"Otter{at}lamp!" for at in range(40)]
    clean = scrub(f'{{"passwords": [{", ".join(map(repr, values))}]}}'.replace("'", '"'))
    assert clean.count("[redacted:") == len(values)


def test_a_line_of_base64_waits_for_no_other() -> None:
    lines = [draw("<base64:64>\n", seed=seed) for seed in range(6)]
    stream = Scrubber().stream()
    given = "".join(map(stream.feed, lines))
    assert len(given) >= sum(map(len, lines[:-1]))
    assert given + stream.flush() == "".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        'token = "{}" \\\n        "{}"',
        "$password = '{}' . '{}' . $x;",
        'String secret = "{}" + "{}";',
        'passwords=("{}" "{}")',
    ],
)
def test_a_value_in_parts_goes_with_all_of_them(text: str) -> None:
    parts = draw("<base62:20>7", seed=1), draw("<base62:20>8", seed=2)
    clean = scrub(text.format(*parts))
    assert not any(part in clean for part in parts)
    assert clean.startswith(text.partition("{}")[0])


def test_a_letter_in_base64_goes_when_its_lines_together_say_a_secret() -> None:
    letter = draw("hello bob,\nhere is all that you need to begin: the password is <base62:11>7\nsee you", seed=1)
    assert scrub(base64.encodebytes(letter.encode()).decode()).startswith("[redacted:")


@pytest.mark.parametrize(
    "text",
    [
        "the rules of a password\nroot@db1.example.org:~#",
        "DB_PASSWORD=\nDB_HOST=localhost\n\nbob",
        "'password' => ['required', 'min:10'],",
        "a.password=function(e){return this._password=e,this},a.token=1",
        "nextPageToken = 'CAUQAA4hT9xk2Lm'",
        "MYSQL_PASSWORD: ${MYSQL_PASSWORD:?missing}",
    ],
)
def test_what_stands_where_a_value_may_stand_is_none(text: str) -> None:
    assert scrub(text) == text


def test_a_word_that_ends_like_another_denies_nothing() -> None:
    assert "admin_token = '[redacted:" in scrub(draw("admin_token = '<base62:30>7'", seed=1))


def test_a_column_may_be_wider_than_its_head() -> None:
    table = draw(" user    | password \n---------+-----------\n ann_lee | <base62:9>7\n", seed=1)
    assert " ann_lee | [redacted:" in scrub(table)


def test_a_user_that_a_password_is_for_is_none() -> None:
    text = draw("the password for user ivan96 is <base62:11>7", seed=1)
    assert scrub(text).startswith("the password for user ivan96 is [redacted:")
    assert scrub("InvalidPassword: wrong password for user ivan96") == "InvalidPassword: wrong password for user ivan96"


@pytest.mark.parametrize("around", ["<m><![CDATA[{}]]></m>", "VALUES (7, '{}');", '{{"text": "{}", "n": 1}}', "{}"])
def test_the_last_row_of_a_table_ends_where_its_text_does(around: str) -> None:
    value = draw("<base62:11>7", seed=1)
    assert value not in scrub(around.format(f"name,url,password\nx,https://example.org/,{value}"))
    assert value not in scrub(around.format(f"Name\\tPassword\\nAnn\\t{value}"))
