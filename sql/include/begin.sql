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

-- What the application gave, of every message there is.
CREATE OR REPLACE VIEW public.messages AS
SELECT m.aggregate_type, m.aggregate_id, m.event_type, m.topic, m.key, m.payload::text AS payload,
	m.payload_bytes, m.headers
FROM outbox.message AS m
ORDER BY m.seq;

RESET client_min_messages;
\pset format unaligned
\pset tuples_only on
\pset null (null)
