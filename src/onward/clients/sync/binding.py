# Generated from src/onward/clients/binding.py by tools/make_sync.py. Edit that file instead.
"""What holds for every call of a client: its transaction, org, project, actor and time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import msgspec

from onward.clients.bound import UNBOUND, Bound
from onward.connections import Connection, adapt, require_tables, run
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import NewJob
from onward.core.jobs.scope import ALL, Scope
from onward.core.policy.contract import check_due, check_operator
from onward.core.policy.policies import Policies
from onward.core.policy.settings import AUDIT_LEVELS
from onward.errors import InvalidSetting, OnwardError
from onward.operations.flows import after_end
from onward.operations.statement import Operation, Scalar, with_params
from onward.operations.tenancy import check_confined, in_org, not_allowed, set_org
from onward.operations.walk import FollowUp, Outside, Rest, Step, Walk
from onward.origin import check_change, inherit, scope_of_code, scope_of_handler
from onward.stores import Store

T = TypeVar("T")


class Binding:
    """Where the operations of a client run, and with which parameters.

    The nouns of a client share one binding. `within` and `having` return another binding; a binding never
    changes.
    """

    def __init__(
        self,
        store: Store,
        policies: Policies,
        bound: Bound = UNBOUND,
        tx: Connection | None = None,
    ) -> None:
        self.store = store
        self.policies = policies
        self.bound = bound
        self._tx = tx
        level = AUDIT_LEVELS.index(policies.settings.audit)
        self._always: dict[str, Scalar] = {"audited": level}

    @property
    def scope(self) -> Scope:
        """The org and project to which a call made here is confined: bound, or those of the running code."""
        bound = self.bound
        return bound.scope if bound.role == "onward" else scope_of_code(bound.scope, self.policies)

    @property
    def scope_of_new(self) -> Scope:
        """The org and project to which an enqueue made here is confined.

        A context only fills in what new jobs leave out, so it does not confine them; a handler does.
        """
        bound = self.bound
        return bound.scope if bound.role == "onward" else scope_of_handler(bound.scope, self.policies)

    @property
    def org_id(self) -> str | None:
        """The org to which a call made here is confined."""
        return self.scope.org_id

    @property
    def is_within(self) -> bool:
        """Whether operations run in a caller's transaction."""
        return self._tx is not None

    def now(self) -> datetime:
        """Return the bound time, or else this machine's, for work that does not ask the database."""
        return self.bound.instant or datetime.now(UTC)

    def within(self, tx: object) -> Binding:
        """Return this binding in the caller's open transaction."""
        joined = adapt(tx, self.store.database, self.store.prefix)
        return Binding(self.store, self.policies, self.bound, joined)

    def having(self, **changes: Any) -> Binding:
        """Return this binding with other fields of `Bound`."""
        bound = msgspec.structs.replace(self.bound, **changes)
        return Binding(self.store, self.policies, bound, self._tx)

    def for_worker(self) -> Binding:
        """Return this binding for what only workers do."""
        return self.having(role="worker") if self.bound.role == "caller" else self

    def placed(self, jobs: Iterable[NewJob]) -> list[NewJob]:
        """Return the jobs with the bound org, project and actor where they have none of their own."""
        bound = self.bound
        return in_org(jobs, bound.org_id, bound.project_id, bound.actor)

    def complete(self, jobs: Iterable[NewJob]) -> list[NewJob]:
        """Return the jobs as they are to be stored: placed, filled in by their types, and inherited.

        Raises InvalidJob for a job that would be due after its deadline, which its type may have set.
        """
        complete = list(inherit(self.placed(jobs), self.policies))
        for new in complete:
            if isinstance(new, NewJob) and new.deadline is not None:
                check_due(new, self.now())
        return complete

    def require_all_orgs(self, what: str) -> None:
        """Raise NotAllowed for a client that is confined to one org; the call `what` concerns all orgs."""
        if (scope := self.scope) != ALL:
            raise not_allowed(f"{what}() concerns all orgs", scope)

    def require_own_transactions(self, what: str) -> None:
        """Raise unless the call `what`, which concerns all orgs, may use transactions of its own."""
        self.require_all_orgs(what)
        if self.is_within:
            raise InvalidSetting(f"{what}() works in short transactions of its own; not within(tx)")

    def check_change(self) -> None:
        """Raise if the running handler may not change other jobs, or if an operator's actor is missing."""
        if self.bound.role != "onward":
            check_change(self.policies)
        if self.bound.role == "caller":
            check_operator(self.policies, self.bound.acting()[0])

    def run(
        self,
        make: Callable[[], Operation[T]],
        *,
        write: bool = True,
        atomic: bool = False,
        org_id: str | None = None,
        scope: Scope | None = None,
    ) -> T:
        """Run an operation; `org_id` is the org whose rows it writes, for databases with row security.

        A caller that gives the `scope` has checked what the running code may do.
        """
        if scope is None:
            if write:
                self.check_change()
            scope = self.scope
        org = scope.org_id or org_id
        check = None if scope == ALL else partial(check_confined, scope=scope)
        always = {**self._always, "only_org": scope.org_id, "only_project": scope.project_id}
        usual = self.bound.usual()

        def made() -> Operation[T]:
            return with_params(make(), always, usual, check)

        if self._tx is None:
            return self.store.run(made, write=write, atomic=atomic, org_id=org)
        # Checked on every call: the transaction may have ended since within().
        self._tx.require_transaction()
        run(require_tables(self._tx), self._tx)
        if self.store.row_security:
            run(set_org(org), self._tx)
        return run(made(), self._tx)

    def walk(self, steps: Walk[T], *, dry_run: bool = False) -> T:
        """Run a walk, each of its steps in a transaction of its own."""
        if not dry_run:
            # Before its first step, which may read for long, or find nothing to change.
            self.check_change()
        try:
            step = next(steps)
            while True:
                try:
                    answer = self._take(step)
                except OnwardError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _take(self, step: Step | Rest | Outside | FollowUp) -> Any:
        match step:
            case Rest():
                return time.sleep(step.seconds)
            case Outside():
                return step.act()
            case FollowUp():
                return self.follow_up(step.ids, step.permits)
        return self.run(step.make, write=step.write, atomic=step.atomic)

    def follow_up(self, ids: Collection[JobId], permits: Collection[str] = ()) -> None:
        """Do the follow-up work of ends that were just written.

        It is left to the loop of a worker where it can't be done here: in a caller's transaction, whose locks
        would block others; for a client of one org or project; and while the database is unreachable.
        """
        if (
            (ids or permits)
            and not self.is_within
            and self.bound.scope == ALL
            and not self.store.row_security
        ):
            onward = self.having(role="onward")
            onward.walk(after_end.follow_up(ids, permits, self.policies))
