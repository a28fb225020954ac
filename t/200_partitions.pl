# Partitions: the DEFAULT one and how its rows come into leaves, leaves made in
# advance, bounds in UTC, and a heal that cannot have its lock.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

# The workers' own rounds of maintenance stay out of the way.
my $node = outbox_node('main', conf => "outbox.maintenance_interval = '1 h'\n");

sub sql
{
	my ($db, $query) = @_;
	return $node->safe_psql($db, $query);
}

sub database
{
	my ($db, @settings) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql('postgres', "ALTER DATABASE $db SET $_") foreach @settings;
	$node->safe_psql($db,        'CREATE EXTENSION outbox');
	return unique_topic($db);
}

sub enqueue
{
	my ($db, $topic, $n) = @_;
	sql($db, <<"END");
SELECT count(outbox.enqueue('order', (g % 50)::text, 'created', json_build_object('n', g), topic => '$topic'))
FROM generate_series(1, $n) AS g
END
	return;
}

# By a session with these settings; what a lock prevents is left for another
# time, so until it is done.
sub maintain
{
	my ($db, $set, $done) = @_;
	return poll_until(
		sub {
			sql($db, "$set; CALL outbox.maintain()");
			return sql($db, $done) eq 't';
		},
		120, "maintenance of $db");
}

sub has_days
{
	my ($n) = @_;
	return "SELECT count(*) >= $n FROM outbox.leaf WHERE parent = 'outbox.batch'::regclass
		AND lower_bound > now() AND lower_bound < now() + interval '$n days'";
}

my $healed = 'SELECT NOT EXISTS (SELECT FROM outbox.message_default)';

sub default_is_empty
{
	my ($db) = @_;
	return $node->poll_query_until($db, 'SELECT NOT EXISTS (SELECT FROM outbox.message_default)');
}

# Leaves whose bounds are not the UTC day of their name, and rows outside of
# the leaf of their UTC day.
sub misplaced
{
	my ($db) = @_;
	return sql($db, <<'END');
SET timezone = 'UTC';
SET datestyle = 'ISO';
SELECT c.relname, pg_get_expr(c.relpartbound, c.oid)
FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
CROSS JOIN LATERAL (SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS day) AS d
WHERE i.inhparent IN ('outbox.message'::regclass, 'outbox.batch'::regclass)
	AND c.relname !~ '_default$' AND pg_get_expr(c.relpartbound, c.oid) IS DISTINCT FROM
		format('FOR VALUES FROM (''%s 00:00:00+00'') TO (''%s 00:00:00+00'')', d.day, d.day + 1)
UNION ALL
SELECT l.relation::text, format('%s - %s', l.lower_bound, l.upper_bound)
FROM outbox.leaf AS l JOIN pg_class AS c ON c.oid = l.relation
WHERE l.state = 'open' AND (l.lower_bound AT TIME ZONE 'UTC' <> to_date(right(c.relname, 8), 'YYYYMMDD')
	OR l.upper_bound - l.lower_bound <> '1 day')
UNION ALL
SELECT tableoid::regclass::text, created_at::text FROM outbox.message
WHERE tableoid::regclass::text <> to_char(created_at, '"outbox.message_"YYYYMMDD')
END
}

# Days after today that have a leaf
sub days_ahead
{
	my ($db, $parent) = @_;
	return sql($db, <<"END");
SELECT string_agg((day - today)::text, ',' ORDER BY day)
FROM (SELECT (lower_bound AT TIME ZONE 'UTC')::date AS day, (now() AT TIME ZONE 'UTC')::date AS today
	FROM outbox.leaf WHERE parent = 'outbox.$parent'::regclass) AS l
WHERE day > today
END
}

sub is_published
{
	my ($topic, $n, $what) = @_;
	my @records = consume($topic, min => $n);
	my %ids     = map { $_->{headers}{ce_id} => 1 } @records;
	is(scalar @records,   $n, "$what: all are published, none twice");
	is(scalar keys %ids,  $n, "$what: their ids are distinct");
	return @records;
}

# A fresh database: its first rows fall into DEFAULT, its worker moves them.
{
	my $topic = database('fresh');
	is(sql('fresh', <<"END"), "t\noutbox.message_default", 'the first row falls into DEFAULT');
BEGIN;
SELECT outbox.enqueue('order', '1', 'created', '{}', topic => '$topic') IS NOT NULL;
SELECT tableoid::regclass FROM outbox.message;
COMMIT;
END
	is_published($topic, 1, 'the first row');
	ok(default_is_empty('fresh'), 'the worker moves the first rows out of DEFAULT');
	is(misplaced('fresh'),             '',              'into the leaf of their UTC day');
	is(sql('fresh', 'SELECT count(*) FROM outbox.message'), '1', 'and no row is lost');
	is(days_ahead('fresh', 'message'), '1,2,3,4,5,6,7', 'seven days of messages are made in advance');
	is(days_ahead('fresh', 'batch'),   '1,2,3,4,5,6,7', 'and seven days of records');

	enqueue('fresh', $topic, 100);
	is_published($topic, 101, 'further rows');
	is(sql('fresh', 'SELECT count(*) FROM outbox.message_default'), '0', 'further rows go into a leaf at once');

	maintain('fresh', 'SET outbox.premake = 9', has_days(9));
	is(days_ahead('fresh', 'message'), '1,2,3,4,5,6,7,8,9', 'outbox.premake is followed');
	maintain('fresh', 'SET outbox.premake = 2', $healed);
	is(days_ahead('fresh', 'message'), '1,2,3,4,5,6,7,8,9', 'a smaller one takes nothing away');

	sql('fresh', "CREATE ROLE operator; SELECT outbox.grant_operator('operator')");
	maintain('fresh', 'SET outbox.premake = 11; SET ROLE operator', has_days(11));
	is(days_ahead('fresh', 'message'), '1,2,3,4,5,6,7,8,9,10,11', 'an operator may call it');
	sql('fresh', "CREATE ROLE other; GRANT USAGE ON SCHEMA outbox TO other");
	my ($status, undef, $error) = $node->psql('fresh', 'SET ROLE other; CALL outbox.maintain()');
	ok($status != 0 && $error =~ /permission denied for procedure maintain/, 'others may not');
	is(misplaced('fresh'), '', 'all bounds are days of UTC');
}

# Bounds are UTC whatever the time zone and the style of dates: of the worker,
# and of the session that calls maintain().
my $odd = 0;
foreach my $zone (
	[ 'Pacific/Kiritimati', 'SQL, DMY' ],
	[ 'Asia/Kolkata',       'SQL, DMY' ],
	[ 'America/St_Johns',   'German' ])
{
	my ($timezone, $datestyle) = @$zone;
	my $db    = 'zone' . ++$odd;
	my $topic = database($db, "timezone = '$timezone'", "datestyle = '$datestyle'");

	enqueue($db, $topic, 3);
	is_published($topic, 3, $timezone);
	ok(default_is_empty($db), "$timezone: the rows are moved");
	is($node->poll_query_until($db, q{SELECT count(*) = 16 FROM outbox.leaf}),
		1, "$timezone: and days made in advance");
	is(misplaced($db), '', "$timezone, $datestyle: a worker's bounds are UTC");

	# Also where today is another day there.
	local $ENV{PGTZ}        = $timezone;
	local $ENV{PGDATESTYLE} = $datestyle;
	maintain($db, 'SET outbox.premake = 10', has_days(10));
	is(days_ahead($db, 'message'), '1,2,3,4,5,6,7,8,9,10', "$timezone: maintain() makes the days of UTC");
	is(misplaced($db), '', "$timezone, $datestyle: a session's bounds are UTC");
}

# A heal that cannot have its lock gives up soon: nobody waits for long behind
# it, nothing is lost, and a later one does it.
{
	my $topic = database('blocked', 'outbox.enabled = off');
	my $idle  = $node->background_psql('blocked');

	enqueue('blocked', $topic, 3);
	$idle->query_safe('BEGIN');
	$idle->query_safe("SELECT outbox.enqueue('order', 'idle', 'created', '{}', topic => '$topic')");

	my $log     = -s $node->logfile;
	my $started = time;
	sql('blocked', 'CALL outbox.maintain()');
	my $took = time - $started;
	ok($node->log_contains('default partition of "message" not healed', $log), 'a heal behind an idle transaction gives up');
	cmp_ok($took, '<', 20, 'soon');
	is(sql('blocked', 'SELECT count(*) FROM outbox.message_default'), '3', 'with its rows in DEFAULT still');
	is(sql('blocked', 'SELECT count(*) FROM outbox.message'),         '3', 'where they are seen');

	# Others enqueue while heal after heal waits for its lock.
	my $script = "$PostgreSQL::Test::Utils::tmp_check/blocked.sql";
	append_to_file($script, "SELECT outbox.enqueue('order', 'load', 'created', '{}', topic => '$topic');\n");
	my $prefix = "$PostgreSQL::Test::Utils::tmp_check/blocked";
	my $load   = IPC::Run::start(
		[
			'pgbench', '-n', '-c', '4', '-j', '2', '-t', '150', '-R', '150', '-l',
			"--log-prefix=$prefix", '-f', $script, $node->connstr('blocked')
		],
		'>', \my $out, '2>', \my $err);
	my $heals = 0;
	while ($load->pumpable)
	{
		sql('blocked', q{SELECT outbox.heal_default('message')}) eq '' or fail('a heal behind an idle transaction succeeds');
		$heals++;
		$load->pump_nb;
	}
	ok($load->finish, 'others enqueue meanwhile') or diag($err);
	my ($slowest) = sort { $b <=> $a } map { (split / /, $_)[2] } map { split /\n/, slurp_file($_) } glob("$prefix.*");
	cmp_ok($heals,   '>', 1,         'while heals are tried');
	cmp_ok($slowest, '<', 5_000_000, 'none of them waits for long');
	note("$heals heals, the slowest enqueue took $slowest us");

	$idle->query_safe('COMMIT');
	$idle->quit;
	ok($node->poll_query_until('blocked', q{SELECT outbox.heal_default('message')}), 'a later heal succeeds');
	is(sql('blocked', 'SELECT count(*) FROM outbox.message_default'), '0', 'and empties DEFAULT');
	is(misplaced('blocked'), '', 'into the right leaf');
	is(sql('blocked', 'SELECT count(*) FROM outbox.message'), '604', 'all rows are there');
	sql('blocked', 'ALTER DATABASE blocked SET outbox.enabled = on');
	is_published($topic, 604, 'rows that were moved before they were sent');
}

# The same with the relay at work: rows are read from DEFAULT while nothing can
# move them, and not again when they are moved.
{
	my $topic = database('running');
	my $idle  = $node->background_psql('running');

	$idle->query_safe('BEGIN');
	$idle->query_safe("SELECT outbox.enqueue('order', 'idle', 'created', '{}', topic => '$topic')");
	enqueue('running', $topic, 20);
	is_published($topic, 20, 'rows in DEFAULT');
	is(sql('running', 'SELECT count(*) FROM outbox.message_default'), '20', 'from DEFAULT itself');
	is(sql('running', q{SELECT status FROM outbox.health() WHERE "check" = 'default partition'}),
		'warn', 'health() tells of rows in DEFAULT');
	$idle->query_safe('COMMIT');
	$idle->quit;
	is_published($topic, 21, 'a row of a transaction that was open for long');

	maintain('running', 'SET outbox.premake = 7', $healed);
	is(sql('running', 'SELECT count(*) FROM outbox.message_default'), '0', 'rows that were sent are moved');
	is(misplaced('running'), '', 'into the right leaf');
	is(sql('running', q{SELECT string_agg(DISTINCT status, ',') FROM outbox.delivery}), 'SENT', 'and are SENT as before');
	enqueue('running', $topic, 20);
	is(sql('running', q{SELECT outbox.wait_until_drained('60 s')}), 't', 'the relay goes on');
	is_published($topic, 41, 'after the move');
	$node->restart;
	enqueue('running', $topic, 1);
	is(sql('running', q{SELECT outbox.wait_until_drained('60 s')}), 't', 'also after a restart');
	is_published($topic, 42, 'after the restart');
}

# A wild clock: rows of a few other days get leaves of their own, rows of many
# don't, and every row is published.
{
	my $topic = database('wild', 'outbox.enabled = off');
	create_topic($topic, 4, 'message.timestamp.after.max.ms' => '4000000000000000');
	my $row   = <<"END";
INSERT INTO outbox.message (created_at, aggregate_type, aggregate_id, event_type, topic, payload)
SELECT timestamptz '2031-01-01 12:00+00' + g * interval '1 day', 'order', g::text, 'created', '$topic', '{}'
END
	sql('wild', "$row FROM generate_series(1, 5) AS g");
	maintain('wild', 'SET outbox.premake = 7', $healed);
	is(sql('wild', q{SELECT count(*) FROM outbox.leaf WHERE parent = 'outbox.message'::regclass AND lower_bound > '2031-01-01'}),
		'5', 'rows of five other days get five leaves');
	is(sql('wild', 'SELECT count(*) FROM outbox.message_default'), '0', 'and lie there');
	is(misplaced('wild'), '', 'each in its own');

	sql('wild', "$row FROM generate_series(101, 150) AS g");
	my $leaves = sql('wild', 'SELECT count(*) FROM outbox.leaf');
	maintain('wild', 'SET outbox.premake = 7', $healed);
	is(sql('wild', 'SELECT count(*) FROM outbox.leaf') - $leaves, 1, 'rows of fifty other days get one');
	is(sql('wild', 'SELECT count(*) FROM outbox.log'), '55', 'and none is lost');
	sql('wild', 'ALTER DATABASE wild SET outbox.enabled = on');
	is_published($topic, 55, 'rows of other days');
}

done_testing();
