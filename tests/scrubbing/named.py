"""Secrets that look like anything: only the name before them tells.

`nouns` says what people call such a thing when they talk about it; `names` are what programs call it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

PASSWORDS: Final = (
    "<word><decimal:2-4>",
    "<cap><year>!",
    "<cap><decimal:3><symbol:1>",
    "<lower:5-8><decimal:2-4>",
    "<letters:6><digits:3>!",
    "<upper:1><lower:5><digits:4>$",
    "<base62:10-16>",
    "<lower:5><digits:2>@<lower:4>#",
    "<words3>-<decimal:2>",
    "<base62:5><symbol:1><base62:5><symbol:1><base62:3>",
    "P@ss<word><decimal:2>",
    "<upper:3>-<digits:4>-<lower:4>",
)
"""As people choose them, and as generators make them."""


@dataclass(frozen=True, slots=True)
class Named:
    """A kind that is announced: its identifiers in programs, the vendor in speech, its noun, its shapes."""

    names: tuple[str, ...]
    vendor: str
    noun: str
    shapes: tuple[str, ...]


def _key(names: str, vendor: str, *shapes: str, noun: str = "api key") -> Named:
    return Named(tuple(names.split()), vendor, noun, shapes)


def _password(names: str, vendor: str = "", *shapes: str) -> Named:
    return Named(tuple(names.split()), vendor, "password", shapes or PASSWORDS)


NAMED: Final[Mapping[str, Named]] = {
    # passwords
    "password": _password("password Password PASSWORD passwd pwd PWD user_password"),
    "password of a database": _password(
        "DB_PASSWORD DATABASE_PASSWORD db_pass POSTGRES_PASSWORD dbPassword", "postgres"
    ),
    "password of mysql": _password("MYSQL_ROOT_PASSWORD MYSQL_PWD mysql_password", "MySQL"),
    "password of redis": _password("REDIS_PASSWORD redis_password requirepass", "redis"),
    "password of mail": _password("SMTP_PASSWORD EMAIL_HOST_PASSWORD mail_password smtp_pass", "gmail"),
    "password of an administrator": _password("ADMIN_PASSWORD admin_password root_password adminPass", "admin"),
    "password of wifi": _password("wifi_password psk WIFI_PASS", "wifi"),
    "password of ssh": _password("SSH_PASSWORD ansible_ssh_pass ansible_become_password", "ssh"),
    "password of a keystore": _password("keystorePassword storePassword KEYSTORE_PASS", "keystore"),
    "password of a directory": _password("LDAP_BIND_PASSWORD bind_password bindpw", "LDAP"),
    "password of ftp": _password("FTP_PASSWORD ftp_pass", "FTP"),
    "password of snowflake": _password("SNOWFLAKE_PASSWORD", "snowflake"),
    "password of an app": _password("APP_PASSWORD app_password", "app", "<lower:16>", "<base62:20>"),
    "passphrase": Named(
        ("passphrase", "PASSPHRASE", "GPG_PASSPHRASE", "key_passphrase"), "gpg", "passphrase", ("<words3>", *PASSWORDS)
    ),
    # keys of vendors without a prefix
    "aws secret": _key(
        "AWS_SECRET_ACCESS_KEY aws_secret_access_key secretAccessKey", "AWS", "<base64:40>", noun="secret key"
    ),
    "azure storage": _key("AZURE_STORAGE_KEY AccountKey storage_account_key", "Azure", "<base64:86>=="),
    "azure secret": _key("AZURE_CLIENT_SECRET client_secret", "Azure", "<base62:34>", noun="client secret"),
    "azure openai": _key("AZURE_OPENAI_API_KEY AZURE_OPENAI_KEY", "Azure OpenAI", "<hex:32>", "<base62:84>"),
    "alibaba secret": _key("ALIBABA_CLOUD_ACCESS_KEY_SECRET accessKeySecret", "Alibaba", "<base62:30>"),
    "tencent secret": _key("TENCENTCLOUD_SECRET_KEY SecretKey", "Tencent", "<base62:32>", noun="secret key"),
    "huawei secret": _key("HUAWEICLOUD_SDK_SK secret_access_key", "Huawei", "<base62:40>", noun="secret key"),
    "baidu": _key("BAIDU_SECRET_KEY BAIDU_API_KEY", "Baidu", "<base62:32>"),
    "zhipu": _key("ZHIPUAI_API_KEY", "Zhipu", "<hex:32>.<base62:16>"),
    "cohere": _key("COHERE_API_KEY CO_API_KEY", "Cohere", "<base62:40>"),
    "mistral": _key("MISTRAL_API_KEY", "Mistral", "<base62:32>"),
    "deepgram": _key("DEEPGRAM_API_KEY", "Deepgram", "<hex:40>"),
    "assemblyai": _key("ASSEMBLYAI_API_KEY", "AssemblyAI", "<hex:32>"),
    "wandb": _key("WANDB_API_KEY", "wandb", "<hex:40>"),
    "fal": _key("FAL_KEY FAL_API_KEY", "fal", "<uuid>:<hex:32>"),
    "exa": _key("EXA_API_KEY", "Exa", "<uuid>"),
    "cloudflare": _key("CLOUDFLARE_API_TOKEN CF_API_TOKEN", "Cloudflare", "<base64url:40>", noun="token"),
    "cloudflare global": _key("CLOUDFLARE_API_KEY CF_API_KEY", "Cloudflare", "<hex:37>"),
    "heroku old": _key("HEROKU_API_KEY", "Heroku", "<uuid>"),
    "linode": _key("LINODE_TOKEN LINODE_API_TOKEN", "Linode", "<hex:64>", noun="token"),
    "vultr": _key("VULTR_API_KEY", "Vultr", "<upper36:36>"),
    "hetzner": _key("HCLOUD_TOKEN HETZNER_API_TOKEN", "Hetzner", "<base62:64>", noun="token"),
    "scaleway": _key("SCW_SECRET_KEY", "Scaleway", "<uuid>", noun="secret key"),
    "fastly": _key("FASTLY_API_TOKEN FASTLY_API_KEY", "Fastly", "<base64url:32>", noun="token"),
    "vercel": _key("VERCEL_TOKEN", "Vercel", "<base62:24>", noun="token"),
    "railway": _key("RAILWAY_TOKEN", "Railway", "<uuid>", noun="token"),
    "datadog": _key("DD_API_KEY DATADOG_API_KEY", "Datadog", "<hex:32>"),
    "datadog app": _key("DD_APP_KEY DATADOG_APP_KEY", "Datadog", "<hex:40>"),
    "algolia": _key("ALGOLIA_ADMIN_KEY ALGOLIA_API_KEY", "Algolia", "<hex:32>"),
    "okta": _key("OKTA_API_TOKEN OKTA_CLIENT_TOKEN", "Okta", "00<base64url:40>", noun="token"),
    "auth0": _key("AUTH0_CLIENT_SECRET", "Auth0", "<base64url:64>", noun="client secret"),
    "twilio secret": _key("TWILIO_AUTH_TOKEN twilio_auth_token", "Twilio", "<hex:32>", noun="token"),
    "line": _key("LINE_CHANNEL_ACCESS_TOKEN LINE_CHANNEL_SECRET", "LINE", "<base64:169>=", "<hex:32>", noun="token"),
    "twitter": _key(
        "TWITTER_BEARER_TOKEN TWITTER_API_SECRET", "Twitter", "AAAAAAAAAAAAAAAAAAAAA<base62:80>", "<base62:50>"
    ),
    "spotify": _key("SPOTIFY_CLIENT_SECRET SPOTIPY_CLIENT_SECRET", "Spotify", "<hex:32>", noun="client secret"),
    "binance": _key("BINANCE_API_SECRET BINANCE_SECRET_KEY", "Binance", "<base62:64>", noun="secret key"),
    "razorpay": _key("RAZORPAY_KEY_SECRET", "Razorpay", "<base62:24>", noun="secret key"),
    "paypal": _key("PAYPAL_CLIENT_SECRET PAYPAL_SECRET", "PayPal", "E<base64url:79>", noun="client secret"),
    "mapbox": _key("MAPBOX_SECRET_TOKEN", "Mapbox", "sk.eyJ1<base64url:80>.<base64url:22>", noun="token"),
    "postmark": _key("POSTMARK_SERVER_TOKEN POSTMARK_API_TOKEN", "Postmark", "<uuid>", noun="token"),
    "pagerduty": _key("PAGERDUTY_TOKEN PAGERDUTY_API_KEY", "PagerDuty", "u+<base64url:18>"),
    "snyk": _key("SNYK_TOKEN", "Snyk", "<uuid>", noun="token"),
    "codecov": _key("CODECOV_TOKEN", "Codecov", "<uuid>", noun="token"),
    "jenkins": _key("JENKINS_API_TOKEN JENKINS_TOKEN", "Jenkins", "11<hex:32>", noun="token"),
    "gitea": _key("GITEA_TOKEN", "Gitea", "<hex:40>", noun="token"),
    "zerotier": _key("ZEROTIER_TOKEN ZT_API_TOKEN", "ZeroTier", "<base62:32>", noun="token"),
    "ngrok": _key("NGROK_AUTHTOKEN ngrok_auth_token", "ngrok", "2<base62:26>_<base62:21>", noun="token"),
    "confluent": _key("CONFLUENT_API_SECRET sasl_password", "Confluent", "<base64:64>", noun="secret key"),
    # what programs make for themselves
    "api key": _key(
        "API_KEY api_key apiKey apikey API-KEY x_api_key service_api_key", "", "<base62:24>", "<hex:32>", "<base62:40>"
    ),
    "token": _key(
        "TOKEN token access_token ACCESS_TOKEN accessToken auth_token AUTH_TOKEN",
        "",
        "<base62:24>",
        "<hex:40>",
        noun="token",
    ),
    "refresh token": _key(
        "refresh_token REFRESH_TOKEN refreshToken", "", "<base64url:43>", "<base62:64>", noun="token"
    ),
    "client secret": _key(
        "client_secret CLIENT_SECRET clientSecret consumer_secret",
        "",
        "<base62:32>",
        "<base64url:43>",
        noun="client secret",
    ),
    "secret key": _key(
        "SECRET_KEY secret_key secretKey app_secret", "", "<base62:50>", "<base64url:43>", noun="secret key"
    ),
    "signing secret": _key(
        "SLACK_SIGNING_SECRET signing_secret WEBHOOK_SECRET", "Slack", "<hex:32>", noun="secret key"
    ),
    "jwt secret": _key("JWT_SECRET jwt_secret JWT_SECRET_KEY", "JWT", "<base62:32>", "<hex:64>", noun="secret key"),
    "encryption key": _key(
        "ENCRYPTION_KEY encryption_key MASTER_KEY", "", "<hex:64>", "<base64:43>=", noun="secret key"
    ),
    "rails key": _key("RAILS_MASTER_KEY secret_key_base", "Rails", "<hex:32>", "<hex:128>", noun="secret key"),
    "laravel key": _key("APP_KEY", "Laravel", "base64:<base64:43>=", noun="secret key"),
    "session secret": _key("SESSION_SECRET COOKIE_SECRET session_secret", "", "<base62:32>", noun="secret key"),
    "wireguard": _key("PrivateKey PresharedKey", "WireGuard", "<base64:43>=", noun="private key"),
    "ethereum": _key(
        "PRIVATE_KEY private_key ETH_PRIVATE_KEY", "Ethereum", "0x<hex:64>", "<hex:64>", noun="private key"
    ),
    "solana": _key("SOLANA_PRIVATE_KEY wallet_private_key", "Solana", "<base58:87>", noun="private key"),
    "totp": _key("TOTP_SECRET MFA_SECRET otp_secret", "2FA", "<base32:32>", "<base32:16>", noun="secret key"),
    "deploy token": _key("DEPLOY_TOKEN CI_DEPLOY_PASSWORD deploy_key", "", "<base62:20>", "<base62:32>", noun="token"),
    "registry token": _key(
        "NPM_AUTH_TOKEN _authToken REGISTRY_TOKEN", "registry", "<uuid>", "<base64:40>", noun="token"
    ),
    "salt": _key("SECRET_SALT hmac_secret HMAC_KEY", "", "<base62:32>", noun="secret key"),
}
"""All kinds that need a name."""
