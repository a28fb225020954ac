-- What users add to outbox.message works with INSERT and with enqueue() alike.
\getenv source PG_ABS_SRCDIR
\set begin :source /sql/include/begin.sql
\set ECHO none
\i :begin
\set ECHO all

CREATE ROLE regress_outbox_app;
CREATE ROLE regress_outbox_owner;
SELECT outbox.grant_producer('regress_outbox_app');

-- One message by each way, as the role with one grant. Which leaf takes it
-- depends on what maintenance has done by now.
CREATE FUNCTION send(aggregate_type text) RETURNS SETOF text
LANGUAGE sql AS $$
	SELECT way || ': ' || regexp_replace(refusal(command), '"message_(default|[0-9]+)"', 'the leaf', 'g')
	FROM (VALUES
		(1, 'enqueue', format('SELECT outbox.enqueue(%L, 1, %L, %L)', aggregate_type, 'e', '{"a":1}')),
		(2, 'batch', format('SELECT outbox.enqueue_batch(%L)', json_build_array(json_build_object(
			'aggregate_type', aggregate_type, 'aggregate_id', 2, 'event_type', 'e', 'payload_base64', 'AAE=')))),
		(3, 'insert', format('INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type) VALUES (%L, 3, %L)',
			aggregate_type, 'e'))) AS t (n, way, command)
	ORDER BY n
$$;

-- a trigger that changes key, topic and payload before the message is checked
CREATE FUNCTION change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.topic IS NULL THEN
		NEW.topic := 'changed.' || NEW.event_type;
	END IF;
	NEW.key := 'key of ' || NEW.aggregate_id;
	IF NEW.aggregate_type = 'broken' THEN
		NEW.topic := 'no topic';
	ELSIF NEW.aggregate_type = 'emptied' THEN
		NEW.aggregate_id := '';
	ELSIF NEW.aggregate_type = 'large' THEN
		NEW.payload := to_json(repeat('x', 1000000));
		NEW.payload_bytes := NULL;
	ELSIF NEW.aggregate_type IS NULL THEN
		NEW.aggregate_type := 'filled in';
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER change BEFORE INSERT ON outbox.message FOR EACH ROW EXECUTE FUNCTION change();
SET ROLE regress_outbox_app;
SELECT send('order');
SELECT send('broken');
SELECT send('emptied');
SELECT send('large');
SELECT send(NULL);
SELECT outbox.enqueue('order', 1, 'e', NULL, topic => 'given', key => 'given') IS NOT NULL;
COPY outbox.message (aggregate_type, aggregate_id, event_type) FROM STDIN;
order	4	e
\.
RESET ROLE;
SELECT * FROM messages;
SELECT bool_and(lane = outbox.message_lane(key)) FROM outbox.message;
DROP TRIGGER change ON outbox.message;
DELETE FROM outbox.message;

-- Such a trigger has to come before the check, by its name.
CREATE TRIGGER zzz_change BEFORE INSERT ON outbox.message FOR EACH ROW EXECUTE FUNCTION change();
SELECT send('order');
ALTER TABLE outbox.message DISABLE TRIGGER zzz_change;
SELECT send('order');
DROP TRIGGER zzz_change ON outbox.message;
DELETE FROM outbox.message;

-- the id is the row's, on this way too
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER nothing BEFORE INSERT ON outbox.message FOR EACH ROW EXECUTE FUNCTION nothing();
SELECT outbox.enqueue('order', 1, 'e', '{}') AS id \gset
SELECT outbox.message_id(created_at, xid, seq) = :'id' FROM outbox.message;
SELECT outbox.enqueue_batch('[{"aggregate_type": "order", "aggregate_id": 2, "event_type": "e"}, {"aggregate_type": "order", "aggregate_id": 3, "event_type": "e"}]') AS ids \gset
SELECT array_agg(outbox.message_id(created_at, xid, seq) ORDER BY seq) = :'ids'::uuid[] FROM outbox.message WHERE aggregate_id <> '1';
DROP TRIGGER nothing ON outbox.message;
DELETE FROM outbox.message;

-- a trigger that drops messages: there is no id
CREATE FUNCTION drop_odd() RETURNS trigger
LANGUAGE plpgsql AS $$ BEGIN RETURN CASE WHEN NEW.aggregate_id::integer % 2 = 0 THEN NEW END; END $$;
CREATE TRIGGER drop_odd BEFORE INSERT ON outbox.message FOR EACH ROW EXECUTE FUNCTION drop_odd();
SET ROLE regress_outbox_app;
SELECT outbox.enqueue('order', 1, 'e', '{}'), outbox.enqueue('order', 2, 'e', '{}') IS NOT NULL;
SELECT array_position(ids, NULL) AS first_null, cardinality(array_remove(ids, NULL)) AS others
FROM outbox.enqueue_batch('[{"aggregate_type": "order", "aggregate_id": 4, "event_type": "e"},
	{"aggregate_type": "order", "aggregate_id": 5, "event_type": "e"}, {"aggregate_type": "order", "aggregate_id": 6, "event_type": "e"}]') AS ids;
RESET ROLE;
SELECT aggregate_id FROM messages;
DROP TRIGGER drop_odd ON outbox.message;
DELETE FROM outbox.message;

-- A trigger afterwards sees the message complete and runs as who enqueues, not
-- as the owner of the table.
CREATE TABLE audit (line bigserial, role text, topic text, aggregate_id text, lane_is_set boolean, depth integer);
CREATE FUNCTION note() RETURNS trigger
LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
	INSERT INTO audit (role, topic, aggregate_id, lane_is_set, depth)
	VALUES (current_user, NEW.topic, NEW.aggregate_id, NEW.lane IS NOT NULL, pg_trigger_depth());
	RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT ON outbox.message FOR EACH ROW EXECUTE FUNCTION note();
SET ROLE regress_outbox_app;
SELECT send('order');
RESET ROLE;
GRANT INSERT ON audit TO regress_outbox_app;
GRANT USAGE ON audit_line_seq TO regress_outbox_app;
SET ROLE regress_outbox_app;
SELECT send('order');
RESET ROLE;
SELECT role, topic, aggregate_id, lane_is_set, depth FROM audit ORDER BY line;
DROP TRIGGER note ON outbox.message;

-- deferred to the commit
CREATE CONSTRAINT TRIGGER note AFTER INSERT ON outbox.message DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();
TRUNCATE audit;
BEGIN;
SELECT send('order');
SELECT count(*) FROM audit;
COMMIT;
SELECT count(*) FROM audit;
DROP TRIGGER note ON outbox.message;

-- on one leaf alone, whichever holds today
TRUNCATE audit;
BEGIN;
SELECT outbox.enqueue('order', 1, 'e', NULL) IS NOT NULL;
DO $$ BEGIN
	EXECUTE format('CREATE TRIGGER note AFTER INSERT ON %s FOR EACH ROW EXECUTE FUNCTION note()',
		(SELECT m.tableoid::regclass FROM outbox.message AS m ORDER BY m.seq DESC LIMIT 1));
END $$;
SELECT outbox.enqueue('order', 2, 'e', NULL) IS NOT NULL;
SELECT aggregate_id FROM audit;
ROLLBACK;
DELETE FROM outbox.message;

-- for each statement, with the rows
CREATE FUNCTION note_rows() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.audit (role, topic, aggregate_id) SELECT TG_OP || ' ' || TG_WHEN, f.topic, f.aggregate_id FROM fresh AS f;
	RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT ON outbox.message REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION note_rows();
SET ROLE regress_outbox_app;
SELECT send('order');
RESET ROLE;
SELECT role, topic, aggregate_id FROM audit ORDER BY line;
DROP TRIGGER note ON outbox.message;
DELETE FROM outbox.message;

-- A trigger that enqueues something itself: before the row, and after it.
CREATE FUNCTION echo() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.aggregate_type = 'order' THEN
		PERFORM outbox.enqueue('echo', NEW.aggregate_id, lower(TG_WHEN), NULL);
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER echo_before BEFORE INSERT ON outbox.message FOR EACH ROW EXECUTE FUNCTION echo();
CREATE TRIGGER echo_after AFTER INSERT ON outbox.message FOR EACH ROW EXECUTE FUNCTION echo();
SET ROLE regress_outbox_app;
SELECT send('order');
RESET ROLE;
SELECT aggregate_type, aggregate_id, event_type FROM outbox.message ORDER BY aggregate_id, seq;
SELECT count(*) = count(DISTINCT outbox.message_id(created_at, xid, seq)) FROM outbox.message;
DROP TRIGGER echo_before ON outbox.message;
DROP TRIGGER echo_after ON outbox.message;
DELETE FROM outbox.message;

-- constraints
ALTER TABLE outbox.message ADD CONSTRAINT known CHECK (aggregate_type IN ('order', 'item'));
SET ROLE regress_outbox_app;
SELECT send('order');
SELECT split_part(send('other'), E'\n', 1);
RESET ROLE;
ALTER TABLE outbox.message DROP CONSTRAINT known;
DELETE FROM outbox.message;

ALTER TABLE outbox.message ALTER payload SET NOT NULL;
SET ROLE regress_outbox_app;
SELECT split_part(send('order'), ' of relation', 1);
RESET ROLE;
ALTER TABLE outbox.message ALTER payload DROP NOT NULL;
DELETE FROM outbox.message;

CREATE TABLE kind (name text PRIMARY KEY);
INSERT INTO kind VALUES ('order');
ALTER TABLE outbox.message ADD CONSTRAINT known FOREIGN KEY (aggregate_type) REFERENCES kind;
SET ROLE regress_outbox_app;
SELECT send('order');
SELECT split_part(split_part(send('other'), E'\n', 1), '"', 1);
RESET ROLE;
ALTER TABLE outbox.message DROP CONSTRAINT known;
DELETE FROM outbox.message;

-- indexes: unique, of an expression, of a part, deferrable
CREATE UNIQUE INDEX once ON outbox.message (created_at, (1));
CREATE INDEX part ON outbox.message (lower(aggregate_type)) WHERE length(aggregate_id) > 0;
ALTER TABLE outbox.message ADD CONSTRAINT later UNIQUE (created_at, aggregate_id) DEFERRABLE INITIALLY DEFERRED;
SET ROLE regress_outbox_app;
SELECT send('Order');
RESET ROLE;
SET enable_seqscan = off;
SELECT count(*) FROM outbox.message WHERE lower(aggregate_type) = 'order' AND length(aggregate_id) > 0;
RESET enable_seqscan;
CREATE FUNCTION fail_for(id text) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF id = 'bad' THEN
		RAISE EXCEPTION 'no index entry for %', id;
	END IF;
	RETURN 1;
END $$;
CREATE INDEX failing ON outbox.message (fail_for(aggregate_id));
SELECT refusal($$SELECT outbox.enqueue('order', 'bad', 'e', NULL)$$);
SELECT refusal($$SELECT outbox.enqueue('order', 'good', 'e', NULL)$$);
DROP INDEX outbox.once, outbox.part, outbox.failing;
ALTER TABLE outbox.message DROP CONSTRAINT later;
DELETE FROM outbox.message;
BEGIN;
SELECT outbox.enqueue('order', 1, 'e', NULL) IS NOT NULL;
DO $$ BEGIN
	EXECUTE format('CREATE UNIQUE INDEX once ON %s (aggregate_type, aggregate_id)', (SELECT m.tableoid::regclass FROM outbox.message AS m));
END $$;
SELECT send('order');
SELECT send('order');
ROLLBACK;

-- columns: with a default, generated, without anything
CREATE SEQUENCE ticket START 100;
GRANT USAGE ON ticket TO regress_outbox_app;
ALTER TABLE outbox.message ADD ticket bigint NOT NULL DEFAULT nextval('ticket'), ADD plain text,
	ADD twice text GENERATED ALWAYS AS (aggregate_id || aggregate_id) STORED;
SET ROLE regress_outbox_app;
SELECT send('order');
RESET ROLE;
SELECT aggregate_id, ticket - min(ticket) OVER () AS ticket, plain, twice FROM outbox.message ORDER BY seq;
SELECT status FROM outbox.delivery GROUP BY status;
-- Maintenance makes leaves with all of it, and what it moves there meets no
-- trigger or rule a second time.
TRUNCATE audit;
CREATE TRIGGER note AFTER INSERT ON outbox.message FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER change BEFORE INSERT ON outbox.message FOR EACH ROW EXECUTE FUNCTION change();
CREATE RULE copy AS ON INSERT TO outbox.message DO ALSO INSERT INTO public.audit (role, aggregate_id) VALUES ('rule', NEW.aggregate_id);
ALTER TABLE outbox.message ADD CONSTRAINT known CHECK (aggregate_type = 'order');
CREATE INDEX part ON outbox.message (lower(aggregate_type)) WHERE length(aggregate_id) > 0;
CALL maintain_until_healed();
SELECT count(*) FROM outbox.message_default;
SELECT count(*) > current_setting('outbox.premake')::integer FROM outbox.leaf WHERE parent = 'outbox.message'::regclass;
SELECT count(*) FROM audit;
SELECT aggregate_id, ticket - min(ticket) OVER () AS ticket, plain, twice, topic FROM outbox.message ORDER BY seq;
SELECT refusal($$SELECT outbox.enqueue('order', '4', 'e', NULL)$$);
SELECT role = 'rule' AS rule, aggregate_id FROM audit ORDER BY line;
DROP RULE copy ON outbox.message;
DROP TRIGGER note ON outbox.message;
DROP TRIGGER change ON outbox.message;
ALTER TABLE outbox.message DROP CONSTRAINT known;
DROP INDEX outbox.part;
DELETE FROM outbox.message;

ALTER TABLE outbox.message DROP ticket, DROP plain, DROP twice;
SET ROLE regress_outbox_app;
SELECT send('order');
RESET ROLE;
DELETE FROM outbox.message;

-- rules
CREATE RULE copy AS ON INSERT TO outbox.message DO ALSO INSERT INTO public.audit (role, aggregate_id) VALUES ('rule', NEW.aggregate_id);
TRUNCATE audit;
SELECT send('order');
SELECT role, aggregate_id FROM audit ORDER BY line;
DROP RULE copy ON outbox.message;
CREATE RULE tell AS ON INSERT TO outbox.message DO ALSO NOTIFY regress_outbox;
SELECT send('order');
DROP RULE tell ON outbox.message;
DELETE FROM outbox.message;
CREATE RULE mute AS ON INSERT TO outbox.message WHERE NEW.aggregate_type = 'muted' DO INSTEAD NOTHING;
SELECT outbox.enqueue('muted', 1, 'e', '{}'), outbox.enqueue('order', 1, 'e', '{}') IS NOT NULL;
SELECT aggregate_type FROM messages;
DROP RULE mute ON outbox.message;
DELETE FROM outbox.message;

-- Row security holds INSERT back, not enqueue(); also forced upon an owner
-- who is no superuser, on either way.
ALTER TABLE outbox.message ENABLE ROW LEVEL SECURITY;
SET ROLE regress_outbox_app;
SELECT send('order');
RESET ROLE;
CREATE POLICY orders ON outbox.message FOR INSERT TO regress_outbox_app WITH CHECK (aggregate_type = 'order');
SET ROLE regress_outbox_app;
SELECT send('order');
SELECT send('other');
SET row_security = off;
SELECT outbox.enqueue('order', 1, 'e', NULL) IS NOT NULL;
RESET row_security;
RESET ROLE;
GRANT CREATE, USAGE ON SCHEMA outbox TO regress_outbox_owner;
ALTER TABLE outbox.message OWNER TO regress_outbox_owner;
ALTER TABLE outbox.message FORCE ROW LEVEL SECURITY;
SET ROLE regress_outbox_app;
SELECT send('other');
RESET ROLE;
CREATE TRIGGER nothing BEFORE INSERT ON outbox.message FOR EACH ROW EXECUTE FUNCTION nothing();
SET ROLE regress_outbox_app;
SELECT send('order');
SELECT send('other');
SET row_security = off;
SELECT outbox.enqueue('order', 1, 'e', NULL) IS NOT NULL;
RESET row_security;
RESET ROLE;
SELECT aggregate_type, count(*) FROM messages GROUP BY 1 ORDER BY 1;
DELETE FROM outbox.message;

-- What a function finds depends on its own caller, as with INSERT.
CREATE SCHEMA regress_outbox_trap;
CREATE FUNCTION regress_outbox_trap.lower(text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.audit (role) VALUES (current_user);
	RETURN $1;
END $$;
GRANT USAGE ON SCHEMA regress_outbox_trap TO regress_outbox_app;
CREATE FUNCTION careless() RETURNS trigger
LANGUAGE plpgsql AS $$ BEGIN NEW.event_type := lower(NEW.event_type); RETURN NEW; END $$;
CREATE TRIGGER careless BEFORE INSERT ON outbox.message FOR EACH ROW EXECUTE FUNCTION careless();
TRUNCATE audit;
SET ROLE regress_outbox_app;
SET search_path = regress_outbox_trap, pg_catalog;
SELECT outbox.enqueue('order', 1, 'E', NULL) IS NOT NULL;
RESET search_path;
RESET ROLE;
SELECT role FROM audit;

SET client_min_messages = warning;
DROP EXTENSION outbox CASCADE;
DROP SCHEMA regress_outbox_trap CASCADE;
DROP SCHEMA outbox CASCADE;
DROP TABLE audit, kind;
DROP SEQUENCE ticket;
DROP FUNCTION send(text), change(), nothing(), drop_odd(), note(), note_rows(), echo(), fail_for(text), careless();
DROP OWNED BY regress_outbox_app, regress_outbox_owner;
DROP ROLE regress_outbox_app, regress_outbox_owner;
