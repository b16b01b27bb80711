"""Configuration: `trivet.toml` under the environment, typed, documented, frozen. The only reader of the environment."""

from gateway.config.channels import ApiAccount, DiscordAccount, PluginAccount, SlackAccount, TelegramAccount, table_of
from gateway.config.derived import (
    auto_consolidate,
    called,
    database_url,
    hook_path,
    hook_url,
    house_language,
    own_hosts,
    webhook_host,
)
from gateway.config.loader import Loaded, load, load_settings, process_environment
from gateway.config.secrets import admin_token, client_key, masked_url, placeholder_key, settings_secrets, vault_key
from gateway.config.settings import NO_MODEL, SCRIPTED_MODEL, LogLevel, QueueMode, Settings

__all__ = [
    "NO_MODEL",
    "SCRIPTED_MODEL",
    "ApiAccount",
    "DiscordAccount",
    "Loaded",
    "LogLevel",
    "PluginAccount",
    "QueueMode",
    "Settings",
    "SlackAccount",
    "TelegramAccount",
    "admin_token",
    "auto_consolidate",
    "called",
    "client_key",
    "database_url",
    "hook_path",
    "hook_url",
    "house_language",
    "load",
    "load_settings",
    "masked_url",
    "own_hosts",
    "placeholder_key",
    "process_environment",
    "settings_secrets",
    "table_of",
    "vault_key",
    "webhook_host",
]
