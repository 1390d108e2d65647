-- name: list_controls
SELECT {+control_columns} FROM {controls}
WHERE :only_org::text IS NULL OR scope <> 'org' OR name = :only_org::text
UNION ALL
{+spent_budgets} AND (:only_org::text IS NULL OR budget.org_id = :only_org::text)

-- name: find_claim_controls
-- What a claim needs to know: what is paused, and which queues have a policy.
SELECT {+control_columns} FROM {controls}
WHERE :only_org::text IS NULL OR scope <> 'org' OR name = :only_org::text
UNION ALL
{+policy_queues}
UNION ALL
{+spent_budgets} AND (:only_org::text IS NULL OR budget.org_id = :only_org::text)

-- fragment: control_columns
scope, name, reason, actor_type, actor_id, {micros(set_at)}
