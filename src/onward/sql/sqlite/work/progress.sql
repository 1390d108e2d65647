-- fragment: progress_stored
UPDATE {live} AS live SET progress = json_set(:reports.progress, '$.at', :now)
FROM :reports::rows AS reports
WHERE live.id = :reports.id AND live.lease = :reports.lease AND live.state = 'running' AND {scope(live)}

-- name: store_progress
-- The second column is 1 on PostgreSQL for a row that another transaction holds; here there are no locks of rows.
-- all reports
{+progress_stored}
RETURNING id, 0

-- name: store_last_progress
-- all reports
{+progress_stored}
RETURNING id
