# Two hundred clients that enqueue at once: none waits for a lock of ours, and
# those of different keys wait for no lock at all.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use IPC::Run;
use OutboxTest;
use OutboxTest::Load;
use OutboxTest::Session;
use PostgreSQL::Test::Utils;
use Test::More;

my $clients = 200;
my $topic   = create_topic(unique_topic('clients'), 16);
my $node    = outbox_node('main', extension => 1, conf => <<"END");
max_connections = @{[ $clients + 20 ]}
shared_buffers = 128MB
outbox.workers_per_database = 2
outbox.maintenance_interval = '1h'
END

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Partitions are made when a fresh database starts; here they are there first.
sql("SELECT outbox.enqueue('order', 'first', 'changed', '{}', topic => '$topic')");
is(sql("SELECT outbox.wait_until_drained('60 s')"), 't', 'the first message is sent');
$node->poll_query_until('postgres', <<'END') or die 'partitions are not made';
SELECT outbox.leaf_exists(p, outbox.leaf_day(now()) + d) FROM unnest('{message,batch}'::text[]) AS p, (VALUES (7)) AS v(d)
UNION ALL SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'outbox worker' ORDER BY 1 LIMIT 1
END

my $script = $node->basedir . '/enqueue.sql';
append_to_file($script, <<"END");
\\set key random(1, 1000000000)
BEGIN;
SELECT outbox.enqueue('order', :key, 'changed', '{"some": "payload"}'::json, topic => '$topic');
END;
END
my ($out, $err) = ('', '');
my $pgbench = IPC::Run::start(
	[
		'pgbench', '-n', '-M', 'prepared', '-c', $clients, '-j', 2, '-T', $ENV{OUTBOX_LONG} ? 60 : 8,
		'-f', $script, '-d', $node->connstr('postgres') . ' application_name=pgbench'
	],
	'<', \undef, '>', \$out, '2>', \$err);

# Every wait event of the clients, as often as it can be looked at.
my $session = OutboxTest::Session->new($node);
my (%waits, %states);
my $looks = 0;
while ($pgbench->pumpable)
{
	$pgbench->pump_nb;
	my $rows = $session->sql(<<'END');
SELECT coalesce(a.wait_event_type, 'none'), coalesce(a.wait_event, 'none'), count(*)
FROM pg_stat_activity AS a
WHERE a.application_name = 'pgbench' AND a.state IN ('active', 'idle in transaction')
GROUP BY 1, 2
END
	my $seen = 0;
	foreach my $row (split /\n/, $rows)
	{
		my ($type, $event, $count) = split /\|/, $row;
		$waits{"$type/$event"} += $count;
		$seen += $count;
	}
	$looks++ if $seen > 1;
}
$pgbench->finish or die "pgbench: $err";
$session->quit;

my ($done) = $out =~ /number of transactions actually processed: (\d+)/;
my ($failed) = $out =~ /number of failed transactions: (\d+)/;
note("$done transactions; $looks looks");
note("$_: $waits{$_}") foreach sort { $waits{$b} <=> $waits{$a} } keys %waits;
cmp_ok($looks, '>', 20,   'the clients were looked at often enough');
cmp_ok($done,  '>', 1000, 'they enqueued');
is($failed, 0, 'none failed');
is((grep { m{/outbox}i } keys %waits), 0, 'none was seen waiting for a lock of ours');

# Every table that grows has its lock of extension.
my @locks = grep { m{^Lock/} && $_ ne 'Lock/extend' } keys %waits;
is("@locks", '', 'nor for a heavyweight lock');

is(sql("SELECT outbox.wait_until_drained('120 s')"), 't', 'the relay drains');
my @records = consume($topic, min => $done + 1);
is(scalar @records, $done + 1, 'all came, once');
is(scalar OutboxTest::Load::faults($node), 0, 'no process failed');
$node->stop;
done_testing();
