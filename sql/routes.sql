-- From aggregate and event type to a topic.
\getenv source PG_ABS_SRCDIR
\set begin :source /sql/include/begin.sql
\set ECHO none
\i :begin
\set ECHO all

CREATE FUNCTION topic_of(aggregate_type text, event_type text) RETURNS text
LANGUAGE sql AS $$ SELECT resolved_topic FROM outbox.resolve(aggregate_type, event_type) $$;

-- without a route
SELECT topic_of('order', 'created');

-- The most specific route wins, in whatever order they were written.
BEGIN;
INSERT INTO outbox.route (aggregate_type, event_type, topic) VALUES (NULL, NULL, 'all');
SELECT topic_of('order', 'created'), topic_of('order', 'other'), topic_of('item', 'created'), topic_of('item', 'other');
INSERT INTO outbox.route (aggregate_type, event_type, topic) VALUES (NULL, 'created', 'created');
SELECT topic_of('order', 'created'), topic_of('order', 'other'), topic_of('item', 'created'), topic_of('item', 'other');
INSERT INTO outbox.route (aggregate_type, event_type, topic) VALUES ('order', NULL, 'order');
SELECT topic_of('order', 'created'), topic_of('order', 'other'), topic_of('item', 'created'), topic_of('item', 'other');
INSERT INTO outbox.route (aggregate_type, event_type, topic) VALUES ('order', 'created', 'order.created');
SELECT topic_of('order', 'created'), topic_of('order', 'other'), topic_of('item', 'created'), topic_of('item', 'other');
DELETE FROM outbox.route WHERE topic = 'order';
SELECT topic_of('order', 'created'), topic_of('order', 'other'), topic_of('item', 'created'), topic_of('item', 'other');
DELETE FROM outbox.route WHERE topic IN ('created', 'order.created');
SELECT topic_of('order', 'created'), topic_of('order', 'other'), topic_of('item', 'created'), topic_of('item', 'other');
-- case counts, and so does every blank
SELECT topic_of('Order', 'created'), topic_of('order ', 'created');
ROLLBACK;

-- templates
INSERT INTO outbox.route (aggregate_type, topic) VALUES
	('both', '{aggregate_type}.{event_type}'),
	('twice', 'x.{event_type}-{event_type}_{aggregate_type}'),
	('plain', 'just.this');
INSERT INTO outbox.route (topic) VALUES ('events.{aggregate_type}');
SELECT topic_of('both', 'e'), topic_of('twice', 'e'), topic_of('plain', 'e'), topic_of('other', 'e');
SELECT refusal($$SELECT topic_of('both', '{aggregate_type}')$$);
SELECT refusal($$SELECT topic_of('a/b', 'e')$$);

-- what a row may be
SELECT refusal($$INSERT INTO outbox.route (aggregate_type, topic) VALUES ('x', '')$$);
SELECT refusal($$INSERT INTO outbox.route (aggregate_type, topic) VALUES ('x', NULL)$$);
SELECT refusal($$INSERT INTO outbox.route (aggregate_type, topic) VALUES ('x', '..')$$);
SELECT refusal($$INSERT INTO outbox.route (aggregate_type, topic) VALUES ('x', 'a b')$$);
SELECT refusal($$INSERT INTO outbox.route (aggregate_type, topic) VALUES ('x', 'ä')$$);
SELECT refusal($$INSERT INTO outbox.route (aggregate_type, topic) VALUES ('x', '{aggregate}')$$);
SELECT refusal($$INSERT INTO outbox.route (aggregate_type, topic) VALUES ('x', '{aggregate_id}')$$);
SELECT refusal($$INSERT INTO outbox.route (aggregate_type, topic) VALUES ('x', '{{event_type}}')$$);
SELECT refusal($$INSERT INTO outbox.route (aggregate_type, topic) VALUES ('x', '{event_type')$$);
SELECT refusal($$INSERT INTO outbox.route (aggregate_type, topic) VALUES ('x', '}')$$);
SELECT regexp_replace(refusal(format('INSERT INTO outbox.route (aggregate_type, topic) VALUES (%L, %L)', 'x', repeat('x', 250))), 'x{10,}', 'x…');
SELECT refusal($$INSERT INTO outbox.route (aggregate_type, topic, dead_letter_topic) VALUES ('x', 'x', 'a b')$$);
SELECT refusal($$INSERT INTO outbox.route (aggregate_type, topic, dead_letter_topic) VALUES ('x', 'x', '')$$);
SELECT split_part(refusal($$INSERT INTO outbox.route (aggregate_type, topic, dead_letter_policy) VALUES ('x', 'x', 'drop')$$), E'\n', 1);
SELECT split_part(refusal($$INSERT INTO outbox.route (aggregate_type, topic, max_attempts) VALUES ('x', 'x', 0)$$), E'\n', 1);
SELECT refusal($$INSERT INTO outbox.route (aggregate_type, topic) VALUES ('plain', 'another')$$);
SELECT refusal($$INSERT INTO outbox.route (topic) VALUES ('another')$$);
SELECT refusal($$UPDATE outbox.route SET topic = 'a b' WHERE aggregate_type = 'plain'$$);
SELECT topic_of('plain', 'e');
COPY outbox.route (aggregate_type, topic) FROM STDIN;
copied	copied.{event_type}
refused	a b
\.
SELECT topic_of('copied', 'e');

-- A change counts at once, in every way that a table changes.
TRUNCATE outbox.route;
SELECT topic_of('order', 'e');
INSERT INTO outbox.route (aggregate_type, topic) VALUES ('order', 'one');
SELECT topic_of('order', 'e');
UPDATE outbox.route SET topic = 'two';
SELECT topic_of('order', 'e');
DELETE FROM outbox.route;
SELECT topic_of('order', 'e');
COPY outbox.route (aggregate_type, topic) FROM STDIN;
order	three
\.
SELECT topic_of('order', 'e');
MERGE INTO outbox.route AS r USING (VALUES ('order', 'four')) AS v (aggregate_type, topic) ON r.aggregate_type = v.aggregate_type
	WHEN MATCHED THEN UPDATE SET topic = v.topic;
SELECT topic_of('order', 'e');
INSERT INTO outbox.route (aggregate_type, topic) VALUES ('order', 'five') ON CONFLICT (aggregate_type, event_type) DO UPDATE SET topic = EXCLUDED.topic;
SELECT topic_of('order', 'e');
SET session_replication_role = replica;
UPDATE outbox.route SET topic = 'six';
SELECT topic_of('order', 'e');
SELECT refusal($$UPDATE outbox.route SET topic = 'a b'$$);
RESET session_replication_role;

-- and is taken back with its transaction or savepoint
BEGIN;
UPDATE outbox.route SET topic = 'seven';
SELECT topic_of('order', 'e');
SAVEPOINT a;
UPDATE outbox.route SET topic = 'eight';
SELECT topic_of('order', 'e');
ROLLBACK TO a;
SELECT topic_of('order', 'e');
SAVEPOINT b;
TRUNCATE outbox.route;
SELECT topic_of('order', 'e');
ROLLBACK TO b;
SELECT topic_of('order', 'e');
SAVEPOINT c;
UPDATE outbox.route SET topic = 'nine';
RELEASE c;
SELECT topic_of('order', 'e');
ROLLBACK;
SELECT topic_of('order', 'e');
SELECT refusal($$DO 'BEGIN UPDATE outbox.route SET topic = ''ten''; PERFORM topic_of(''order'', ''e''); RAISE EXCEPTION ''no''; END'$$);
SELECT topic_of('order', 'e');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT topic_of('order', 'e');
UPDATE outbox.route SET topic = 'eleven';
SELECT topic_of('order', 'e');
COMMIT;
SELECT topic_of('order', 'e');

-- What has been enqueued keeps its topic.
SELECT outbox.enqueue('order', 1, 'e', '{}') IS NOT NULL;
UPDATE outbox.route SET topic = 'twelve';
SELECT outbox.enqueue('order', 2, 'e', '{}') IS NOT NULL;
BEGIN;
UPDATE outbox.route SET topic = 'thirteen';
SELECT outbox.enqueue('order', 3, 'e', '{}') IS NOT NULL;
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type) VALUES ('order', 4, 'e');
SELECT outbox.enqueue('order', 5, 'e', '{}', topic => 'given') IS NOT NULL;
COMMIT;
SELECT aggregate_id, topic FROM messages;

-- resolve() tells it without sending.
SELECT * FROM outbox.resolve('order', 'e');
SELECT * FROM outbox.resolve('order', 'e', '42');
SELECT * FROM outbox.resolve('order', 'e', '42', key => 'abc');
SELECT * FROM outbox.resolve('order', 'e', '42', topic => 'given');
SELECT * FROM outbox.resolve('item', 'e', key => '');
UPDATE outbox.route SET dead_letter_policy = 'release', dead_letter_topic = 'dead.{aggregate_type}', max_attempts = 3;
SELECT resolved_topic, route_id = (SELECT r.route_id FROM outbox.route AS r) AS its_route, dead_letter_policy, dead_letter_topic, max_attempts
FROM outbox.resolve('order', 'e');
SELECT refusal($$SELECT outbox.resolve(NULL, 'e')$$);
SELECT refusal($$SELECT outbox.resolve('order', NULL)$$);
SELECT refusal($$SELECT outbox.resolve('order', 'e', topic => 'a b')$$);
SELECT refusal($$SELECT outbox.resolve('a b', 'e')$$);
SELECT count(*) FROM messages;

-- what is resolved is what happens
TRUNCATE outbox.route;
INSERT INTO outbox.route (aggregate_type, event_type, topic) VALUES
	('a', NULL, 'a.{event_type}'), (NULL, 'x', 'x.{aggregate_type}'), ('b', 'x', 'b-x'), (NULL, NULL, 'rest.{aggregate_type}.{event_type}');
DELETE FROM outbox.message;
SELECT outbox.enqueue(a, k, e, '{}') FROM unnest(ARRAY['a', 'b', 'c']) AS a, unnest(ARRAY['x', 'y']) AS e, unnest(ARRAY['1', '2']) AS k \g /dev/null
SELECT m.aggregate_type, m.event_type, m.topic, bool_and(m.topic = r.resolved_topic AND m.lane = r.lane AND coalesce(m.key, m.aggregate_id) = r.resolved_key) AS as_resolved
FROM outbox.message AS m, outbox.resolve(m.aggregate_type, m.event_type, m.aggregate_id) AS r
GROUP BY 1, 2, 3 ORDER BY 1, 2;

DROP FUNCTION topic_of(text, text);
