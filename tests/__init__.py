"""Fairgate's tests: real servers, no mocks of our own code, no sleeps."""
