# Generated from src/onward/clients/binding.py by tools/make_sync.py. Edit that file instead.
"""Where the operations of a client go: to its store or a caller's transaction, for all orgs or for one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Self, TypeVar

from onward.connections import Connection, adapt, require_tables, run
from onward.core.policy.rules import AUDIT_LEVELS, DEFAULT_RULES, Rules
from onward.operations.statement import Operation, Scalar, with_params
from onward.operations.tenancy import check_confined, check_org, not_allowed, set_org
from onward.origin import ambient_actor
from onward.stores import Store, open_store
from onward.stores.migrations import Plan

__all__ = ["Reach"]

T = TypeVar("T")


class Reach:
    """What every client has: a database, the rules of its application, and how far it reaches."""

    def __init__(
        self, url: str | None = None, *, store: Store | None = None, rules: Rules = DEFAULT_RULES
    ) -> None:
        self.store = store or open_store(url)
        self.rules = rules
        self._org_id: str | None = None
        self._bound: Connection | None = None
        self._params: dict[str, Scalar] = {"only_org": None, "audited": AUDIT_LEVELS.index(rules.audit)}

    @property
    def org_id(self) -> str | None:
        """Name the org to which this client is confined."""
        return self._org_id

    def __enter__(self) -> Self:
        """Use the client as a context, which closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.close()

    def close(self) -> None:
        """Let go of the database; a client of one org leaves it open for the others."""
        if self.org_id is None:
            self.store.close()

    def within(self, tx: object) -> Self:
        """Give this client bound to the caller's open transaction.

        Nothing is committed, rolled back or swallowed here: what the caller's transaction does decides.
        """
        return self._like(self.org_id, adapt(tx, self.store.database, self.store.prefix))

    def for_org(self, org_id: str) -> Self:
        """Give this client confined to one org: the jobs of others, and of none, are not there for it."""
        check_org(org_id, self.org_id, self.rules)
        return self._like(org_id, self._bound)

    def migrate(self) -> Plan:
        """Bring the schema up to this code; gives what was to do before."""
        return self._whole_store("migrate").migrate()

    def plan(self) -> Plan:
        """Compare the schema with this code; changes nothing."""
        return self._whole_store("plan").plan()

    def protect_orgs(self, *, enable: bool = True) -> None:
        """Have PostgreSQL itself keep the orgs apart, for every role but the owner of the tables."""
        self._whole_store("protect_orgs").protect_orgs(enable=enable)

    def _like(self, org_id: str | None, bound: Connection | None) -> Self:
        made = type(self)(store=self.store, rules=self.rules)
        made._org_id = org_id  # noqa: SLF001 - one of its own kind
        made._bound = bound  # noqa: SLF001 - one of its own kind
        made._params = {**self._params, "only_org": org_id}  # noqa: SLF001 - one of its own kind
        return made

    def _whole_store(self, asked: str) -> Store:
        if self.org_id is not None:
            raise not_allowed(f"{asked}() concerns all orgs", self.org_id)
        return self.store

    def _run(
        self,
        make: Callable[[], Operation[T]],
        *,
        write: bool = True,
        atomic: bool = False,
        org_id: str | None = None,
    ) -> T:
        """Run an operation; `org_id` is whose rows it writes, where the database has policies."""
        confined = self._org_id
        org = confined or org_id
        check = None if confined is None else partial(check_confined, org=confined)
        actor = ambient_actor()

        def made() -> Operation[T]:
            return with_params(make(), self._params, check, actor)

        if self._bound is None:
            return self.store.run(made, write=write, atomic=atomic, org_id=org)
        # Asked again each time: the transaction may have ended since within().
        self._bound.require_transaction()
        run(require_tables(self._bound), self._bound)
        if self.store.row_security:
            run(set_org(org), self._bound)
        return run(made(), self._bound)
