-- What bench/enqueue does inside of the server.

-- The reference: the same columns, as an application would fill them.
CREATE SEQUENCE plain_seq;
CREATE TABLE plain (LIKE outbox.message, PRIMARY KEY (seq));
ALTER TABLE plain
  ALTER seq SET DEFAULT nextval('plain_seq'),
  ALTER created_at SET DEFAULT clock_timestamp(),
  ALTER xid SET DEFAULT pg_current_xact_id();

-- A procedure that executes a statement many times, and tells the
-- microseconds of each message.
CREATE PROCEDURE make_loop(name text, statement text, messages integer DEFAULT 1)
LANGUAGE plpgsql AS $make$
BEGIN
  EXECUTE format($loop$
    CREATE PROCEDURE %I(calls integer, payload integer, per_transaction integer,
      INOUT microseconds float8 DEFAULT NULL)
    LANGUAGE plpgsql AS $body$
    DECLARE
      messages CONSTANT integer := %s;
      body json := concat('{"note": "', repeat('x', payload - 12), '"}');
      list json := (SELECT json_agg(json_build_object('aggregate_type', 'order',
        'aggregate_id', (i %% 10000)::text, 'event_type', 'order_placed', 'payload', body))
        FROM generate_series(1, messages) AS i);
      begun timestamptz := clock_timestamp();
    BEGIN
      FOR i IN 1 .. calls / messages LOOP
        %s;
        IF i * messages %% per_transaction = 0 THEN
          COMMIT;
        END IF;
      END LOOP;
      COMMIT;
      microseconds := extract(epoch FROM clock_timestamp() - begun) * 1e6 / calls;
    END $body$ $loop$, name, messages, statement);
END $make$;

CALL make_loop('nothing', 'PERFORM (i % 10000)::text, body');
CALL make_loop('plain_insert',
  'INSERT INTO plain (lane, aggregate_type, aggregate_id, event_type, topic, payload)
   VALUES (0, ''order'', (i % 10000)::text, ''order_placed'', ''outbox.event.order'', body)');
CALL make_loop('enqueue',
  'PERFORM outbox.enqueue(''order'', (i % 10000)::text, ''order_placed'', body)');
CALL make_loop('message_insert',
  'INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, payload)
   VALUES (''order'', (i % 10000)::text, ''order_placed'', body)');
CALL make_loop('enqueue_batch', 'PERFORM outbox.enqueue_batch(list)', 100);
