-- What enqueue() refuses, and in which words.
\getenv source PG_ABS_SRCDIR
\set begin :source /sql/include/begin.sql
\set ECHO none
\i :begin
\set ECHO all

-- what has to be there
SELECT refusal($$SELECT outbox.enqueue(NULL, '1', 'e', '{}')$$);
SELECT refusal($$SELECT outbox.enqueue('', '1', 'e', '{}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', NULL::text, 'e', '{}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', NULL::bigint, 'e', '{}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '', 'e', '{}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', ''::varchar, 'e', '{}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', NULL, '{}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', '', '{}')$$);
SELECT refusal($$SELECT outbox.enqueue_json(NULL, '1', 'e', '{}')$$);
SELECT refusal($$SELECT outbox.enqueue_bytes('a', '', 'e', '\x00')$$);

-- topics that Kafka would refuse: given, of a template, of the default
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', topic => '')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', topic => '.')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', topic => '..')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', topic => 'no/topic')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', topic => 'no topic')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', topic => 'é')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', topic => '{aggregate_type}')$$);
SELECT refusal(format('SELECT outbox.enqueue(%L, 1, %L, %L, topic => %L)', 'a', 'e', '{}', repeat('x', 250)));
SELECT refusal(format('SELECT outbox.enqueue(%L, 1, %L, %L, topic => %L)', 'a', 'e', '{}', repeat('x', 249)));
SELECT refusal($$SELECT outbox.enqueue('order line', '1', 'e', '{}')$$);
SELECT refusal($$SELECT outbox.enqueue('{event_type}', '1', 'e', '{}')$$);
SELECT refusal(format('SELECT outbox.enqueue(%L, 1, %L, %L)', repeat('x', 237), 'e', '{}'));
SELECT refusal(format('SELECT outbox.enqueue(%L, 1, %L, %L)', repeat('x', 236), 'e', '{}'));
INSERT INTO outbox.route (aggregate_type, topic) VALUES ('routed', 'events.{event_type}');
SELECT refusal($$SELECT outbox.enqueue('routed', '1', 'was shipped', '{}')$$);
SELECT refusal($$SELECT outbox.enqueue('routed', '1', 'shipped', '{}')$$);
SELECT refusal($$SELECT outbox.enqueue('order line', '1', 'e', '{}', topic => 'order.line')$$);

-- headers of every wrong shape
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => '[]')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => '[{"a": 1}]')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => '"x"')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => '17')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => 'true')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => 'null')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => '{"a": {}}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => '{"a": 1, "b": [1]}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => '{"a": {"b": {"c": 1}}}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => '{"": 1}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => '{a: 1}')$$);

-- reserved names, whatever their case
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => '{"ce_id": "x"}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => '{"CE_anything": null}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => '{"ce_": 1}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => '{"content-type": "text/plain"}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}'::jsonb, headers => '{"Content-Type": "text/plain"}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', NULL, headers => '{"content-type": "text/plain"}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '\x00'::bytea, headers => '{"content-type": "text/plain"}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '\x00'::bytea, headers => '{"ce_type": "x"}')$$);

-- what may be a header
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => '{}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}',
	headers => '{"s": "", "n": 1e400, "b": true, "null": null, "ce": 1, "ce-id": 2, "content-type2": 3, "é": "ü", " ": 1}')$$);

-- JSON that is none, and what JSON can write but no text can hold: it stays
-- as it is written where the value is kept as it is written
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', 'plain text')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', ''::json)$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{"a": 1'::text)$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{"a": 1} {}'::varchar)$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', 'NaN')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', E'"a\tb"')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '"\u00"')$$);
SELECT refusal($$SELECT outbox.enqueue_json('a', '1', 'e', '{')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '"\u0000"')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '"\u0000"'::json)$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '"\u0000"'::jsonb)$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '"\ud800"')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '"\ud800"'::json)$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '"\ud800"'::jsonb)$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '"\udc00\ud800"'::jsonb)$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => '{"h": "\u0000"}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => '{"h": "\ud800"}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', headers => '{"\u0000": 1}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', E'a\u0000', 'e', '{}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', E'\ud800', '{}')$$);

-- invalid UTF-8 in bytes is nobody's business
SELECT refusal($$SELECT outbox.enqueue('utf8', '1', 'e', '\xc328ff00eda080'::bytea)$$);
SELECT payload_bytes FROM messages WHERE aggregate_type = 'utf8';

-- the limit counts key, headers and payload
SELECT refusal(format('SELECT outbox.enqueue(%L, %L, %L, %L::bytea)', 'large', '1', 'e', '\x' || repeat('00', 1000000)));
SELECT refusal(format('SELECT outbox.enqueue(%L, %L, %L, %L::bytea)', 'large', '1', 'e', '\x' || repeat('00', 999999)));
SELECT refusal(format('SELECT outbox.enqueue(%L, %L, %L, %L)', 'large', '1', 'e', to_json(repeat('x', 1000000))));
SELECT refusal(format('SELECT outbox.enqueue(%L, %L, %L, %L::jsonb)', 'large', '1', 'e', to_json(repeat('x', 1000000))));
SELECT refusal(format('SELECT outbox.enqueue(%L, %L, %L, NULL)', 'large', repeat('1', 1000001), 'e'));
SELECT refusal(format('SELECT outbox.enqueue(%L, %L, %L, NULL, key => %L)', 'large', 1, 'e', repeat('1', 1000001)));
SELECT refusal(format('SELECT outbox.enqueue(%L, %L, %L, NULL, headers => %L)', 'large', 1, 'e', json_build_object('h', repeat('x', 1000000))));
SELECT refusal(format('SELECT outbox.enqueue(%L, %L, %L, NULL, headers => %L)', 'large', 1, 'e', json_build_object('h', repeat('x', 999998))));
SET outbox.max_message_bytes = '1kB';
SELECT refusal(format('SELECT outbox.enqueue(%L, %L, %L, %L)', 'large', '1', 'e', to_json(repeat('x', 1022))));
SELECT refusal(format('SELECT outbox.enqueue(%L, %L, %L, %L)', 'large', '1', 'e', to_json(repeat('x', 1021))));
SELECT refusal(format('SELECT outbox.enqueue(%L, %L, %L, %L)', 'large', '1', 'e', to_json(repeat('é', 511))));
RESET outbox.max_message_bytes;

-- times are not kept yet
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', deliver_at => now())$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', expires_at => now() + interval '1 day')$$);

-- nothing is written in a read-only transaction
BEGIN READ ONLY;
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}')$$);
SELECT refusal($$SELECT outbox.enqueue_json('a', '1', 'e', '{}')$$);
SELECT refusal($$SELECT outbox.enqueue_bytes('a', '1', 'e', '\x00')$$);
SELECT refusal($$SELECT outbox.enqueue_batch('[{"aggregate_type": "a", "aggregate_id": "1", "event_type": "e"}]')$$);
SELECT refusal($$INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type) VALUES ('a', '1', 'e')$$);
SELECT resolved_topic FROM outbox.resolve('a', 'e');
COMMIT;

-- arguments of types that nothing takes
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', 17)$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', now())$$);
SELECT refusal($$SELECT outbox.enqueue('a', ARRAY[1], 'e', '{}')$$);
SELECT refusal($$SELECT outbox.enqueue(1, '1', 'e', '{}')$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', '{}'::json)$$);
SELECT refusal($$SELECT outbox.enqueue_json('a', '1', 'e', '\x00'::bytea)$$);
SELECT refusal($$SELECT outbox.enqueue_bytes('a', '1', 'e', '{}'::json)$$);
SELECT refusal($$SELECT outbox.enqueue_batch('[]'::jsonb)$$);
SELECT refusal($$SELECT outbox.enqueue('a', '1', 'e', '{}', nonsense => 1)$$);

-- A refusal leaves nothing behind and takes nothing along: what was enqueued
-- before it in the same transaction is there.
DELETE FROM outbox.message;
BEGIN;
SELECT outbox.enqueue('kept', '1', 'e', '{}') IS NOT NULL;
SELECT refusal($$SELECT outbox.enqueue('dropped', '2', 'e', 'no json')$$);
SELECT refusal($$SELECT outbox.enqueue('dropped', '3', 'e', '{}', topic => '/')$$);
SELECT outbox.enqueue('kept', '4', 'e', '{}') IS NOT NULL;
COMMIT;
SELECT * FROM messages;
