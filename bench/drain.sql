-- What bench/drain does inside of the server.

-- Messages number first to last, several in a transaction.
CREATE PROCEDURE fill(topic text, first integer, last integer, payload integer, per_transaction integer)
LANGUAGE plpgsql AS $$
DECLARE
  body text;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', false);
  FOR i IN first .. last LOOP
    body := format('{"order_id": %s, "total": %s, "note": "', i, i % 1000);
    -- Digests compress about as well as JSON does: to half.
    FOR k IN 0 .. payload / 32 LOOP
      body := body || md5(concat(i, k));
    END LOOP;
    PERFORM outbox.enqueue('order', (i % 10000)::text, 'order_placed',
      (left(body, payload - 2) || '"}')::json, topic => fill.topic);
    IF i % per_transaction = 0 THEN
      COMMIT;
    END IF;
  END LOOP;
  COMMIT;
END $$;

-- Lets the relay begin, waits until it has recorded so many messages more,
-- and tells the seconds.
CREATE PROCEDURE await_drained(last bigint, messages bigint, INOUT seconds float8 DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
  begun timestamptz := clock_timestamp();
  n bigint;
  ended timestamptz;
BEGIN
  PERFORM pg_reload_conf();
  LOOP
    SELECT sum(b.messages), max(b.recorded_at) FILTER (WHERE b.messages > 0)
      INTO n, ended FROM outbox.batch AS b WHERE b.id > last;
    EXIT WHEN n >= messages;
    COMMIT;
    PERFORM pg_sleep(0.05);
    IF clock_timestamp() > begun + interval '10 minutes' THEN
      RAISE EXCEPTION 'only % of % messages were published', n, messages;
    END IF;
  END LOOP;
  IF n > messages THEN
    RAISE EXCEPTION '% messages were published instead of %', n, messages;
  END IF;
  seconds := extract(epoch FROM ended - begun);
END $$;
