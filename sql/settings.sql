-- The settings: what there is, what is refused, who may change and read them.
\getenv source PG_ABS_SRCDIR
\set begin :source /sql/include/begin.sql
\set ECHO none
\i :begin
\set ECHO all

-- all of them; a new one has to be decided upon here and in the README
SELECT name, boot_val, unit, vartype, context, min_val, max_val FROM pg_settings WHERE name LIKE 'outbox.%' ORDER BY name COLLATE "C";
SELECT name FROM pg_settings WHERE name LIKE 'outbox.%' AND (short_desc !~ '^[A-Z].*\.$' OR extra_desc !~ '^[A-Z].*\.$' OR category <> 'Customized Options');

-- units
SET outbox.poll_interval = '2s';
SHOW outbox.poll_interval;
SET outbox.poll_interval = 2500;
SHOW outbox.poll_interval;
SELECT setting FROM pg_settings WHERE name = 'outbox.poll_interval';
SET outbox.batch_bytes = '2MB';
SHOW outbox.batch_bytes;
SELECT setting FROM pg_settings WHERE name = 'outbox.batch_bytes';
SET outbox.max_message_bytes = '1MB';
SHOW outbox.max_message_bytes;
SET outbox.maintenance_interval = '5min';
SHOW outbox.maintenance_interval;
SET outbox.retry_cap = '1h';
SHOW outbox.retry_cap;
SELECT refusal('SET outbox.poll_interval = ''2 apples''');
SELECT refusal('SET outbox.batch_size = ''10kB''');
SELECT refusal('SET outbox.batch_bytes = ''5s''');
RESET ALL;

-- ranges: one step beyond each end
SELECT name, refusal_code(format('SELECT set_config(%L, %L, true)', name, min_val::bigint - 1)) AS below,
	refusal_code(format('SELECT set_config(%L, %L, true)', name, max_val::bigint + 1)) AS above
FROM pg_settings WHERE name LIKE 'outbox.%' AND vartype = 'integer' AND context = 'superuser' ORDER BY name COLLATE "C";
SELECT name FROM pg_settings WHERE name LIKE 'outbox.%' AND vartype = 'integer' AND context = 'superuser'
	AND (refusal(format('SELECT set_config(%L, %L, true)', name, min_val)) <> 'not refused'
		OR refusal(format('SELECT set_config(%L, %L, true)', name, max_val)) <> 'not refused');

-- no others
SELECT refusal('SET outbox.nonsense = 1');
SELECT refusal('SET outbox.max_workers = 1');
SELECT refusal('SET outbox.identity = ''x''');
SELECT refusal('SET outbox.enabled = ''perhaps''');

-- servers
CREATE FUNCTION servers(list text) RETURNS text
LANGUAGE sql AS $$ SELECT refusal(format('SET LOCAL outbox.kafka_bootstrap_servers = %L', list)) $$;
SELECT list, servers(list) FROM unnest(ARRAY['', '  ', 'kafka', 'kafka:9092', 'kafka1:9092,kafka2:9093', ' kafka1:9092 , kafka2 ', '10.0.0.1:1',
	'k_a-f.ka.example:65535', '[2001:db8::1]:9092', '[::1]', '[fe80::1%eth0]:9092']) WITH ORDINALITY AS t (list, n) ORDER BY n;
SELECT servers(list) FROM unnest(ARRAY[',', 'kafka:9092,', 'kafka1,,kafka2', 'kafka:', 'kafka:0', 'kafka:65536', 'kafka:ninety', 'kafka:-1', 'kafka:9092x',
	':9092', 'kafka1 kafka2', 'kafka:9092;other:9092', 'PLAINTEXT://kafka:9092', 'https://kafka', '2001:db8::1', '2001:db8::1:9092', '[2001:db8::1', '[]:9092', '[kafka]:9092',
	'user@kafka:9092', 'kafka/path', E'kafka\nother', 'käfka']) WITH ORDINALITY AS t (list, n) ORDER BY n;
DROP FUNCTION servers(text);

-- options that are taken
CREATE FUNCTION options(list text) RETURNS text
LANGUAGE sql AS $$ SELECT refusal(format('SET LOCAL outbox.kafka_options = %L', list)) $$;
SELECT list, options(list) FROM unnest(ARRAY['', '  ', 'linger.ms=5', 'linger.ms = 5', 'linger.ms=5,compression.type=zstd', E'linger.ms=5\ncompression.type=zstd\n',
	' linger.ms=5 , client.id="a, b ""c""" ', 'acks=all', 'acks=-1', 'enable.idempotence=true', 'partitioner=murmur2', 'security.protocol=SASL_SSL,sasl.mechanism=PLAIN,sasl.username=outbox',
	'ssl.ca.location=/etc/ssl/ca.pem', 'debug=broker,', 'debug="broker,msg"', 'unknown.property=5']) WITH ORDINALITY AS t (list, n) ORDER BY n;

-- options that would break a promise, the server or a secret
SELECT options(list) FROM unnest(ARRAY['acks=0', 'acks=1', 'request.required.acks=0', 'enable.idempotence=false', 'enable.gapless.guarantee=false',
	'partitioner=random', 'partitioner=consistent_random', 'queuing.strategy=lifo', 'transactional.id=x', 'transaction.timeout.ms=1', 'delivery.report.only.error=true', 'topic.blacklist=.*',
	'bootstrap.servers=kafka:9092', 'metadata.broker.list=kafka:9092', 'message.timeout.ms=1', 'delivery.timeout.ms=1', 'retries=0', 'message.send.max.retries=0',
	'message.max.bytes=1', 'queue.buffering.max.messages=1', 'queue.buffering.max.kbytes=1',
	'plugin.library.paths=/tmp/x.so', 'ssl.engine.location=/tmp/x.so', 'ssl.engine.id=x', 'ssl.providers=x', 'sasl.kerberos.kinit.cmd="rm -rf"', 'sasl.kerberos.principal="$(x)"',
	'sasl.kerberos.keytab=a;b', 'sasl.kerberos.service.name=`x`',
	'test.mock.num.brokers=3', 'ut_handle_ProduceResponse=1', 'internal.termination.signal=9', 'enabled_events=1', 'log.queue=true', 'statistics.interval.ms=1000', 'enable.metrics.push=true',
	'dr_msg_cb=x', 'socket_cb=x', 'opaque=x', 'ssl_engine_callback_data=x', 'ssl_certificate=x', 'default_topic_conf=x', 'interceptors=x', 'msg_order_cmp=x',
	'ssl.ca.pem=x', 'sasl.jaas.config=x', 'ssl.truststore.location=x', 'debug=all', 'debug="broker,conf"']) WITH ORDINALITY AS t (list, n) ORDER BY n;
SELECT options(list) FROM unnest(ARRAY['sasl.password=hush', 'ssl.key.password=hush', 'ssl.keystore.password=hush', 'ssl.key.pem=hush', 'ssl.certificate.pem=hush',
	'sasl.oauthbearer.client.secret=hush', 'sasl.oauthbearer.config="principal=hush"', 'ssl.key.passphrase=hush', 'linger.ms=5,sasl.password="hush"']) WITH ORDINALITY AS t (list, n) ORDER BY n;

-- what is not of the form, which must not repeat what stands there either
SELECT options(list) FROM unnest(ARRAY['linger.ms', '=5', 'linger.ms=', 'Linger.ms=5', 'linger ms=5', 'linger.ms=5 compression.type=zstd', 'linger.ms=5,linger.ms=6', 'linger.ms=5,queue.buffering.max.ms=5',
	'client.id="hush', 'client.id="hush"x', 'linger.ms=5,,', ',linger.ms=5', 'hush']) WITH ORDINALITY AS t (list, n) ORDER BY n;
DROP FUNCTION options(text);

-- for one database
ALTER DATABASE :"DBNAME" SET outbox.enabled = off;
ALTER DATABASE :"DBNAME" SET outbox.batch_size = 7;
ALTER DATABASE :"DBNAME" SET outbox.kafka_bootstrap_servers = 'regress.invalid:1';
SELECT c FROM pg_db_role_setting, unnest(setconfig) AS c
WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database()) AND setrole = 0 AND c LIKE 'outbox.%' ORDER BY 1;
\c -
SHOW outbox.batch_size;
SHOW outbox.kafka_bootstrap_servers;
SHOW outbox.enabled;
SELECT status, value, advice FROM outbox.health() WHERE "check" = 'enabled';
SELECT outbox.enqueue('order', 1, 'e', '{}') IS NOT NULL;
ALTER DATABASE :"DBNAME" RESET outbox.kafka_bootstrap_servers;
ALTER DATABASE :"DBNAME" RESET outbox.batch_size;
ALTER DATABASE :"DBNAME" RESET outbox.enabled;
\c -
SHOW outbox.batch_size;
SELECT refusal(format('ALTER DATABASE %I SET outbox.kafka_options = %L', :'DBNAME', 'acks=0'));
SELECT refusal(format('ALTER DATABASE %I SET outbox.kafka_bootstrap_servers = %L', :'DBNAME', 'a b'));
SELECT refusal_code(format('ALTER DATABASE %I SET outbox.batch_size = 0', :'DBNAME'));
SELECT refusal(format('ALTER DATABASE %I SET outbox.identity = %L', :'DBNAME', 'x'));
SELECT refusal(format('ALTER DATABASE %I SET outbox.max_workers = 1', :'DBNAME'));
ALTER SYSTEM SET outbox.kafka_options = 'sasl.password=hush';

-- Ordinary roles change nothing and don't read what may hold more than names.
CREATE ROLE regress_outbox_plain;
CREATE ROLE regress_outbox_reader IN ROLE pg_monitor;
SET ROLE regress_outbox_plain;
SELECT refusal('SET outbox.enabled = off');
SELECT refusal('SET outbox.max_message_bytes = ''10MB''');
SELECT refusal('SET outbox.kafka_bootstrap_servers = ''kafka''');
SELECT refusal_code('SHOW outbox.kafka_options');
SELECT refusal_code('SELECT current_setting(''outbox.kafka_config_file'')');
SHOW outbox.kafka_bootstrap_servers;
SHOW outbox.max_message_bytes;
SELECT count(*) FROM pg_settings WHERE name IN ('outbox.kafka_options', 'outbox.kafka_config_file');
SET ROLE regress_outbox_reader;
SELECT count(*) FROM pg_settings WHERE name IN ('outbox.kafka_options', 'outbox.kafka_config_file');
RESET ROLE;
DROP ROLE regress_outbox_plain, regress_outbox_reader;

-- whoever loads the library later
LOAD 'outbox';
SHOW outbox.max_workers;
