-- The extension comes and goes.
\getenv source PG_ABS_SRCDIR
\set begin :source /sql/include/begin.sql
\set ECHO none
\i :begin
\set ECHO all

SELECT extversion, extrelocatable, extnamespace::regnamespace FROM pg_extension WHERE extname = 'outbox';

-- once is enough, and it has one place
SELECT refusal('CREATE EXTENSION outbox');
CREATE EXTENSION IF NOT EXISTS outbox;
SELECT refusal('ALTER EXTENSION outbox SET SCHEMA public');
ALTER EXTENSION outbox UPDATE;
SELECT refusal('ALTER EXTENSION outbox UPDATE TO ''0.1''');

-- what a dump carries of the rows; never outbox.lane, never the wish to start
SELECT t.config::regclass, t.condition FROM pg_extension, unnest(extconfig, extcondition) AS t (config, condition)
WHERE extname = 'outbox' ORDER BY t.config::regclass::text COLLATE "C";

-- members alone do not fit what was made later
SELECT outbox.enqueue('order', 1, 'e', '{}') IS NOT NULL;
CALL maintain_until_healed();
SELECT count(*) > current_setting('outbox.premake')::integer FROM pg_class WHERE relnamespace = 'outbox'::regnamespace AND relname ~ '^message_\d{8}$';

-- A publication of all tables lets us change ours.
SET client_min_messages = error;
CREATE PUBLICATION regress_outbox_all FOR ALL TABLES;
RESET client_min_messages;
BEGIN;
UPDATE outbox.lane SET attempts = 0;
INSERT INTO outbox.route (aggregate_type, topic) VALUES ('x', 'x');
UPDATE outbox.route SET topic = 'y';
DELETE FROM outbox.route;
UPDATE outbox.instance SET source = source;
UPDATE outbox.leaf SET updated_at = now();
INSERT INTO outbox.start_request (database) SELECT oid FROM pg_database WHERE datname = current_database();
UPDATE outbox.start_request SET requested_at = now();
DELETE FROM outbox.start_request;
INSERT INTO outbox.parked VALUES ('x', 0, '3:3:', 'x');
UPDATE outbox.parked SET reason = 'y';
DELETE FROM outbox.parked;
INSERT INTO outbox.retry (id, seq, created_at, xid, lane, aggregate_type, aggregate_id, event_type, topic, status)
SELECT outbox.message_id(created_at, xid, seq), seq, created_at, xid, lane, aggregate_type, aggregate_id, event_type, topic, 'FAILED' FROM outbox.message;
UPDATE outbox.retry SET attempts = 1;
DELETE FROM outbox.retry;
UPDATE outbox.message SET topic = 'y';
DELETE FROM outbox.message;
INSERT INTO outbox.batch (worker_pid, snapshots, lanes, lane_snapshot, lane_target, lane_seq, messages, bytes, topics, range_topic, range_partition, range_first, range_last)
VALUES (0, '{3:3:}', '{0}', '{1}', '{0}', '{0}', 0, 0, '{}', '{}', '{}', '{}', '{}');
UPDATE outbox.batch SET bytes = 1;
DELETE FROM outbox.batch;
ROLLBACK;
DROP PUBLICATION regress_outbox_all;

-- Users' objects hold it back; what the extension made later goes with it.
INSERT INTO outbox.route (topic) VALUES ('everything');
CREATE VIEW mine AS SELECT aggregate_id FROM outbox.message;
CREATE TABLE event (id uuid DEFAULT outbox.enqueue('event', 1, 'made', '{}'), n integer);
CREATE FUNCTION send(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN outbox.enqueue('order', id, 'e', '{}') IS NOT NULL; END $$;
PREPARE enqueue AS SELECT outbox.enqueue('order', $1, 'e', '{}') IS NOT NULL;
SELECT send(2);
EXECUTE enqueue(3);
\set SHOW_CONTEXT never
SELECT split_part(refusal('DROP EXTENSION outbox'), E'\n', 1);
SET client_min_messages = warning;
DROP EXTENSION outbox CASCADE;
RESET client_min_messages;
SELECT count(*) FROM pg_class WHERE relnamespace = 'outbox'::regnamespace;
SELECT count(*) FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace;
SELECT to_regclass('mine');
INSERT INTO event (n) VALUES (1) RETURNING id;
SELECT split_part(refusal('SELECT send(4)'), E'\n', 1);
SELECT split_part(refusal('EXECUTE enqueue(4)'), E'\n', 1);

-- Created again it begins anew, in the same session, with what was prepared.
CREATE EXTENSION outbox;
SELECT send(5);
EXECUTE enqueue(6);
SELECT seq, aggregate_id, topic, status FROM outbox.delivery ORDER BY seq;
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type) VALUES ('order', '7', 'e');
SELECT cardinality(outbox.enqueue_batch('[{"aggregate_type": "order", "aggregate_id": 8, "event_type": "e"}]'));
SELECT count(*) FROM outbox.message;
SELECT count(*) FROM outbox.route;

-- The schema may be there already, with other things in it, and is not taken
-- along unless it is dropped itself.
DROP EXTENSION outbox;
CREATE TABLE outbox.older (n integer);
CREATE EXTENSION outbox;
SELECT send(9);
DROP EXTENSION outbox;
SELECT count(*) FROM outbox.older;
SET client_min_messages = warning;
DROP SCHEMA outbox CASCADE;
CREATE EXTENSION outbox;
SELECT send(10);
DROP SCHEMA outbox CASCADE;
RESET client_min_messages;
SELECT count(*) FROM pg_extension WHERE extname = 'outbox';

-- something of ours that is there already is not taken over
CREATE SCHEMA outbox;
CREATE TABLE outbox.message (seq bigint);
SELECT refusal('CREATE EXTENSION outbox');
DROP SCHEMA outbox CASCADE;
SELECT refusal('CREATE EXTENSION outbox SCHEMA public');
SELECT refusal('CREATE EXTENSION outbox VERSION ''0.1''');

-- for superusers only
CREATE ROLE regress_outbox_plain;
GRANT CREATE ON DATABASE :"DBNAME" TO regress_outbox_plain;
SET ROLE regress_outbox_plain;
SELECT refusal('CREATE EXTENSION outbox');
RESET ROLE;
REVOKE CREATE ON DATABASE :"DBNAME" FROM regress_outbox_plain;
DROP ROLE regress_outbox_plain;

-- its functions in C are no functions for others
CREATE EXTENSION outbox;
SELECT refusal('SELECT outbox.message_complete()');
SELECT refusal('SELECT outbox.route_changed()');
CREATE TABLE other (n integer);
CREATE FUNCTION refused_trigger(definition text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'CREATE TRIGGER t ' || definition;
	RETURN refusal('INSERT INTO other VALUES (1)');
END $$;
BEGIN;
SELECT refused_trigger('AFTER INSERT ON other FOR EACH STATEMENT EXECUTE FUNCTION outbox.message_complete()');
ROLLBACK;
BEGIN;
SELECT refused_trigger('BEFORE INSERT ON other FOR EACH ROW EXECUTE FUNCTION outbox.message_complete()');
ROLLBACK;
BEGIN;
SELECT refused_trigger('BEFORE INSERT ON other FOR EACH ROW EXECUTE FUNCTION outbox.route_changed()');
ROLLBACK;
BEGIN;
CREATE TRIGGER t BEFORE UPDATE ON outbox.message FOR EACH ROW EXECUTE FUNCTION outbox.message_complete();
SELECT outbox.enqueue('order', 1, 'e', '{}') IS NOT NULL;
SELECT refusal('UPDATE outbox.message SET topic = topic');
ROLLBACK;

DROP FUNCTION refused_trigger(text);
DROP TABLE other, event;
DROP FUNCTION send(bigint);
