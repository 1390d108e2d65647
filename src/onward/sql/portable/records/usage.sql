-- name: report_usage
-- A column that is not grouped by is null in every row, so one text serves every choice of groups. Grouped by run
-- first, because a run has a row for each of its units.
SELECT org, job_type, queue, day, unit, count(*), sum(amount), {+sum_of_costs}
FROM (
    SELECT
        CASE WHEN :by_org::int = 1 THEN org_id END AS org,
        CASE WHEN :by_job_type::int = 1 THEN job_type END AS job_type,
        CASE WHEN :by_queue::int = 1 THEN queue END AS queue,
        CASE WHEN :by_day::int = 1 THEN {+day_of_usage} END AS day,
        CASE WHEN :by_unit::int = 1 THEN unit END AS unit,
        sum(amount) AS amount, {+sum_of_costs} AS cost_micros
    FROM {usage}
    WHERE {+in_scope}
        AND (:since::int IS NULL OR at >= {instant(:since::int)})
        AND (:until::int IS NULL OR at < {instant(:until::int)})
    GROUP BY 1, 2, 3, 4, 5, job_id, lease
) AS run
GROUP BY 1, 2, 3, 4, 5
ORDER BY 8 DESC, 1, 2, 3, 4, 5
LIMIT :limit::int OFFSET :skip::int

-- name: list_usage
SELECT {text(job_id)}, lease, attempt, unit, amount, cost_micros, {micros(at)}, org_id, project_id, job_type, queue, category
FROM {usage}
WHERE job_id = :id::id AND {+in_scope}
ORDER BY lease, unit

-- name: prune_usage
DELETE FROM {usage}
WHERE (job_id, lease, unit) IN (
    SELECT job_id, lease, unit FROM {usage}
    WHERE at >= {instant(:after::int)} AND at < {instant(:before::int)}
    ORDER BY at
    LIMIT :limit::int
)
RETURNING {micros(at)}

-- name: list_budgets
-- What was spent in a past period no longer counts, even if the org has spent nothing since.
SELECT
    org_id, limit_micros, period, {micros(started)},
    CASE WHEN period_started_at >= started THEN spent_micros ELSE 0 END,
    CASE WHEN period_started_at >= started THEN {micros(spent_at)} END,
    {micros(set_at)}, actor_type, actor_id, reason
FROM (SELECT budget.*, {+period_start} AS started FROM {budgets} AS budget) AS budget
WHERE (:only_org::text IS NULL OR org_id = :only_org::text) AND (:org_id::text IS NULL OR org_id = :org_id::text)
    AND (:after::text IS NULL OR org_id > :after::text)
ORDER BY org_id
LIMIT :limit::int

-- fragment: spent_budgets
-- As rows of controls: an org that has spent its budget is skipped until the period ends.
SELECT
    'budget', budget.org_id,
    'its budget of ' || budget.limit_micros || ' micros'
    || CASE budget.period WHEN 'day' THEN ' a day' WHEN 'month' THEN ' a month' ELSE '' END || ' is spent',
    budget.actor_type, budget.actor_id, {micros(budget.spent_at)}
FROM {budgets} AS budget
WHERE budget.spent_at IS NOT NULL AND budget.period_started_at >= {+period_start}

-- fragment: put_budget
-- A budget whose period continues keeps what was spent. A new one counts what the period has cost already; a total
-- counts from now on.
INSERT INTO {budgets} AS budget (
    org_id, limit_micros, period, period_started_at, spent_micros, spent_at, set_at, actor_type, actor_id, reason
)
SELECT
    :org_id::text, :limit::int, period, started, spent, CASE WHEN spent >= :limit::int THEN :now::clock END, :now::clock,
    :actor_type::text, :actor_id::text, :reason::text
FROM (
    SELECT period, started, (
        SELECT {+sum_of_costs} FROM {usage} AS used
        WHERE used.org_id = :org_id::text AND used.at >= started
    ) AS spent
    FROM (
        SELECT budget.period, {+period_start} AS started
        FROM (SELECT :period::text AS period, :now::clock AS period_started_at) AS budget
    ) AS begun
) AS counted
WHERE true
ON CONFLICT (org_id) DO UPDATE
SET limit_micros = excluded.limit_micros, period = excluded.period, set_at = excluded.set_at,
    actor_type = excluded.actor_type, actor_id = excluded.actor_id, reason = excluded.reason,
    period_started_at = CASE WHEN {+goes_on} THEN budget.period_started_at ELSE excluded.period_started_at END,
    spent_micros = CASE WHEN {+goes_on} THEN budget.spent_micros ELSE excluded.spent_micros END,
    spent_at = CASE
        WHEN NOT {+goes_on} THEN excluded.spent_at
        WHEN budget.spent_micros >= excluded.limit_micros THEN coalesce(budget.spent_at, excluded.set_at)
    END
RETURNING org_id, limit_micros, period, {micros(period_started_at)}, spent_micros, {micros(spent_at)},
    {micros(set_at)}, actor_type, actor_id, reason

-- fragment: goes_on
(
    budget.period = excluded.period
    AND (budget.period = 'total' OR budget.period_started_at >= excluded.period_started_at)
)
