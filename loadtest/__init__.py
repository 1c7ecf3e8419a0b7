"""The crowd and the verdict: shoppers who walk the whole road, and a judgement of what they were promised."""
