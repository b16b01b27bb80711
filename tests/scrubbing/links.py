"""Secrets inside addresses, headers, commands and files of a fixed form: only the value in `{}` is secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_PASSWORD: Final = ("<base62:10-20>", "<lower:6><digits:3>", "<cap><year>", "<base62:6>!<base62:6>", "<hex:32>")
_KEY: Final = ("<base62:24>", "<hex:32>", "<base64url:43>")


@dataclass(frozen=True, slots=True)
class Fixed:
    """A kind whose surroundings are part of its form."""

    forms: tuple[str, ...]
    shapes: tuple[str, ...] = _PASSWORD


LINKS: Final[Mapping[str, Fixed]] = {
    "postgres url": Fixed(("postgres://app:{}@db.example.org:5432/app", "postgresql+asyncpg://svc:{}@<host>/main")),
    "mysql url": Fixed(("mysql://root:{}@<ipv4>:3306/shop", "mysql+pymysql://<name>:{}@<host>/crm")),
    "mongodb url": Fixed(
        ("mongodb+srv://<name>:{}@cluster0.<lower:5>.mongodb.net/app", "mongodb://admin:{}@<host>:27017/")
    ),
    "redis url": Fixed(("redis://:{}@127.0.0.1:6379/0", "rediss://default:{}@<host>:6380")),
    "amqp url": Fixed(("amqp://guest:{}@<host>:5672/%2f", "amqps://<name>:{}@<host>/vhost")),
    "smtp url": Fixed(("smtp://<name>%40example.org:{}@<host>:587", "smtps://mailer:{}@<host>")),
    "ftp url": Fixed(("ftp://<name>:{}@<host>/pub", "sftp://deploy:{}@<host>:2222/srv")),
    "https userinfo": Fixed(("https://<name>:{}@example.org/x.git", "https://oauth2:{}@gitlab.example.org/a/b.git")),
    "query key": Fixed(("https://api.example.org/v1/x?a=1&api_key={}&b=2", "https://<host>/geo?key={}"), _KEY),
    "query token": Fixed(
        ("https://example.org/hook?token={}", "https://<host>/cb#access_token={}&expires_in=3600"), _KEY
    ),
    "query password": Fixed(("https://<host>/login?user=<name>&password={}", "http://<host>/?u=<name>&pwd={}&r=1")),
    "query secret": Fixed(("https://<host>/oauth?client_id=<digits:6>&client_secret={}",), _KEY),
    "signed blob": Fixed(
        ("https://a.blob.core.windows.net/c?sv=2022-11-02&se=<date>&sr=b&sig={}",), ("<base62:41>%2B<base62:4>%3D",)
    ),
    "signed bucket": Fixed(
        ("https://<word>.s3.amazonaws.com/f.zip?X-Amz-Expires=600&X-Amz-Signature={}",), ("<hex:64>",)
    ),
    "otp address": Fixed(("otpauth://totp/Shop:<name>?secret={}&issuer=Shop",), ("<base32:32>", "<base32:16>")),
    "slack hook": Fixed(("https://hooks.slack.com/services/T<upper36:10>/B<upper36:10>/{}",), ("<base62:24>",)),
    "discord hook": Fixed(("https://discord.com/api/webhooks/<digits:18>/{}",), ("<base64url:68>",)),
    "teams hook": Fixed(
        ("https://acme.webhook.office.com/webhookb2/<uuid>@<uuid>/IncomingWebhook/{}/<uuid>",), ("<hex:32>",)
    ),
    "feishu hook": Fixed(("https://open.feishu.cn/open-apis/bot/v2/hook/{}",), ("<uuid>",)),
    "dingtalk hook": Fixed(("https://oapi.dingtalk.com/robot/send?access_token={}",), ("<hex:64>",)),
    "wecom hook": Fixed(("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={}",), ("<uuid>",)),
    "zapier hook": Fixed(("https://hooks.zapier.com/hooks/catch/<digits:7>/{}/",), ("<base36:7>",)),
    "ifttt hook": Fixed(("https://maker.ifttt.com/trigger/<word>/with/key/{}",), ("<base64url:22>",)),
    "cloudinary url": Fixed(("cloudinary://<digits:15>:{}@<word>",), ("<base64url:27>",)),
    "telegram url": Fixed(
        ("https://api.telegram.org/bot{}/sendMessage?chat_id=<digits:9>",), ("<digits:10>:AA<base64url:33>",)
    ),
    "jdbc": Fixed(
        (
            "jdbc:postgresql://<host>/app?user=<name>&password={}",
            "jdbc:sqlserver://<host>;user=sa;password={};encrypt=true",
        )
    ),
    "connection string": Fixed(
        ("Server=db;User Id=sa;Password={};Database=app", "Driver={ODBC};Server=<host>;UID=sa;PWD={};")
    ),
    "account key": Fixed(
        ("DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={};EndpointSuffix=core.windows.net",),
        ("<base64:86>==",),
    ),
    "service bus": Fixed(
        ("Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={}",), ("<base64:43>=",)
    ),
    "wifi code": Fixed(("WIFI:S:<cap>Net;T:WPA;P:{};;",)),
    "bearer": Fixed(("Authorization: Bearer {}", '"Authorization": "Bearer {}"', "authorization=Bearer {}"), _KEY),
    "token header": Fixed(("Authorization: Token {}", "Authorization: token {}"), _KEY),
    "basic header": Fixed(("Authorization: Basic {}", "Proxy-Authorization: Basic {}"), ("<basic>",)),
    "key header": Fixed(("X-Api-Key: {}", "X-API-KEY: {}", "api-key: {}", "Ocp-Apim-Subscription-Key: {}"), _KEY),
    "token in a header": Fixed(
        ("PRIVATE-TOKEN: {}", "X-Auth-Token: {}", "X-Vault-Token: {}", "X-Access-Token: {}"), _KEY
    ),
    "cookie": Fixed(
        ("Cookie: theme=dark; session={}; lang=en", "Cookie: sessionid={}", "cookie: a=1; auth_token={}"), _KEY
    ),
    "set cookie": Fixed(
        ("Set-Cookie: session={}; Path=/; HttpOnly; Secure", "set-cookie: connect.sid=s%3A{}; Path=/"), _KEY
    ),
    "curl user": Fixed(("curl -u <name>:{} https://<host>/api", "curl --user admin:{} http://<host>")),
    "curl header": Fixed(
        ("curl -H 'Authorization: Bearer {}' https://<host>", 'curl -H "X-Api-Key: {}" https://<host>/v1'), _KEY
    ),
    "mysql flag": Fixed(
        ("mysql -u root -p{} shop", "mysql -u root --password={} app", "mysqldump -uroot -p'{}' shop > a.sql")
    ),
    "psql variable": Fixed(("PGPASSWORD={} psql -h <host> -U app", "PGPASSWORD='{}' pg_dump app")),
    "sshpass": Fixed(("sshpass -p '{}' ssh <name>@<host>", "sshpass -p {} scp a.txt <name>@<host>:/tmp")),
    "docker login": Fixed(
        ("docker login -u <name> -p {} registry.example.org", "docker login --username <name> --password {}")
    ),
    "redis cli": Fixed(("redis-cli -h <host> -a {} ping", "redis-cli -a '{}'")),
    "openssl flag": Fixed(("openssl rsa -in key.pem -passin pass:{} -out out.pem",)),
    "long flag": Fixed(("tool --password {} --verbose", "tool --password={} --verbose", 'tool --passphrase "{}"')),
    "key flag": Fixed(
        ('tool --token "{}"', "tool --api-key={} -v", "tool --secret-key {}", "gh auth --with-token {}"), _KEY
    ),
    "java property": Fixed(
        ("java -Dspring.datasource.password={} -jar app.jar", "-Djavax.net.ssl.keyStorePassword={}")
    ),
    "sql user": Fixed(("CREATE USER <name> WITH PASSWORD '{}';", "ALTER USER <name> IDENTIFIED BY '{}';")),
    "netrc": Fixed(("machine <host> login <name> password {}", "machine <host>\n  login <name>\n  password {}")),
    "pgpass": Fixed(("<host>:5432:app:<name>:{}",), ("<base62:16>", "<base62:8>!<base62:8>")),
    "npmrc": Fixed(
        ("//registry.example.org/:_authToken={}", "//npm.example.org/:_password={}"), ("<uuid>", "<base64:36>")
    ),
    "docker config": Fixed(('{"auths": {"<host>": {"auth": "{}"}}}',), ("<basic>",)),
    "kube config": Fixed(
        ("users:\n- name: admin\n  user:\n    token: {}", "    client-key-data: {}"), ("<base64:200>",)
    ),
    "powershell": Fixed(('ConvertTo-SecureString "{}" -AsPlainText -Force', "$password = '{}'")),
    "login and password": Fixed(
        ("login: <name>\npassword: {}", "user <name> pass {}", "Login: <name>@example.org / Password: {}")
    ),
    "credentials in a line": Fixed(
        (
            "creds: <name> / {}",
            "login/pass: <name>/{}",
            "user: <name> pw: {}",
            "логин/пароль: <name> / {}",
            "логин: <name> пароль: {}",
            "账号：<name> 密码：{}",
            "用户名<name>，密码{}",
            "usuario: <name> contraseña: {}",
            "Benutzer: <name>, Passwort: {}",
            "utilisateur : <name>, mot de passe : {}",
            "usuário: <name>, senha: {}",
            "ユーザー名：<name> パスワード：{}",
        )
    ),
    "git remote": Fixed(
        ("origin\thttps://<name>:{}@<host>/<word>.git (fetch)", "git clone https://<name>:{}@<host>/a.git")
    ),
    "wget": Fixed(("wget --user=<name> --password={} https://<host>/f", "wget --http-password={} https://<host>/f")),
    "server header": Fixed(('proxy_set_header Authorization "Bearer {}";', 'add_header X-Api-Key "{}";'), _KEY),
    "unit file": Fixed(("Environment=DB_PASSWORD={}", 'Environment="SMTP_PASSWORD={}"')),
    "compose file": Fixed(
        ("environment:\n  - POSTGRES_PASSWORD={}\n  - TZ=UTC", "environment:\n  POSTGRES_PASSWORD: {}\n  TZ: UTC")
    ),
    "form body": Fixed(("grant_type=password&username=<name>&password={}", "user=<name>&passwd={}&submit=1")),
    "xml password": Fixed(("<user><name></user><password>{}</password>", '<login user="<name>" password="{}"/>')),
    "xml key": Fixed(('<add key="ApiKey" value="{}" />', "<apiKey>{}</apiKey>"), _KEY),
}
KEY_NAMES: Final = (
    "RSA PRIVATE KEY",
    "PRIVATE KEY",
    "OPENSSH PRIVATE KEY",
    "EC PRIVATE KEY",
    "DSA PRIVATE KEY",
    "ENCRYPTED PRIVATE KEY",
    "PGP PRIVATE KEY BLOCK",
)
"""Families of key files; each is a kind of its own."""
