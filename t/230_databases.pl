# Several databases of one server, and databases that get and lose the
# extension while a relay is at work.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node    = outbox_node('main', conf => "outbox.max_workers = 12\n");
my $drained = q{SELECT outbox.wait_until_drained('120 s')};

sub sql
{
	my ($db, $query) = @_;
	return $node->safe_psql($db, $query);
}

sub enqueue_all
{
	my ($topic, $n) = @_;
	return <<"END";
SELECT count(outbox.enqueue('order', (g % 10)::text, 'created', to_json(current_database()), topic => '$topic'))
FROM generate_series(1, $n) AS g
END
}

sub no_worker
{
	my ($db) = @_;
	return $node->poll_query_until('postgres',
		"SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = '$db' AND backend_type = 'outbox worker')");
}

sub one_worker
{
	my ($db) = @_;
	return $node->poll_query_until($db, 'SELECT workers = 1 FROM outbox.stat');
}

# Three databases with the same numbers, keys and message count: each delivers
# its own, over three restarts with messages on their way.
{
	my @dbs = qw(one two three);
	my %topic;
	foreach my $db (@dbs)
	{
		sql('postgres', "CREATE DATABASE $db");
		sql($db,        'CREATE EXTENSION outbox');
		$topic{$db} = create_topic(unique_topic($db), 4);
	}
	foreach my $round (1 .. 3)
	{
		sql($_, enqueue_all($topic{$_}, 300)) foreach @dbs;
		$node->restart;
		sql($_, enqueue_all($topic{$_}, 20)) foreach @dbs;
		foreach my $db (@dbs)
		{
			is(sql($db, $drained), 't', "round $round: database $db publishes");
			my @records = consume($topic{$db}, min => 320 * $round);
			is(scalar @records, 320 * $round, "round $round: all of $db, none twice");
			is(scalar(grep { $_->{value} ne qq("$db") } @records), 0, "round $round: and nothing else");
		}
	}
	my %sources;
	foreach my $db (@dbs)
	{
		$sources{ $_->{headers}{ce_source} }{$db} = 1 foreach consume($topic{$db});
		is(sql($db, 'SELECT min(seq), max(seq) FROM outbox.message'), '1|960', "$db has the same numbers as the others");
	}
	is(scalar keys %sources, 3, 'each has a ce_source of its own');
	is(scalar(grep { keys %$_ > 1 } values %sources), 0, 'which no two share');
}

# How the lanes are shared out shows in outbox.lane.
{
	my $db      = 'one';
	my $shares  = q{
SELECT string_agg(n::text, ',' ORDER BY n DESC) FROM (SELECT count(*) AS n FROM outbox.lane AS l
	JOIN pg_stat_activity AS a ON a.pid = l.worker_pid AND a.backend_type = 'outbox worker'
	WHERE l.state = 'running' AND a.datname = current_database() GROUP BY l.worker_pid) AS s};
	foreach my $case ([ 1, '16' ], [ 3, '6,5,5' ], [ 4, '4,4,4,4' ], [ 2, '8,8' ], [ 1, '16' ])
	{
		my ($workers, $expected) = @$case;
		sql('postgres', "ALTER DATABASE $db SET outbox.workers_per_database = $workers");
		ok($node->poll_query_until($db, $shares, $expected), "$workers workers have $expected lanes");
		ok($node->poll_query_until($db, 'SELECT workers, lanes_owned FROM outbox.stat', "$workers|16"),
			'and outbox.stat says so');
	}
	my $pid = sql($db, 'SELECT min(worker_pid) FROM outbox.lane');
	sql($db, "SELECT pg_terminate_backend($pid)");
	ok($node->poll_query_until($db, "SELECT bool_and(worker_pid <> $pid AND state = 'running') FROM outbox.lane"),
		'a worker that was terminated is followed by another');
	sql('postgres', "ALTER DATABASE $db SET outbox.enabled = off");
	ok($node->poll_query_until($db, q{SELECT bool_and(worker_pid IS NULL AND state = 'free') FROM outbox.lane}),
		'nobody has a lane where outbox.enabled is off');
}

# Databases without the extension keep no worker.
{
	sql('postgres', 'CREATE DATABASE plain');
	$node->restart;
	ok(one_worker('two'), 'a database with the extension has its worker');
	ok(no_worker('plain'), 'one without has none');

	my $topic = unique_topic('plain');
	my ($status, undef, $error) = $node->psql('plain', <<"END");
BEGIN;
CREATE EXTENSION outbox;
@{[ enqueue_all($topic, 3) ]};
ROLLBACK;
END
	is($error, '', 'CREATE EXTENSION is rolled back');
	ok(no_worker('plain'), 'the database has no worker');
	sql('plain', "BEGIN; CREATE EXTENSION outbox; @{[ enqueue_all($topic, 5) ]}; COMMIT");
	is(sql('plain', $drained), 't', 'CREATE EXTENSION and messages in one transaction are published');
	is(scalar consume($topic, min => 5), 5, 'those that committed');
	sql('plain', 'DROP EXTENSION outbox');
	ok(no_worker('plain'), 'the worker goes with the extension');
	is(sql('plain', q{SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('outbox')}), '0',
		'and all that it has made');
}

# The extension goes and comes back while messages are on their way.
foreach my $round (1 .. 3)
{
	my ($old, $new) = map { create_topic(unique_topic($_), 4) } qw(old new);
	sql('plain', "CREATE EXTENSION outbox; @{[ enqueue_all($old, 3000) ]}");
	consume($old, min => 1) if $round != 1;
	if ($round == 3)
	{
		sql('plain', "BEGIN; DROP EXTENSION outbox; CREATE EXTENSION outbox; @{[ enqueue_all($new, 40) ]}; COMMIT");
	}
	else
	{
		sql('plain', 'DROP EXTENSION outbox');
		sql('plain', "CREATE EXTENSION outbox; @{[ enqueue_all($new, 40) ]}");
	}
	is(sql('plain', $drained), 't', "round $round: the new extension publishes");
	my $source  = sql('plain', 'SELECT source FROM outbox.instance');
	my @records = consume($new, min => 40);
	is(scalar @records, 40, "round $round: its messages, once");
	is(scalar(grep { $_->{headers}{ce_source} ne $source } @records), 0, "round $round: with its own source");
	my %ids;
	$ids{ $_->{headers}{ce_id} }++ foreach consume($old);
	is(scalar(grep { $_ > 1 } values %ids), 0, "round $round: none of the old ones twice");
	is(sql('plain', q{SELECT count(*) FROM outbox.health() WHERE status <> 'ok' AND "check" NOT LIKE 'default%'}),
		'0', "round $round: it is healthy");
	is($node->safe_psql('plain', 'DROP EXTENSION outbox'), '', "round $round: and goes again");
}

# Under load
{
	my $topic  = create_topic(unique_topic('load'), 4);
	my $script = "$PostgreSQL::Test::Utils::tmp_check/load.sql";
	append_to_file($script, enqueue_all($topic, 5) . ";\n");
	sql('plain', 'CREATE EXTENSION outbox');
	my $load = IPC::Run::start(
		[
			'pgbench', '-n', '-c', '4', '-T', '120', '--max-tries=1000', '-f', $script,
			$node->connstr('plain')
		],
		'>', \my $out, '2>', \my $err);
	consume($topic, min => 500);

	# The server locks what it drops in an order of its own.
	my ($status, $error);
	poll_until(
		sub {
			($status, undef, $error) = $node->psql('plain', 'DROP EXTENSION outbox');
			return $error !~ /deadlock detected/;
		},
		60, 'DROP EXTENSION without a deadlock');
	is($status, 0, 'the extension goes under load') or diag($error);
	$load->finish;
	like($err, qr/is not installed in this database|does not exist/, 'its users hear of it');
	unlike($err, qr/OID/, 'in words that they know');
	ok(no_worker('plain'), 'and its worker ends');
	my %ids;
	$ids{ $_->{headers}{ce_id} }++ foreach consume($topic);
	is(scalar(grep { $_ > 1 } values %ids), 0, 'no message was published twice');
}

# A database goes with its worker, and the others' go on.
{
	is($node->psql('postgres', 'DROP DATABASE three WITH (FORCE)'), 0, 'a database with a worker can be dropped');
	my $topic = create_topic(unique_topic('others'), 1);
	sql('two', enqueue_all($topic, 10));
	is(sql('two', $drained), 't', 'others publish on');
	is(scalar consume($topic, min => 10), 10, 'all of theirs');
	is($node->psql('postgres', 'DROP DATABASE plain'), 0, 'one without the extension as well');
}

unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal|TRAP/, 'nothing has crashed');

done_testing();
