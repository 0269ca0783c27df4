"""What can be wrong with a file."""


class NotPlumb(ValueError):
    """The file is no record, or no flat result, of plumb."""


class NewerFormat(ValueError):
    """A newer plumb wrote the file, in a format that this package does not read."""


class Damaged(ValueError):
    """A line of a record cannot be read; ``line`` is its number, from 1."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line} cannot be read: {why}")
        self.line = line
