-- fragment: new_columns
id, org_id, project_id, job_type, queue, category, state, priority, run_at, max_attempts, key, subject, payload,
actor_type, actor_id, request_id, correlation_id, traceparent, parent_id, batch_id, tags, deadline, timeout_micros,
created_at, flow, pending, limit_key, fair
