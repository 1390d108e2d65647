-- fragment: period_start
-- The start of the budget's current period, by UTC; a total has one period, which never ends.
CASE budget.period
    WHEN 'total' THEN budget.period_started_at
    WHEN 'day' THEN :now - :now % 86400000000
    ELSE CAST(strftime('%s', :now / 1000000, 'unixepoch', 'start of month') AS INTEGER) * 1000000
END

-- fragment: day_of_usage
strftime('%Y-%m-%d', at / 1000000, 'unixepoch')

-- fragment: sum_of_costs
-- In two parts, because a sum that overflows is an error on SQLite.
coalesce(CASE
    WHEN sum(cost_micros / 1000000000) + sum(cost_micros % 1000000000) / 1000000000 >= 9000000000
    THEN 9000000000000000000
    ELSE sum(cost_micros / 1000000000) * 1000000000 + sum(cost_micros % 1000000000)
END, 0)

-- name: record_usage
-- Before the ends, in their transaction: the owner is read from the job's row, which a stale lease does not find.
-- all metered
INSERT INTO {usage} (
    job_id, lease, unit, attempt, org_id, project_id, job_type, queue, category, amount, cost_micros, at
)
SELECT
    live.id, live.lease, :metered.unit, :metered.ran, live.org_id, live.project_id, live.job_type, live.queue,
    live.category, :metered.amount, :metered.cost, :now
FROM :metered::rows AS metered CROSS JOIN {live} AS live ON {+metered_of};
-- The cost of a run is the sum of all usage under its lease.
-- all metered
UPDATE {live} AS live
SET cost_micros = min(live.cost_micros + coalesce((
    SELECT sum(used.cost_micros) FROM {usage} AS used WHERE used.job_id = live.id AND used.lease = live.lease
), 0), 9000000000000000000)
WHERE live.id IN (SELECT :metered.id FROM :metered::rows AS metered);
-- all metered
SELECT live.org_id, sum(:metered.cost)
FROM :metered::rows AS metered CROSS JOIN {live} AS live ON {+metered_of}
WHERE live.org_id IN (SELECT org_id FROM {budgets})
GROUP BY live.org_id
HAVING sum(:metered.cost) > 0

-- fragment: metered_of
live.id = :metered.id AND live.lease = :metered.lease

-- name: spend_budgets
-- all spent
INSERT INTO {audit} (at, event, org_id, detail)
SELECT
    :now, 'budget.spent', budget.org_id,
    json_object('limit_micros', budget.limit_micros, 'period', budget.period, 'spent_micros', {+now_spent})
FROM :spent::rows AS spent CROSS JOIN {budgets} AS budget ON budget.org_id = :spent.org_id
WHERE {+now_spent} >= budget.limit_micros
    AND (budget.spent_at IS NULL OR budget.period_started_at < {+period_start});
-- all spent
UPDATE {budgets} AS budget
SET period_started_at = {+period_start}, spent_micros = {+now_spent},
    spent_at = CASE
        WHEN budget.spent_at IS NOT NULL AND budget.period_started_at >= {+period_start} THEN budget.spent_at
        WHEN {+now_spent} >= budget.limit_micros THEN :now
    END
FROM :spent::rows AS spent WHERE budget.org_id = :spent.org_id;
-- all spent
SELECT budget.org_id FROM :spent::rows AS spent CROSS JOIN {budgets} AS budget ON budget.org_id = :spent.org_id
WHERE budget.spent_at IS NOT NULL

-- fragment: now_spent
min(
    CASE WHEN budget.period_started_at >= {+period_start} THEN budget.spent_micros ELSE 0 END + :spent.cost,
    9000000000000000000
)

-- name: set_budget
{+put_budget};
{+budget_event}

-- name: remove_budget
{+budget_event}
WHERE EXISTS (SELECT 1 FROM {budgets} WHERE org_id = :org_id);
DELETE FROM {budgets} WHERE org_id = :org_id
RETURNING org_id

-- fragment: budget_event
INSERT INTO {audit} (at, event, org_id, actor_type, actor_id, detail)
SELECT :now, :event, :org_id, :actor_type, :actor_id, :detail
