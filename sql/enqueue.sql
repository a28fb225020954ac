-- The ways of calling enqueue(), and what stands in the log afterwards.
\getenv source PG_ABS_SRCDIR
\set begin :source /sql/include/begin.sql
\set ECHO none
\i :begin
\set ECHO all

-- untyped literals
SELECT outbox.enqueue('order', '1', 'created', '{"total": 5}') IS NOT NULL;
SELECT outbox.enqueue('order', 2, 'created', '{"total": 5}') IS NOT NULL;
SELECT outbox.enqueue('order', '3', 'created', NULL) IS NOT NULL;
SELECT outbox.enqueue('order', '4', 'created', '[1]', '{"trace": "t4"}') IS NOT NULL;
SELECT * FROM messages;
DELETE FROM outbox.message;

-- each type of a payload with each kind of id
CREATE DOMAIN order_no AS bigint;
CREATE DOMAIN order_code AS text;
CREATE DOMAIN document AS json;
SELECT outbox.enqueue('json', 1::text, 'e', '{"a": 1}'::json),
	outbox.enqueue('json', 2::integer, 'e', '{"a": 1}'::json),
	outbox.enqueue('json', 3::bigint, 'e', '{"a": 1}'::document),
	outbox.enqueue('jsonb', 1::text, 'e', '{"b": 1, "a": 1.0}'::jsonb),
	outbox.enqueue('jsonb', 2::smallint, 'e', '{"b": 1, "a": 1.0}'::jsonb),
	outbox.enqueue('jsonb', '00000000-0000-0000-0000-00000000002a'::uuid, 'e', '{"b": 1, "a": 1.0}'::jsonb),
	outbox.enqueue('text', 1::varchar, 'e', '{"a": 1}'::text),
	outbox.enqueue('text', 2::numeric, 'e', '{"a": 1}'::varchar),
	outbox.enqueue('text', 3::order_no, 'e', '{"a": 1}'::order_code),
	outbox.enqueue('bytes', 'x'::order_code, 'e', '\x0001ff'::bytea),
	outbox.enqueue('bytes', 2, 'e', '\x0001ff'::bytea),
	outbox.enqueue('bytes', 'n'::name, 'e', '\x0001ff'::bytea),
	outbox.enqueue('bytes', 'c  '::char(3), 'e', '\x0001ff'::bytea),
	outbox.enqueue('bytes', true, 'e', '\x0001ff'::bytea)
\gset ignored_
SELECT * FROM messages;
DELETE FROM outbox.message;

-- the same as parameters, typed and not
PREPARE untyped AS SELECT outbox.enqueue($1, $2, $3, $4) IS NOT NULL;
EXECUTE untyped('untyped', '1', 'e', '{"a": 1}');
EXECUTE untyped('untyped', 2, 'e', NULL);
PREPARE untyped_all AS
	SELECT outbox.enqueue($1, $2, $3, $4, $5, $6, $7, $8, $9) IS NOT NULL;
EXECUTE untyped_all('untyped_all', '1', 'e', '{"a": 1}', '{"h": 1}', 'some.topic', 'k', NULL, NULL);
PREPARE jdbc (varchar, bigint, varchar, varchar) AS SELECT outbox.enqueue($1, $2, $3, $4) IS NOT NULL;
EXECUTE jdbc('varchar_and_bigint', 7, 'e', '{"a": 1}');
PREPARE uuids (text, uuid, text, jsonb) AS SELECT outbox.enqueue($1, $2, $3, $4) IS NOT NULL;
EXECUTE uuids('uuid_and_jsonb', '00000000-0000-0000-0000-00000000002a', 'e', '{"a": 1}');
PREPARE small (text, smallint, text, json) AS SELECT outbox.enqueue($1, $2, $3, $4) IS NOT NULL;
EXECUTE small('smallint_and_json', 7, 'e', '{"a": 1}');
PREPARE mixed (text, unknown, text, bytea) AS SELECT outbox.enqueue($1, $2, $3, $4) IS NOT NULL;
EXECUTE mixed('untyped_and_bytea', '7', 'e', '\x00');
SELECT * FROM messages;
DELETE FROM outbox.message;

-- by name, in any order, with the rest left out
SELECT outbox.enqueue(event_type => 'e', payload => '{"a": 1}', aggregate_id => 5, aggregate_type => 'named') IS NOT NULL;
SELECT outbox.enqueue('named', '6', 'e', '{"a": 1}', topic => 'some.topic') IS NOT NULL;
SELECT outbox.enqueue('named', '7', 'e', '{"a": 1}', key => 'the key', headers => '{"h": "x"}') IS NOT NULL;
SELECT outbox.enqueue('named', '8', 'e', '{"a": 1}', deliver_at => NULL, expires_at => NULL, topic => NULL, key => NULL, headers => NULL) IS NOT NULL;
SELECT * FROM messages;
DELETE FROM outbox.message;

-- the two names for clients that cannot call overloads
SELECT outbox.enqueue_json('json', '1', 'e', '{"a": 1}', '{"h": 1}', 'some.topic', 'k') IS NOT NULL;
SELECT outbox.enqueue_json('json', '2', 'e', NULL) IS NOT NULL;
SELECT outbox.enqueue_bytes('bytes', '1', 'e', '\x00', headers => '{"content-type": "application/avro"}') IS NOT NULL;
SELECT outbox.enqueue_bytes('bytes', '2', 'e', NULL) IS NOT NULL;
PREPARE json_only AS SELECT outbox.enqueue_json($1, $2, $3, $4) IS NOT NULL;
EXECUTE json_only('json', '3', 'e', '"x"');
PREPARE bytes_only AS SELECT outbox.enqueue_bytes($1, $2, $3, $4) IS NOT NULL;
EXECUTE bytes_only('bytes', '3', 'e', '\x01');
SELECT count(*) FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace AND proname IN ('enqueue_json', 'enqueue_bytes', 'enqueue_batch');
SELECT * FROM messages;
DELETE FROM outbox.message;

-- No payload is a tombstone; no bytes are an empty value; JSON null is a value
-- of four bytes.
SELECT outbox.enqueue('tombstone', 1, 'e', NULL::json), outbox.enqueue('tombstone', 2, 'e', NULL::jsonb),
	outbox.enqueue('tombstone', 3, 'e', NULL::text), outbox.enqueue('tombstone', 4, 'e', NULL::bytea),
	outbox.enqueue('empty', 1, 'e', ''::bytea),
	outbox.enqueue('null', 1, 'e', 'null'), outbox.enqueue('null', 2, 'e', 'null'::json),
	outbox.enqueue('null', 3, 'e', 'null'::jsonb), outbox.enqueue('empty_string', 1, 'e', '""')
\gset ignored_
SELECT aggregate_type, aggregate_id, payload IS NULL AS no_json, payload_bytes IS NULL AS no_bytes,
	octet_length(payload::text) AS json_length, octet_length(payload_bytes) AS bytes_length
FROM outbox.message ORDER BY seq;
DELETE FROM outbox.message;

-- JSON is kept byte for byte, whatever type of text it comes as
CREATE TABLE sample (id integer, value text);
INSERT INTO sample VALUES
	(1, ' { "b" : 1 ,"a":[ ]  } '),
	(2, '{"z": 1, "a": 1.0, "a": 1e3}'),
	(3, '123456789012345678901234567890.1234567890'),
	(4, '-0.0'),
	(5, '1E400'),
	(6, E'[1,\n\t2]'),
	(7, '"\u00e9\/\u0041"'),
	(8, '"é 漢字 😀"'),
	(9, '"\u0000"'),
	(10, '"\ud800 alone"'),
	(11, '"\ud83d\ude00"'),
	(12, '{"": {"": []}}'),
	(13, 'true');
SELECT outbox.enqueue('text', id, 'e', value), outbox.enqueue('json', id, 'e', value::json),
	outbox.enqueue_json('one_name', id::text, 'e', value::json)
FROM sample ORDER BY id
\g /dev/null
SELECT m.aggregate_type, count(*) FILTER (WHERE m.payload::text = s.value) AS same, count(*)
FROM outbox.message AS m JOIN sample AS s ON s.id = m.aggregate_id::integer
GROUP BY m.aggregate_type ORDER BY 1;
DELETE FROM outbox.message;

-- jsonb has its own order and spaces, and numbers keep their digits
SELECT outbox.enqueue('jsonb', 1, 'e', '{"bb":1.0,"a":123456789012345678901234567890,"c":1e3}'::jsonb) IS NOT NULL;
SELECT payload FROM outbox.message;
DELETE FROM outbox.message;

-- bytes of every value
SELECT outbox.enqueue('bytes', 1, 'e', decode(string_agg(lpad(to_hex(g), 2, '0'), '' ORDER BY g), 'hex')) IS NOT NULL
FROM generate_series(0, 255) AS g;
SELECT octet_length(payload_bytes), md5(payload_bytes) = md5(decode(string_agg(lpad(to_hex(g), 2, '0'), '' ORDER BY g), 'hex'))
FROM outbox.message, generate_series(0, 255) AS g GROUP BY payload_bytes;
DELETE FROM outbox.message;

-- large values, out of line and compressed, up to the limit
SELECT outbox.enqueue('large', 1, 'e', to_json(repeat('x', 999996))) IS NOT NULL;
SELECT outbox.enqueue('large', 2, 'e', convert_to(repeat('x', 999999), 'UTF8')) IS NOT NULL;
SELECT aggregate_id, octet_length(payload::text), octet_length(payload_bytes) FROM outbox.message ORDER BY seq;
DELETE FROM outbox.message;

-- texts that need care elsewhere
SELECT outbox.enqueue('é "quoted"', E'line\nbreak', 'Ünïcödé 漢字 😀', '{}', topic => 'T_0-9.az', key => ' ') IS NOT NULL;
SELECT outbox.enqueue('order', '1', 'e', '{}', key => '') IS NOT NULL;
SELECT * FROM messages;
DELETE FROM outbox.message;

-- in triggers, where the id has the type of the column
CREATE TABLE item_int (id integer PRIMARY KEY, name text);
CREATE TABLE item_bigint (id bigint PRIMARY KEY, name text);
CREATE TABLE item_uuid (id uuid PRIMARY KEY, name text);
CREATE TABLE item_code (id varchar(10) PRIMARY KEY, name text);
CREATE FUNCTION announce() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM outbox.enqueue(TG_TABLE_NAME, NEW.id, lower(TG_OP), to_jsonb(NEW));
	PERFORM outbox.enqueue(TG_TABLE_NAME, NEW.id, lower(TG_OP), row_to_json(NEW));
	PERFORM outbox.enqueue(TG_TABLE_NAME, NEW.id, lower(TG_OP), row_to_json(NEW)::text);
	PERFORM outbox.enqueue(TG_TABLE_NAME, NEW.id, lower(TG_OP), convert_to(NEW.name, 'UTF8'));
	PERFORM outbox.enqueue(TG_TABLE_NAME, NEW.id, lower(TG_OP), '{}');
	PERFORM outbox.enqueue(TG_TABLE_NAME, NEW.id, lower(TG_OP), NULL);
	PERFORM outbox.enqueue_json(TG_TABLE_NAME, NEW.id::text, lower(TG_OP), row_to_json(NEW));
	RETURN NULL;
END $$;
CREATE TRIGGER announce AFTER INSERT ON item_int FOR EACH ROW EXECUTE FUNCTION announce();
CREATE TRIGGER announce AFTER INSERT ON item_bigint FOR EACH ROW EXECUTE FUNCTION announce();
CREATE TRIGGER announce AFTER INSERT ON item_uuid FOR EACH ROW EXECUTE FUNCTION announce();
CREATE TRIGGER announce AFTER INSERT ON item_code FOR EACH ROW EXECUTE FUNCTION announce();
INSERT INTO item_int VALUES (1, 'one');
INSERT INTO item_bigint VALUES (9223372036854775807, 'last');
INSERT INTO item_uuid VALUES ('00000000-0000-0000-0000-00000000002a', 'forty-two');
INSERT INTO item_code VALUES ('A1', 'code');
SELECT * FROM messages;
DELETE FROM outbox.message;

-- two hundred messages of one aggregate in one transaction keep their order
BEGIN;
SELECT outbox.enqueue('many', 1, 'e', g::text) FROM generate_series(1, 200) AS g \g /dev/null
COMMIT;
SELECT count(*), count(DISTINCT xid), array_agg(payload::text::integer ORDER BY seq) = ARRAY(SELECT generate_series(1, 200)) AS ordered
FROM outbox.message;
DELETE FROM outbox.message;

-- the id that comes back is the row's
SELECT outbox.enqueue('order', 1, 'created', '{}') AS id \gset
SELECT outbox.message_id(created_at, xid, seq) = :'id' FROM outbox.message;
SELECT aggregate_type, aggregate_id, event_type, status FROM outbox.delivery WHERE id = :'id';

-- as an expression of another command
CREATE TABLE outcome (message uuid NOT NULL DEFAULT outbox.enqueue('outcome', 1, 'made', '{}'));
INSERT INTO outcome DEFAULT VALUES;
WITH made AS (INSERT INTO outcome DEFAULT VALUES RETURNING message) SELECT count(*) FROM made;
SELECT count(*) FROM outcome JOIN outbox.delivery ON id = message;
DO $$ BEGIN PERFORM outbox.enqueue('do', g, 'e', '{}') FROM generate_series(1, 3) AS g; END $$;
SELECT count(*) FROM outbox.message WHERE aggregate_type = 'do';

DROP TABLE sample, outcome, item_int, item_bigint, item_uuid, item_code;
DROP FUNCTION announce();
DROP DOMAIN order_no, order_code, document;
