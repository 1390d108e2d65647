-- name: set_org
-- Whoever may run SQL may set it to anything: it keeps apart what an application reads, not who attacks it.
SELECT set_config('{prefix}org', :org::text, :local::int = 1)
