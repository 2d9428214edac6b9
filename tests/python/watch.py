"""Watches what calls hand to the library."""
from eccoder import _interface


def watched_places(monkeypatch):
    """(address, residence) of each chunk of the calls of encode that follow, sources first."""
    seen = []
    encode = _interface.encode

    def watched(codec, stripes, sources, targets, length):
        seen.extend((place.data, place.residence) for places in (sources, targets) for place in places)
        return encode(codec, stripes, sources, targets, length)

    monkeypatch.setattr(_interface, "encode", watched)
    return seen
