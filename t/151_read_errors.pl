# A read of the log that fails half-way is repeated: nothing that it had in hand
# is passed by, and the lane goes on when the reason is gone.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use OutboxTest::Session;
use Test::More;

my $broker = own_broker();
my $topic  = create_topic(unique_topic('order'), 1, brokers => $broker->brokers);
my $node   = outbox_node('main', brokers => $broker->brokers, extension => 1,
	conf => "autovacuum = off\n");
my $expected = 0;

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub switch
{
	my ($value) = @_;
	sql("ALTER SYSTEM SET outbox.enabled = $value");
	sql('SELECT pg_reload_conf()');
	return;
}

sub stop_relay
{
	switch('off');
	$node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM outbox.lane WHERE worker_pid IS NOT NULL')
	  or die 'the relay does not stop';
	return;
}

# Numbers from $from to $to, all of one key.
sub enqueue
{
	my ($from, $to) = @_;
	return "SELECT count(outbox.enqueue('order', 'same', 'changed', to_json(n), topic => '$topic')) "
	  . "FROM generate_series($from, $to) AS n";
}

sub arrived_once
{
	my ($last) = @_;
	my @values = sort { $a <=> $b } map { $_->{value} } consume($topic, brokers => $broker->brokers, min => $last);
	return is_deeply(\@values, [ 1 .. $last ], 'all have arrived, and once');
}

sql(enqueue(1, 1));
is(sql("SELECT outbox.wait_until_drained('90 s')"), 't', 'the relay knows the topic');

# A walk too large to be collected at once, in which two transactions' messages
# take turns: while it goes on, there is always something held back.
stop_relay();
my ($one, $other) = map { OutboxTest::Session->new($node) } 1 .. 2;
$_->sql('BEGIN') foreach $one, $other;
my $last = 1;
foreach my $turn (1 .. 60)
{
	$one->sql(enqueue($last + 1, $last + 700));
	$other->sql(enqueue($last + 701, $last + 1000));
	$last += 1000;
}
$_->sql('COMMIT') foreach $one, $other;

# The relay loses the index when it has begun.
my $leaf  = sql('SELECT DISTINCT tableoid::regclass FROM outbox.message');
my $index = sql(<<"END");
SELECT i.indexrelid::regclass FROM pg_index AS i
WHERE i.indrelid = '$leaf'::regclass AND pg_get_indexdef(i.indexrelid) LIKE '%(lane, xid, seq)'
END
$broker->freeze;
switch('on');
$node->poll_query_until('postgres', <<'END') or die 'the relay does not read';
SELECT count(*) = 1 FROM pg_stat_activity
WHERE application_name LIKE 'outbox worker%' AND state = 'idle' AND query = 'reading the log'
END
my $offset = -s $node->logfile;
sql("DROP INDEX $index");
$broker->thaw;
$node->wait_for_log(qr/has no index on \(lane, xid, seq\)/, $offset);
ok($node->poll_query_until('postgres', 'SELECT count(*) = 1 FROM outbox.progress WHERE target IS NOT NULL AND last_seq > 1'),
	'a walk stands still half-way, and its progress is recorded');
sql("CREATE INDEX ON $leaf (lane, xid, seq)");
is(sql("SELECT outbox.wait_until_drained('180 s')"), 't', 'it goes on when there is an index again');
arrived_once($last);

# Behind rows that were never committed lies one that cannot be read.
stop_relay();
sql('CREATE EXTENSION pg_surgery');
sql('BEGIN; ' . enqueue($last + 1, $last + 3) . '; ROLLBACK');
my $damaged = sql(<<"END");
SELECT outbox.enqueue('order', 'same', 'changed', to_json(string_agg(md5(n::text), '')), topic => '$topic')
FROM generate_series(1, 1000) AS n
END
sql(enqueue($last + 1, $last + 10));
my $others = create_topic(unique_topic('others'), 1, brokers => $broker->brokers);
my $lane   = sql("SELECT DISTINCT lane FROM outbox.message");
my $count  = sql(<<"END");
SELECT count(outbox.enqueue('order', n, 'changed', '{}', topic => '$others'))
FROM generate_series(1, 300) AS n WHERE outbox.message_lane(n::text) <> $lane
END
my $toast = sql(<<"END");
SELECT reltoastrelid::regclass FROM pg_class
WHERE oid = (SELECT tableoid FROM outbox.message WHERE outbox.message_id(created_at, xid, seq) = '$damaged')
END
sql("SELECT heap_force_kill('$toast', ARRAY (SELECT ctid FROM $toast))");
$offset = -s $node->logfile;
switch('on');
$node->wait_for_log(qr/missing chunk number 0 for toast value/, $offset);
is(scalar consume($others, brokers => $broker->brokers, min => $count), $count, 'other lanes go on');
ok($node->poll_query_until('postgres', 'SELECT count(*) = 11 FROM outbox.pending'),
	'and their progress is recorded; it holds up what stands behind it');
sql("DELETE FROM outbox.message WHERE outbox.message_id(created_at, xid, seq) = '$damaged'");
is(sql("SELECT outbox.wait_until_drained('60 s')"), 't', 'when it is gone, the lane goes on');
arrived_once($last + 10);

done_testing();
