-- name: set_org
-- Any role that can run SQL can set this to any org: it separates what an application reads, and stops no attacker.
SELECT set_config('{prefix}org', :org::text, :local::int = 1)
