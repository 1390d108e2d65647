"""The org of a transaction, for row-level security: told to PostgreSQL over every kind of connection."""

import pytest

from onward.operations.statement import Operation, Statement
from tests.connections.kinds import KINDS, Kind, open_caller


def told(org: str) -> Operation[list[str]]:
    rows = yield Statement("set_org", {"org": org, "local": 1})
    return [row[0] for row in rows]


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.database == "postgres"], ids=lambda kind: kind.name
)
def test_an_org_is_set_over_every_kind_of_connection_and_may_have_any_name(kind: Kind, address, observer):
    with open_caller(kind, address) as caller:
        caller.begin()
        for org in ("bolt", "it's %s :org $1 ☃", ""):
            assert caller.go(told(org)) == [org]
        caller.rollback()
