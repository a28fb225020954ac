# The main promise: what committed is in Kafka, once and in order, and nothing
# else is, while the number of workers changes.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use OutboxTest::Load;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $long   = $ENV{OUTBOX_LONG};
my $node   = outbox_node('main', extension => 1, conf => "max_prepared_transactions = 40\n");
my @topics = map { create_topic(unique_topic($_), 16) } qw(a b);

# The lanes of each worker, as the workers say in outbox.lane.
sub shares
{
	return $node->safe_psql('postgres', <<'END');
SELECT string_agg(n::text, ' ' ORDER BY n DESC)
FROM (SELECT count(*) AS n FROM outbox.lane AS l JOIN pg_stat_activity AS a ON a.pid = l.worker_pid
	WHERE l.state <> 'free' GROUP BY l.worker_pid) AS s
END
}

sub published
{
	return $node->safe_psql('postgres', 'SELECT published FROM outbox.stat');
}

my $start = time;
my $load = OutboxTest::Load->new($node, topics => \@topics, rate => $long ? 0 : 1200);

# The last number comes by ALTER DATABASE, the others by ALTER SYSTEM.
foreach my $step ([ 1, '16' ], [ 2, '8 8' ], [ 4, '4 4 4 4' ], [ 3, '6 5 5' ], [ 4, '4 4 4 4', 'DATABASE postgres' ])
{
	my ($workers, $shares, $where) = @$step;
	$where //= 'SYSTEM';
	$node->safe_psql('postgres', "ALTER $where SET outbox.workers_per_database = $workers");
	$node->reload;
	poll_until(sub { shares() eq $shares }, 60, "lanes to be shared $shares, not " . shares());
	pass("$workers workers share the lanes as $shares");

	# The share of every worker has to move while it is so.
	my $from = published();
	poll_until(sub { published() >= $from + 3000 }, 120, "messages with $workers workers");
}
poll_until(sub { time - $start >= ($long ? 60 : 20) }, 120, 'the end of the load');
$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET outbox.workers_per_database');
my $counters = $load->stop;
is($counters->{faults}, 0, 'no client met an error');
cmp_ok($counters->{$_}, '>', 20, "$_: $counters->{$_}")
  foreach qw(committed rolled_back prepared savepoints);

OutboxTest::Load::sound($load->verify, 'with changing workers');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox.retry'), 0, 'nothing is in retry');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), 0, 'nothing is left prepared');
is(scalar OutboxTest::Load::faults($node), 0, 'no process failed');
$node->stop;
done_testing();
