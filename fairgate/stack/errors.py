"""The one way in which the embedded stack refuses: a sentence that says what is wrong and what to do about it."""


class StackError(Exception):
    """The stack cannot start or go on. The message is one sentence for a person, with the next step in it."""
