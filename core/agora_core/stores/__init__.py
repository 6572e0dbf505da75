"""Vector stores. Each is imported when it is first named, so that none costs a user of another."""

from __future__ import annotations
