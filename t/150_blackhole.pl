# A broker that accepts connections and never answers: the server stays as it
# is without us, and stops in seconds.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use OutboxTest::Load;
use OutboxTest::Session;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $hole = blackhole();
my $node = outbox_node('main', brokers => $hole->address, extension => 1,
	conf => "outbox.workers_per_database = 2\noutbox.delivery_timeout = '3s'\noutbox.retry_base = '200ms'\n");

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub enqueue_many
{
	my ($count) = @_;
	sql("SELECT count(outbox.enqueue('order', n % 100, 'changed', to_json(n), topic => 'silent')) FROM generate_series(1, $count) AS n");
	return;
}

sub in_time
{
	my ($limit, $what, $do) = @_;
	my $start = time;
	$do->();
	my $took = time - $start;
	cmp_ok($took, '<', $limit, sprintf('%s: %.2f s', $what, $took));
	return;
}

# What the workers hold, looked at for four seconds as often as it can be.
sub watch_workers
{
	my ($what) = @_;
	my $session = OutboxTest::Session->new($node);
	my ($looks, $open, $old) = (0, 0, 0);
	my $until = time + 4;
	while (time < $until)
	{
		my $row = $session->sql(<<'END');
SELECT count(*), count(a.backend_xmin) + count(a.backend_xid) + count(a.xact_start) + (
	SELECT count(*) FROM pg_locks AS l WHERE l.pid = ANY (array_agg(a.pid)) AND l.locktype <> 'virtualxid'),
	count(*) FILTER (WHERE clock_timestamp() - a.xact_start > interval '1 s')
FROM pg_stat_activity AS a WHERE a.backend_type = 'outbox worker'
END
		my ($workers, $held, $long) = split /\|/, $row;
		$looks++ if $workers == 2;
		$open++  if $held;
		$old++   if $long;
	}
	$session->quit;
	cmp_ok($looks, '>', 50, "$what: looked $looks times");

	# Each worker looks around once a second, for a moment.
	cmp_ok($open, '<', $looks / 5, "$what: $open times a worker had a transaction, a lock or an xmin");
	is($old, 0, "$what: none stays");
	return;
}

# 1. Messages wait, and nothing waits for them.
in_time(10, '5,000 messages are accepted', sub { enqueue_many(5000); });
poll_until(sub { $hole->accepted > 0 }, 60, 'a connection to the broker');
poll_until(sub { sql('SELECT workers FROM outbox.stat') == 2 }, 60, 'two workers');
watch_workers('while the broker is silent');
my $producers = sql('SELECT producers FROM outbox.stat');
poll_until(sub { sql('SELECT producers FROM outbox.stat') > $producers }, 60, 'a new producer');
watch_workers('when producers are made anew');
is(sql('SELECT count(*) FROM outbox.pending'), 5000, 'all messages are pending');
like(sql('SELECT last_error FROM outbox.stat'), qr/delivery_timeout|_ALL_BROKERS_DOWN|_TRANSPORT/, 'the reason stands in outbox.stat');

# The oldest xmin is not ours: vacuum can remove what died meanwhile.
sql('CREATE TABLE garbage AS SELECT generate_series(1, 1000) AS n; DELETE FROM garbage;');
my (undef, undef, $vacuum) = $node->psql('postgres', 'VACUUM (VERBOSE) garbage');
like($vacuum, qr/1000 removed, 0 remain/, 'dead rows can be removed');

# 2. What sends barriers to every process, and what wants exclusive locks.
$node->safe_psql('postgres', 'CREATE DATABASE other');
in_time(1, 'DROP DATABASE of another database', sub { sql('DROP DATABASE other'); });
in_time(2, 'an exclusive lock on the log', sub { sql('BEGIN; LOCK TABLE outbox.message IN ACCESS EXCLUSIVE MODE; COMMIT;'); });
in_time(5, 'termination of the workers', sub {
	sql("SELECT pg_terminate_backend(pid, 4000) FROM pg_stat_activity WHERE backend_type = 'outbox worker'"); });
poll_until(sub { sql('SELECT workers FROM outbox.stat') == 2 }, 60, 'two workers again');
enqueue_many(100);

# 3. The end, with messages in the hands of the client.
foreach my $mode (qw(fast smart))
{
	my $accepted = $hole->accepted;
	$node->restart;
	enqueue_many(100);
	poll_until(sub { $hole->accepted >= $accepted + 2 }, 60, 'the connections of both workers');
	in_time(5, "pg_ctl stop -m $mode", sub { $node->stop($mode); });
	$node->start;
}

# 4. A port that refuses.
sql("ALTER SYSTEM SET outbox.kafka_bootstrap_servers = '127.0.0.1:1'");
$node->reload;
enqueue_many(100);
poll_until(sub { sql('SELECT last_error FROM outbox.stat') ne '' }, 60, 'the reason');
in_time(5, 'pg_ctl stop with a broker that refuses', sub { $node->stop('fast'); });

# 5. A real broker that falls silent with requests in flight.
my $broker = own_broker(proxy => 1);
$node->append_conf('postgresql.conf', "outbox.kafka_bootstrap_servers = '" . $broker->brokers . "'\n");
unlink($node->data_dir . '/postgresql.auto.conf');
my $count = 5000 + 100 + 2 * 100 + 100;
$node->start;
is(sql("SELECT outbox.wait_until_drained('120 s')"), 't', 'with a real broker everything drains');
foreach my $round (1 .. 2)
{
	$broker->proxy->blackhole;
	enqueue_many(1000);
	poll_until(sub { sql("SELECT EXISTS (SELECT FROM outbox.delivery WHERE status = 'PENDING')") eq 't' }, 60, 'pending messages');
	watch_workers('with requests in flight') if $round == 1;
	in_time(5, 'pg_ctl stop -m fast with requests in flight', sub { $node->stop('fast'); });
	$broker->proxy->pass;
	$node->start;
	is(sql("SELECT outbox.wait_until_drained('120 s')"), 't', 'everything drains');
}

# 6. Nothing was lost in all this.
is(sql('SELECT count(*) FROM outbox.message'), $count + 2000, 'all messages are there');
is(sql("SELECT string_agg(DISTINCT status, ' ') FROM outbox.delivery"), 'SENT', 'all are sent');
my %arrived = map { $_->{headers}{ce_id} => 1 } consume('silent', brokers => $broker->direct, min => $count + 2000);
is(scalar keys %arrived, $count + 2000, 'all have arrived');
is(scalar OutboxTest::Load::faults($node), 0, 'no process failed');
$node->stop;
done_testing();
