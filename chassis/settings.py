"""Settings of every Fairgate process, read from FAIRGATE_* variables and checked as a whole, relations included.

A process that cannot run safely with what it was given says which variable to mend and does not start.
"""

import base64
import binascii
import ipaddress
import re
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from pydantic_settings import SettingsError as UnreadableVariable

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")


class SettingsError(Exception):
    """The environment cannot be used; the message says which variables to mend."""


class Settings(BaseSettings):
    """One process's settings. Units stand last in the names; defaults are safe for one small machine."""

    model_config = SettingsConfigDict(env_prefix="FAIRGATE_", extra="ignore", frozen=True)

    database_url: str
    redis_url: str
    master_key: SecretStr
    public_url: str = "http://127.0.0.1:8000"
    prefix: str = "/.fairgate"
    gateway_host: str = "127.0.0.1"
    gateway_port: int = Field(8001, ge=1, le=65535)
    gateway_workers: int = Field(1, ge=1, le=64)
    stock_host: str = "127.0.0.1"
    stock_port: int = Field(8002, ge=1, le=65535)
    stock_workers: int = Field(1, ge=1, le=64)
    stock_lanes: int = Field(1, ge=1, le=64)
    stock_batch_max: int = Field(250, ge=1, le=2_000)
    stock_queue_max: int = Field(1_000, ge=1, le=100_000)
    stock_at_once_max: int = Field(256, ge=1, le=100_000)
    reconciler_host: str = "127.0.0.1"
    reconciler_port: int = Field(8004, ge=1, le=65535)
    sweep_interval_seconds: float = Field(1.0, gt=0, le=3600)
    rebalance_interval_seconds: float = Field(2.0, gt=0, le=3600)
    repair_interval_seconds: float = Field(30.0, gt=0, le=86_400)
    payment_interval_seconds: float = Field(2.0, gt=0, le=3600)
    database_connections: int = Field(16, ge=2, le=500)
    statement_timeout_seconds: float = Field(5.0, gt=0, le=300)
    lock_timeout_seconds: float = Field(3.0, gt=0, le=300)
    body_bytes_max: int = Field(65_536, ge=1_024, le=16_777_216)
    body_seconds_max: float = Field(10.0, gt=0, le=300)
    shutdown_seconds: float = Field(10.0, gt=0, le=300)
    payment_inquiry_url: str | None = None
    payment_inquiry_key: SecretStr | None = None
    trusted_proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    log_level: str = "info"

    @classmethod
    def from_environment(cls) -> "Settings":
        """The settings that FAIRGATE_* variables name. Raises SettingsError with one line for each thing to mend."""
        try:
            return cls()  # pydantic-settings fills the fields from the environment
        except ValidationError as error:
            raise SettingsError(_explain(error)) from None
        except UnreadableVariable as error:
            raise SettingsError(f"The settings cannot be used: {error}; lists are written as JSON") from None

    @property
    def master_key_bytes(self) -> bytes:
        """The 32 bytes behind `master_key`."""
        return _key_bytes(self.master_key.get_secret_value())

    @property
    def https(self) -> bool:
        """Whether buyers reach us over https, judged by the public address alone: the last hop may well be plain."""
        return urlsplit(self.public_url).scheme == "https"

    @field_validator("master_key")
    @classmethod
    def _master_key_has_32_bytes(cls, value: SecretStr) -> SecretStr:
        if len(_key_bytes(value.get_secret_value())) != 32:
            raise ValueError("must be 32 random bytes in base64url: `fairgate keys master` prints a new one")
        return value

    @field_validator("public_url")
    @classmethod
    def _public_url_is_an_origin(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
            raise ValueError("must be an origin such as https://shop.example, without a path")
        if parts.scheme == "http" and parts.hostname not in LOOPBACK_HOSTS:
            raise ValueError("must be https: cookies over plain http are accepted on loopback only")
        return value.rstrip("/")

    @field_validator("prefix")
    @classmethod
    def _prefix_is_a_path(cls, value: str) -> str:
        if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", value):
            raise ValueError("must be a path such as /.fairgate, without a slash at its end")
        return value

    @field_validator("database_url")
    @classmethod
    def _database_is_postgres(cls, value: str) -> str:
        if urlsplit(value).scheme not in ("postgres", "postgresql"):
            raise ValueError("must start with postgresql://")
        return value

    @field_validator("redis_url")
    @classmethod
    def _redis_url_is_redis(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("redis", "rediss", "unix", "redis+cluster", "rediss+cluster"):
            raise ValueError("must start with redis://, rediss:// or unix://, or redis+cluster:// for a cluster")
        if "+cluster" in parts.scheme and not all(
            re.fullmatch(r".+:\d{1,5}", host) for host in parts.netloc.rpartition("@")[2].split(",")
        ):
            raise ValueError("must name a cluster's nodes as redis+cluster://:password@host:port,host:port")
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _proxies_are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            ipaddress.ip_network(network, strict=False)
        return value

    @field_validator("log_level")
    @classmethod
    def _log_level_is_known(cls, value: str) -> str:
        if value not in ("debug", "info", "warning", "error"):
            raise ValueError("must be debug, info, warning or error")
        return value

    @model_validator(mode="after")
    def _relations_hold(self) -> "Settings":
        if self.lock_timeout_seconds > self.statement_timeout_seconds:
            raise ValueError(
                "FAIRGATE_LOCK_TIMEOUT_SECONDS must not be longer than FAIRGATE_STATEMENT_TIMEOUT_SECONDS: "
                "a statement would be cut off before it could say that it waited for a lock"
            )
        if self.stock_lanes + 2 > self.database_connections:
            raise ValueError(
                "FAIRGATE_DATABASE_CONNECTIONS must be at least FAIRGATE_STOCK_LANES + 2: each lane has a connection, "
                "and so have the tail and everything else"
            )
        if (self.gateway_host, self.gateway_port) == (self.stock_host, self.stock_port):
            raise ValueError("FAIRGATE_GATEWAY_PORT and FAIRGATE_STOCK_PORT must differ: both are on one host")
        if self.payment_inquiry_url is not None and self.payment_inquiry_key is None:
            raise ValueError("FAIRGATE_PAYMENT_INQUIRY_URL needs FAIRGATE_PAYMENT_INQUIRY_KEY: the shop must know us")
        return self


def _key_bytes(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return b""


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors(include_url=False, include_input=False):
        name = "FAIRGATE_" + "_".join(str(part) for part in problem["loc"]).upper() if problem["loc"] else ""
        reason = "is not set" if problem["type"] == "missing" else problem["msg"].removeprefix("Value error, ")
        lines.append(f"{name} {reason}".strip())
    return "The settings cannot be used:\n  " + "\n  ".join(lines)
