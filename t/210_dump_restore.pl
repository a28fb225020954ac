# Dumps are restored completely by every tool, into the same server and another
# one, and no copy publishes before outbox.start().
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node  = outbox_node('main',  conf => "outbox.maintenance_interval = '1 h'\n");
my $other = outbox_node('other', conf => "outbox.maintenance_interval = '1 h'\n");
my $drained = q{SELECT outbox.wait_until_drained('120 s')};
my $dumps   = PostgreSQL::Test::Utils::tempdir('dumps');
my $topic   = create_topic(unique_topic('dump'), 4);

sub set_relay
{
	my ($db, $on) = @_;
	$node->safe_psql('postgres', "ALTER DATABASE $db SET outbox.enabled = $on");
	return if $on eq 'on';
	$node->poll_query_until($db, q{SELECT NOT EXISTS (SELECT FROM outbox.lane WHERE state <> 'free')})
	  or die 'the relay does not stop';
	return;
}

# It gives up where somebody looks at the log at the same time.
sub heal
{
	$node->poll_query_until('source', q{SELECT outbox.heal_default('message')})
	  or die 'DEFAULT is not healed';
	return;
}

sub enqueue
{
	my ($server, $db, $name, $n) = @_;
	return split /\n/, $server->safe_psql($db, <<"END");
SELECT outbox.enqueue('order', (g % 20)::text, 'created', json_build_object('n', g), topic => '$name',
	headers => '{"t": "x"}')
FROM generate_series(1, $n) AS g
END
}

# What every copy must have: each table row by row, except what CREATE EXTENSION
# makes anew, and how it is built.
sub content
{
	my ($server, $db) = @_;
	my $tables = $server->safe_psql($db, <<'END');
SELECT string_agg(format('SELECT %L, count(*), md5(string_agg(t::text, E''\n'' ORDER BY t::text)) FROM ONLY %s AS t',
	c.relname, c.oid::regclass), ' UNION ALL ' ORDER BY c.relname)
FROM pg_class AS c
WHERE c.relkind = 'r' AND c.relnamespace = 'outbox'::regnamespace
	AND c.relname NOT IN ('lane', 'instance', 'start_request')
END
	return $server->safe_psql($db, <<"END");
SET timezone = 'UTC';
$tables;
SELECT last_value, is_called FROM outbox.message_seq;
SELECT c.relname, pg_get_expr(c.relpartbound, c.oid), c.relreplident,
	(SELECT string_agg(pg_get_indexdef(x.indexrelid), '; ' ORDER BY x.indexrelid::regclass::text)
		FROM pg_index AS x WHERE x.indrelid = c.oid),
	(SELECT string_agg(t.tgname || t.tgenabled::text, ', ' ORDER BY t.tgname)
		FROM pg_trigger AS t WHERE t.tgrelid = c.oid),
	EXISTS (SELECT FROM pg_depend AS d WHERE d.objid = c.oid AND d.refobjid = e.oid AND d.deptype = 'e'),
	c.oid = ANY (e.extconfig)
FROM pg_class AS c CROSS JOIN pg_extension AS e
WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'outbox'::regnamespace AND e.extname = 'outbox' ORDER BY 1;
END
}

# Its worker has looked around after what was committed until now.
sub worker_has_looked
{
	my ($server, $db) = @_;
	my $now = $server->safe_psql($db, 'SELECT clock_timestamp()');
	return $server->poll_query_until($db, <<"END");
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = '$db' AND backend_type = 'outbox worker'
	AND state = 'idle' AND query_start > '$now'::timestamptz + interval '1 ms')
END
}

# The source: one DEFAULT was moved, another became a leaf with messages that
# were sent, a third one with some that were not; further ones of today.
$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('postgres', 'ALTER DATABASE source SET outbox.enabled = off');
$node->safe_psql('source',   'CREATE EXTENSION outbox');
$node->safe_psql('source', <<"END");
INSERT INTO outbox.route (aggregate_type, topic) VALUES ('order', '$topic');
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, topic, payload)
SELECT 'order', (g % 20)::text, 'created', '$topic', to_json(g) FROM generate_series(1, 10100) AS g;
END
heal();
$node->safe_psql('source', 'CALL outbox.maintain()');
enqueue($node, 'source', $topic, 100);
set_relay('source', 'on');
is($node->safe_psql('source', $drained), 't', 'the source has sent messages');
$node->safe_psql('source', 'CALL outbox.maintain()');
set_relay('source', 'off');
$node->safe_psql('source', <<"END");
INSERT INTO outbox.message (created_at, aggregate_type, aggregate_id, event_type, topic, payload)
SELECT now() - g * interval '1 hour' - interval '20 days', 'order', g::text, 'created', '$topic', to_json(g)
FROM generate_series(1, 960, 24) AS g;
END
heal();
enqueue($node, 'source', $topic, 100);
my $expected = content($node, 'source');
my %pending = map { $_ => 1 } split /\n/, $node->safe_psql('source', <<'END');
SELECT outbox.message_id(created_at, xid, seq) FROM outbox.pending
END
is(scalar keys %pending, 140, 'and others pending');
is($node->safe_psql('source', <<'END'), 't|10100|4', 'in two kept leaves and others');
SELECT (SELECT count(*) FROM outbox.leaf WHERE parent = 'outbox.message'::regclass AND NOT attached) = 2,
	(SELECT count(*) FROM outbox.log) - (SELECT count(*) FROM outbox.message) - 40,
	(SELECT count(*) FROM outbox.message) / 50
END

$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dumps/custom", 'source' ], 'pg_dump, custom');
$node->command_ok([ 'pg_dump', '-Fp', '-f', "$dumps/plain", 'source' ], 'pg_dump, plain');
$node->command_ok([ 'pg_dump', '-Fd', '-j', '2', '-f', "$dumps/directory", 'source' ], 'pg_dump, directory');

my @copies = (
	[ $node,  'custom',    'pg_restore', '-e', '-1', '-d', 'custom', "$dumps/custom" ],
	[ $node,  'plain',     'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-1', '-d', 'plain', '-f', "$dumps/plain" ],
	[ $node,  'directory', 'pg_restore', '-e', '-j', '2', '-d', 'directory', "$dumps/directory" ],
	[ $other, 'custom',    'pg_restore', '-e', '-1', '-d', 'custom', "$dumps/custom" ]);

my %seen_at_start = map { $_ => 1 } map { $_->{headers}{ce_id} } consume($topic, min => 10200);
is(scalar keys %seen_at_start, 10200, 'ten thousand messages are sent');
my $records = 10200;
my %everywhere;

foreach my $copy (@copies)
{
	my ($server, $db, @command) = @$copy;
	my $what = "$command[0] into " . $server->name;
	$server->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0");
	my ($out, $err) = ('', '');
	{
		local %ENV = $server->_get_env;
		ok(IPC::Run::run(\@command, '<', \undef, '>', \$out, '2>', \$err), "$what: succeeds")
		  or diag($err);
	}
	is($err, '', "$what: without a word");
	is(content($server, $db), $expected, "$what: is complete");
	is($server->safe_psql($db, 'SELECT count(*) FROM outbox.instance'), '2', "$what: is known as a copy");

	# It accepts messages, and is silent.
	my $own = "$topic.$db." . $server->name;
	my @early = enqueue($server, $db, $own, 10);
	is($server->safe_psql($db, q{SELECT value, status FROM outbox.health() WHERE "check" = 'started'}),
		'copy|critical', "$what: health() says that it is a copy");
	ok(worker_has_looked($server, $db), "$what: its worker runs") for 1 .. 2;
	is($server->safe_psql($db, 'SELECT lanes_owned, published FROM outbox.stat'), '0|0', "$what: and publishes nothing");
	is($server->safe_psql($db, "SELECT outbox.wait_until_drained('0 s')"), 'f', "$what: its messages wait");
	is(scalar consume([ $topic, $own ]), $records, "$what: nothing has come out");

	# Started, it has all that the source has, and sends what was pending once.
	$server->safe_psql($db, 'SELECT outbox.start()');
	is($server->safe_psql($db, $drained), 't', "$what: started, it publishes");
	my @late = enqueue($server, $db, $own, 10);
	is($server->safe_psql($db, $drained), 't', "$what: also later messages");
	my @all = consume($topic, min => $records + 140);
	is(scalar @all, $records + 140, "$what: what was pending comes out once, what was sent does not");
	my %count;
	$count{ $_->{headers}{ce_id} }++ foreach @all;
	my $runs = ($records - 10200) / 140 + 1;
	is(scalar(grep { ($count{$_} // 0) == $runs } keys %pending), 140, "$what: with the ids that it had");
	$records += 140;
	is(join(' ', sort map { $_->{headers}{ce_id} } consume($own, min => 20)),
		join(' ', sort @early, @late), "$what: messages from before the start come out, too");
	$everywhere{$_}++ foreach @early, @late;
	is($server->safe_psql($db, 'SELECT count(*) FROM outbox.instance WHERE started_in IS NOT NULL'), '1',
		"$what: it has one life");
	is($server->safe_psql($db, q{SELECT status FROM outbox.health() WHERE "check" = 'started'}),
		'ok', "$what: and is no copy any more");
}
is(scalar(grep { $_ > 1 } values %everywhere), 0, 'ids of new messages are unique among the copies');

# A dump of a copy: any chain of them.
{
	enqueue($other, 'custom', $topic, 5);
	is($other->safe_psql('custom', $drained), 't', 'the last copy has sent more');
	$other->safe_psql('postgres', 'ALTER DATABASE custom SET outbox.enabled = off');
	$other->poll_query_until('custom', q{SELECT NOT EXISTS (SELECT FROM outbox.lane WHERE state <> 'free')});
	my @ids = enqueue($other, 'custom', "$topic.chain", 7);
	$other->command_ok([ 'pg_dump', '-Fc', '-f', "$dumps/chain", 'custom' ], 'a copy is dumped');
	$node->safe_psql('postgres', 'CREATE DATABASE chain TEMPLATE template0');
	$node->command_ok([ 'pg_restore', '-e', '-1', '-d', 'chain', "$dumps/chain" ], 'and restored elsewhere');
	$node->safe_psql('chain', q{SELECT outbox.start('urn:chain')});
	is($node->safe_psql('chain', $drained), 't', 'it publishes');
	my @records = consume("$topic.chain", min => 7);
	is(join(' ', sort map { $_->{headers}{ce_id} } @records), join(' ', sort @ids), 'what was pending');
	is($records[0]{headers}{ce_source}, 'urn:chain', 'with its new source');
	is($node->safe_psql('chain', 'SELECT count(*) FROM outbox.pending'), '0', 'and nothing else');
	is(scalar consume($topic, min => $records + 5), $records + 5, 'what the copy before had sent stays sent');
}

# A template's copy: of a database that has published, and of one that has not
# got so far.
sub copy_template
{
	my ($from, $to) = @_;
	$node->safe_psql('postgres', "ALTER DATABASE $from IS_TEMPLATE true");
	$node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = '$from')")
	  or die "somebody stays in $from";
	$node->safe_psql('postgres', "CREATE DATABASE $to TEMPLATE $from");
	return;
}

{
	my $own = "$topic.template";
	copy_template('source', 'like_source');
	my @ids = enqueue($node, 'like_source', $own, 3);
	ok(worker_has_looked($node, 'like_source'), 'a copy of a template has a worker') for 1 .. 2;
	is($node->safe_psql('like_source', 'SELECT lanes_owned, published FROM outbox.stat'), '0|0', 'which publishes nothing');
	is($node->safe_psql('like_source', q{SELECT string_agg(DISTINCT state, ',') FROM outbox.lane}), 'free',
		'and names no worker of the other database');
	is(scalar consume($own), 0, 'nothing has come out');
	$node->safe_psql('like_source', 'SELECT outbox.start()');
	is($node->safe_psql('like_source', $drained), 't', 'started, it publishes');
	is(join(' ', sort map { $_->{headers}{ce_id} } consume($own, min => 3)), join(' ', sort @ids), 'its own messages');
	$records += 5 + 140;
	is(scalar consume($topic, min => $records), $records, 'and what was pending');

	$node->safe_psql('postgres', 'CREATE DATABASE young');
	$node->safe_psql('postgres', 'ALTER DATABASE young SET outbox.enabled = off');
	$node->safe_psql('young',    'CREATE EXTENSION outbox');
	@ids = enqueue($node, 'young', "$topic.young", 3);
	copy_template('young', 'like_young');
	push @ids, enqueue($node, 'like_young', "$topic.young", 3);
	is($node->safe_psql('like_young', q{SELECT value, status FROM outbox.health() WHERE "check" = 'started'}),
		'copy|critical', 'a copy of a database that has messages and never started is a copy, too');
	ok(worker_has_looked($node, 'like_young'), 'it has a worker') for 1 .. 2;
	is($node->safe_psql('like_young', 'SELECT lanes_owned, published FROM outbox.stat'), '0|0', 'which publishes nothing');
	is(scalar consume("$topic.young"), 0, 'nothing has come out');
	$node->safe_psql('like_young', 'SELECT outbox.start()');
	is($node->safe_psql('like_young', $drained), 't', 'started, it publishes');
	is(join(' ', sort map { $_->{headers}{ce_id} } consume("$topic.young", min => 6)), join(' ', sort @ids),
		'all that it has');
}

# A restored row whose xid is by chance that of the restoring transaction.
{
	$node->safe_psql('postgres', 'CREATE DATABASE chance');
	$node->safe_psql('postgres', 'ALTER DATABASE chance SET outbox.enabled = off');
	$node->safe_psql('chance',   'CREATE EXTENSION outbox');
	is($node->safe_psql('chance', <<'END'), "7|9|outbox.event.x", 'a row with the xid of its restore passes as it is');
BEGIN;
INSERT INTO outbox.message (seq, created_at, xid, lane, aggregate_type, aggregate_id, event_type, topic, payload)
SELECT 7, '2026-01-01', (pg_current_xact_id()::text::bigint + (1::bigint << 44))::text::xid8, 9, 'x', '1', 'e',
	'outbox.event.x', '{}';
SELECT seq, lane, topic FROM outbox.message;
COMMIT;
SELECT 'starts' FROM outbox.start_request;
END
}

done_testing();
