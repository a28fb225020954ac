# Workers and the launcher are terminated under load, again and again, and the
# server is restarted: with a live broker nothing is lost and nothing comes twice.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use OutboxTest::Load;
use PostgreSQL::Test::Utils;
use Test::More;

my $long   = $ENV{OUTBOX_LONG};
my @topics = map { create_topic(unique_topic($_), 16) } qw(a b);
my $node   = outbox_node('main', extension => 1, conf => <<'END');
outbox.workers_per_database = 2
max_prepared_transactions = 40
END

sub sql { return $node->safe_psql('postgres', $_[0]); }

# What is published from here on comes from whoever runs now.
sub messages_flow
{
	my ($what) = @_;
	my $from = sql('SELECT published FROM outbox.stat');
	$node->poll_query_until('postgres', "SELECT published >= $from + 300 FROM outbox.stat")
	  or die "no messages $what";
	return;
}

sub pids
{
	my ($type) = @_;
	return split /\n/, sql("SELECT pid FROM pg_stat_activity WHERE backend_type = '$type' ORDER BY 1");
}

sub terminate
{
	my ($type, $count) = @_;
	my @old = poll_until(sub { my @pids = pids($type); @pids == $count && [@pids] }, 60, "$count × $type")->@*;
	sql("SELECT pg_terminate_backend($_)") foreach @old;
	poll_until(
		sub {
			my %old = map { $_ => 1 } @old;
			my @new = grep { !$old{$_} } pids($type);
			return @new == $count;
		},
		60, "$type to be back");
	return;
}

my $load = OutboxTest::Load->new($node, topics => \@topics, rate => 500, reconnect => 1);
messages_flow('at first');
foreach my $round (1 .. ($long ? 100 : 5))
{
	terminate('outbox worker', 2);
	messages_flow("after workers were terminated, round $round");
	next if $round % 2;
	terminate('outbox launcher', 1);
	messages_flow("after the launcher was terminated, round $round");
}
pass('workers and launcher are back each time');
is(sql('SELECT workers FROM outbox.stat'), 2, 'there are as many workers as before');

# The launcher that is new looks after the workers that it did not start.
terminate('outbox launcher', 1);
terminate('outbox worker', 2);
messages_flow('with adopted workers');

# An orderly stop gives no duplicate either.
foreach my $mode (qw(fast fast))
{
	$node->stop($mode);
	$node->start;
	messages_flow('after a restart');
}
is($load->stop->{faults}, 0, 'no client met an error that it should not');
OutboxTest::Load::sound($load->verify, 'with terminations');
is(sql("SELECT count(DISTINCT worker_pid) FROM outbox.lane WHERE state = 'running'"), 2,
	'both workers have lanes');
is(sql('SELECT count(*) FROM outbox.lane'), 16, 'there are 16 lanes');
is(scalar OutboxTest::Load::faults($node), 0, 'no process failed');
$node->stop;
done_testing();
