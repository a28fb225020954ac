# What a broker may answer to a batch, injected one by one: whatever it is,
# everything is delivered in the end, in order, and a producer that is at its
# end is made anew.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use OutboxTest::Load;
use OutboxTest::Mock;
use PostgreSQL::Test::Utils;
use Test::More;

my $mock = OutboxTest::Mock->new;
# Small sets, so that others of the same batch stand behind the one that fails.
# Below five messages the client has two sets of a partition in flight and relies
# on the broker to check their sequence numbers, which the mock does not.
my $node = outbox_node('main', brokers => $mock->address, extension => 1, conf => <<'END');
outbox.retry_base = '50ms'
outbox.retry_cap = '500ms'
outbox.batch_size = 50
outbox.kafka_options = 'batch.num.messages=6'
END

sub sql     { return $node->safe_psql('postgres', $_[0]); }
sub stat_of { return sql("SELECT $_[0] FROM outbox.stat"); }

# 400 messages of 40 keys, enqueued in two transactions.
sub enqueue_into
{
	my ($topic) = @_;
	foreach my $from (1, 301)
	{
		my $to = $from == 1 ? 300 : 400;
		sql(<<"END");
SELECT count(outbox.enqueue('order', n % 40, 'changed', to_json(n), topic => '$topic'))
FROM generate_series($from, $to) AS n
END
	}
	return;
}

# Whether they all came, in order; how many came again.
sub arrived_in_order
{
	my ($topic) = @_;
	my (%seen, %last);
	my ($again, $disorder) = (0, 0);
	foreach my $record (consume($topic, brokers => $mock->address, min => 400))
	{
		if ($seen{ $record->{value} }++) { $again++; next; }
		$disorder++ if $record->{value} < ($last{ $record->{key} } // 0);
		$last{ $record->{key} } = $record->{value};
	}
	return (scalar keys %seen, $disorder, $again);
}

my $row = 0;
foreach my $case (
	# Name, code, number of answers, whether the producer dies of it.
	[ 'UNKNOWN',                      -1, 3, 0 ],
	[ 'CORRUPT_MESSAGE',               2, 3, 0 ],
	[ 'UNKNOWN_TOPIC_OR_PART',         3, 3, 0 ],
	[ 'LEADER_NOT_AVAILABLE',          5, 3, 0 ],
	[ 'NOT_LEADER',                    6, 3, 0 ],
	[ 'REQUEST_TIMED_OUT',             7, 3, 0 ],
	[ 'MSG_SIZE_TOO_LARGE',           10, 2, 1 ],
	[ 'TOPIC_EXCEPTION',              17, 2, 1 ],
	[ 'RECORD_LIST_TOO_LARGE',        18, 2, 1 ],
	[ 'NOT_ENOUGH_REPLICAS',          19, 3, 0 ],
	[ 'TOPIC_AUTHORIZATION_FAILED',   29, 2, 1 ],
	[ 'CLUSTER_AUTHORIZATION_FAILED', 31, 2, 1 ],
	[ 'INVALID_TIMESTAMP',            32, 2, 1 ],
	[ 'UNSUPPORTED_FOR_MESSAGE_FORMAT', 43, 2, 1 ],
	[ 'POLICY_VIOLATION',             44, 2, 1 ],
	[ 'OUT_OF_ORDER_SEQUENCE',        45, 1, 1 ],
	[ 'INVALID_PRODUCER_EPOCH',       47, 2, 0 ],
	[ 'KAFKA_STORAGE_ERROR',          56, 3, 0 ],
	[ 'UNKNOWN_PRODUCER_ID',          59, 1, 0 ],
	[ 'INVALID_RECORD',               87, 2, 1 ],
	[ 'THROTTLING_QUOTA_EXCEEDED',    89, 2, 0 ])
{
	my ($name, $code, $count, $deadly) = @$case;
	my $topic = 'errors.' . $row++;
	$mock->tell("topic $topic 4");
	my $producers = stat_of('producers');
	$mock->tell("errors $code $count");
	enqueue_into($topic);
	my $drained = sql("SELECT outbox.wait_until_drained('60 s')");
	$mock->tell('clear');
	is($drained, 't', "$name: everything drains");
	my ($arrived, $disorder, $again) = arrived_in_order($topic);
	is($arrived,  400, "$name: all arrived");
	is($disorder, 0,   "$name: in order");
	my $made = stat_of('producers') - $producers;
	note("$name: $made new producers, $again duplicates");
	is($again, 0, "$name: none came again from one producer") if !$made;
	cmp_ok($made, '>', 0, "$name: the producer was made anew") if $deadly;
	like(stat_of('last_error'), qr/\Q$name\E/, "$name: the reason stands in outbox.stat") if $deadly;
}
poll_until(sub { sql("SELECT count(*) FROM outbox.lane WHERE state <> 'running'") == 0 }, 60, 'all lanes to run');
pass('in the end every lane runs');
is(scalar OutboxTest::Load::faults($node), 0, 'no process failed');
$node->stop;
done_testing();
