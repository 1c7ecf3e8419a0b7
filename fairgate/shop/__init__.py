"""The little demo shop behind the gate: it shows how a shop's server uses the stock API, and takes pretend payments."""
