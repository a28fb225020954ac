# A broker that is down at the start, dies, is restarted, freezes, or whose
# connections break: nothing is lost, order is kept, and nothing comes twice as
# long as the producer lives.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use OutboxTest::Load;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $broker = own_broker(proxy => 1);
my @topics = map { create_topic(unique_topic($_), 16, brokers => $broker->direct) } qw(a b);
my $early  = create_topic(unique_topic('early'), 16, brokers => $broker->direct);
my $node   = outbox_node('main', brokers => $broker->brokers, extension => 1,
	conf => "outbox.retry_base = '100ms'\noutbox.retry_cap = '1s'\nmax_prepared_transactions = 40\n");

sub sql     { return $node->safe_psql('postgres', $_[0]); }
sub stat_of { return sql("SELECT $_[0] FROM outbox.stat"); }

sub messages_flow
{
	my ($what, $count) = @_;
	my $from = stat_of('published');
	poll_until(sub { stat_of('published') >= $from + $count }, 120, "messages $what");
	return;
}

# 1. Down when the server starts, and for a while after.
$node->stop;
$broker->stop;
$node->start;
my $start = time;
sql(<<"END");
SELECT outbox.enqueue('order', n % 100, 'changed', to_json(n), topic => '$early')
FROM generate_series(1, 2000) AS n
END
cmp_ok(time - $start, '<', 10, 'messages are accepted while the broker is down');
poll_until(sub { stat_of('last_error') ne '' }, 60, 'the reason in outbox.stat');
like(stat_of('last_error'), qr/127\.0\.0\.1|brokers are down|refused|TRANSPORT/i, 'outbox.stat tells the reason');
is(stat_of('published'), 0, 'nothing is published');
is(sql("SELECT outbox.wait_until_drained('1 s')"), 'f', 'and the wait says so');
is(sql("SELECT status FROM outbox.delivery LIMIT 1"), 'PENDING', 'it is pending');
$broker->start;
is(sql("SELECT outbox.wait_until_drained('90 s')"), 't', 'when the broker is there, everything is sent');
my @early = consume($early, brokers => $broker->direct, min => 2000);
is(scalar @early, 2000, 'once');
my (%last, $disorder);
foreach my $record (@early)
{
	$disorder++ if $record->{value} <= ($last{ $record->{key} } // 0);
	$last{ $record->{key} } = $record->{value};
}
is($disorder, undef, 'in order');

# 2. Under load.
my $load = OutboxTest::Load->new($node, topics => \@topics, rate => 300, brokers => $broker->direct);
messages_flow('before any fault', 500);
foreach my $fault (
	[ 'killed', sub { $broker->kill9; $broker->start; } ],
	[ 'restarted', sub { $broker->restart; } ],
	[ 'frozen', sub { $broker->freeze; stall(); $broker->thaw; } ],
	[ 'reset', sub { $broker->proxy->reset; stall(); $broker->proxy->pass; } ],
	[ 'silent', sub { $broker->proxy->blackhole; stall(); $broker->proxy->pass; } ])
{
	my ($what, $do) = @$fault;
	$do->();
	messages_flow("after it was $what", 500);
	pass("messages flow again after the broker was $what");
}

# Until the relay can send no more: messages are pending, and none leaves.
sub stall
{
	my $published = -1;
	my $since     = 0;
	poll_until(
		sub {
			my $now = stat_of('published');
			($published, $since) = ($now, time) if $now != $published;
			return time - $since > 1.5;
		},
		60, 'the relay to stall');
	return;
}
is($load->stop->{faults}, 0, 'no client met an error');

# Only a new producer may send again what an old one has sent.
my $producers = stat_of('producers');
my $verdict   = $load->verify;
OutboxTest::Load::sound($verdict, 'with a broken broker', duplicates => undef);
is($verdict->{duplicates}, 0, 'with a broken broker: no duplicates from one producer') if $producers == 1;
note("$producers producers, $verdict->{duplicates} duplicates");
is(sql('SELECT count(*) FROM outbox.retry'), 0, 'nothing is in retry');
sql('TRUNCATE load_sent');

# 3. Silent for longer than outbox.delivery_timeout: a new producer sends again
# what was in flight, at most a batch of each lane.
sql("ALTER SYSTEM SET outbox.delivery_timeout = '1s'");
sql('ALTER SYSTEM SET outbox.batch_size = 20');
$node->reload;
my $late = create_topic(unique_topic('late'), 16, brokers => $broker->direct);
my $second = OutboxTest::Load->new($node, topics => [$late], rate => 200, brokers => $broker->direct);
messages_flow('before the deadline', 300);
$producers = stat_of('producers');
$broker->freeze;
poll_until(sub { stat_of('producers') > $producers }, 60, 'a new producer');
like(stat_of('last_error'), qr/delivery_timeout/, 'outbox.stat tells that the deadline has passed');
$broker->thaw;
messages_flow('after the deadline', 300);
is($second->stop->{faults}, 0, 'no client met an error');
$verdict = $second->verify;
OutboxTest::Load::sound($verdict, 'with a deadline', duplicates => undef);
$producers = stat_of('producers') - $producers;
cmp_ok($verdict->{duplicates}, '<=', 16 * 20 * $producers,
	"with a deadline: $verdict->{duplicates} duplicates from $producers new producers");

# 4. The log tells of all this at a limited rate.
my @lines = slurp_file($node->logfile) =~ /LOG:  outbox: (?!default partition|partition of)(.*)/g;
cmp_ok(scalar @lines, '>', 0, 'the log tells what is wrong');
cmp_ok(scalar @lines, '<', 150, 'at a limited rate: ' . @lines . ' lines');
is(scalar OutboxTest::Load::faults($node), 0, 'no process failed');
$node->stop;
done_testing();
