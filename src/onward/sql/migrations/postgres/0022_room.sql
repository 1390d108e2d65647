-- Each claim writes its row anew and so adds an entry beside the old one: with room for it no page is split, which is a
-- twelfth of a claim. The audit has three entries for most jobs, of which the first comes by itself. For pages that are
-- filled from now on.
ALTER INDEX {prefix}live_pkey SET (fillfactor = 45);
ALTER INDEX {prefix}audit_of_job SET (fillfactor = 35);
