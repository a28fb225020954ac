-- Every test begins here: with a fresh extension, and a few helpers.
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS outbox CASCADE;
CREATE EXTENSION outbox;

-- Runs a command and tells how it was refused, in every part that a user sees.
CREATE OR REPLACE FUNCTION public.refusal(command text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	message text;
	detail text;
	hint text;
BEGIN
	EXECUTE command;
	RETURN 'not refused';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n', SQLSTATE || ' ' || message,
		'  detail: ' || nullif(detail, ''), '  hint: ' || nullif(hint, ''));
END $$;

-- The same where the words are PostgreSQL's and change with its version.
CREATE OR REPLACE FUNCTION public.refusal_code(command text) RETURNS text
LANGUAGE sql AS $$ SELECT CASE WHEN said = 'not refused' THEN said ELSE left(said, 5) END FROM public.refusal(command) AS said $$;

-- What the application gave, of every message there is.
CREATE OR REPLACE VIEW public.messages AS
SELECT m.aggregate_type, m.aggregate_id, m.event_type, m.topic, m.key, m.payload::text AS payload,
	m.payload_bytes, m.headers
FROM outbox.message AS m
ORDER BY m.seq;

-- The worker maintains beside us, and locks may refuse either of us once.
CREATE OR REPLACE PROCEDURE public.maintain_until_healed()
LANGUAGE plpgsql AS $$
BEGIN
	FOR attempt IN 1 .. 600 LOOP
		CALL outbox.maintain();
		EXIT WHEN NOT EXISTS (SELECT FROM outbox.message_default)
			AND (SELECT count(*) FROM outbox.leaf WHERE parent = 'outbox.message'::regclass) > current_setting('outbox.premake')::integer;
		PERFORM pg_sleep(0.1);
	END LOOP;
END $$;

RESET client_min_messages;
\pset format unaligned
\pset tuples_only on
\pset null (null)
