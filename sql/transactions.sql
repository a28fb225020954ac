-- A message exists exactly if its transaction commits.
\getenv source PG_ABS_SRCDIR
\set begin :source /sql/include/begin.sql
\set ECHO none
\i :begin
\set ECHO all

-- commit, rollback, an error
BEGIN;
SELECT outbox.enqueue('committed', 1, 'e', '{}') IS NOT NULL;
COMMIT;
BEGIN;
SELECT outbox.enqueue('rolled_back', 1, 'e', '{}') IS NOT NULL;
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type) VALUES ('rolled_back', 2, 'e');
ROLLBACK;
BEGIN;
SELECT outbox.enqueue('failed', 1, 'e', '{}') IS NOT NULL;
SELECT 1 / 0;
COMMIT;
SELECT aggregate_type FROM messages;
DELETE FROM outbox.message;

-- savepoints: released, rolled back to, nested; one transaction, one xid
BEGIN;
SELECT outbox.enqueue('kept', 1, 'e', '{}') IS NOT NULL;
SAVEPOINT a;
SELECT outbox.enqueue('kept', 2, 'e', '{}') IS NOT NULL;
RELEASE a;
SAVEPOINT b;
SELECT outbox.enqueue('dropped', 3, 'e', '{}') IS NOT NULL;
SAVEPOINT c;
SELECT outbox.enqueue('dropped', 4, 'e', '{}') IS NOT NULL;
RELEASE c;
ROLLBACK TO b;
SELECT outbox.enqueue('kept', 5, 'e', '{}') IS NOT NULL;
SAVEPOINT d;
SELECT cardinality(outbox.enqueue_batch('[{"aggregate_type": "kept", "aggregate_id": 6, "event_type": "e"}, {"aggregate_type": "kept", "aggregate_id": 7, "event_type": "e"}]'));
SAVEPOINT e;
SELECT 1 / 0;
ROLLBACK TO e;
COMMIT;
SELECT aggregate_type, aggregate_id FROM messages;
SELECT count(DISTINCT xid) FROM outbox.message;
DELETE FROM outbox.message;

-- blocks with exception handlers
DO $$
BEGIN
	FOR i IN 1 .. 6 LOOP
		BEGIN
			PERFORM outbox.enqueue('block', i, 'e', '{}');
			IF i % 2 = 0 THEN
				RAISE EXCEPTION 'no';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END $$;
SELECT aggregate_id FROM messages;
DELETE FROM outbox.message;

-- more subtransactions than a snapshot holds
DO $$
BEGIN
	FOR i IN 1 .. 200 LOOP
		BEGIN
			PERFORM outbox.enqueue('block', i, 'e', '{}');
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END $$;
SELECT count(*), count(DISTINCT xid), array_agg(aggregate_id::integer ORDER BY seq) = ARRAY(SELECT generate_series(1, 200)) AS ordered
FROM outbox.message;
DELETE FROM outbox.message;

-- a procedure that commits between
CREATE PROCEDURE in_steps()
LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 4 LOOP
		PERFORM outbox.enqueue('step', i, 'e', '{}');
		IF i % 2 = 0 THEN
			ROLLBACK;
		ELSE
			COMMIT;
		END IF;
	END LOOP;
END $$;
CALL in_steps();
SELECT aggregate_id FROM messages;
SELECT count(DISTINCT xid) FROM outbox.message;
DROP PROCEDURE in_steps();
DELETE FROM outbox.message;

-- prepared transactions
BEGIN;
SELECT outbox.enqueue('prepared', 1, 'e', '{}') IS NOT NULL;
SAVEPOINT a;
SELECT outbox.enqueue('prepared', 2, 'e', '{}') IS NOT NULL;
ROLLBACK TO a;
SELECT outbox.enqueue('prepared', 3, 'e', '{}') IS NOT NULL;
PREPARE TRANSACTION 'regress_outbox_commit';
BEGIN;
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type) VALUES ('prepared', 4, 'e');
PREPARE TRANSACTION 'regress_outbox_rollback';
SELECT count(*) FROM outbox.message;
SELECT outbox.enqueue('between', 5, 'e', '{}') IS NOT NULL;
COMMIT PREPARED 'regress_outbox_commit';
ROLLBACK PREPARED 'regress_outbox_rollback';
SELECT aggregate_type, aggregate_id, status FROM outbox.delivery ORDER BY seq;
DELETE FROM outbox.message;

-- deferred to the commit, or to PREPARE TRANSACTION
CREATE TABLE item (id integer);
CREATE FUNCTION announce() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM outbox.enqueue('deferred', NEW.id, 'e', '{}'); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER announce AFTER INSERT ON item DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION announce();
BEGIN;
INSERT INTO item VALUES (1);
SELECT count(*) FROM outbox.message;
COMMIT;
BEGIN;
INSERT INTO item VALUES (2);
PREPARE TRANSACTION 'regress_outbox_deferred';
COMMIT PREPARED 'regress_outbox_deferred';
SELECT aggregate_type, aggregate_id FROM messages;
DROP TABLE item;
DROP FUNCTION announce();
DELETE FROM outbox.message;

-- every isolation level
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT outbox.enqueue('repeatable', 1, 'e', '{}') IS NOT NULL;
SELECT aggregate_id FROM messages;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT outbox.enqueue('serializable', 1, 'e', '{}') IS NOT NULL;
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type) VALUES ('serializable', 2, 'e');
COMMIT;
SELECT aggregate_type, aggregate_id FROM messages;
DELETE FROM outbox.message;

-- asynchronous commit; a cursor that is held; a temporary table beside
SET synchronous_commit = off;
SELECT outbox.enqueue('asynchronous', 1, 'e', '{}') IS NOT NULL;
RESET synchronous_commit;
BEGIN;
DECLARE ids CURSOR WITH HOLD FOR SELECT outbox.enqueue('cursor', g, 'e', '{}') IS NOT NULL FROM generate_series(1, 2) AS g;
CREATE TEMP TABLE kept ON COMMIT DROP AS SELECT outbox.enqueue('temporary', 1, 'e', '{}') AS id;
COMMIT;
FETCH ALL FROM ids;
CLOSE ids;
SELECT aggregate_type, aggregate_id FROM messages;
DELETE FROM outbox.message;

-- In one transaction with the extension itself; nothing is left if it fails.
SET client_min_messages = warning;
DROP EXTENSION outbox CASCADE;
RESET client_min_messages;
BEGIN;
CREATE EXTENSION outbox;
SELECT outbox.enqueue('first', 1, 'e', '{}') IS NOT NULL;
ROLLBACK;
SELECT to_regclass('outbox.message');
SELECT refusal($$SELECT outbox.enqueue('first', 1, 'e', '{}')$$);
BEGIN;
CREATE EXTENSION outbox;
SELECT outbox.enqueue('first', 1, 'e', '{}') IS NOT NULL;
INSERT INTO outbox.route (topic) VALUES ('all');
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type) VALUES ('first', 2, 'e');
SAVEPOINT a;
DROP EXTENSION outbox;
ROLLBACK TO a;
SELECT outbox.enqueue('first', 3, 'e', '{}') IS NOT NULL;
COMMIT;
SELECT aggregate_type, aggregate_id, topic, status FROM outbox.delivery ORDER BY seq;

-- Many first messages ask for the start once, and again after a rollback.
SET client_min_messages = warning;
DROP EXTENSION outbox CASCADE;
RESET client_min_messages;
BEGIN;
CREATE EXTENSION outbox;
SAVEPOINT a;
SELECT outbox.enqueue('first', 0, 'e', '{}') IS NOT NULL;
SELECT count(*) FROM outbox.start_request;
ROLLBACK TO a;
SELECT count(*) FROM outbox.start_request;
SELECT count(outbox.enqueue('first', g, 'e', '{}')) FROM generate_series(1, 10) AS g;
SAVEPOINT b;
SELECT outbox.enqueue('first', 11, 'e', '{}') IS NOT NULL;
ROLLBACK TO b;
SELECT outbox.enqueue('first', 12, 'e', '{}') IS NOT NULL;
SELECT count(*) FROM outbox.start_request;
COMMIT;

-- DDL that rewrites the table between two messages of a transaction
BEGIN;
SELECT outbox.enqueue('ddl', 1, 'e', '{}') IS NOT NULL;
ALTER TABLE outbox.message ADD added text DEFAULT clock_timestamp()::text;
SELECT outbox.enqueue('ddl', 2, 'e', '{}') IS NOT NULL;
ALTER TABLE outbox.message DROP added;
SELECT outbox.enqueue('ddl', 3, 'e', '{}') IS NOT NULL;
COMMIT;
SELECT aggregate_id FROM outbox.message WHERE aggregate_type = 'ddl' ORDER BY seq;
