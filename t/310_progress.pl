# Progress is not lost where nothing has failed: neither when a worker is ended
# in an orderly way, nor when the ledger's DEFAULT partition is replaced.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = outbox_node('main', conf => 'outbox.batch_size = 500');
$node->safe_psql('postgres', "CREATE DATABASE $_") foreach qw(ended ledger);

my %repeated;

sub records_once
{
	my ($topics, $count, $what, $counts) = @_;
	my %seen;
	foreach my $record (consume($topics, min => $count))
	{
		$seen{ $record->{headers}{ce_id} }++;
		$repeated{$what}++
		  if $seen{ $record->{headers}{ce_id} } > 1 && (!$counts || $counts->($record));
	}
	is(scalar keys %seen, $count, "$what: every message came");
	is($repeated{$what} // 0, 0, "$what: none came twice");
	return;
}

# A lane's messages go to several partitions of two topics, so that what is
# acknowledged can have gaps. A broker that takes more than a second to answer,
# which the log tells of, is excused.
my @topics = map { create_topic(unique_topic('ended'), 7) } 1 .. 2;
my $each   = 20_000;
my $rounds = 0;
my $hit    = 0;
my %excused;

sub ended { return $node->safe_psql('ended', $_[0]); }

ended(qq(
	CREATE EXTENSION outbox;
	INSERT INTO outbox.route (aggregate_type, topic) VALUES ('even', '$topics[0]'), ('odd', '$topics[1]');
));
while ($hit < 2 && $rounds < 12)
{
	my $before = $each * $rounds++;
	my $mark   = -s $node->logfile;
	# In one session: to start another takes as long as the worker needs.
	my $pid = ended(qq(
		SELECT count(outbox.enqueue(CASE g % 2 WHEN 0 THEN 'even' ELSE 'odd' END, g, 'round$rounds', '{}'))
		FROM generate_series(1, $each) AS g;
		SET statement_timeout = '120 s';
		DO \$\$ BEGIN
			WHILE NOT (SELECT coalesce(published > $before, false) FROM outbox.stat) LOOP
				PERFORM pg_sleep(0.001);
			END LOOP;
		END \$\$;
		SELECT pg_terminate_backend(pid), pid FROM pg_stat_activity
		WHERE backend_type = 'outbox worker' AND datname = current_database()
	));
	$pid =~ s/^$each\nt\|// or die "no worker was terminated: $pid";
	poll_until(sub { ended("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)") eq 't' },
		60, 'the worker to end');
	my $left = ended('SELECT EXISTS (SELECT FROM outbox.pending)') eq 't';
	$excused{"round$rounds"} = 1
	  if slurp_file($node->logfile, $mark) =~ /not acknowledged at the end/;
	$hit++ if $left && !$excused{"round$rounds"};
	is(ended("SELECT outbox.wait_until_drained('2 min')"), 't', "drained after end $rounds of the worker");
}
cmp_ok($hit, '>=', 1, 'a worker was ended while it had messages left');
records_once(\@topics, $rounds * $each, 'ended workers', sub { !$excused{ $_[0]{headers}{ce_type} } });

# The newest progress of each lane lies in a DEFAULT partition that is too
# full to be emptied.
my $topic = create_topic(unique_topic('ledger'), 3);

sub ledger { return $node->safe_psql('ledger', $_[0]); }

sub progress
{
	return ledger('SELECT lane, batch_id, snapshot, target, last_seq FROM outbox.progress ORDER BY lane');
}

ledger('CREATE EXTENSION outbox');
ledger("SELECT outbox.enqueue('thing', g, 'x', '{}', topic => '$topic') FROM generate_series(1, 100) AS g");
is(ledger("SELECT outbox.wait_until_drained('2 min')"), 't', 'the ledger has progress');
ledger('ALTER DATABASE ledger SET outbox.enabled = off');
poll_until(sub { ledger('SELECT coalesce(lanes_owned, 0) FROM outbox.stat') eq '0' },
	60, 'the lanes to be free');
ledger(q(
	INSERT INTO outbox.batch (recorded_at, worker_pid, snapshots, lanes, lane_snapshot, lane_target, lane_seq,
		messages, bytes, topics, range_topic, range_partition, range_first, range_last)
	SELECT now() + interval '40 days', 1, ARRAY[p.snapshot], ARRAY[p.lane], '{1}', '{0}', '{0}', 0, 0,
		'{}', '{}', '{}', '{}', '{}'
	FROM generate_series(1, 1000) AS g CROSS JOIN outbox.progress AS p
));
my $before = progress();
is($before =~ s/\|\d+:\d+:[\d,]*\|//gr =~ tr/\n//, 15, 'all lanes have progress');

# Steps give up when a lock is refused: again until it is done.
poll_until(
	sub {
		ledger('CALL outbox.maintain()');
		return ledger(q{SELECT count(*) FROM outbox.leaf
			WHERE parent = 'outbox.batch'::regclass AND NOT attached}) eq '1';
	},
	120,
	'the full DEFAULT partition to be replaced');
is(progress(), $before, 'the progress of each lane is still found');

ledger('ALTER DATABASE ledger RESET outbox.enabled');
ledger("SELECT outbox.enqueue('thing', 1, 'x', '{}', topic => '$topic')");
poll_until(sub { ledger("SELECT outbox.wait_until_drained('10 s')") eq 't' },
	120, 'the last message to be published');
records_once($topic, 101, 'a new DEFAULT partition');

done_testing();
