# Delivery writes no row per message: after many messages the log has no dead
# and no updated row, and the ledger has some rows a second.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use OutboxTest::Load;
use PostgreSQL::Test::Utils;
use Test::More;

my $count = $ENV{OUTBOX_LONG} ? 1_000_000 : 200_000;
my $topic = create_topic(unique_topic('many'), 16);
my $node  = outbox_node('main', extension => 1);

sub sql { return $node->safe_psql('postgres', $_[0]); }

# The start of a fresh database moves its first row into its day.
sql("SELECT outbox.enqueue('order', 'first', 'changed', '{}', topic => '$topic')");
is(sql("SELECT outbox.wait_until_drained('60 s')"), 't', 'the first message is sent');
$node->poll_query_until('postgres', "SELECT outbox.leaf_exists('message', outbox.leaf_day(now()))")
  or die 'no leaf for today';
my @leaves = split /\n/, sql("SELECT relid FROM pg_partition_tree('outbox.message') WHERE isleaf");
my $wal = sql('SELECT pg_current_wal_insert_lsn()');

# In transactions of 1,000 messages, and some alone.
$node->safe_psql('postgres', <<"END");
DO \$\$
BEGIN
	FOR i IN 1 .. $count / 1000 LOOP
		PERFORM outbox.enqueue('order', n::text, 'changed', '{"some": "payload"}'::json, topic => '$topic')
		FROM generate_series(1, 1000) AS n;
		COMMIT;
	END LOOP;
END \$\$
END
sql("SELECT outbox.enqueue('order', 'one', 'changed', '{}', topic => '$topic')") foreach 1 .. 20;
my $enqueued = sql("SELECT pg_current_wal_insert_lsn() - '$wal'");
is(sql("SELECT outbox.wait_until_drained('300 s')"), 't', 'everything is sent');

# The counters of a session are visible some time after its transactions.
$node->poll_query_until('postgres',
	"SELECT sum(n_tup_ins) > $count + 20 FROM pg_stat_user_tables WHERE schemaname = 'outbox' AND relname LIKE 'message%'")
  or die 'no counters';
my $row = sql(<<'END');
SELECT sum(n_tup_ins), sum(n_tup_upd), sum(n_tup_del), sum(n_dead_tup)
FROM pg_stat_user_tables WHERE schemaname = 'outbox' AND relname LIKE 'message%'
END
my ($inserted, $updated, $deleted, $dead) = split /\|/, $row;
cmp_ok($inserted, '>', $count + 20, 'all were inserted');
is($updated,  0,           'no row was updated');
is($deleted,  0,           'none was deleted');
is($dead,     0,           'none is dead');
is(sql("SELECT count(*) FROM outbox.message WHERE xmax::text <> '0'"), 0, 'nor locked');

# Where the statistics could be wrong, the tables themselves cannot: VACUUM
# finds nothing to remove.
my (undef, undef, $vacuum) = $node->psql('postgres', 'VACUUM (VERBOSE) outbox.message');
my @removed = $vacuum =~ /tuples: (\d+) removed/g;
cmp_ok(scalar @removed, '>=', scalar @leaves, 'VACUUM looked at every leaf');
is((grep { $_ > 0 } @removed), 0, 'and found nothing to remove');

# What the relay wrote instead.
my $batches = sql('SELECT count(*) FROM outbox.batch');
cmp_ok($batches, '<', $count / 100, "by $batches rows");
is(sql("SELECT sum(messages) FROM outbox.batch"), $count + 21, 'which count every message');
is(sql('SELECT count(*) FROM outbox.retry'), 0, 'nothing is in retry');
note("enqueuing wrote $enqueued bytes of WAL");

my @records = consume($topic, min => $count + 21, timeout => 180);
is(scalar @records, $count + 21, 'all came, once');
is(scalar OutboxTest::Load::faults($node), 0, 'no process failed');
$node->stop;
done_testing();
