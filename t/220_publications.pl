# Logical replication: publications of all tables do not stop the relay or
# maintenance, and a subscriber of the log keeps what it receives to itself.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = outbox_node('main', streaming => 'logical', conf => "outbox.maintenance_interval = '1 h'\n");
my $subscriber = outbox_node('subscriber', extension => 1);
my $drained = q{SELECT outbox.wait_until_drained('120 s')};
my $topic   = create_topic(unique_topic('publication'), 4);

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub enqueue
{
	my ($server, $name, $n) = @_;
	return split /\n/, $server->safe_psql('postgres', <<"END");
SELECT outbox.enqueue('order', (g % 20)::text, 'created', json_build_object('n', g), topic => '$name', key => 'k' || g,
	headers => '{"t": "x"}')
FROM generate_series(1, $n) AS g
END
}

sub heal
{
	my ($parent) = @_;
	return $node->poll_query_until('postgres', "SELECT outbox.heal_default('$parent')");
}

# Everything that the relay and maintenance do, with all tables published.
sql('CREATE PUBLICATION everything FOR ALL TABLES');
sql("SELECT pg_create_logical_replication_slot('all_changes', 'test_decoding')");
sql('CREATE EXTENSION outbox');
is(join(',', map { $_->{value} } consume($topic)), '', 'the topic is empty');
my @ids = enqueue($node, $topic, 50);
is(sql($drained), 't', 'messages are sent');
$node->poll_query_until('postgres', 'SELECT NOT EXISTS (SELECT FROM outbox.message_default)')
  or die 'DEFAULT is not healed';

sql('ALTER SYSTEM SET outbox.enabled = off');
sql('SELECT pg_reload_conf()');
$node->poll_query_until('postgres', q{SELECT NOT EXISTS (SELECT FROM outbox.lane WHERE state <> 'free')})
  or die 'the relay does not stop';
sql(<<"END");
INSERT INTO outbox.message (created_at, aggregate_type, aggregate_id, event_type, topic, payload)
SELECT now() - g * interval '1 day', 'order', g::text, 'created', '$topic', to_json(g) FROM generate_series(1, 40) AS g
END
ok(heal('message'), 'a DEFAULT that keeps its rows is healed');
sql('ALTER SYSTEM RESET outbox.enabled');
sql('SELECT pg_reload_conf()');
is(sql($drained), 't', 'its messages are sent');
is(scalar consume($topic, min => 90), 90, 'none is lost, none doubled');
sql('CALL outbox.maintain()');
is(sql('SELECT outbox.start() IS NOT NULL'), 't', 'outbox.start() works');
enqueue($node, $topic, 10);
is(sql($drained), 't', 'and the relay goes on');
is(scalar consume($topic, min => 100), 100, 'with what is new');
sql(q{SET outbox.premake = 9; CALL outbox.maintain()});
ok(!$node->log_contains('replica identity'), 'nothing lacks a replica identity');

# No table may lack one, today or tomorrow: the relay and maintenance of later
# versions will delete where these do not.
foreach my $table (split /\n/, sql(<<'END'))
SELECT c.oid::regclass FROM pg_class AS c WHERE c.relnamespace = 'outbox'::regnamespace AND c.relkind = 'r' ORDER BY 1
END
{
	my $name = $table =~ s/\d{8}/DAY/r =~ s/kept_.*/kept/r;
	my ($status, undef, $error) = $node->psql('postgres', "DELETE FROM ONLY $table WHERE false");
	is($status, 0, "rows of $name can be deleted") or diag($error);
}

# What such a publication carries, of the log and of the relay's own tables
my $carried = sql(<<'END');
SELECT DISTINCT regexp_replace(regexp_replace(split_part(data, ':', 1), '\d{8}', 'DAY'), '_kept_.*', '_kept'),
	split_part(data, ':', 2)
FROM pg_logical_slot_get_changes('all_changes', NULL, NULL) AS c
WHERE data ~ '^table outbox\.' ORDER BY 1, 2
END
note($carried);
foreach my $change (
	'table outbox.message_default| INSERT',   'table outbox.message_default| TRUNCATE',
	'table outbox.message_DAY| INSERT',       'table outbox.lane| UPDATE',
	'table outbox.instance| UPDATE',          'table outbox.leaf| INSERT')
{
	like($carried, qr/^\Q$change\E/m, "it carries: $change");
}
unlike($carried, qr/outbox\.message_\w+\| (UPDATE|DELETE)/, 'but no change of a message');
sql(q{SELECT pg_drop_replication_slot('all_changes')});

# A subscriber of the log that uses outbox itself. Its xids will pass those of
# the messages that it receives.
my $own = create_topic(unique_topic('own'), 4);
enqueue($subscriber, $own, 5);
is($subscriber->safe_psql('postgres', $drained), 't', 'the subscriber publishes');
sql(q{CREATE PUBLICATION log FOR TABLE outbox.message WITH (publish = 'insert', publish_via_partition_root = true)});
my $connection = $node->connstr . ' dbname=postgres';
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION log CONNECTION '$connection' PUBLICATION log");
$subscriber->wait_for_subscription_sync($node, 'log');
enqueue($node, $topic, 30);
is(sql($drained), 't', 'more messages are sent while it receives');
$node->wait_for_catchup('log');

my $columns = <<'END';
seq, created_at, xid, aggregate_type, aggregate_id, event_type, topic, key, payload::text, payload_bytes, headers
END
my $rows = "SELECT count(*), md5(string_agg((m)::text, '|' ORDER BY seq)) FROM (SELECT $columns FROM outbox.message WHERE topic = '$topic') AS m";
is($subscriber->safe_psql('postgres', "SET timezone = 'UTC'; $rows"), sql("SET timezone = 'UTC'; $rows"),
	'it has received every row of the tree as it is');
is($subscriber->safe_psql('postgres', "SELECT DISTINCT lane FROM outbox.message WHERE topic = '$topic'"), '-1',
	'in no lane');

$subscriber->safe_psql('postgres', <<"END");
DO \$\$ BEGIN
	WHILE (pg_current_xact_id()::text::bigint & 4294967295) <=
		(SELECT max(xid::text::bigint & 4294967295) FROM outbox.message WHERE topic = '$topic')
	LOOP
		COMMIT;
	END LOOP;
END \$\$;
END
enqueue($subscriber, $own, 5);
is($subscriber->safe_psql('postgres', $drained), 't', 'it publishes its own, past the xids that it received');
is($subscriber->safe_psql('postgres', <<"END"), 't', 'of which it is the later');
SELECT min(xid) FILTER (WHERE seq > 5 AND topic = '$own') > max(xid) FILTER (WHERE topic = '$topic')
FROM (SELECT xid::text::bigint, seq, topic FROM outbox.message) AS m
END
is(scalar consume($own, min => 10), 10, 'its own messages are published');
is(scalar consume($topic, min => 130), 130, 'what it received is published by its origin alone');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM outbox.pending'), '0', 'and counts nowhere as pending');
is($subscriber->safe_psql('postgres', 'SELECT status, count(*) FROM outbox.delivery GROUP BY 1'), 'SENT|10',
	'nor as a message to be delivered');
ok(!$subscriber->log_contains('ERROR'), 'without an error');
is($subscriber->safe_psql('postgres', 'SELECT outbox.healthy()'), 't', 'the subscriber is healthy');

# A subscriber that has never enqueued does not start by what it receives.
$subscriber->safe_psql('postgres', 'CREATE DATABASE quiet');
$subscriber->safe_psql('quiet',    'CREATE EXTENSION outbox');
$subscriber->safe_psql('quiet',    "CREATE SUBSCRIPTION quiet CONNECTION '$connection' PUBLICATION log");
$subscriber->wait_for_subscription_sync($node, 'quiet', 'quiet');
enqueue($node, $topic, 1);
$node->wait_for_catchup('quiet');
isnt($subscriber->safe_psql('quiet', 'SELECT count(*) FROM outbox.message'), '0', 'a quiet subscriber receives');
is($subscriber->safe_psql('quiet', q{SELECT value FROM outbox.health() WHERE "check" = 'started'}), 'fresh',
	'and remains fresh');

$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION log');
$subscriber->safe_psql('quiet',    'DROP SUBSCRIPTION quiet');
is($node->psql('postgres', 'DROP EXTENSION outbox'), 0, 'DROP EXTENSION works with all tables published');

done_testing();
