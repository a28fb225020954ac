# The client's own log, from its threads, at full length and with brokers that
# come and go: its lines stand in the server's log and nothing else happens.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use OutboxTest::Load;
use OutboxTest::Mock;
use PostgreSQL::Test::Utils;
use Test::More;

my $mock = OutboxTest::Mock->new(brokers => 3);
$mock->tell('topic flapping 6');
my $node = outbox_node('main', brokers => $mock->address, extension => 1, conf => <<'END');
outbox.workers_per_database = 2
outbox.retry_base = '50ms'
outbox.retry_cap = '500ms'
outbox.kafka_options = 'debug="generic,broker,topic,metadata,feature,queue,msg,protocol,security,eos", reconnect.backoff.ms=10, reconnect.backoff.max.ms=100'
END

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub worker_pids
{
	return sql("SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE backend_type = 'outbox worker'");
}

sub wait_for_flow
{
	my ($from, $what) = @_;
	$node->poll_query_until('postgres', "SELECT published > $from FROM outbox.stat") or die "no messages $what";
	return;
}

sql("SELECT outbox.enqueue('order', '0', 'changed', '0', topic => 'flapping')");
is(sql("SELECT outbox.wait_until_drained('60 s')"), 't', 'the first message is sent');
$node->poll_query_until('postgres', 'SELECT workers = 2 FROM outbox.stat') or die 'no two workers';
my $pids     = worker_pids();
my $enqueued = 1;
my $rounds   = $ENV{OUTBOX_LONG} ? 100 : 15;

foreach my $round (1 .. $rounds)
{
	my $broker    = 1 + $round % 3;
	my $published = sql('SELECT published FROM outbox.stat');

	# With all brokers down in every fifth round.
	my @down = $round % 5 == 0 ? (1 .. 3) : ($broker);
	$mock->tell("down $_") foreach @down;
	sql("SELECT count(outbox.enqueue('order', n % 30, 'changed', to_json($enqueued + n), topic => 'flapping')) FROM generate_series(1, 100) AS n");
	$enqueued += 100;
	wait_for_flow($published, "with broker $broker down") if @down == 1;
	$mock->tell("up $_") foreach @down;
	wait_for_flow($published, 'with all brokers up');
}
is(sql("SELECT outbox.wait_until_drained('90 s')"), 't', 'everything drains');
is(worker_pids(), $pids, 'the workers are the same as before');

my @records = consume('flapping', brokers => $mock->address, min => $enqueued);
my (%seen, %last);
my $disorder = 0;
foreach my $record (@records)
{
	next if $seen{ $record->{value} }++;
	$disorder++ if $record->{value} < ($last{ $record->{key} } // -1);
	$last{ $record->{key} } = $record->{value};
}
is(scalar keys %seen, $enqueued, 'everything arrived');
is($disorder, 0, 'in order');

# Debugging was asked for, so it comes in full, and as lines of the server.
my $log = slurp_file($node->logfile);
my @lines = split /\n/, $log;
my $debug = grep { /LOG:  outbox: librdkafka: / } @lines;
cmp_ok($debug, '>', 1000, "the server's log has $debug lines of the client");
like($log, qr/LOG:  outbox: librdkafka: \[thrd:127\.0\.0\.1:\d+/, 'also from the threads of brokers');
is((grep { /rdkafka#producer|^%\d\|/ } @lines), 0, 'none has gone to the standard error by itself');
is((grep { !/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC \[\d+\] |^\t/ } @lines), 0, 'every line has its prefix');

# Without debugging the log falls silent.
sql("ALTER SYSTEM SET outbox.kafka_options = ''");
$node->reload;
$node->poll_query_until('postgres', 'SELECT producers >= 4 FROM outbox.stat') or die 'no new producers';
my $offset = -s $node->logfile;
my $id = sql("SELECT outbox.enqueue('order', '1', 'changed', '-1', topic => 'flapping')");
is(sql("SELECT outbox.wait_until_published('$id', '60 s')"), 't', 'a message is sent without debugging');
is((() = slurp_file($node->logfile, $offset) =~ /librdkafka: /g), 0, 'and says nothing');

is(scalar OutboxTest::Load::faults($node), 0, 'no process failed');
$node->stop;
done_testing();
