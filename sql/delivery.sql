-- What is known of a message's delivery, and waiting for it, where no relay
-- publishes (no broker is configured here).
\getenv source PG_ABS_SRCDIR
\set begin :source /sql/include/begin.sql
\set ECHO none
\i :begin
\set ECHO all

-- Nothing has been recorded: every lane begins before everything.
SELECT lane, batch_id, recorded_at, snapshot, target, last_seq FROM outbox.progress WHERE lane IN (0, 15) ORDER BY lane;
SELECT count(*), min(lane), max(lane), bool_and(snapshot::text = '3:3:') FROM outbox.progress;
SELECT count(*) FROM outbox.pending;
SELECT count(*) FROM outbox.delivery;

-- the columns of the view, which programs rely on
SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), E'\n' ORDER BY attnum) FROM pg_attribute
WHERE attrelid = 'outbox.delivery'::regclass;

SELECT outbox.enqueue('order', 1, 'created', '{"a": 1}', '{"h": 1}', key => 'k') AS id \gset
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, payload_bytes) VALUES ('order', 2, 'created', '\x00');
SELECT aggregate_type, aggregate_id, event_type, topic, key, payload, payload_bytes, headers, status, retry_count, next_retry_at,
	last_error, error_class, first_failed_at, updated_at = created_at AS as_created
FROM outbox.delivery ORDER BY seq;
SELECT aggregate_id, status FROM outbox.delivery WHERE id = :'id';
SELECT aggregate_id, lane = outbox.message_lane(coalesce(key, aggregate_id)) FROM outbox.pending ORDER BY seq;
SELECT * FROM outbox.locate(:'id');

-- What a record of progress means: a lane has sent what its snapshot shows,
-- and in a walk also what the target shows up to a seq.
SELECT outbox.is_sent('10:20:15', NULL, NULL, x::text::xid8, 5), outbox.is_sent('10:20:15', '10:30:15', 5, x::text::xid8, 5),
	outbox.is_sent('10:20:15', '10:30:15', 5, x::text::xid8, 6)
FROM unnest(ARRAY[9, 15, 19, 25, 30]) AS x;
BEGIN;
SELECT seq AS first_seq, xid AS first_xid, lane AS first_lane, lane <> outbox.message_lane('2') AS lanes_differ FROM outbox.message ORDER BY seq LIMIT 1 \gset
SELECT :'lanes_differ';
INSERT INTO outbox.batch (worker_pid, snapshots, lanes, lane_snapshot, lane_target, lane_seq, messages, bytes, topics, range_topic, range_partition, range_first, range_last)
SELECT 0, ARRAY[format('%s:%1$s:', x::text::bigint + 1)]::pg_snapshot[], ARRAY[:first_lane], '{1}', '{0}', '{0}', 3, 100,
	'{other,outbox.event.order}', '{1,2,2}', '{0,3,7}', '{0,100,200}', '{0,109,209}'
FROM (SELECT :'first_xid'::xid8 AS x) AS t;
SELECT aggregate_id, status FROM outbox.delivery ORDER BY seq;
SELECT aggregate_id FROM outbox.pending;
SELECT topic, key, status, partition, first_offset, last_offset, recorded_at IS NOT NULL AS recorded FROM outbox.locate(:'id') ORDER BY partition;
SELECT outbox.wait_until_published(:'id', '0');
-- a later record counts, and an exception goes before it
INSERT INTO outbox.batch (worker_pid, snapshots, lanes, lane_snapshot, lane_target, lane_seq, messages, bytes, topics, range_topic, range_partition, range_first, range_last)
SELECT 0, ARRAY['3:3:', format('%s:%1$s:', x::text::bigint + 1)]::pg_snapshot[], ARRAY[:first_lane], '{1}', '{2}', ARRAY[:first_seq - 1], 0, 0, '{}', '{}', '{}', '{}', '{}'
FROM (SELECT :'first_xid'::xid8 AS x) AS t;
SELECT aggregate_id, status FROM outbox.delivery ORDER BY seq;
UPDATE outbox.batch SET lane_seq = ARRAY[:first_seq] WHERE id = (SELECT max(id) FROM outbox.batch);
SELECT aggregate_id, status FROM outbox.delivery ORDER BY seq;
INSERT INTO outbox.retry (id, seq, created_at, xid, lane, aggregate_type, aggregate_id, event_type, topic, status, attempts, next_attempt_at, last_error, error_class, first_failed_at)
SELECT :'id', seq, created_at, xid, lane, aggregate_type, aggregate_id, event_type, topic, 'FAILED', 3, '2030-01-01+00', 'no luck', 'message', '2029-01-01+00'
FROM outbox.message WHERE aggregate_id = '1';
SELECT status, retry_count, next_retry_at AT TIME ZONE 'UTC', last_error, error_class, first_failed_at AT TIME ZONE 'UTC', updated_at = now() FROM outbox.delivery WHERE id = :'id';
SELECT topic, key, status, partition FROM outbox.locate(:'id');
SELECT outbox.wait_until_published(:'id', '0'), outbox.wait_until_drained('0');
SELECT split_part(refusal(format('UPDATE outbox.retry SET status = %L', 'LOST')), E'\n', 1);
DELETE FROM outbox.retry;
INSERT INTO outbox.parked (topic, lane, "cursor", reason) SELECT topic, lane, '3:3:', 'paused' FROM outbox.message WHERE aggregate_id = '1';
SELECT aggregate_id, status FROM outbox.delivery ORDER BY seq;
ROLLBACK;
SELECT aggregate_id, status FROM outbox.delivery ORDER BY seq;

-- Nobody publishes, so waiting ends with its time.
SELECT outbox.wait_until_published(:'id', '20 ms');
SELECT outbox.wait_until_published(:'id', '0');
SELECT outbox.wait_until_published(:'id', '-1 hour');
SELECT outbox.wait_until_published(id => :'id', timeout => '1 ms');
SELECT outbox.wait_until_published(NULL), outbox.wait_until_published(:'id', NULL);
SELECT outbox.wait_until_drained('20 ms');
SELECT outbox.wait_until_drained(timeout => '0');
SELECT outbox.wait_until_drained(NULL);
\set SHOW_CONTEXT never
SET statement_timeout = '100ms';
SELECT outbox.wait_until_published(:'id', '1 hour');
SELECT outbox.wait_until_drained('1 hour');
RESET statement_timeout;
\set SHOW_CONTEXT errors

-- what cannot be waited for
SELECT refusal($$SELECT outbox.wait_until_published('018dfa02-b095-7031-b039-000000010932')$$);
SELECT refusal($$SELECT outbox.wait_until_published('00000000-0000-0000-0000-000000000000')$$);
SELECT refusal($$SELECT * FROM outbox.locate('018dfa02-b095-7031-b039-000000010932')$$);
SELECT refusal($$SELECT outbox.wait_until_published('no id')$$);
BEGIN;
SELECT outbox.enqueue('order', 3, 'created', '{}') AS own \gset
SELECT replace(refusal(format('SELECT outbox.wait_until_published(%L)', :'own')), :'own', '…');
SELECT refusal('SELECT outbox.wait_until_drained()');
SELECT outbox.wait_until_published(:'id', '0');
SELECT status FROM outbox.locate(:'own');
ROLLBACK;
SELECT replace(refusal(format('SELECT outbox.wait_until_published(%L)', :'own')), :'own', '…');
BEGIN;
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type) VALUES ('order', 4, 'created');
SELECT refusal('SELECT outbox.wait_until_drained()');
SAVEPOINT a;
SELECT outbox.enqueue('order', 5, 'created', '{}') IS NOT NULL;
ROLLBACK TO a;
SELECT refusal('SELECT outbox.wait_until_drained()');
ROLLBACK;
-- taken back, nothing of it remains to be waited for
BEGIN;
SAVEPOINT a;
SELECT outbox.enqueue('order', 5, 'created', '{}') IS NOT NULL;
ROLLBACK TO a;
SELECT outbox.wait_until_drained('0');
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT refusal(format('SELECT outbox.wait_until_published(%L)', :'id'));
SELECT refusal('SELECT outbox.wait_until_drained()');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT refusal('SELECT outbox.wait_until_drained()');
COMMIT;
BEGIN READ ONLY;
SELECT outbox.wait_until_published(:'id', '0'), outbox.wait_until_drained('0');
COMMIT;
-- prepared is not committed
BEGIN;
SELECT outbox.enqueue('order', 6, 'created', '{}') AS prepared \gset
PREPARE TRANSACTION 'regress_outbox';
SELECT replace(refusal(format('SELECT outbox.wait_until_published(%L)', :'prepared')), :'prepared', '…');
COMMIT PREPARED 'regress_outbox';
SELECT outbox.wait_until_published(:'prepared', '0');

-- Messages that nobody has published are not truncated away.
SELECT refusal('TRUNCATE outbox.message');
SELECT refusal('TRUNCATE outbox.message_default');
DELETE FROM outbox.message;
SELECT outbox.wait_until_drained('0');
SELECT refusal('TRUNCATE outbox.message');

-- health without brokers
SELECT "check", status, CASE WHEN "check" <> 'workers' THEN value END AS value, advice FROM outbox.health() WHERE "check" IN ('preload', 'enabled', 'identity', 'configuration', 'backlog', 'oldest', 'lanes') ORDER BY 1;
SELECT outbox.healthy();
SELECT outbox.enqueue('order', g, 'created', '{}') FROM generate_series(1, 7) AS g \g /dev/null
SELECT status, value FROM outbox.health() WHERE "check" = 'backlog';
SELECT coalesce(published, 0), coalesce(published_bytes, 0), coalesce(failed_reports, 0), last_published_at, last_failed_at FROM outbox.stat;
