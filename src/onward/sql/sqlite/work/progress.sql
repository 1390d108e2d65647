-- fragment: progress_stored
UPDATE {live} AS live SET progress = json_set(:reports.progress, '$.at', :now)
FROM :reports::rows AS reports
WHERE live.id = :reports.id AND live.lease = :reports.lease AND live.state = 'running'

-- name: store_progress
-- Returns nothing: no other transaction holds a row of its own.
-- all reports
{+progress_stored}

-- name: store_last_progress
-- all reports
{+progress_stored}
