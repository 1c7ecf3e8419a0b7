"""Settings of a crowd, read from FAIRGATE_CROWD_* variables, so that plain `locust -f` can be told the same things."""

from pathlib import Path

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class CrowdSettings(BaseSettings):
    """How many come, when, and how they behave. Shares are of all shoppers; who is not named is patient."""

    model_config = SettingsConfigDict(env_prefix="FAIRGATE_CROWD_", extra="ignore", frozen=True)

    shoppers: int = Field(2_000, ge=1, le=100_000)
    opens_in_seconds: float = Field(10.0, ge=0, le=3600)
    spike_seconds: float = Field(5.0, ge=0, le=3600)
    late_share: float = Field(0.15, ge=0, le=1)
    late_seconds: float = Field(15.0, ge=0, le=3600)
    impatient_share: float = Field(0.20, ge=0, le=1)
    abandoning_share: float = Field(0.12, ge=0, le=1)
    late_payer_share: float = Field(0.04, ge=0, le=1)
    seats_share: float = Field(0.25, ge=0, le=1)
    think_seconds_max: float = Field(2.0, ge=0, le=600)
    late_payer_seconds: float = Field(16.0, ge=0, le=600)  # beyond the example's hold_seconds
    stalled_payment_seconds: float = Field(26.0, ge=0, le=50)  # beyond its payment_seconds_max; proxies wait a minute
    seconds_max: float = Field(400.0, gt=0, le=86_400)
    seed: int = 2026
    room: str = "onsale"
    sku: str = "general-admission"
    seated_sku: str = "hall"
    prefix: str = "/.fairgate"
    folder: Path = Path(".fairgate/crowd")

    @model_validator(mode="after")
    def _shares_fit(self) -> "CrowdSettings":
        if self.impatient_share + self.abandoning_share + self.late_payer_share > 1:
            raise ValueError("the shares of impatient, abandoning and late paying shoppers must not exceed 1 together")
        return self

    def environment(self) -> dict[str, str]:
        """The variables that say the same to a child process."""
        return {f"FAIRGATE_CROWD_{name.upper()}": str(value) for name, value in self.model_dump().items()}
