"""Settings of the demo shop, read from FAIRGATE_SHOP_* variables."""

from pathlib import Path

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from pydantic_settings import SettingsError as UnreadableVariable

from chassis.settings import SettingsError


class ShopSettings(BaseSettings):
    """Where the stock is, what is sold, where payments are kept, and how long a pretend payment takes."""

    model_config = SettingsConfigDict(env_prefix="FAIRGATE_SHOP_", extra="ignore", frozen=True)

    stock_url: str = "http://127.0.0.1:8002"
    stock_key: SecretStr
    inquiry_key: SecretStr = Field(min_length=16)
    payments_file: Path
    host: str = "127.0.0.1"
    port: int = Field(8003, ge=1, le=65535)
    workers: int = Field(1, ge=1, le=16)
    skus: tuple[str, ...] = Field(("general-admission", "hall"), min_length=1)
    title: str = "The Little Box Office"
    quantity_max: int = Field(4, ge=1, le=100)
    pay_seconds_min: float = Field(0.2, ge=0, le=60)
    pay_seconds_max: float = Field(0.8, ge=0, le=60)
    body_bytes_max: int = Field(16_384, ge=1_024, le=1_048_576)

    @classmethod
    def from_environment(cls) -> "ShopSettings":
        """The settings that FAIRGATE_SHOP_* variables name. Raises SettingsError with one line for each thing to mend."""
        try:
            return cls()  # pydantic-settings fills the fields from the environment
        except ValidationError as error:
            lines = [
                f"FAIRGATE_SHOP_{'_'.join(str(part) for part in problem['loc']).upper()}: {problem['msg']}"
                for problem in error.errors(include_url=False, include_input=False)
            ]
            raise SettingsError("The shop's settings cannot be used:\n  " + "\n  ".join(lines)) from None
        except UnreadableVariable as error:
            raise SettingsError(f"The shop's settings cannot be used: {error}; lists are written as JSON") from None

    @model_validator(mode="after")
    def _relations_hold(self) -> "ShopSettings":
        if self.pay_seconds_min > self.pay_seconds_max:
            raise ValueError("FAIRGATE_SHOP_PAY_SECONDS_MIN must not be longer than FAIRGATE_SHOP_PAY_SECONDS_MAX")
        return self
