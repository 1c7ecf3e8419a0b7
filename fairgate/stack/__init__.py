"""The embedded Postgres and Valkey of a laptop or a first sale, and the supervisor that keeps children running."""
