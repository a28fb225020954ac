-- Databases that are not UTF-8: what Kafka gets is.
\getenv source PG_ABS_SRCDIR
\set begin :source /sql/include/begin.sql
\set main :DBNAME
CREATE DATABASE regress_outbox_latin1 TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C';
CREATE DATABASE regress_outbox_eucjp TEMPLATE template0 ENCODING 'EUC_JP' LOCALE 'C';

\c regress_outbox_latin1
\set ECHO none
\i :begin
\set ECHO all
SHOW server_encoding;

-- lanes and limits go by the UTF-8 form of the key, as partitions do
WITH known (key, utf8_lane) AS (VALUES ('é', 7), ('abc', 11), ('Ünïcödé', NULL))
SELECT key, outbox.message_lane(key) = coalesce(utf8_lane, outbox.message_lane(key)) AS as_in_utf8 FROM known;
SELECT outbox.enqueue('order', 'é', 'e', '{"a": "ü"}', '{"ö": "ß"}') IS NOT NULL;
SELECT aggregate_id, payload, headers, lane = 7 AS as_in_utf8 FROM outbox.message;
DELETE FROM outbox.message;
SET outbox.max_message_bytes = 1024;
SELECT refusal(format('SELECT outbox.enqueue(%L, %L, %L, %L)', 'order', '1', 'e', to_json(repeat('é', 511))));
SELECT refusal(format('SELECT outbox.enqueue(%L, %L, %L, %L)', 'order', '1', 'e', to_json(repeat('é', 510))));
SELECT refusal(format('SELECT outbox.enqueue(%L, %L, %L, NULL, headers => %L)', 'order', '1', 'e', json_build_object('h', repeat('é', 512))));
SELECT refusal(format('SELECT outbox.enqueue(%L, %L, %L, NULL)', 'order', repeat('é', 513), 'e'));
RESET outbox.max_message_bytes;
DELETE FROM outbox.message;

-- What the encoding cannot hold stays an escape where the value is kept as it
-- is written, and is refused elsewhere.
SELECT outbox.enqueue('order', 1, 'e', '"\u20ac \u6f22 \u00e9 é"') IS NOT NULL;
SELECT cardinality(outbox.enqueue_batch('[{"aggregate_type": "order", "aggregate_id": "\u00e9", "event_type": "e", "payload": "\u20ac"}]'));
SELECT aggregate_id, payload FROM messages;
SELECT refusal_code($$SELECT outbox.enqueue('order', 1, 'e', '"\u20ac"'::jsonb)$$);
SELECT refusal_code($$SELECT outbox.enqueue('order', 1, 'e', '{}', headers => '{"h": "\u20ac"}')$$);
SELECT refusal_code($$SELECT outbox.enqueue_batch('[{"aggregate_type": "order", "aggregate_id": "\u20ac", "event_type": "e"}]')$$);

-- refusals name what they mean in the encoding of the database
SELECT refusal($$SELECT outbox.enqueue('order', 1, 'e', '{}', headers => '{"ce_é": 1}')$$);
SELECT refusal($$SELECT outbox.enqueue('order', 1, 'e', '{}', headers => '{"é": []}')$$);
SELECT refusal($$SELECT outbox.enqueue('é', 1, 'e', '{}')$$);
SELECT refusal($$SELECT outbox.enqueue_batch('[{"é": 1}]')$$);

\c regress_outbox_eucjp
\set ECHO none
\i :begin
\set ECHO all
SHOW server_encoding;
SELECT outbox.message_lane('漢字') = 9 AS as_in_utf8, octet_length('漢字') AS bytes_here;
SELECT outbox.enqueue('order', '漢字', 'e', '{"名": "漢字\"}]", "x": ["表"]}', '{"名": "字"}') IS NOT NULL;
SELECT cardinality(outbox.enqueue_batch('[{"aggregate_type": "order", "aggregate_id": "漢字", "event_type": "作成", "payload": {"名": "漢字\"}]", "x": ["表"]}, "headers": {"名": "字"}}]'));
SELECT aggregate_id, event_type, payload, headers FROM messages;
SELECT DISTINCT lane = 9 AS as_in_utf8 FROM outbox.message;
SELECT refusal($$SELECT outbox.enqueue('order', 1, 'e', '{}', headers => '{"ce_名": 1}')$$);

\c :main
DROP DATABASE regress_outbox_latin1 WITH (FORCE);
DROP DATABASE regress_outbox_eucjp WITH (FORCE);
