"""Metadata tokens: the texts that stand for metadata in the `tokens` column, so that one GIN index answers membership.

A token says one thing about one top-level key: `=` its value is this, `[` its value is a list that holds this. A
scalar is spelled out and its token is exact; of an object or a list only the type is kept, so such a token narrows and
the value itself has to be looked at. The database computes the column with `TOKENS_FUNCTION_BODY`; the functions here
compute what a filter looks for, and a test holds the two together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from agora_core.filters.literals import json_type
from agora_core.filters.operators import Lookup
from agora_core.filters.paths import Path
from agora_core.records import JSON

TOKENS_FUNCTION: Final = "agora_metadata_tokens_v1"
"""Named with a version: a generated column must never change its meaning under the rows that are there."""

_LONGEST: Final = 255
"""Bytes. A GIN index refuses items above 2,712; beyond this a token is its digest, which keeps the index small too."""

TOKENS_FUNCTION_BODY: Final = """
DECLARE
    tokens text[] := '{}';
    key text;
    value jsonb;
    kind text;
    prefix text;
BEGIN
    IF metadata IS NULL OR jsonb_typeof(metadata) <> 'object' THEN
        RETURN tokens;
    END IF;
    FOR key, value IN SELECT * FROM jsonb_each(metadata) LOOP
        prefix := length(key) || ':' || key;
        kind := jsonb_typeof(value);
        tokens := tokens || ('=' || prefix || CASE kind
            WHEN 'string' THEN 's' || (value #>> '{}')
            WHEN 'number' THEN 'n' || trim_scale(value::numeric)
            WHEN 'boolean' THEN left(value::text, 1)
            WHEN 'null' THEN 'z'
            WHEN 'array' THEN 'a'
            ELSE 'o'
        END);
        IF kind = 'array' THEN
            tokens := tokens || ARRAY(
                SELECT '[' || prefix || CASE jsonb_typeof(member)
                    WHEN 'string' THEN 's' || (member #>> '{}')
                    WHEN 'number' THEN 'n' || trim_scale(member::numeric)
                    WHEN 'boolean' THEN left(member::text, 1)
                    WHEN 'null' THEN 'z'
                    WHEN 'array' THEN 'a'
                    ELSE 'o'
                END
                FROM jsonb_array_elements(value) AS member
            );
        END IF;
    END LOOP;
    -- No token is longer than the text of the whole, which most often is short.
    IF octet_length(metadata::text) > 255 THEN
        tokens := ARRAY(
            SELECT CASE
                WHEN octet_length(token) > 255 THEN '#' || encode(sha256(convert_to(token, 'UTF8')), 'hex')
                ELSE token
            END
            FROM unnest(tokens) AS token
        );
    END IF;
    RETURN tokens;
END
"""


def value_token(key: str, value: JSON) -> str:
    """Return the token of a record whose value under `key` is `value`; exact where the value is a scalar."""
    return _token("=", key, value)


def member_token(key: str, member: JSON) -> str:
    """Return the token of a record whose value under `key` is a list with `member`; exact where that is a scalar."""
    return _token("[", key, member)


def object_token(key: str) -> str:
    """Return the token of a record whose value under `key` is an object."""
    return _token("=", key, {})


@dataclass(frozen=True, slots=True)
class LookedFor:
    """Tokens of which a record has `every` one or any, and whether that is all that was looked up."""

    tokens: list[str]
    every: bool
    says_all: bool


def tokens_looked_for(path: Path, lookup: Lookup) -> LookedFor | None:
    """Return the tokens that stand for a lookup, or None where tokens say nothing of it."""
    key = path[0]
    if len(path) > 1:
        # There is something inside the value of the first key, so that is an object.
        return LookedFor([object_token(key)], every=True, says_all=False)
    types = [_TYPES.get(kind) for kind in lookup.types]
    if None in types:
        return None
    tokens = [*_tokens("=", key, lookup.equal), *_tokens("[", key, lookup.holds)]
    tokens += [_token("=", key, value) for some in types for value in some or ()]
    every = lookup.every
    if len(tokens) == 1 and len(lookup.equal):
        every = True
        # Of a list its type alone is kept, and its members narrow further.
        (whole,) = lookup.equal
        tokens += _tokens("[", key, whole) if isinstance(whole, list) else ()
    says_all = lookup.exact and not lookup.has_compounds
    return LookedFor(list(dict.fromkeys(tokens)), every, says_all) if tokens else None


# What has the token of each type; strings and numbers have none.
_TYPES: Final[dict[str, tuple[JSON, ...]]] = {
    "null": (None,),
    "boolean": (True, False),
    "array": ([],),
    "object": ({},),
}


def _tokens(kind: str, key: str, values: Iterable[JSON]) -> list[str]:
    """Return a token for each value; strings, of which there may be a hundred thousand, without a call each."""
    prefix = f"{kind}{len(key)}:{key}"
    room = _LONGEST - len(prefix.encode()) - 1
    return [
        f"{prefix}s{value}" if type(value) is str and len(value) * 4 <= room else _token(kind, key, value)
        for value in values
    ]


def metadata_tokens(metadata: dict[str, JSON] | None) -> list[str]:
    """Return all tokens of a record, as the database's function computes them."""
    tokens = []
    for key, value in (metadata or {}).items():
        tokens.append(value_token(key, value))
        if isinstance(value, list):
            tokens.extend(member_token(key, member) for member in value)
    return tokens


def number_text(value: float) -> str:
    """Return a number as `trim_scale` writes the numeric that this store keeps for it: no exponent, no end zeros."""
    if isinstance(value, int) or value.is_integer():
        return int.__repr__(int(value))
    return format(Decimal(float.__repr__(value)), "f")


def _token(kind: str, key: str, value: JSON) -> str:
    token = f"{kind}{len(key)}:{key}{_value_text(value)}"
    encoded = token.encode()
    return token if len(encoded) <= _LONGEST else "#" + hashlib.sha256(encoded).hexdigest()


def _value_text(value: JSON) -> str:
    kind = json_type(value)
    if kind == "string":
        return "s" + str(value)
    if kind == "number":
        return "n" + number_text(value)
    if kind == "boolean":
        return "t" if value else "f"
    return {"null": "z", "array": "a", "object": "o"}[kind]
