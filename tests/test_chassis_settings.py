"""Settings are checked as a whole, and each complaint names the variable to mend."""

import base64

import pytest

from chassis.settings import Settings, SettingsError

GOOD = {
    "FAIRGATE_DATABASE_URL": "postgresql://fairgate@localhost/fairgate",
    "FAIRGATE_REDIS_URL": "redis://localhost:6379/0",
    "FAIRGATE_MASTER_KEY": base64.urlsafe_b64encode(bytes(32)).decode().rstrip("="),
}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in GOOD.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_good_settings_are_read_from_the_environment(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("FAIRGATE_PUBLIC_URL", "https://shop.example/")
    environment.setenv("FAIRGATE_TRUSTED_PROXIES", '["10.0.0.0/8"]')
    settings = Settings.from_environment()
    assert settings.public_url == "https://shop.example"
    assert settings.https
    assert settings.trusted_proxies == ("10.0.0.0/8",)
    assert settings.master_key_bytes == bytes(32)


def test_every_missing_variable_is_named_at_once(environment: pytest.MonkeyPatch) -> None:
    for name in GOOD:
        environment.delenv(name)
    with pytest.raises(SettingsError) as refused:
        Settings.from_environment()
    assert all(f"{name} is not set" in str(refused.value) for name in GOOD)


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("FAIRGATE_DATABASE_URL", "mysql://x/y", "postgresql://"),
        ("FAIRGATE_REDIS_URL", "memcached://x", "redis://"),
        ("FAIRGATE_MASTER_KEY", "c2hvcnQ", "32 random bytes"),
        ("FAIRGATE_MASTER_KEY", "not base64!", "32 random bytes"),
        ("FAIRGATE_PUBLIC_URL", "shop.example", "must be an origin"),
        ("FAIRGATE_PUBLIC_URL", "https://shop.example/path", "must be an origin"),
        ("FAIRGATE_PUBLIC_URL", "http://shop.example", "must be https"),
        ("FAIRGATE_PREFIX", "fairgate/", "must be a path"),
        ("FAIRGATE_GATEWAY_PORT", "70000", "FAIRGATE_GATEWAY_PORT"),
        ("FAIRGATE_GATEWAY_WORKERS", "0", "FAIRGATE_GATEWAY_WORKERS"),
        ("FAIRGATE_STOCK_PORT", "8001", "must differ"),
        ("FAIRGATE_LOCK_TIMEOUT_SECONDS", "60", "must not be longer than"),
        ("FAIRGATE_STOCK_LANES", "15", "FAIRGATE_DATABASE_CONNECTIONS"),
        ("FAIRGATE_PAYMENT_INQUIRY_URL", "http://127.0.0.1/payments", "FAIRGATE_PAYMENT_INQUIRY_KEY"),
        ("FAIRGATE_TRUSTED_PROXIES", '["everyone"]', "FAIRGATE_TRUSTED_PROXIES"),
        ("FAIRGATE_TRUSTED_PROXIES", "10.0.0.1", "JSON"),
        ("FAIRGATE_LOG_LEVEL", "loud", "debug, info, warning or error"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_with_what_to_do(
    environment: pytest.MonkeyPatch, name: str, value: str, word: str
) -> None:
    environment.setenv(name, value)
    with pytest.raises(SettingsError, match=word):
        Settings.from_environment()


def test_a_refusal_never_prints_the_secret(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("FAIRGATE_MASTER_KEY", "hunter2hunter2")
    environment.setenv("FAIRGATE_LOG_LEVEL", "loud")
    with pytest.raises(SettingsError) as refused:
        Settings.from_environment()
    assert "hunter2" not in str(refused.value)
