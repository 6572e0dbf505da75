"""Row security: the actor's filter enforced by the server, so that a build that loses its WHERE clause leaks nothing.

A policy compares the `tokens` of a row with settings that live for one transaction, two settings a key, of which one
holds the tokens. Both comparisons are answered by the index of the tokens. Few tokens are a stable value that the
planner reads, so that it knows how many rows an actor sees. Many are read once a statement, and looked up in the index
alone: a row that is looked at without it would be compared with each of them.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from psycopg import sql

from agora_core.errors import InvalidArgumentError, InvalidFilterError, SchemaError
from agora_core.filters import frozen_filter
from agora_core.protocols import AnyFilter
from agora_core.records import JSON
from agora_core.steps import Steps
from agora_core.stores.base import OnWrite
from agora_core.stores.postgres.connections import Operation
from agora_core.stores.postgres.layout import check_identifier
from agora_core.stores.postgres.maintenance import PgSchema
from agora_core.stores.postgres.session import Statement
from agora_core.stores.postgres.tokens import member_token, value_token

if TYPE_CHECKING:
    from agora_core.stores.scoped import ScopedVectorStore

_POLICY: Final = "agora_actor"

_FEW: Final = 128
"""Tokens that may be read and compared for every row that a walk of the vector index comes by."""

_STATE: Final = """
SELECT
    rolname, rolsuper, rolbypassrls, pg_has_role(r.oid, c.relowner, 'MEMBER'),
    has_table_privilege(r.oid, c.oid, 'TRUNCATE'),
    relrowsecurity, relforcerowsecurity,
    (SELECT coalesce(json_agg(json_build_object(
        'name', polname, 'permissive', polpermissive, 'command', polcmd,
        'using', pg_get_expr(polqual, polrelid), 'check', pg_get_expr(polwithcheck, polrelid)
    )), '[]') FROM pg_policy WHERE polrelid = c.oid)
FROM pg_class c, pg_roles r
WHERE c.oid = to_regclass(%(table)s) AND r.rolname IN (current_user, session_user)
"""


class PgRowSecurity(PgSchema):
    """Policies on one table, and views that carry their actor to the server."""

    def rls_statements(self, *, keys: Iterable[str], role: str) -> list[str]:
        """Return the statements that have the server itself keep a role to what its actor may see; nothing is run.

        Run them once as the owner of the table, after `ensure_schema`; running them again changes nothing. From then
        on whoever is no superuser sees only rows that the actor of the current transaction is bound to by every key,
        and nothing without an actor.

        Args:
            keys: the metadata keys that every actor is bound by.
            role: the role of the application, which exists already. It must not own the table.

        Raises:
            InvalidArgumentError: no key was given, or a name is not one.
            SchemaError: the store was told that its table has no column of tokens.
        """
        if isinstance(keys, str) or not (named := list(dict.fromkeys(keys))):
            raise InvalidArgumentError(f"keys must be a list of at least one metadata key, got {keys!r}")
        if not all(isinstance(key, str) for key in named):
            raise InvalidArgumentError("keys must be strings, each a key of the metadata")
        layout = self._layout
        if layout.columns.tokens is None:
            raise SchemaError("row security stands on the column 'tokens', and the store was opened with tokens=None")
        grantee = sql.Identifier(check_identifier(role, argument="role"))
        tokens = sql.Identifier(layout.columns.tokens)
        condition = sql.SQL(" AND ").join(
            sql.SQL(
                "({tokens} && nullif(current_setting({few}, true), '')::text[] "
                "OR {tokens} && (SELECT nullif(current_setting({many}, true), '')::text[]))"
            ).format(tokens=tokens, few=sql.Literal(_setting(key)), many=sql.Literal(_setting(key, "_many")))
            for key in named
        )
        pieces = {
            "table": layout.name,
            "policy": sql.Identifier(_POLICY),
            "role": grantee,
            "condition": condition,
            "schema": sql.Identifier(layout.schema or "public"),
        }
        templates = [
            sql.SQL("ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"),
            sql.SQL("ALTER TABLE {table} FORCE ROW LEVEL SECURITY"),
            sql.SQL("DROP POLICY IF EXISTS {policy} ON {table}"),
            sql.SQL("CREATE POLICY {policy} ON {table} TO {role} USING ({condition}) WITH CHECK ({condition})"),
            sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {role}"),
        ]
        if layout.schema is not None:
            templates.append(sql.SQL("GRANT USAGE ON SCHEMA {schema} TO {role}"))
        return [template.format(**pieces).as_string(None) for template in templates]

    def as_actor(self, filter: AnyFilter, *, on_write: OnWrite = "check") -> ScopedVectorStore:
        """Return a view in the scope of one actor whose every statement also tells the server who the actor is.

        The views of all actors share one pool: what they tell lives for one transaction.

        Args:
            filter: a mapping that binds each key of the policy to a value or to a list of values.
            on_write: as in `scoped`.

        Raises:
            InvalidFilterError: the filter is anything else, is empty, or binds a key to an object.
        """
        actor = copy.copy(self)
        actor._actor = _prelude(filter)
        return actor.scoped(filter, on_write=on_write)

    def verify_rls(self) -> None:
        """Make sure that this connection cannot step over the policy; call it when the application starts.

        Raises:
            SchemaError: it could: its role owns the table, is a superuser or has BYPASSRLS, or the policy is missing,
                not forced, changed, or stands beside another permissive one. The message names which.
        """
        self._run(self._verify_rls())

    async def averify_rls(self) -> None:
        """Async twin of `verify_rls`."""
        await self._arun(self._verify_rls())

    def _verify_rls(self) -> Operation:
        table = self._layout.name.as_string(None)

        def steps() -> Steps[None]:
            answer = yield Statement(_STATE, {"table": table})
            if not answer.rows:
                raise SchemaError(f"the table {table} does not exist; call ensure_schema() first")
            for row in answer.rows:
                if (wrong := _fault(row)) is not None:
                    raise SchemaError(f"row security does not hold on {table}: {wrong}")

        return Operation(steps)


def _fault(row: Sequence[Any]) -> str | None:
    """Return what lets a role step over the policy, or None."""
    role, superuser, bypasses, owns, truncates, enabled, forced, policies = row
    if superuser:
        return f"the role {role!r} is a superuser, whom no policy binds; connect as an ordinary role"
    if bypasses:
        return f"the role {role!r} has BYPASSRLS; take it away, or connect as another role"
    if owns:
        return f"the role {role!r} owns the table or is a member of its owner's role; connect as another role"
    if truncates:
        return f"the role {role!r} may TRUNCATE the table, which no policy sees; revoke that"
    if not enabled:
        return "it is not enabled; run the statements of rls_statements()"
    if not forced:
        return "it is not forced, so the owner is not bound; run the statements of rls_statements()"
    own = [policy for policy in policies if policy["name"] == _POLICY]
    if not own:
        return f"the policy {_POLICY!r} is missing; run the statements of rls_statements()"
    if not all(policy["permissive"] and policy["command"] == "*" and _is_ours(policy) for policy in own):
        return f"the policy {_POLICY!r} was changed; run the statements of rls_statements()"
    others = [policy["name"] for policy in policies if policy["permissive"] and policy["name"] != _POLICY]
    if others:
        return f"the permissive policy {others[0]!r} lets more through; drop it, or make it restrictive"
    return None


# The condition of one key as the catalog tells it, blanks aside.
_TOLD: Final = (
    "(({t}&&(NULLIF(current_setting('{few}'::text,true),''::text))::text[])OR"
    "({t}&&(SELECT(NULLIF(current_setting('{few}_many'::text,true),''::text))::text[]AS\"nullif\")))"
)


def _is_ours(policy: Mapping[str, Any]) -> bool:
    """Say whether a policy is a conjunction of the conditions that `rls_statements` writes, and nothing else."""
    told = re.sub(r"\s", "", policy["using"] or "")
    tokens = re.search(r'"?\w+"?(?=&&)', told)
    names = dict.fromkeys(re.findall(r"'(agora\.actor_[0-9a-f]{16})'", told))
    keys = [_TOLD.format(t=tokens and tokens[0], few=name) for name in names]
    written = f"({'AND'.join(keys)})" if len(keys) > 1 else "".join(keys)
    return bool(keys) and told == written and policy["check"] == policy["using"]


def _setting(key: str, suffix: str = "") -> str:
    """Return the name of a setting of one key; any text may be a key, and few may be part of such a name."""
    return f"agora.actor_{hashlib.sha256(key.encode()).hexdigest()[:16]}{suffix}"


def _prelude(filter: AnyFilter) -> Mapping[str, str]:
    """Return the settings that tell the server who the actor is, by their names."""
    bound = frozen_filter(filter)
    if not isinstance(bound, Mapping) or not bound:
        raise InvalidFilterError(
            "an actor is a mapping that binds each key of the policy to a value or a list of values, e.g. "
            "{'tenant': 'a', 'acl': ['all', 'staff']}; anything more goes into a filter beside it"
        )
    settings = {}
    for key, value in bound.items():
        tokens = _tokens(key, value)
        few = len(tokens) <= _FEW
        settings[_setting(key)] = _array(tokens) if few else ""
        settings[_setting(key, "_many")] = "" if few else _array(tokens)
        if not few:
            settings["enable_seqscan"] = "off"
    return settings


def _tokens(key: str, value: JSON) -> list[str]:
    listed = isinstance(value, (list, tuple))
    values: Sequence[JSON] = value if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(item, (Mapping, list, tuple)) for item in values):
        raise InvalidFilterError(
            f"an actor's {key!r} must be a str, number, bool, None or a list of those: the server compares nothing else"
        )
    members = [member_token(key, item) for item in values] if listed else []
    return [*(value_token(key, item) for item in values), *members]


def _array(tokens: Sequence[str]) -> str:
    """Return the text of an array, every item quoted."""
    quoted = (token.replace("\\", "\\\\").replace('"', '\\"') for token in tokens)
    return "{" + ",".join(f'"{token}"' for token in quoted) + "}"
