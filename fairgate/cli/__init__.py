"""The commands: each file one group, thin over the same calls that the HTTP apps make."""
