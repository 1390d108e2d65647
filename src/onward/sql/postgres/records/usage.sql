-- fragment: period_start
-- The start of the budget's current period, by UTC; a total has one period, which never ends.
CASE budget.period
    WHEN 'total' THEN budget.period_started_at
    ELSE date_trunc(budget.period, :now::clock, 'UTC')
END

-- fragment: day_of_usage
to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD')

-- fragment: sum_of_costs
CAST(least(coalesce(sum(cost_micros), 0), 9000000000000000000) AS bigint)

-- name: record_usage
-- plan: steady
-- Runs before the ends are written, in the same transaction. The owner is read from the job's row, so a stale lease
-- finds nothing, and once the row is locked its lease can't be lost before the end is written. Each set is joined with
-- the table only: a worker's session would join two sets by comparing every row of one with every row of the other.
WITH {+clock},
metered AS MATERIALIZED (
    SELECT * FROM :metered::rows(id uuid, lease bigint, ran integer, unit text, amount float8, cost bigint)
),
held AS MATERIALIZED (
    SELECT
        metered.unit, metered.amount, metered.cost, metered.ran, live.id, live.lease, live.org_id, live.project_id,
        live.job_type, live.queue, live.category
    FROM metered JOIN {live} AS live ON live.id = ANY (ARRAY[metered.id]) AND live.lease = metered.lease
    FOR UPDATE OF live
),
priced AS (
    UPDATE {live} AS live SET cost_micros = least(live.cost_micros + run.cost, 9000000000000000000)
    FROM (SELECT id, sum(cost) AS cost FROM held GROUP BY id HAVING sum(cost) > 0) AS run
    WHERE live.id = ANY (ARRAY[run.id])
),
kept AS (
    INSERT INTO {usage} (
        job_id, lease, unit, attempt, org_id, project_id, job_type, queue, category, amount, cost_micros, at
    )
    SELECT id, lease, unit, ran, org_id, project_id, job_type, queue, category, amount, cost, now FROM held, clock
)
SELECT org_id, CAST(least(sum(cost), 9000000000000000000) AS bigint)
FROM held
WHERE cost > 0 AND EXISTS (SELECT FROM {budgets} AS budget WHERE budget.org_id = held.org_id)
GROUP BY org_id

-- name: spend_budgets
-- plan: steady
-- Runs last in its transaction, because the other ends of an org that cost something wait for the row of its budget.
-- Locks the rows in the order of the orgs, so that no two writers wait for each other.
WITH {+clock},
spent AS MATERIALIZED (SELECT * FROM :spent::rows(org_id text, cost bigint)),
held AS MATERIALIZED (
    SELECT budget.*, {+period_start} AS started, spent.cost
    FROM spent JOIN {budgets} AS budget ON budget.org_id = ANY (ARRAY[spent.org_id])
    ORDER BY budget.org_id
    FOR UPDATE OF budget
),
counted AS MATERIALIZED (
    SELECT org_id, limit_micros, period, started, CASE WHEN period_started_at >= started THEN spent_at END AS since,
        CAST(least(
            CASE WHEN period_started_at >= started THEN spent_micros ELSE 0 END + CAST(cost AS numeric),
            9000000000000000000
        ) AS bigint) AS total
    FROM held
),
changed AS (
    UPDATE {budgets} AS budget
    SET period_started_at = started, spent_micros = total,
        spent_at = coalesce(since, CASE WHEN total >= counted.limit_micros THEN now END)
    FROM counted, clock
    WHERE budget.org_id = ANY (ARRAY[counted.org_id])
),
event AS (
    INSERT INTO {audit} (at, event, org_id, detail)
    SELECT
        now, 'budget.spent', org_id,
        jsonb_build_object('limit_micros', limit_micros, 'period', period, 'spent_micros', total)
    FROM counted, clock
    WHERE since IS NULL AND total >= limit_micros
)
SELECT org_id FROM counted WHERE total >= limit_micros

-- name: set_budget
WITH {+clock},
made AS (
    {+put_budget}
),
{+budget_event}
SELECT * FROM made

-- name: remove_budget
WITH {+clock},
made AS (DELETE FROM {budgets} WHERE org_id = :org_id::text RETURNING org_id),
{+budget_event}
SELECT org_id FROM made

-- fragment: budget_event
event AS (
    INSERT INTO {audit} (at, event, org_id, actor_type, actor_id, detail)
    SELECT now, :event::text, org_id, :actor_type::text, :actor_id::text, :detail::json FROM made, clock
)
