-- psql -v topic=TOPIC -f psql.sql
BEGIN;
SELECT outbox.enqueue('order', 42, 'created', '{"total": 10}', topic => :'topic');
SELECT outbox.enqueue('order', 'A-1', 'created', json_build_object('total', 10), topic => :'topic');
SELECT outbox.enqueue('order', gen_random_uuid(), 'scanned', '\x00ff'::bytea, topic => :'topic',
	headers => '{"trace": "00-ab"}');
SELECT outbox.enqueue('order', 42, 'deleted', NULL::json, topic => :'topic');
COMMIT;
BEGIN;
SELECT outbox.enqueue('order', 42, 'rolled back', '{}', topic => :'topic') AS "rolled back" \gset
ROLLBACK;
