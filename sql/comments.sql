-- Everything that users can meet is described where they meet it.
\getenv source PG_ABS_SRCDIR
\set begin :source /sql/include/begin.sql
\set ECHO none
\i :begin
\set ECHO all

-- Whatever lacks a description is listed; columns of a partition have their
-- parent's.
CREATE TEMP VIEW member AS SELECT classid, objid FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'outbox') AND deptype = 'e';
SELECT pg_describe_object(classid, objid, 0) AS object FROM member
WHERE classid <> 'pg_type'::regclass AND coalesce(obj_description(objid, classid::regclass::name), '') = '' ORDER BY 1;
SELECT attrelid::regclass, attname FROM member JOIN pg_attribute ON attrelid = objid JOIN pg_class AS c ON c.oid = objid
WHERE classid = 'pg_class'::regclass AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition AND attnum > 0 AND NOT attisdropped
	AND coalesce(col_description(attrelid, attnum), '') = '' ORDER BY 1, attnum;
SELECT coalesce(obj_description('outbox'::regnamespace, 'pg_namespace'), '') = '' AS schema, obj_description(oid, 'pg_extension') IS NULL AS extension
FROM pg_extension WHERE extname = 'outbox';
SELECT name FROM pg_settings WHERE name LIKE 'outbox.%' AND coalesce(short_desc, '') = '' ORDER BY 1;

-- A description is a sentence or more.
SELECT pg_describe_object(d.classoid, d.objoid, d.objsubid), d.description FROM member AS m JOIN pg_description AS d ON d.classoid = m.classid AND d.objoid = m.objid
WHERE d.description !~ '^\S.*[.)]$' ORDER BY 1;
