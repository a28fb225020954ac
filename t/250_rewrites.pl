# DDL that rewrites the log while it is written and read: nothing is lost,
# nothing sent twice. A relay whose snapshot is older than a rewrite sees no
# rows, and one that keeps places of rows finds others there.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use PostgreSQL::Test::Utils;
use Test::More;

# Behind a slow wire there is always something to read when a rewrite ends.
my $broker = own_broker(proxy => 1);
my $node   = outbox_node(
	'main',
	brokers   => $broker->brokers,
	extension => 1,
	conf      => "outbox.batch_size = 50\noutbox.workers_per_database = 2\n");
my $drained = q{SELECT outbox.wait_until_drained('180 s')};
my $topic   = create_topic(unique_topic('rewrite'), 4, brokers => $broker->direct);

sub sql { return $node->safe_psql('postgres', $_[0]); }

sql("SELECT outbox.enqueue('order', 'first', 'created', '{}', topic => '$topic')");
$node->poll_query_until('postgres', 'SELECT NOT EXISTS (SELECT FROM outbox.message_default)')
  or die 'DEFAULT is not healed';
$broker->proxy->delay(15);

# Each client has keys of its own, so their order is that of its transactions.
my $script = "$PostgreSQL::Test::Utils::tmp_check/rewrites.sql";
append_to_file($script, <<"END");
\\set key random(1, 5)
\\set n random(1, 8)
BEGIN;
SELECT outbox.enqueue('order', :client_id || '-' || :key, 'created', to_json(g), topic => '$topic')
FROM generate_series(1, :n) AS g;
COMMIT;
END
my $load = IPC::Run::start(
	[ 'pgbench', '-n', '-c', '6', '-j', '2', '-R', '120', '-T', '600', '-f', $script, $node->connstr('postgres') ],
	'>', \my $out, '2>', \my $err, IPC::Run::timer(900));

my $leaf = sql(q{SELECT relation FROM outbox.leaf WHERE parent = 'outbox.message'::regclass
	AND now() >= lower_bound AND now() < upper_bound});
my $index = "${leaf}_lane" =~ s/^outbox\.//r;
my $count = 0;

# What has been enqueued since the last look, so that each rewrite meets
# messages that were committed before it and were not sent.
sub wait_for_backlog
{
	$node->poll_query_until('postgres', 'SELECT count(*) >= 20 FROM outbox.pending')
	  or die 'there is no backlog';
	return;
}

foreach my $round (1 .. 4)
{
	foreach my $ddl (
		'ALTER TABLE outbox.message ADD COLUMN extra float8 DEFAULT random()',
		'ALTER TABLE outbox.message ALTER COLUMN extra TYPE text USING extra::text',
		"VACUUM (FULL) $leaf",
		'ALTER TABLE outbox.message DROP COLUMN extra',
		"CLUSTER $leaf USING $index",
		"REINDEX TABLE $leaf",
		"REINDEX TABLE CONCURRENTLY $leaf")
	{
		my $what = $ddl =~ s/\d{8}/DAY/gr;
		wait_for_backlog();
		my $file   = sql("SELECT pg_relation_filenode('$leaf'), pg_relation_filenode('outbox.$index')");
		my ($status, undef, $error) = $node->psql('postgres', $ddl);
		is($status, 0, "round $round: $what") or diag($error);
		isnt(sql("SELECT pg_relation_filenode('$leaf'), pg_relation_filenode('outbox.$index')"), $file, 'has rewritten')
		  if $ddl !~ /DROP/;
		$count++;
	}
}
kill 'INT', $load->{KIDS}[0]{PID};
eval { $load->finish; };
unlike($err, qr/ERROR/, "clients have enqueued through $count of them without an error");
$broker->proxy->pass;

is(sql($drained), 't', 'all are sent');
my %rows = map { $_ => 1 } split /\n/, sql('SELECT outbox.message_id(created_at, xid, seq) FROM outbox.log');
my @records = consume($topic, brokers => $broker->direct, min => scalar keys %rows);
my (%seen, %last, $disorder);
foreach my $record (@records)
{
	my ($key, $seq) = ($record->{key}, $record->{headers}{ce_sequence});
	$seen{ $record->{headers}{ce_id} }++;
	$disorder //= "$key: $seq after $last{$key}" if ($last{$key} // 0) >= $seq;
	$last{$key} = $seq;
}
note(scalar(@records) . ' messages');
cmp_ok(scalar keys %rows, '>', 500, 'many were enqueued meanwhile');
is(scalar(grep { !$seen{$_} } keys %rows),     0, 'none is lost');
is(scalar(grep { !$rows{$_} } keys %seen),     0, 'none is a phantom');
is(scalar(grep { $_ > 1 } values %seen),       0, 'none is sent twice');
is($disorder, undef, 'none overtakes another of its key');
is(sql('SELECT count(*) FROM outbox.pending'), '0', 'none is pending');
is(sql('SELECT status, count(*) FROM outbox.delivery GROUP BY 1'), 'SENT|' . scalar keys %rows, 'all are SENT');

done_testing();
