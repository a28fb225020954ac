# Topics that refuse: messages too large, absent topics, deleted ones. What
# fails is retried in place, the rest flows, and everything drains in order when
# the cause is gone.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use OutboxTest::Load;
use PostgreSQL::Test::Utils;
use Test::More;

my $broker = own_broker(properties => { 'auto.create.topics.enable' => 'false' });
my $node = outbox_node('main', brokers => $broker->brokers, extension => 1,
	conf => "outbox.retry_base = '200ms'\noutbox.retry_cap = '1s'\n");

sub sql     { return $node->safe_psql('postgres', $_[0]); }
sub stat_of { return sql("SELECT $_[0] FROM outbox.stat"); }

sub topic
{
	my ($name, $partitions, %config) = @_;
	return create_topic($name, $partitions, brokers => $broker->brokers, %config);
}

sub records_of
{
	my ($topic, $count) = @_;
	return consume($topic, brokers => $broker->brokers, min => $count);
}

# Whether each key's records came in the order of their ce_sequence, counting
# each message when it came first.
sub disorder
{
	my (%seen, %last);
	my $wrong = 0;
	foreach my $record (@_)
	{
		next if $seen{ $record->{headers}{ce_id} }++;
		$wrong++ if $record->{headers}{ce_sequence} <= ($last{ $record->{key} } // 0);
		$last{ $record->{key} } = $record->{headers}{ce_sequence};
	}
	return $wrong;
}

sub distinct { return scalar keys %{ { map { $_->{headers}{ce_id} => 1 } @_ } }; }

sub alter_topic
{
	my ($topic, $config) = @_;
	$broker->tool('org.apache.kafka.tools.ConfigCommand', '--bootstrap-server', '@BROKERS', '--alter',
		'--entity-type', 'topics', '--entity-name', $topic, '--add-config', $config);
	return;
}

# One key of each lane.
my @key_of_lane = split /\n/, sql(<<'END');
SELECT min(n) FROM generate_series(1, 1000) AS n GROUP BY outbox.message_lane(n::text) ORDER BY outbox.message_lane(n::text)
END
is(scalar @key_of_lane, 16, 'a key for each lane');

# 1. A topic that takes sets of up to 1,000 bytes: small messages pass, though
# together they are larger.
my $small = topic('small', 4, 'max.message.bytes' => 1000);
sql(<<"END");
SELECT count(outbox.enqueue('order', n % 50, 'changed', to_json(repeat('x', n % 300)), topic => '$small'))
FROM generate_series(1, 500) AS n
END
is(sql("SELECT outbox.wait_until_drained('60 s')"), 't', 'messages that are small alone drain, whatever their sum');
my @small = records_of($small, 500);
is(distinct(@small), 500, 'all arrived');
is(disorder(@small), 0,   'in order');
note(scalar(@small) - 500 . ' duplicates');

# 2. The same with a few that are too large, in lane 3 and lane 7: these lanes
# stand, the others flow.
my $mixed = topic('mixed', 4, 'max.message.bytes' => 1000);
my @poisoned = @key_of_lane[ 3, 7 ];
my @healthy = grep { my $key = $_; !grep { $_ eq $key } @poisoned } @key_of_lane;
sub enqueue_mixed
{
	foreach my $n (1 .. 20)
	{
		# The random text does not compress, so that it is too large for sure.
		my $large = $n % 10 == 3 ? 'true' : 'false';
		sql(<<"END");
SELECT count(outbox.enqueue('order', k, 'changed', json_build_object('n', $n, 'pad',
	CASE WHEN $large AND k IN ('$poisoned[0]', '$poisoned[1]')
		THEN (SELECT string_agg(md5(i::text || k), '') FROM generate_series(1, 60) AS i) ELSE '' END), topic => '$mixed'))
FROM unnest('{@{[ join ',', @key_of_lane ]}}'::text[]) AS k
END
	}
	return;
}
my $producers = stat_of('producers');
enqueue_mixed();
poll_until(sub { sql("SELECT count(*) FROM outbox.pending WHERE aggregate_id <> ALL ('{$poisoned[0],$poisoned[1]}')") == 0 },
	60, 'the healthy lanes to drain');
pass('lanes without a refused message drain');
poll_until(
	sub { sql("SELECT count(*) FROM outbox.lane WHERE lane IN (3, 7) AND state = 'retrying' AND last_error LIKE '%MSG_SIZE_TOO_LARGE%' AND attempts > 2") == 2 },
	60, 'the two lanes to be described');
pass('outbox.lane tells the reason of those that stand');

# Lanes whose messages went in the same sets were refused as well, once.
ok($node->poll_query_until('postgres', "SELECT count(*) = 2 FROM outbox.lane WHERE state = 'retrying'"), 'and no others');
like(sql("SELECT value || ' ' || advice FROM outbox.health() WHERE \"check\" = 'lanes'"), qr/2 retrying.*MSG_SIZE_TOO_LARGE/,
	'so does outbox.health()');
my @so_far = records_of($mixed, 0);
is(distinct(@so_far), 14 * 20 + 2 * 2, 'all others have arrived, and what was before the refused ones');
my @behind = grep { $_->{value} =~ /"n" : (\d+)/ && $1 >= 3 && ($_->{key} eq $poisoned[0] || $_->{key} eq $poisoned[1]) } @so_far;
is(scalar @behind, 0, 'nothing overtakes the refused message of its key');
is(sql('SELECT count(*) FROM outbox.retry'), 0, 'nothing is dead');
my $log = slurp_file($node->logfile);
my @reasons = $log =~ /LOG:  outbox: (.*(?:MSG_SIZE_TOO_LARGE|gap-?less).*)/gi;
cmp_ok((grep { /MSG_SIZE_TOO_LARGE/ } @reasons), '>', 0, 'the log tells the reason');
cmp_ok((grep { /mixed/ } @reasons), '>', 0, 'and the topic');
cmp_ok(scalar @reasons, '<', 10, 'at a limited rate: ' . @reasons . ' lines');
alter_topic($mixed, 'max.message.bytes=1000000');
is(sql("SELECT outbox.wait_until_drained('60 s')"), 't', 'after the limit is raised everything drains');
my @mixed = records_of($mixed, 16 * 20);
is(distinct(@mixed), 16 * 20, 'all arrived');
is(disorder(@mixed), 0,       'in order');
note(scalar(@mixed) - 16 * 20 . ' duplicates, ' . (stat_of('producers') - $producers) . ' new producers');
poll_until(sub { sql("SELECT count(*) FROM outbox.lane WHERE state <> 'running'") == 0 }, 60, 'all lanes to run');
pass('all lanes run again');

# 3. A topic that is not there.
my $known = topic('known', 4);
sql("SELECT outbox.enqueue('order', '$poisoned[0]', 'changed', to_json(n), topic => 'absent') FROM generate_series(1, 100) AS n");
poll_until(sub { sql("SELECT count(*) FROM outbox.lane WHERE lane = 3 AND state = 'retrying' AND last_error ~ 'UNKNOWN_TOPIC'") }, 90,
	'the absent topic to be noticed');
pass('outbox.lane tells that the topic is absent');
my $others = sql("SELECT outbox.enqueue('order', '$healthy[0]', 'changed', '{}', topic => '$known')");
is(sql("SELECT outbox.wait_until_published('$others', '60 s')"), 't', 'other lanes go on');
is(sql("SELECT outbox.wait_until_drained('1 s')"), 'f', 'the topic keeps its messages');
topic('absent', 4);
is(sql("SELECT outbox.wait_until_drained('90 s')"), 't', 'when the topic is made everything drains');
is(join(' ', map { $_->{value} } records_of('absent', 100)), join(' ', 1 .. 100), 'once, in order');

# 4. A topic that is deleted and made again: to the producer its sequence
# numbers are wrong from then on.
my $again = topic('again', 1);
sql("SELECT outbox.enqueue('order', 'a', 'changed', to_json(n), topic => '$again') FROM generate_series(1, 50) AS n");
is(sql("SELECT outbox.wait_until_drained('60 s')"), 't', 'the first messages drain');
$broker->tool('org.apache.kafka.tools.TopicCommand', '--bootstrap-server', '@BROKERS', '--delete', '--topic', $again);
$producers = stat_of('producers');
sql("SELECT outbox.enqueue('order', 'a', 'changed', to_json(n), topic => '$again') FROM generate_series(51, 100) AS n");
poll_until(sub { stat_of('producers') > $producers }, 90, 'a new producer');
pass('the producer is made anew');
topic($again, 1);
is(sql("SELECT outbox.wait_until_drained('90 s')"), 't', 'when the topic is there again everything drains');
is(join(' ', map { $_->{value} } records_of($again, 50)), join(' ', 51 .. 100), 'what came after the deletion is there, in order');

is(scalar OutboxTest::Load::faults($node), 0, 'no process failed');
$node->stop;
done_testing();
