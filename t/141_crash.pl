# Crashes under load, with and without synchronous commits: nothing is lost,
# nothing is published that the server does not remember, and only what was
# published just before comes twice.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use OutboxTest::Load;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $wal_writer_delay = 200;

my $node = outbox_node('main', extension => 1, conf => <<"END");
restart_after_crash = on
outbox.workers_per_database = 2
outbox.progress_interval = 50
wal_writer_delay = $wal_writer_delay
max_prepared_transactions = 40
END

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Dies nowhere: the server may be in the middle of its recovery.
sub messages_flow
{
	my ($what) = @_;
	my $from;
	poll_until(
		sub {
			my ($status, $published) = $node->psql('postgres', 'SELECT published FROM outbox.stat');
			return 0 if $status != 0 || $published eq '';
			$from = $published if !defined $from || $published < $from;
			return $published >= $from + 500;
		},
		90, "messages $what");
	return;
}

sub kill_worker
{
	my $pid = sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'outbox worker' ORDER BY random() LIMIT 1");
	kill 'KILL', $pid or die "kill $pid: $!";
	return;
}

sub crash_server
{
	$node->stop('immediate');
	$node->start;
	return;
}

# The times from the append of a record at the broker to the relay's note of it,
# as far as the notes survived, sorted: how slow the machine is goes in here.
sub ways_to_the_ledger
{
	my ($records) = @_;
	my (%noted, @ways);

	foreach my $row (split /\n/, sql(<<'END'))
SELECT b.topics[u.t], u.p, u.f, u.l, extract(epoch FROM b.recorded_at) * 1000
FROM outbox.batch AS b, unnest(b.range_topic, b.range_partition, b.range_first, b.range_last) AS u(t, p, f, l)
ORDER BY b.id DESC
END
	{
		my ($topic, $partition, $first, $last, $at) = split /\|/, $row;
		$noted{"$topic/$partition/$_"} = $at foreach $first .. $last;
	}
	foreach my $record (@$records)
	{
		my $at = $noted{"$record->{topic}/$record->{partition}/$record->{offset}"} // next;
		push @ways, $at - $record->{timestamp};
	}
	return sort { $a <=> $b } @ways;
}

# Whether a record belonged to a batch that was still in flight some time later:
# then an earlier message of its lane had not come before that.
sub in_flight
{
	my ($verdict, $record, $since) = @_;
	my $truth = $verdict->{truth};
	my $mine  = $truth->{ $record->{headers}{ce_id} };
	foreach my $other ($verdict->{list}->@*)
	{
		my $message = $truth->{ $other->{headers}{ce_id} };
		return 1
		  if $message->{lane} == $mine->{lane}
		  && $message->{seq} < $mine->{seq}
		  && $other->{timestamp} >= $since
		  && $verdict->{first}{ $other->{headers}{ce_id} } == $other;
	}
	return 0;
}

foreach my $synchronous (qw(on off))
{
	my $what = "synchronous_commit = $synchronous";
	# The broker notes when it has appended a record.
	my @topics = map { create_topic(unique_topic($_), 16, 'message.timestamp.type' => 'LogAppendTime') } qw(a b);
	my @crashes;

	sql("ALTER SYSTEM SET synchronous_commit = '$synchronous'");
	$node->reload;
	my $load = OutboxTest::Load->new($node, topics => \@topics, rate => 600, reconnect => 1, prepare => 0);
	messages_flow('before a crash');
	foreach my $crash ((\&kill_worker, \&crash_server) x ($ENV{OUTBOX_LONG} ? 10 : 2))
	{
		push @crashes, 1000 * time;
		$crash->();
		messages_flow("after a crash, $what");
	}
	my $counters = $load->stop;
	is($counters->{faults}, 0, "$what: no client met an error that it should not");
	my $verdict = $load->verify;
	OutboxTest::Load::sound($verdict, $what, duplicates => undef);

	# A crash with synchronous commits loses none that a client has heard of.
	my $kept = sql("SELECT count(DISTINCT xid) FROM outbox.message WHERE topic IN ('$topics[0]', '$topics[1]')");
	note("$what: clients saw $counters->{committed} transactions commit, $kept are there");
	cmp_ok($kept, '>=', $counters->{committed}, "$what: what clients saw committed is there")
	  if $synchronous eq 'on';

	# A crash forgets what was noted since the last flush of the log, and what
	# was not noted yet: every duplicate was first published shortly before it.
	my @ways  = ways_to_the_ledger($verdict->{list});
	my $bound = $ways[-1] + 3 * $wal_writer_delay + 1000;
	my $late  = 0;
	foreach my $again ($verdict->{again}->@*)
	{
		my ($first, $second) = map { $_->{timestamp} } @$again;
		next if grep { $first >= $_ - $bound && $second >= $_ } @crashes;
		next if grep { $second >= $_ && in_flight($verdict, $again->[0], $_ - $bound) } @crashes;
		diag("sent at $first, again at $second, crashes at @crashes") if $late++ < 5;
	}
	is($late, 0, "$what: $verdict->{duplicates} duplicates, all from just before a crash");
	cmp_ok($ways[ @ways / 2 ], '<', 2000,
		sprintf('%s: from append to ledger median %d ms, at most %d ms', $what, @ways[ @ways / 2, -1 ]));
	sql('TRUNCATE load_sent');
}

# Published means durable: a crash right after the publication does not forget
# the message, though nothing but the relay has flushed its commit.
sql("ALTER SYSTEM SET wal_writer_delay = '10s'");
sql("ALTER SYSTEM SET outbox.workers_per_database = 1");
$node->restart;
my $durable = create_topic(unique_topic('durable'), 1);
foreach my $round (1 .. 3)
{
	sql("SET synchronous_commit = off; SELECT outbox.enqueue('order', '1', 'changed', '$round', topic => '$durable')");
	my @records = consume($durable, min => $round);
	$node->stop('immediate');
	$node->start;
	my $ids = join ',', map { "'$_->{headers}{ce_id}'" } @records;
	my %ids = map { $_->{headers}{ce_id} => 1 } @records;
	is(sql("SELECT count(*) FROM outbox.log WHERE outbox.message_id(created_at, xid, seq) IN ($ids)"),
		scalar keys %ids, "what was published survives crash $round");
	is(scalar keys %ids, $round, 'and there is one more each time');
	is(sql("SELECT outbox.wait_until_drained('60 s')"), 't', 'the relay goes on');
}

my $log = slurp_file($node->logfile);
unlike($log, qr/terminated by signal (?!9:)/, 'no process crashed by itself');
unlike($log, qr/PANIC:|TRAP:/,                'nor saw what it should not');
$node->stop;
done_testing();
