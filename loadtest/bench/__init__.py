"""Measures the stock engine and the stock API side by side with what they are compared to, in one run on one machine."""
