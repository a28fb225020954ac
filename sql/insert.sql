-- Plain INSERT and COPY of the application's columns do what enqueue() does.
\getenv source PG_ABS_SRCDIR
\getenv build PG_ABS_BUILDDIR
\set begin :source /sql/include/begin.sql
\set ECHO none
\i :begin
\set ECHO all

CREATE ROLE regress_outbox_app;
SELECT outbox.grant_producer('regress_outbox_app');
GRANT SELECT ON messages TO regress_outbox_app;
CREATE VIEW completed AS
SELECT m.aggregate_id, m.seq = max(m.seq) OVER () - count(*) OVER () + row_number() OVER (ORDER BY m.seq) AS numbered,
	m.created_at BETWEEN now() AND clock_timestamp() AS dated, outbox.is_own_xid(m.xid) AS marked,
	m.lane = outbox.message_lane(coalesce(m.key, m.aggregate_id)) AS in_lane
FROM outbox.message AS m ORDER BY m.seq;
INSERT INTO outbox.route (aggregate_type, topic) VALUES ('order', 'orders'), ('line', 'lines.{event_type}');

-- the defaults and the trigger fill in the rest
BEGIN;
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type) VALUES ('order', '1', 'created');
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, payload, key, topic, headers)
	VALUES ('order', '2', 'created', ' {"a" : 1.0}', 'k', 'some.topic', '{"h": 1}');
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, payload_bytes) VALUES ('line', '3', 'created', '');
SELECT * FROM completed;
SELECT * FROM messages;
SELECT status, count(*) FROM outbox.delivery GROUP BY status;
COMMIT;
DELETE FROM outbox.message;

-- Everything from here on as a role with one grant: what programs emit.
SET ROLE regress_outbox_app;

-- Hibernate, Django, SQLAlchemy
INSERT INTO outbox.message (aggregate_id, aggregate_type, event_type, payload, seq) VALUES ('h1', 'order', 'created', '{}', DEFAULT);
PREPARE hibernate AS INSERT INTO outbox.message (aggregate_id, aggregate_type, created_at, event_type, payload, xid)
	VALUES ($1, $2, DEFAULT, $3, $4, DEFAULT) RETURNING seq IS NOT NULL, created_at BETWEEN now() AND clock_timestamp();
EXECUTE hibernate('h2', 'order', 'created', '{}');
INSERT INTO "outbox"."message" ("aggregate_type", "aggregate_id", "event_type", "payload", "payload_bytes", "headers")
	VALUES ('order', 'd1', 'created', '{"a": 1}'::jsonb, NULL, NULL), ('order', 'd2', 'created', '{"a": 1}'::jsonb, NULL, NULL)
	RETURNING "outbox"."message"."seq" IS NOT NULL;
INSERT INTO "outbox"."message" ("seq", "created_at", "aggregate_type", "aggregate_id", "event_type", "topic")
	VALUES (DEFAULT, DEFAULT, 'order', 'd3', 'created', DEFAULT), (DEFAULT, DEFAULT, 'order', 'd4', 'created', DEFAULT)
	RETURNING "outbox"."message"."seq" IS NOT NULL;
INSERT INTO "outbox"."message" ("created_at", "xid", "lane", "seq", "aggregate_type", "aggregate_id", "event_type")
	VALUES (DEFAULT, DEFAULT, DEFAULT, DEFAULT, 'order', 'd5', 'created'), (DEFAULT, DEFAULT, DEFAULT, DEFAULT, 'order', 'd6', 'created');
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, payload)
	SELECT p0::VARCHAR, p1::VARCHAR, p2::VARCHAR, p3::JSON
	FROM (VALUES ('order', 's2', 'created', '{}', 1), ('order', 's1', 'created', '{}', 0)) AS imp_sen(p0, p1, p2, p3, sen_counter)
	ORDER BY sen_counter RETURNING outbox.message.seq IS NOT NULL, outbox.message.aggregate_id;
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, payload, payload_bytes)
	VALUES ('order', 's3', 'created', CAST('{"a": 1}' AS JSON), CAST(NULL AS BYTEA)) RETURNING outbox.message.seq IS NOT NULL, outbox.message.lane IS NOT NULL;

-- INSERT … SELECT, from a set, a CTE and a function that enqueues by itself
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, payload)
	SELECT 'order', 'i' || g, 'created', to_json(g) FROM generate_series(3, 1, -1) AS g ORDER BY g;
WITH made AS (INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type) VALUES ('order', 'c1', 'created') RETURNING aggregate_id)
	INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type) SELECT 'order', aggregate_id || ' again', 'created' FROM made;
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, payload)
	SELECT 'order', 'outer', 'created', to_json(outbox.enqueue('order', 'inner', 'created', '{}') IS NOT NULL);

-- COPY: text, CSV, binary
COPY outbox.message (aggregate_type, aggregate_id, event_type, payload, payload_bytes) FROM STDIN;
order	t1	created	{"a": 1}	\N
order	t2	created	\N	\\x00ff
order	t3	created	\N	\N
\.
COPY outbox.message (aggregate_type, aggregate_id, event_type, payload, headers, key) FROM STDIN (FORMAT csv, HEADER);
aggregate_type,aggregate_id,event_type,payload,headers,key
order,v1,created,"{ ""a"" : 1.0 }","{""h"": ""x""}",k
line,v2,created,,,
\.
RESET ROLE;
\set file :build /results/insert.bin
COPY (SELECT 'order', 'b' || g, 'created', convert_to('bytes ' || g, 'UTF8') FROM generate_series(1, 2) AS g) TO :'file' (FORMAT binary);
GRANT pg_read_server_files TO regress_outbox_app;
SET ROLE regress_outbox_app;
COPY outbox.message (aggregate_type, aggregate_id, event_type, payload_bytes) FROM :'file' (FORMAT binary);
SELECT * FROM messages;
RESET ROLE;
SELECT count(*) AS messages, count(DISTINCT seq) AS seqs, bool_and(lane = outbox.message_lane(coalesce(key, aggregate_id))) AS in_lane,
	bool_and(xid IS NOT NULL) AS marked
FROM outbox.message;
DELETE FROM outbox.message;

-- A lane that is given means nothing.
SET ROLE regress_outbox_app;
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, lane) SELECT 'order', 'x', 'e', g FROM generate_series(0, 15) AS g;
RESET ROLE;
SELECT DISTINCT lane = outbox.message_lane('x') FROM outbox.message;
DELETE FROM outbox.message;

-- The rules are those of enqueue().
SET ROLE regress_outbox_app;
CREATE FUNCTION pg_temp.refused(row_values text) RETURNS text
LANGUAGE sql AS $$
	SELECT refusal('INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, payload, payload_bytes, headers, topic, key, '
		'deliver_at, expires_at) VALUES (' || row_values || ')')
$$;
SELECT pg_temp.refused($$NULL, '1', 'e', NULL, NULL, NULL, NULL, NULL, NULL, NULL$$);
SELECT pg_temp.refused($$'a', NULL, 'e', NULL, NULL, NULL, NULL, NULL, NULL, NULL$$);
SELECT pg_temp.refused($$'a', '', 'e', NULL, NULL, NULL, NULL, NULL, NULL, NULL$$);
SELECT pg_temp.refused($$'a', '1', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL$$);
SELECT pg_temp.refused($$'a', '1', 'e', '{}', '', NULL, NULL, NULL, NULL, NULL$$);
SELECT pg_temp.refused($$'a', '1', 'e', 'null', '', NULL, NULL, NULL, NULL, NULL$$);
SELECT pg_temp.refused($$'a', '1', 'e', '{', NULL, NULL, NULL, NULL, NULL, NULL$$);
SELECT pg_temp.refused($$'a', '1', 'e', NULL, NULL, '[]', NULL, NULL, NULL, NULL$$);
SELECT pg_temp.refused($$'a', '1', 'e', NULL, NULL, '{"ce_id": 1}', NULL, NULL, NULL, NULL$$);
SELECT pg_temp.refused($$'a', '1', 'e', '{}', NULL, '{"content-type": "x"}', NULL, NULL, NULL, NULL$$);
SELECT pg_temp.refused($$'a', '1', 'e', NULL, NULL, NULL, '/', NULL, NULL, NULL$$);
SELECT pg_temp.refused($$'a b', '1', 'e', NULL, NULL, NULL, NULL, NULL, NULL, NULL$$);
SELECT pg_temp.refused($$'line', '1', 'not so', NULL, NULL, NULL, NULL, NULL, NULL, NULL$$);
SELECT pg_temp.refused($$'a', '1', 'e', to_json(repeat('x', 1000000)), NULL, NULL, NULL, NULL, NULL, NULL$$);
SELECT pg_temp.refused($$'a', '1', 'e', NULL, NULL, NULL, NULL, NULL, now(), NULL$$);
SELECT pg_temp.refused($$'a', '1', 'e', NULL, NULL, NULL, NULL, NULL, NULL, now()$$);
COPY outbox.message (aggregate_type, aggregate_id, event_type, headers) FROM STDIN;
order	1	e	\N
order	2	e	{"ce_id": 1}
\.
RESET ROLE;
SELECT count(*) FROM outbox.message;

-- seq, created_at and xid cannot be given, also not those that the defaults
-- have just returned.
SET ROLE regress_outbox_app;
SELECT refusal($$INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, seq) VALUES ('order', '1', 'e', 1)$$);
SELECT refusal($$INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, seq) VALUES ('order', '1', 'e', NULL)$$);
SELECT refusal($$INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, created_at) VALUES ('order', '1', 'e', now())$$);
SELECT refusal($$INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, created_at) VALUES ('order', '1', 'e', NULL)$$);
SELECT refusal($$INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, xid) VALUES ('order', '1', 'e', '3')$$);
SELECT refusal($$INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, xid) VALUES ('order', '1', 'e', NULL)$$);
BEGIN;
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type) VALUES ('order', '1', 'e') RETURNING seq, created_at, xid \gset
SELECT refusal(format($$INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, seq) VALUES ('order', '1', 'e', %L)$$, :'seq'));
SELECT refusal(format($$INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, seq, created_at, xid) VALUES ('order', '1', 'e', %L, %L, %L)$$,
	:'seq', :'created_at', :'xid'));
SELECT outbox.enqueue('order', '2', 'e', NULL) IS NOT NULL;
SELECT seq, created_at, xid FROM outbox.message WHERE aggregate_id = '2' \gset
SELECT refusal(format($$INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, seq, created_at, xid) VALUES ('order', '1', 'e', %L, %L, %L)$$,
	:'seq', :'created_at', :'xid'));
COMMIT;
COPY outbox.message (seq, aggregate_type, aggregate_id, event_type) FROM STDIN;
1	order	1	e
\.
SELECT refusal($$INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type) VALUES ('order', '1', 'e') RETURNING *$$);
SELECT refusal($$UPDATE outbox.message SET seq = 1$$);
SELECT refusal($$DELETE FROM outbox.message$$);
SELECT refusal($$INSERT INTO outbox.message_default (aggregate_type, aggregate_id, event_type) VALUES ('order', '1', 'e')$$);
RESET ROLE;
SELECT count(*), count(DISTINCT seq) FROM outbox.message;
DELETE FROM outbox.message;

-- The owner may give them; a row of another transaction was restored and
-- passes as it is, the rest is completed and checked.
INSERT INTO outbox.message (seq, created_at, xid, lane, aggregate_type, aggregate_id, event_type, topic, key, payload, payload_bytes, headers, deliver_at)
VALUES (17, '2020-02-29 12:00:00.000001+00', '12345', 7, 'old type', '', '', 'old topic', NULL, '{}', '\x00', '[17]', '2020-02-29 13:00:00+00');
SELECT seq, created_at AT TIME ZONE 'UTC', xid, lane, aggregate_type, aggregate_id, event_type, topic, key, payload, payload_bytes, headers, deliver_at AT TIME ZONE 'UTC', expires_at
FROM outbox.message;
COPY outbox.message (seq, created_at, xid, lane, aggregate_type, aggregate_id, event_type, topic) FROM STDIN;
18	2020-02-29 12:00:01+00	12345	3	order	1	e	kept as it is
\.
SELECT seq, lane, topic FROM outbox.message WHERE seq = 18;
SELECT refusal($$INSERT INTO outbox.message (seq, aggregate_type, aggregate_id, event_type) VALUES (19, 'order', '', 'e')$$);
INSERT INTO outbox.message (seq, aggregate_type, aggregate_id, event_type) VALUES (19, 'order', '1', 'e');
SELECT seq, topic, lane = outbox.message_lane('1') FROM outbox.message WHERE seq = 19;

DROP OWNED BY regress_outbox_app;
DROP ROLE regress_outbox_app;
DROP VIEW completed;
