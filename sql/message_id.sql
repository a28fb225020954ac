-- Message ids, lanes and the sequence: pure functions of the row.
\getenv source PG_ABS_SRCDIR
\set begin :source /sql/include/begin.sql
\set ECHO none
\i :begin
\set ECHO all

-- 48 bits of milliseconds, 12 bits of the rest, 14 bits of xid, 48 bits of seq
SELECT outbox.message_id('2024-03-01 12:34:56.789012+00', '12345', 67890);
SELECT outbox.message_id('1970-01-01 00:00:00+00', '0', 0);
SELECT outbox.message_id('1970-01-01 00:00:00.000999+00', '16383', 281474976710655);
SELECT outbox.message_id('1970-01-01 00:00:00.001+00', '16384', 281474976710656);
SELECT outbox.message_id(NULL, '1', 1), outbox.message_id('2024-03-01', NULL, 1), outbox.message_id('2024-03-01', '1', NULL), outbox.message_created_at(NULL);

-- version 7 and the variant of RFC 9562, whatever the values; decoded exactly
CREATE TABLE sample AS
SELECT '2000-01-01+00'::timestamptz + g * interval '123456789.123457 s' + g * interval '1 us' AS created_at,
	(g::bigint * 987654321 + (g % 4)::bigint * 17592186044416)::text::xid8 AS xid, g::bigint * g * g * 1234567 AS seq
FROM generate_series(0, 2000) AS g;
SELECT count(*) FILTER (WHERE outbox.message_id(created_at, xid, seq)::text ~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$') AS version_7,
	count(*) FILTER (WHERE outbox.message_created_at(outbox.message_id(created_at, xid, seq)) = created_at) AS exact,
	count(*) FILTER (WHERE right(outbox.message_id(created_at, xid, seq)::text, 12) = right(lpad(to_hex(seq), 16, '0'), 12)) AS seq,
	count(*)
FROM sample;

-- every microsecond of a millisecond comes back
SELECT count(*) FROM generate_series(0, 999) AS us, LATERAL (SELECT '2024-02-29 23:59:59.123+00'::timestamptz + us * interval '1 us' AS at) AS t
WHERE outbox.message_created_at(outbox.message_id(at, '7', us)) = at;

-- ids sort by time, as uuid and as text
SELECT array_agg(created_at ORDER BY outbox.message_id(created_at, xid, seq)) = array_agg(created_at ORDER BY created_at) AS by_uuid,
	array_agg(created_at ORDER BY outbox.message_id(created_at, xid, seq)::text COLLATE "C") = array_agg(created_at ORDER BY created_at) AS by_text
FROM sample;
SELECT bool_and(outbox.message_id(at, '9999', 9999) < outbox.message_id(at + interval '1 us', '1', 1))
FROM generate_series(0, 2000) AS us, LATERAL (SELECT '2024-02-29 23:59:59.999+00'::timestamptz + us * interval '1 us' AS at) AS t;
DROP TABLE sample;

-- the same in every time zone
SET timezone = 'Asia/Kathmandu';
SELECT outbox.message_id('2024-03-01 12:34:56.789012+00', '12345', 67890) AS id \gset
SELECT :'id';
SELECT outbox.message_created_at(:'id') = '2024-03-01 12:34:56.789012+00'::timestamptz AS exact;
RESET timezone;

-- pure: usable in an index
SELECT proname, provolatile, proisstrict, proparallel FROM pg_proc
WHERE pronamespace = 'outbox'::regnamespace AND proname IN ('message_id', 'message_created_at', 'message_lane') ORDER BY 1;

-- The lane is Kafka's own hash of the key: known values of its murmur2.
WITH known (key, hash) AS (VALUES
	('21', -973932308),
	('foobar', -790332482),
	('a-little-bit-long-string', -985981536),
	('a-little-bit-longer-string', -1486304829),
	('lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971),
	('abc', 479470107))
SELECT key, outbox.message_lane(key) AS lane, outbox.message_lane(key) = (hash & 2147483647) % 16 AS as_kafka_does FROM known;

-- frozen for ever: stored in the rows
SELECT left(key, 10), outbox.message_lane(key)
FROM unnest(ARRAY['', 'a', '1', '42', 'order-1', 'é', '漢字', '😀', repeat('x', 1000)]) WITH ORDINALITY AS t (key, n)
ORDER BY n;

-- the same as an implementation that shares no line with ours
CREATE FUNCTION murmur2(data bytea) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	m CONSTANT numeric := 1540483477;
	word CONSTANT numeric := 4294967296;
	length integer := octet_length(data);
	h bigint := (x'9747b28c'::bigint) # length;
	k bigint;
	rest integer := length % 4;
	tail bigint := 0;
BEGIN
	FOR i IN 0 .. length / 4 - 1 LOOP
		k := get_byte(data, 4 * i) + (get_byte(data, 4 * i + 1) << 8) + (get_byte(data, 4 * i + 2) << 16)
			+ (get_byte(data, 4 * i + 3)::bigint << 24);
		k := mod(k * m, word);
		k := mod((k # (k >> 24)) * m, word);
		h := mod(h * m, word)::bigint # k;
	END LOOP;
	IF rest > 0 THEN
		FOR i IN 0 .. rest - 1 LOOP
			tail := tail + (get_byte(data, length - rest + i)::bigint << (8 * i));
		END LOOP;
		h := mod((h # tail) * m, word);
	END IF;
	h := mod((h # (h >> 13)) * m, word);
	RETURN h # (h >> 15);
END $$;
SELECT count(*) FILTER (WHERE outbox.message_lane(key) = (murmur2(convert_to(key, 'UTF8')) & 2147483647) % 16) AS same, count(*)
FROM (SELECT g::text FROM generate_series(1, 1000) AS g
	UNION ALL SELECT repeat('é漢😀' || chr(32 + g % 90), g) FROM generate_series(0, 100) AS g
	UNION ALL SELECT md5(g::text)::uuid::text FROM generate_series(1, 200) AS g) AS t (key);
DROP FUNCTION murmur2(bytea);
SELECT count(DISTINCT outbox.message_lane(g::text)) AS lanes, min(outbox.message_lane(g::text)), max(outbox.message_lane(g::text)) FROM generate_series(1, 1000) AS g;

-- in parallel workers, which load the library themselves
CREATE TABLE sample AS SELECT g, g::text AS key, '2024-03-01+00'::timestamptz + g * interval '1 us' AS at FROM generate_series(1, 20000) AS g;
ANALYZE sample;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
EXPLAIN (COSTS OFF) SELECT count(*) FROM sample WHERE outbox.message_lane(key) = 3 AND outbox.message_created_at(outbox.message_id(at, '5', g)) = at;
SELECT (SELECT count(*) FROM sample WHERE outbox.message_lane(key) = 3 AND outbox.message_created_at(outbox.message_id(at, '5', g)) = at)
	= (SELECT count(*) FILTER (WHERE outbox.message_lane(g::text) = 3) FROM generate_series(1, 20000) AS g) AS same;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
DROP TABLE sample;

-- of the key where there is one, else of the aggregate's id
SELECT outbox.enqueue('order', 'abc', 'e', '{}'), outbox.enqueue('order', 'abc', 'e', '{}', key => '21') \g /dev/null
SELECT lane = outbox.message_lane('abc'), lane = outbox.message_lane('21') FROM outbox.message ORDER BY seq;
DELETE FROM outbox.message;

-- A sequence beyond 2^31 and 2^53: kept exactly, also on its way through JSON.
SELECT setval('outbox.message_seq', 2147483646);
SELECT outbox.enqueue('order', g, 'e', '{}') FROM generate_series(1, 3) AS g \g /dev/null
SELECT seq FROM outbox.message ORDER BY seq;
SELECT setval('outbox.message_seq', 9007199254740991);
SELECT outbox.enqueue('order', g, 'e', '{}') FROM generate_series(4, 6) AS g \g /dev/null
SELECT cardinality(outbox.enqueue_batch('[{"aggregate_type": "order", "aggregate_id": 9007199254740993, "event_type": "e", "key": 9007199254740995}]'));
SELECT seq, aggregate_id, key FROM outbox.message ORDER BY seq;
SELECT seq, aggregate_id, status FROM outbox.delivery WHERE id IN (SELECT outbox.message_id(created_at, xid, seq) FROM outbox.message) ORDER BY seq;
SELECT to_json(d) ->> 'seq' FROM (SELECT seq FROM outbox.delivery ORDER BY seq DESC LIMIT 2) AS d;
DELETE FROM outbox.message;

-- Beyond 2^48 the id has the low bits, and xid tells two such apart.
SELECT setval('outbox.message_seq', 281474976710655);
SELECT outbox.enqueue('order', 1, 'e', '{}') AS id \gset
SELECT seq, right(:'id', 12) FROM outbox.message;
SELECT status FROM outbox.delivery WHERE id = :'id';
SELECT setval('outbox.message_seq', 9223372036854775806);
SELECT outbox.enqueue('order', 2, 'e', '{}') IS NOT NULL;
SELECT refusal($$SELECT outbox.enqueue('order', 3, 'e', '{}')$$);
SELECT seq, aggregate_id FROM outbox.message ORDER BY seq;

-- one value at a time, or sessions would get theirs out of order
SELECT seqcache, seqincrement, seqcycle FROM pg_sequence WHERE seqrelid = 'outbox.message_seq'::regclass;
