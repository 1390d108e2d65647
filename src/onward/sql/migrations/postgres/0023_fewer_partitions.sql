-- A statement that reads `ended` without an id opens each partition with all its indexes, and each connection does so
-- anew: with a year of empty months ahead that took 30 ms. Three are plenty: another is made each month.
DO $$
DECLARE
    far text;
    used boolean;
BEGIN
    -- Before the look at them: what is seen to be empty stays so.
    LOCK TABLE ONLY {ended} IN ACCESS EXCLUSIVE MODE;
    FOR far IN
        SELECT part.relname FROM pg_inherits AS one JOIN pg_class AS part ON part.oid = one.inhrelid
        WHERE one.inhparent = to_regclass('{ended}') AND part.relname ~ '^ended_[0-9]+$'
            AND CAST(right(part.relname, 6) AS integer) > CAST(
                to_char(date_trunc('month', clock_timestamp(), 'UTC') AT TIME ZONE 'UTC' + interval '3 months', 'YYYYMM')
                AS integer
            )
        ORDER BY part.relname
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM {prefix}%I)', far) INTO used;
        IF NOT used THEN
            EXECUTE format('DROP TABLE {prefix}%I', far);
        END IF;
    END LOOP;
END
$$;
