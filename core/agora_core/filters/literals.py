"""JSON values as filters hold them: validated, frozen, compared as JSON and never as Python."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from typing import Literal as OneOf

from agora_core.errors import InvalidFilterError, InvalidMetadataError
from agora_core.metadata import clone_json, copy_json
from agora_core.records import JSON

JsonType = OneOf["null", "boolean", "number", "string", "array", "object"]

_quote = json.JSONEncoder(ensure_ascii=False).encode


def json_type(value: JSON) -> JsonType:
    """Return the JSON type of a valid JSON value. A bool is no number."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, Mapping):
        return "object"
    if isinstance(value, (list, tuple)):
        return "array"
    raise InvalidMetadataError(f"a {type(value).__name__} is not JSON")


def canonical_json(value: JSON) -> str:
    """Return the one text of a JSON value: two values are equal as JSON exactly when their texts are equal.

    Keys are sorted by code point and a float with an integral value is written as an int, so `1` and `1.0` agree.
    """
    kind = json_type(value)
    if kind == "string":
        return _quote(value)
    if kind == "number":
        if isinstance(value, float) and value.is_integer():
            return int.__repr__(int(value))
        return int.__repr__(value) if isinstance(value, int) else float.__repr__(value)
    if kind == "null":
        return "null"
    if kind == "boolean":
        return "true" if value else "false"
    if kind == "array":
        return "[" + ",".join(map(canonical_json, value)) + "]"
    return "{" + ",".join(f"{_quote(key)}:{canonical_json(value[key])}" for key in sorted(value)) + "}"


def json_equal(left: JSON, right: JSON) -> bool:
    """Say whether two JSON values are equal as JSON: `1` is `1.0`, never `True` or `"1"`; objects compare deeply."""
    same = type(left)
    if same is type(right):
        # The usual kinds, told by their types alone.
        if same is dict:
            if len(left) != len(right):
                return False
            for key, value in left.items():  # noqa: SIM110 # twice as fast as a generator
                if key not in right or not json_equal(value, right[key]):
                    return False
            return True
        if same is list:
            return len(left) == len(right) and all(map(json_equal, left, right))
        if same is str:
            return bool(left == right)
    kind = json_type(left)
    if kind != json_type(right):
        return False
    if kind == "array":
        return len(left) == len(right) and all(map(json_equal, left, right))
    if kind == "object":
        return len(left) == len(right) and all(k in right and json_equal(v, right[k]) for k, v in left.items())
    return bool(left == right)


class Literal:
    """A JSON value inside a filter; equal to another exactly when both are equal as JSON.

    `canonical` is its canonical text, `type` its JSON type.
    """

    __slots__ = ("_value", "canonical", "type")
    canonical: str
    type: JsonType
    _value: JSON

    def __init__(self, value: Any, *, where: str = "filter") -> None:
        """Validate and copy `value`.

        Raises:
            InvalidFilterError: the value is not JSON, or holds text that no database stores.
        """
        # A plain string, which most values are, is spared the calls.
        plain = type(value) is str and value.isascii() and "\x00" not in value
        copy = value if plain else _copied(value, where)
        object.__setattr__(self, "_value", copy)
        object.__setattr__(self, "type", "string" if plain else json_type(copy))
        object.__setattr__(self, "canonical", _quote(copy) if plain else canonical_json(copy))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a filter literal is immutable")

    @property
    def value(self) -> JSON:
        """The value; of a list or an object a copy, so that nobody changes what a filter means."""
        return clone_json(self._value) if self.type in ("array", "object") else self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self.canonical == other.canonical

    def __hash__(self) -> int:
        return hash(self.canonical)

    def __repr__(self) -> str:
        return repr(self._value)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Literal, (self._value,))


class Literals:
    """JSON values inside a filter, each once, in the order given; `in` compares as JSON, in constant time."""

    __slots__ = ("_hash", "_values", "has_compounds")
    _values: dict[Any, JSON]
    _hash: int
    has_compounds: bool
    """Whether one of them is a list or an object."""

    def __init__(self, values: Iterable[Any] = (), *, where: str = "filter") -> None:
        """Validate and copy `values`, which may be a hundred thousand.

        Raises:
            InvalidFilterError: one of them is not JSON, or holds text that no database stores.
        """
        own: dict[Any, JSON] = {}
        compounds = False
        for value in values:
            # Plain strings, which most lists of rights hold, are spared the calls.
            if type(value) is str and value.isascii() and "\x00" not in value:
                own[value] = value
            else:
                copy = _copied(value, where)
                own.setdefault(_key(copy), copy)
                compounds = compounds or type(copy) is list or type(copy) is dict
        object.__setattr__(self, "_values", own)
        object.__setattr__(self, "_hash", hash(tuple(own)))
        object.__setattr__(self, "has_compounds", compounds)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a filter's literals are immutable")

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[JSON]:
        """Yield the values; of a list or an object a copy, so that nobody changes what a filter means."""
        return (clone_json(v) if type(v) is list or type(v) is dict else v for v in self._values.values())

    def __contains__(self, value: Any) -> bool:
        # A bool is no number, though Python finds it among them; a subclass of str is the text it holds.
        return (value if type(value) in _OWN_KEYS else _key(value)) in self._values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literals) and self._hash == other._hash and list(self._values) == list(other._values)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return repr(list(self._values.values()))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Literals, (list(self._values.values()),))


_OWN_KEYS: Final = frozenset((str, int, float, type(None)))


def _key(value: JSON) -> Any:
    """Return what two values share exactly when they are equal as JSON, as a key that Python compares like that."""
    kind = json_type(value)
    if kind == "boolean":
        return ("boolean", value)
    if kind in ("array", "object"):
        return ("compound", canonical_json(value))
    return str.__str__(value) if isinstance(value, str) else value


def _copied(value: Any, where: str) -> JSON:
    try:
        return copy_json(value, where=where, what="the value")
    except InvalidMetadataError as error:
        raise InvalidFilterError(str(error)) from None


def plain_value(value: Any) -> Any:
    """Turn a date into the ISO string it is compared as, and return every other value as it is.

    An aware datetime becomes UTC, `2024-05-01T10:00:00+00:00`; a date `2024-05-01`, which sorts before its hours.

    Raises:
        InvalidFilterError: a datetime without a time zone, whose instant is not known.
    """
    if isinstance(value, dt.datetime):
        # A tzinfo may know no offset; astimezone would then take the time for this machine's.
        if value.utcoffset() is None:
            raise InvalidFilterError(
                f"the datetime {value!r} has no time zone; pass one that has, e.g. value.replace(tzinfo=timezone.utc)"
            )
        try:
            return value.astimezone(dt.timezone.utc).isoformat()
        except OverflowError:
            raise InvalidFilterError(f"the datetime {value!r} is outside the years 1 to 9999 in UTC") from None
    if isinstance(value, dt.date):
        return value.isoformat()
    return value
