-- Dead letters by what they died of, so that one group is found among any number of them. Partial, as the other indexes
-- of the dead: whoever succeeds does not pay for it. Jobs that died before errors had a fingerprint are one group.
CREATE INDEX {prefix}ended_dead_group ON {ended} (
    coalesce(CASE WHEN json_valid(error) THEN json_extract(error, '$.fingerprint') END, 'unknown'), id
) WHERE state = 'dead';
