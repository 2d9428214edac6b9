"""What an object must hold, as the client that alone writes it knows.

A content is bytes, or None where there is no object. An operation maps one content to the next; where its outcome is
unknown, because no answer came in time, the object may hold either, until a read settles which.
"""

import dataclasses


def _write(content, data, offset):
    """A gap before the bytes is zeros."""
    content = content or b""
    return content[:offset].ljust(offset, b"\0") + data + content[offset + len(data) :]


def _zero(content, offset, length):
    """Up to the end or beyond, an OSD makes it a truncation."""
    end = offset + length
    return content[:offset] + bytes(length) + content[end:] if end < len(content) else content[:offset]


EFFECTS = {  # of a pool's change() on a content
    "write_full": lambda _content, data: data,
    "write": _write,
    "append": lambda content, data: (content or b"") + data,
    "zero": _zero,
    "trunc": lambda content, size: content[:size].ljust(size, b"\0"),
    "remove": lambda _content: None,
}


class Operation:
    """A change of an object: one of EFFECTS, and its arguments."""

    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def apply(self, content):
        return EFFECTS[self.call](content, *self.arguments)

    def send(self, pool, name):
        pool.change(self.call, name, *self.arguments)


class Mismatch(Exception):
    """An object does not hold what it must; the text says which and where."""


class Missing(Mismatch):
    """There is no object."""


def describe(content):
    return "no object" if content is None else f"{len(content)} bytes"


def first_difference(got, expected):
    """In words."""
    if got is None or expected is None or len(got) != len(expected):
        return f"{describe(got)} instead of {describe(expected)}"
    at = next(i for i, (x, y) in enumerate(zip(got, expected)) if x != y)
    count = sum(x != y for x, y in zip(got, expected))
    return f"{count} of {len(got)} bytes differ, from byte {at} on: {got[at]:#04x} instead of {expected[at]:#04x}"


@dataclasses.dataclass
class Shadow:
    """The contents that an object may have; more than one until a read has settled an unknown outcome."""

    allowed: list = dataclasses.field(default_factory=lambda: [None])

    @property
    def settled(self):
        return len(self.allowed) == 1

    @property
    def content(self):
        """Only of a settled object."""
        assert self.settled
        return self.allowed[0]

    @property
    def longest(self):
        """Bytes of the longest content that it may have."""
        return max(len(content or b"") for content in self.allowed)

    def done(self, operation):
        self.allowed = [operation.apply(self.content)]

    def unknown(self, operation):
        self.allowed = [self.content, operation.apply(self.content)]

    def observe(self, got):
        """Compare a whole object that was read, and settle. Raises Mismatch, and then takes what was read as right,
        so that one damage is reported once."""
        expected = [content for content in self.allowed if content == got]
        allowed, self.allowed = self.allowed, [got]
        if not expected:
            raise (Missing if got is None else Mismatch)("; nor: ".join(first_difference(got, content) for content in allowed))

    def observe_range(self, got, offset, length):
        """The same for a part of a settled object."""
        expected = (self.content or b"")[offset : offset + length]
        if got != expected:
            raise Mismatch(f"from byte {offset} on: {first_difference(got, expected)}")
