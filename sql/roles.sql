-- Who may do what.
\getenv source PG_ABS_SRCDIR
\set begin :source /sql/include/begin.sql
\set ECHO none
\i :begin
\set ECHO all

CREATE ROLE regress_outbox_public;
CREATE ROLE regress_outbox_producer;
CREATE ROLE regress_outbox_monitor;
CREATE ROLE regress_outbox_operator;
SELECT outbox.grant_producer('regress_outbox_producer');
SELECT outbox.grant_monitor('regress_outbox_monitor');
SELECT outbox.grant_operator('regress_outbox_operator');

-- Everything that the extension brings against every kind of role: a new
-- object has to be decided upon here.
CREATE TEMP TABLE role AS SELECT n, name::regrole::oid AS role FROM (VALUES (1, 'regress_outbox_public'), (2, 'regress_outbox_producer'),
	(3, 'regress_outbox_monitor'), (4, 'regress_outbox_operator'), (5, quote_ident(current_user))) AS t (n, name);
CREATE TEMP VIEW member AS SELECT classid, objid FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'outbox') AND deptype = 'e';
\pset tuples_only off
\pset footer off
\pset null ''
SELECT p.oid::regprocedure AS function,
	max(CASE WHEN n = 1 AND has_function_privilege(role, p.oid, 'EXECUTE') THEN 'x' END) AS public,
	max(CASE WHEN n = 2 AND has_function_privilege(role, p.oid, 'EXECUTE') THEN 'x' END) AS producer,
	max(CASE WHEN n = 3 AND has_function_privilege(role, p.oid, 'EXECUTE') THEN 'x' END) AS monitor,
	max(CASE WHEN n = 4 AND has_function_privilege(role, p.oid, 'EXECUTE') THEN 'x' END) AS operator,
	max(CASE WHEN n = 5 AND has_function_privilege(role, p.oid, 'EXECUTE') THEN 'x' END) AS owner
FROM pg_proc AS p JOIN member ON classid = 'pg_proc'::regclass AND objid = p.oid CROSS JOIN role
GROUP BY p.oid ORDER BY p.oid::regprocedure::text COLLATE "C";
CREATE FUNCTION pg_temp.table_rights(role oid, relation oid) RETURNS text
LANGUAGE sql AS $$
	SELECT nullif(concat_ws(' ', nullif(string_agg(CASE WHEN has_table_privilege(role, relation, right_name) THEN letter END, '' ORDER BY n), ''),
		CASE WHEN NOT has_table_privilege(role, relation, 'SELECT') THEN
			(SELECT 'r(' || string_agg(attname, ' ' ORDER BY attnum) || ')' FROM pg_attribute
			WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND has_column_privilege(role, relation, attnum, 'SELECT')) END), '')
	FROM (VALUES (1, 'SELECT', 'r'), (2, 'INSERT', 'a'), (3, 'UPDATE', 'w'), (4, 'DELETE', 'd'), (5, 'TRUNCATE', 'D'), (6, 'REFERENCES', 'x'),
		(7, 'TRIGGER', 't')) AS t (n, right_name, letter)
$$;
SELECT c.oid::regclass AS relation,
	max(pg_temp.table_rights(role, c.oid)) FILTER (WHERE n = 1) AS public, max(pg_temp.table_rights(role, c.oid)) FILTER (WHERE n = 2) AS producer,
	max(pg_temp.table_rights(role, c.oid)) FILTER (WHERE n = 3) AS monitor, max(pg_temp.table_rights(role, c.oid)) FILTER (WHERE n = 4) AS operator,
	max(pg_temp.table_rights(role, c.oid)) FILTER (WHERE n = 5) AS owner
FROM pg_class AS c JOIN member ON classid = 'pg_class'::regclass AND objid = c.oid CROSS JOIN role
WHERE c.relkind <> 'S' GROUP BY c.oid ORDER BY c.oid::regclass::text COLLATE "C";
SELECT c.oid::regclass AS sequence, string_agg(format('%s:%s', n, concat(CASE WHEN has_sequence_privilege(role, c.oid, 'USAGE') THEN 'U' END,
	CASE WHEN has_sequence_privilege(role, c.oid, 'SELECT') THEN 'r' END, CASE WHEN has_sequence_privilege(role, c.oid, 'UPDATE') THEN 'w' END)), ' ' ORDER BY n) AS rights
FROM pg_class AS c CROSS JOIN role
WHERE c.relkind = 'S' AND c.relnamespace = 'outbox'::regnamespace GROUP BY c.oid ORDER BY c.oid::regclass::text COLLATE "C";
SELECT n, has_schema_privilege(role, 'outbox', 'USAGE') AS usage, has_schema_privilege(role, 'outbox', 'CREATE') AS "create" FROM role ORDER BY n;
\pset tuples_only on
\pset null (null)

-- nothing is granted to everybody, and no other kind of object is there
SELECT DISTINCT classid::regclass FROM member WHERE classid <> 'pg_type'::regclass ORDER BY 1;
SELECT count(*) FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace AND has_function_privilege('public', oid, 'EXECUTE');

-- a SECURITY DEFINER function without a fixed search_path would be a hole
SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace AND prosecdef
	AND NOT coalesce(proconfig @> ARRAY['search_path=pg_catalog, pg_temp'], false);

-- Without a grant every function and every table is refused; the schema's
-- name is all that such a role gets to see.
CREATE FUNCTION sample(type oid) RETURNS text
LANGUAGE sql STABLE AS $$
	SELECT CASE type::regtype::text WHEN 'anynonarray' THEN '1' ELSE format('%L::%s', CASE type::regtype::text
		WHEN 'text' THEN 'a' WHEN 'json' THEN '[]' WHEN 'jsonb' THEN '{}' WHEN 'bytea' THEN '' WHEN 'uuid' THEN '018dfa02-b095-7031-b039-000000010932'
		WHEN 'pg_snapshot' THEN '3:3:' WHEN 'interval' THEN '0' WHEN 'date' THEN '2000-01-01' WHEN 'regclass' THEN 'pg_class' WHEN 'regrole' THEN 'pg_monitor'
		WHEN 'text[]' THEN '{}' WHEN 'timestamp with time zone' THEN '2000-01-01' ELSE '1' END, type::regtype) END
$$;
CREATE FUNCTION refusals_of_all() RETURNS TABLE (kind text, said text)
LANGUAGE sql AS $$
	SELECT DISTINCT 'function', regexp_replace(split_part(refusal(format(CASE p.prokind WHEN 'p' THEN 'CALL %s(%s)' ELSE 'SELECT %s(%s)' END, p.oid::regproc,
		(SELECT string_agg(sample(t), ', ' ORDER BY i) FROM unnest(p.proargtypes) WITH ORDINALITY AS a (t, i)))), E'\n', 1), '(function|procedure) .*', '\1 …')
	FROM pg_proc AS p WHERE p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'outbox')
	UNION ALL
	SELECT DISTINCT 'relation', regexp_replace(split_part(refusal(format('SELECT * FROM outbox.%I', relname)), E'\n', 1), '(table|view|sequence) .*', '\1 …')
	FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'outbox') AND relkind IN ('r', 'p', 'v', 'S')
	ORDER BY 1, 2
$$;
SET ROLE regress_outbox_public;
SELECT kind, said FROM refusals_of_all();
RESET ROLE;
GRANT USAGE ON SCHEMA outbox TO regress_outbox_public;
SET ROLE regress_outbox_public;
SELECT kind, said FROM refusals_of_all();
SELECT refusal($$SELECT outbox.enqueue('order', 1, 'e', '{}')$$);
SELECT refusal($$INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type) VALUES ('order', '1', 'e')$$);
SELECT refusal($$SELECT outbox.grant_producer('regress_outbox_public')$$);
RESET ROLE;
DROP FUNCTION refusals_of_all(), sample(oid);

-- The producer enqueues, and cannot read what anybody has sent.
SET ROLE regress_outbox_producer;
SELECT outbox.enqueue('order', 1, 'e', '{"secret": 1}', '{"h": "secret"}', key => 'k') AS id \gset
SELECT cardinality(outbox.enqueue_batch('[{"aggregate_type": "order", "aggregate_id": "2", "event_type": "e"}]'));
SELECT outbox.enqueue_json('order', '3', 'e', '{}') IS NOT NULL, outbox.enqueue_bytes('order', '4', 'e', '\x00') IS NOT NULL;
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type) VALUES ('order', '5', 'e') RETURNING seq IS NOT NULL, created_at IS NOT NULL, aggregate_id;
SELECT resolved_topic FROM outbox.resolve('order', 'e');
SELECT outbox.wait_until_published(:'id', '0'), outbox.wait_until_drained('0');
SELECT aggregate_id FROM outbox.message ORDER BY seq;
SELECT outbox.message_created_at(:'id') = created_at, outbox.message_id(created_at, xid, seq) = :'id', outbox.message_lane('k') = lane FROM outbox.message WHERE aggregate_id = '1';
SELECT refusal('SELECT payload FROM outbox.message');
SELECT refusal('SELECT payload_bytes FROM outbox.message');
SELECT refusal('SELECT headers FROM outbox.message');
SELECT refusal('SELECT key FROM outbox.message');
SELECT refusal('SELECT * FROM outbox.message');
SELECT refusal('SELECT message FROM outbox.message');
SELECT refusal('SELECT count(*) FROM outbox.message WHERE payload IS NULL');
SELECT refusal('SELECT payload FROM outbox.message_default');
SELECT refusal('SELECT status FROM outbox.delivery');
SELECT refusal('SELECT aggregate_id FROM outbox.pending');
SELECT refusal('SELECT * FROM outbox.retry');
SELECT refusal('SELECT * FROM outbox.route');
SELECT refusal('SELECT * FROM outbox.health()');
SELECT refusal(format('SELECT * FROM outbox.locate(%L)', :'id'));
SELECT refusal('UPDATE outbox.message SET payload = NULL');
SELECT refusal('DELETE FROM outbox.message');
SELECT refusal('TRUNCATE outbox.message');
SELECT refusal('LOCK outbox.message IN ACCESS EXCLUSIVE MODE');
SELECT refusal('INSERT INTO outbox.route (topic) VALUES (''x'')');
SELECT refusal('SELECT setval(''outbox.message_seq'', 1)');
SELECT refusal('SELECT nextval(''outbox.message_seq'')');
SELECT refusal('SELECT outbox.start()');
SELECT refusal('CALL outbox.maintain()');
SELECT refusal('CREATE TABLE outbox.mine ()');
RESET ROLE;

-- The monitor sees how it goes, and no content.
SET ROLE regress_outbox_monitor;
SELECT count(*) > 5 FROM outbox.health();
SELECT outbox.healthy() IS NOT NULL;
SELECT count(*) FROM outbox.stat;
SELECT count(*) FROM outbox.lane;
SELECT count(*) FROM outbox.progress;
SELECT count(*) FROM outbox.parked;
SELECT count(*) FROM outbox.route;
SELECT count(*) FROM outbox.instance;
SELECT count(*) >= 0 FROM outbox.batch;
SELECT count(*) >= 0 FROM outbox.leaf;
SELECT aggregate_id, status, retry_count FROM outbox.delivery ORDER BY seq;
SELECT topic, status FROM outbox.locate(:'id');
SELECT resolved_topic FROM outbox.resolve('order', 'e');
SELECT refusal('SELECT payload FROM outbox.delivery');
SELECT refusal('SELECT payload_bytes FROM outbox.delivery');
SELECT refusal('SELECT headers FROM outbox.delivery');
SELECT refusal('SELECT key FROM outbox.delivery');
SELECT refusal('SELECT * FROM outbox.delivery');
SELECT refusal('SELECT count(*) FROM outbox.delivery WHERE headers IS NULL');
SELECT refusal('SELECT aggregate_id FROM outbox.message');
SELECT refusal('SELECT * FROM outbox.pending');
SELECT refusal('SELECT * FROM outbox.log');
SELECT refusal('SELECT * FROM outbox.retry');
SELECT refusal($$SELECT outbox.enqueue('order', 1, 'e', '{}')$$);
SELECT refusal('UPDATE outbox.lane SET attempts = 0');
SELECT refusal('UPDATE outbox.instance SET source = ''x''');
SELECT refusal('DELETE FROM outbox.batch');
SELECT refusal('SELECT outbox.start()');
RESET ROLE;

-- The operator runs it, and enqueues nothing.
SET ROLE regress_outbox_operator;
SELECT aggregate_id, payload, payload_bytes, headers FROM outbox.delivery ORDER BY seq;
SELECT count(*) FROM outbox.pending;
SELECT count(*) FROM outbox.retry;
INSERT INTO outbox.route (aggregate_type, topic) VALUES ('x', 'x');
UPDATE outbox.route SET topic = 'y';
DELETE FROM outbox.route;
SELECT outbox.start('regress') IS NOT NULL;
CALL outbox.maintain();
SELECT outbox.wait_until_drained('0');
SELECT count(*) > 5 FROM outbox.health();
SELECT refusal($$SELECT outbox.enqueue('order', 1, 'e', '{}')$$);
SELECT refusal('DELETE FROM outbox.message');
SELECT refusal('UPDATE outbox.message SET payload = NULL');
SELECT refusal('DELETE FROM outbox.retry');
SELECT refusal('UPDATE outbox.instance SET life = 9');
SELECT refusal('DELETE FROM outbox.batch');
SELECT refusal($$SELECT outbox.grant_operator('regress_outbox_public')$$);
RESET ROLE;
DELETE FROM outbox.message;

-- One grant is enough in a trigger of a plain user: with an empty search_path,
-- under row security, for whom the trigger fires on behalf of the user.
CREATE SCHEMA regress_outbox_shop AUTHORIZATION regress_outbox_producer;
GRANT USAGE ON SCHEMA regress_outbox_shop TO regress_outbox_public;
SET ROLE regress_outbox_producer;
CREATE TABLE regress_outbox_shop.orders (id bigint PRIMARY KEY, owner text DEFAULT current_user, total numeric);
ALTER TABLE regress_outbox_shop.orders ENABLE ROW LEVEL SECURITY;
ALTER TABLE regress_outbox_shop.orders FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON regress_outbox_shop.orders USING (owner = current_user);
GRANT INSERT, SELECT, UPDATE ON regress_outbox_shop.orders TO regress_outbox_public;
CREATE FUNCTION regress_outbox_shop.announce() RETURNS trigger
LANGUAGE plpgsql SECURITY INVOKER SET search_path = '' AS $$
BEGIN
	PERFORM outbox.enqueue('order', NEW.id, 'created', pg_catalog.to_jsonb(NEW));
	RETURN NULL;
END $$;
CREATE TRIGGER announce AFTER INSERT ON regress_outbox_shop.orders FOR EACH ROW EXECUTE FUNCTION regress_outbox_shop.announce();
INSERT INTO regress_outbox_shop.orders (id, total) VALUES (1, 1.50);
SET search_path = '';
INSERT INTO regress_outbox_shop.orders (id, total) VALUES (2, 2.50);
SELECT outbox.enqueue('order', 3, 'seen', (SELECT pg_catalog.row_to_json(o) FROM regress_outbox_shop.orders AS o WHERE o.id = 2)) IS NOT NULL;
SELECT pg_catalog.cardinality(outbox.enqueue_batch('[{"aggregate_type": "order", "aggregate_id": "\u0034", "event_type": "e"}]'));
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type) VALUES ('order', '5', 'e');
SELECT resolved_topic FROM outbox.resolve('order', 'e');
SELECT outbox.wait_until_drained('0');
RESET search_path;
RESET ROLE;
SELECT aggregate_id, event_type, payload FROM messages;

-- A user without the grant cannot, unless the trigger runs as one who has it.
SET ROLE regress_outbox_public;
SELECT refusal('INSERT INTO regress_outbox_shop.orders (id, total) VALUES (6, 6)');
RESET ROLE;
ALTER FUNCTION regress_outbox_shop.announce() SECURITY DEFINER;
SET ROLE regress_outbox_public;
SELECT refusal('INSERT INTO regress_outbox_shop.orders (id, total) VALUES (6, 6)');
RESET ROLE;
SELECT aggregate_id, payload FROM messages WHERE aggregate_id = '6';

-- A role inherits the grant as any other; names need no care; twice is once.
CREATE ROLE "Regress ""Outbox"" App" IN ROLE regress_outbox_producer;
CREATE ROLE "regress outbox; DROP";
SELECT outbox.grant_producer('"regress outbox; DROP"');
SELECT outbox.grant_producer('"regress outbox; DROP"');
SELECT outbox.grant_monitor('"regress outbox; DROP"');
SET ROLE "Regress ""Outbox"" App";
SELECT outbox.enqueue('order', 7, 'e', '{}') IS NOT NULL;
SET ROLE "regress outbox; DROP";
SELECT outbox.enqueue('order', 8, 'e', '{}') IS NOT NULL;
SELECT count(*) > 5 FROM outbox.health();
RESET ROLE;
SELECT refusal($$SELECT outbox.grant_producer('regress_outbox_nobody')$$);
SELECT refusal('SELECT outbox.grant_producer(NULL)');
SELECT refusal('SELECT outbox.grant_monitor(NULL)');
SELECT refusal('SELECT outbox.grant_operator(NULL)');
DROP OWNED BY "regress outbox; DROP";
SET ROLE "regress outbox; DROP";
SELECT refusal($$SELECT outbox.enqueue('order', 9, 'e', '{}')$$);
RESET ROLE;

SET client_min_messages = warning;
DROP SCHEMA regress_outbox_shop CASCADE;
DROP OWNED BY regress_outbox_public, regress_outbox_producer, regress_outbox_monitor, regress_outbox_operator;
DROP ROLE regress_outbox_public, regress_outbox_producer, regress_outbox_monitor, regress_outbox_operator, "Regress ""Outbox"" App", "regress outbox; DROP";
