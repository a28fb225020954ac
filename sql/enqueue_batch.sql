-- Many messages in one call.
\getenv source PG_ABS_SRCDIR
\set begin :source /sql/include/begin.sql
\set ECHO none
\i :begin
\set ECHO all

-- every field, in any order and with any spaces; ids come in the order of the array
SELECT outbox.enqueue_batch($$ [
	{"aggregate_type": "order", "aggregate_id": "1", "event_type": "created", "payload": {"total": 5}},
	{ "payload" : [ 1.0,  2e3 ] , "event_type":"changed","aggregate_id":2,"aggregate_type":"order" },
	{"aggregate_type": "order", "aggregate_id": "3", "event_type": "created", "payload": "{\"}]", "headers": {"h": 1, "n": null}, "topic": "some.topic", "key": "k"},
	{"aggregate_type": "order", "aggregate_id": 4.50, "event_type": "created", "payload_base64": "AAH/", "key": 17, "headers": {"content-type": "application/avro"}},
	{"aggregate_type": "order", "aggregate_id": "5", "event_type": "created"},
	{"aggregate_type": "order", "aggregate_id": "6", "event_type": "created", "payload": null},
	{"aggregate_type": "order", "aggregate_id": "7", "event_type": "created", "payload_base64": ""},
	{"aggregate_type": "order", "aggregate_id": "8", "event_type": "created", "payload_base64": null},
	{"aggregate_type": "order", "aggregate_id": "9", "event_type": "created", "payload": true, "headers": null, "topic": null, "key": null, "deliver_at": null, "expires_at": null}
] $$) AS ids \gset
SELECT * FROM messages;
SELECT cardinality(:'ids'::uuid[]), array_agg(outbox.message_id(created_at, xid, seq) ORDER BY seq) = :'ids'::uuid[]
FROM outbox.message;
SELECT aggregate_id, octet_length(payload::text) AS json_length, octet_length(payload_bytes) AS bytes_length
FROM outbox.message WHERE aggregate_id BETWEEN '5' AND '8' ORDER BY seq;
DELETE FROM outbox.message;

-- a payload is kept byte for byte, also what no text could hold
SELECT cardinality(outbox.enqueue_batch(
	'[{"aggregate_type":"a","aggregate_id":"1","event_type":"e","payload": {"b" :1.0 , "a":[ ] ,"a":"\u0000 \ud800 \\\" é"} }]'));
SELECT payload FROM outbox.message;
DELETE FROM outbox.message;

-- texts and names of fields may be written with escapes
SELECT cardinality(outbox.enqueue_batch(
	'[{"aggregate\u005ftype":"a","aggregate_id":"a\"b\\c\/d\u00e9\ud83d\ude00\n","event_type":"\u0065","topic":"\u0074"}]'));
SELECT * FROM messages;
DELETE FROM outbox.message;

-- No message at all is no error, nor is NULL: what json_agg() makes of no row.
SELECT outbox.enqueue_batch('[]');
SELECT outbox.enqueue_batch(' [ ] ');
SELECT outbox.enqueue_batch(NULL);
SELECT outbox.enqueue_batch((SELECT json_agg(c) FROM pg_class AS c WHERE false));
SELECT count(*) FROM outbox.message;

-- from a query
SELECT cardinality(outbox.enqueue_batch(json_agg(json_build_object('aggregate_type', 'item', 'aggregate_id', g,
	'event_type', 'made', 'payload', json_build_object('n', g)) ORDER BY g)))
FROM generate_series(1, 3) AS g;
SELECT * FROM messages;
DELETE FROM outbox.message;

-- ten thousand, in order, in one transaction
SELECT cardinality(ids) AS ids, cardinality(ids) = (SELECT count(DISTINCT id) FROM unnest(ids) AS id) AS distinct
FROM outbox.enqueue_batch((SELECT json_agg(json_build_object('aggregate_type', 'many', 'aggregate_id', g % 100,
	'event_type', 'made', 'payload', g) ORDER BY g) FROM generate_series(1, 10000) AS g)) AS ids;
SELECT count(*), count(DISTINCT xid), array_agg(payload::text::integer ORDER BY seq) = ARRAY(SELECT generate_series(1, 10000)) AS ordered
FROM outbox.message;
DELETE FROM outbox.message;

-- the same rules as enqueue(), and the message that breaks one is named
CREATE FUNCTION refused_batch(messages text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	context text;
	said text;
BEGIN
	SELECT refusal(format('SELECT outbox.enqueue_batch(%L)', messages)) INTO said;
	PERFORM outbox.enqueue_batch(messages::json);
	RETURN said;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT;
	RETURN said || coalesce(E'\n  context: ' || (SELECT string_agg(line, E'\n  context: ')
		FROM regexp_split_to_table(context, E'\n') AS line WHERE line ~ 'of a batch'), '');
END $$;
\set good '{"aggregate_type": "a", "aggregate_id": "1", "event_type": "e"}'
SELECT refused_batch('{"aggregate_type": "a", "aggregate_id": "1", "event_type": "e"}');
SELECT refused_batch('null');
SELECT refused_batch('"text"');
SELECT refused_batch('17');
SELECT refused_batch('false');
SELECT refused_batch('[' || :'good' || ', 17]');
SELECT refused_batch('[' || :'good' || ', null]');
SELECT refused_batch('[' || :'good' || ', [' || :'good' || ']]');
SELECT refused_batch('["text"]');
SELECT refused_batch('[{}]');
SELECT refused_batch('[' || :'good' || ', {"aggregate_type": "a", "aggregate_id": "1"}]');
SELECT refused_batch('[{"aggregate_type": "a", "aggregate_id": null, "event_type": "e"}]');
SELECT refused_batch('[{"aggregate_type": "a", "aggregate_id": "", "event_type": "e"}]');
SELECT refused_batch('[{"aggregate_type": "a", "aggregate_id": true, "event_type": "e"}]');
SELECT refused_batch('[{"aggregate_type": {}, "aggregate_id": "1", "event_type": "e"}]');
SELECT refused_batch('[{"aggregate_type": "a", "aggregate_id": "1", "event_type": []}]');
SELECT refused_batch('[' || :'good' || ', {"aggregate_type": "a", "aggregateId": "1", "event_type": "e"}]');
SELECT refused_batch('[{"payload_bytes": "x"}]');
SELECT refused_batch('[{"Payload": 1}]');
SELECT refused_batch('[{"": 1}]');
SELECT refused_batch('[{"aggregate_type": "a", "aggregate_type": "b"}]');
SELECT refused_batch('[{"key": null, "key": null}]');
SELECT refused_batch('[{"payload": null, "payload": 1}]');
SELECT refused_batch('[{"aggregate_type": "a", "aggregate_id": "1", "event_type": "e", "payload": 1, "payload_base64": "AA=="}]');
SELECT refused_batch('[{"aggregate_type": "a", "aggregate_id": "1", "event_type": "e", "payload": null, "payload_base64": "AA=="}]');
SELECT refused_batch('[{"payload_base64": 17}]');
SELECT refused_batch('[{"payload_base64": {}}]');
SELECT refused_batch('[' || :'good' || ', {"payload_base64": "A*=="}]');
SELECT refused_batch('[{"payload_base64": "AAA"}]');
SELECT refused_batch('[{"aggregate_type": "a", "aggregate_id": "\u0000", "event_type": "e"}]');
SELECT refused_batch('[' || :'good' || ', {"aggregate_type": "a", "aggregate_id": "\ud800", "event_type": "e"}]');
SELECT refused_batch('[{"\u0000": 1}]');
SELECT refused_batch('[' || :'good' || ', {"headers": {"h": "\u0000"}}]');
SELECT refused_batch('[{"headers": {"h": "\ud800"}}]');
SELECT refused_batch('[' || :'good' || ', {"aggregate_type": "a", "aggregate_id": "1", "event_type": "e", "headers": {"h": []}}]');
SELECT refused_batch('[{"aggregate_type": "a", "aggregate_id": "1", "event_type": "e", "headers": 17}]');
SELECT refused_batch('[{"aggregate_type": "a", "aggregate_id": "1", "event_type": "e", "headers": {"ce_id": "x"}}]');
SELECT refused_batch('[{"aggregate_type": "a", "aggregate_id": "1", "event_type": "e", "topic": "no/topic"}]');
SELECT refused_batch('[' || :'good' || ', {"aggregate_type": "a b", "aggregate_id": "1", "event_type": "e"}]');
SELECT refused_batch('[{"aggregate_type": "a", "aggregate_id": "1", "event_type": "e", "deliver_at": "2100-01-01T00:00:00Z"}]');
SELECT refused_batch('[{"expires_at": "tomorrow night"}]');
SELECT refused_batch('[{"expires_at": 17}]');
SELECT refused_batch('[' || :'good' || ', {"aggregate_type": "a", "aggregate_id": "1", "event_type": "e", "payload": "' || repeat('x', 1000000) || '"}]');
SELECT refused_batch('[' || :'good' || ',]');
SELECT refused_batch('');

-- one bad message, and none is there
SELECT count(*) FROM outbox.message;

DROP FUNCTION refused_batch(text);
