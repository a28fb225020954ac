# A DEFAULT partition with more rows than may be moved leaves the tree and
# remains a leaf of the log: read, shown, and sent once.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = outbox_node('main', conf => "outbox.maintenance_interval = '1 h'\n");
my $drained = q{SELECT outbox.wait_until_drained('120 s')};

sub sql
{
	my ($db, $query) = @_;
	return $node->safe_psql($db, $query);
}

sub database
{
	my ($db, @settings) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql('postgres', "ALTER DATABASE $db SET $_") foreach @settings;
	$node->safe_psql($db,        'CREATE EXTENSION outbox');
	return unique_topic($db);
}

# It gives up where somebody looks at the log at the same time.
sub heal
{
	my ($db, $parent) = @_;
	return $node->poll_query_until($db, "SELECT outbox.heal_default('$parent')");
}

sub stop_relay
{
	my ($db) = @_;
	sql($db, "ALTER DATABASE $db SET outbox.enabled = off");
	$node->poll_query_until($db, q{SELECT NOT EXISTS (SELECT FROM outbox.lane WHERE state <> 'free')})
	  or die 'the relay does not stop';
	return;
}

sub start_relay
{
	my ($db) = @_;
	sql($db, "ALTER DATABASE $db SET outbox.enabled = on");
	return;
}

# Keys 0 to 99; the payload is the place within the key.
my %count;

sub enqueue
{
	my ($db, $topic, $n) = @_;
	my $from = $count{$topic} // 0;
	my $to   = $count{$topic} = $from + $n;
	sql($db, <<"END");
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, topic, payload)
SELECT 'order', (g % 100)::text, 'created', '$topic', to_json(g / 100) FROM generate_series($from, $to - 1) AS g
END
	return;
}

# Every message once, each key in its order.
sub is_complete
{
	my ($topic, $what) = @_;
	my @records = consume($topic, min => $count{$topic});
	my (%next, $wrong);
	foreach my $record (@records)
	{
		$wrong //= "$record->{key}: $record->{value}"
		  if $record->{value} != ($next{ $record->{key} }++ // 0);
	}
	is(scalar @records, $count{$topic}, "$what: all are published, none twice");
	is($wrong, undef, "$what: in their order");
	return;
}

sub kept
{
	my ($db) = @_;
	return sql($db, <<'END');
SELECT l.relation, l.attached, c.relispartition,
	EXISTS (SELECT FROM pg_depend AS d WHERE d.objid = c.oid AND d.deptype = 'e')
FROM outbox.leaf AS l JOIN pg_class AS c ON c.oid = l.relation
WHERE c.relname ~ '^message_kept_' ORDER BY l.relation::text
END
}

# The whole DEFAULT is still to be sent.
{
	my $db    = 'pending';
	my $topic = database($db, 'outbox.enabled = off');
	enqueue($db, $topic, 3000) for 1 .. 4;
	ok(heal($db, 'message'), 'a DEFAULT with 12,000 rows is healed');
	like(kept($db), qr/^outbox\.message_kept_\d{8}_\d+\|f\|f\|f$/,
		'it has become a leaf outside of the tree and of the extension');
	is(sql($db, 'SELECT count(*) FROM ONLY outbox.message_default'), '0', 'a new DEFAULT is in its place');
	is(sql($db, <<'END'), 't|t', 'which belongs to the extension and to its dumps');
SELECT EXISTS (SELECT FROM pg_depend AS d WHERE d.objid = 'outbox.message_default'::regclass AND d.deptype = 'e'),
	'outbox.message_default'::regclass = ANY (extconfig) AND cardinality(extconfig) = cardinality(extcondition)
FROM pg_extension WHERE extname = 'outbox'
END
	is(sql($db, 'SELECT count(*) FROM outbox.message'), '0', 'the tree does not have the rows');
	is(sql($db, 'SELECT count(*) FROM outbox.log'), '12000', 'outbox.log does');
	is(sql($db, 'SELECT count(*) FROM outbox.pending'), '12000', 'outbox.pending does');
	is(sql($db, 'SELECT status, count(*) FROM outbox.delivery GROUP BY 1'), 'PENDING|12000', 'outbox.delivery does');
	is(sql($db, q{SELECT value FROM outbox.health() WHERE "check" = 'backlog'}), '12000', 'and health() counts them');

	enqueue($db, $topic, 500);
	is(sql($db, 'SELECT count(*) FROM outbox.message'), '500', 'further rows go into the tree');
	my $id = sql($db, 'SELECT outbox.message_id(created_at, xid, seq) FROM outbox.log ORDER BY seq LIMIT 1');
	is(sql($db, "SELECT outbox.wait_until_published('$id', '0 s')"), 'f', 'one can wait for a row of the kept leaf');

	start_relay($db);
	is(sql($db, $drained), 't', 'all are sent');
	is_complete($topic, 'kept while pending');
	is(sql($db, "SELECT outbox.wait_until_published('$id', '60 s')"), 't', 'also the one that was waited for');
	is(sql($db, 'SELECT status, count(*) FROM outbox.delivery GROUP BY 1'), 'SENT|12500', 'all are SENT');
	is(sql($db, 'SELECT count(*) FROM outbox.pending'), '0', 'none is pending');
	like(sql($db, "SELECT * FROM outbox.locate('$id')"), qr/^\Q$topic\E\|0\|SENT\|\d+\|\d+\|\d+\|/,
		'locate() finds a row of the kept leaf');

	# A second one beside the first: rows of too many days.
	stop_relay($db);
	sql($db, <<"END");
INSERT INTO outbox.message (created_at, aggregate_type, aggregate_id, event_type, topic, payload)
SELECT now() - g * interval '1 day', 'order', g::text, 'created', '$topic', to_json(12500 / 100)
FROM generate_series(1, 40) AS g
END
	ok(heal($db, 'message'), 'a DEFAULT with rows of 40 days is healed');
	my @kept = split /\n/, kept($db);
	is(scalar @kept, 2, 'there are two kept leaves');
	is(sql($db, 'SELECT count(*) FROM outbox.pending'), '40', 'the second is in outbox.pending');
	start_relay($db);
	is(sql($db, $drained), 't', 'its rows are sent');
	$count{$topic} += 40;
	is_complete($topic, 'two kept leaves');

	my ($status, undef, $error) = $node->psql($db, 'DROP EXTENSION outbox');
	is($status, 0, 'DROP EXTENSION takes kept leaves along') or diag($error);
	is(sql($db, q{SELECT string_agg(relname, ', ') FROM pg_class WHERE relnamespace = to_regnamespace('outbox')}),
		'', 'all of them');
	sql($db, 'CREATE EXTENSION outbox');
	$count{ my $new = unique_topic('again') } = 0;
	enqueue($db, $new, 100);
	is(sql($db, $drained), 't', 'and outbox works when it is created again');
	is_complete($new, 'after DROP and CREATE EXTENSION');
}

# A part of DEFAULT was sent from where it lay, while nothing could move it.
{
	my $db    = 'sent';
	my $topic = database($db);
	my $idle  = $node->background_psql($db);
	$idle->query_safe('BEGIN');
	$idle->query_safe("SELECT outbox.enqueue('other', '1', 'created', '{}', topic => '$topic.other')");
	enqueue($db, $topic, 4000) for 1 .. 2;
	consume($topic, min => 8000);
	is(sql($db, 'SELECT count(*) FROM outbox.message_default'), '8000', 'a relay sends from DEFAULT');
	stop_relay($db);
	enqueue($db, $topic, 4000);
	is(sql($db, q{SELECT outbox.heal_default('message')}), '', 'an open transaction keeps it from being healed');
	$idle->query_safe('COMMIT');
	$idle->quit;
	ok(heal($db, 'message'), 'after its end it can be');
	is(sql($db, 'SELECT status, count(*) FROM outbox.delivery GROUP BY 1 ORDER BY 1'), "PENDING|4001\nSENT|8000",
		'the kept leaf has rows that were sent and others');
	start_relay($db);
	is(sql($db, $drained), 't', 'the others are sent');
	is_complete($topic, 'kept when half was sent');
	is(scalar consume("$topic.other", min => 1), 1, 'and the one of the transaction that was open');

	$node->restart;
	enqueue($db, $topic, 100);
	is(sql($db, $drained), 't', 'the relay goes on after a restart');
	is_complete($topic, 'after a restart');
}

# The ledger's DEFAULT, likewise: what was sent stays sent.
{
	my $db    = 'ledger';
	my $topic = database($db);
	enqueue($db, $topic, 1000);
	is(sql($db, $drained), 't', 'messages are sent');
	sql($db, 'CALL outbox.maintain()');
	stop_relay($db);
	sql($db, <<'END');
BEGIN;
LOCK TABLE outbox.batch;
WITH gone AS (DELETE FROM outbox.batch RETURNING *)
INSERT INTO outbox.batch SELECT b.id, b.recorded_at - d * interval '1 day', b.worker_pid, b.snapshots, b.lanes,
	b.lane_snapshot, b.lane_target, b.lane_seq, b.messages, b.bytes, b.topics, b.range_topic, b.range_partition,
	b.range_first, b.range_last
FROM gone AS b CROSS JOIN generate_series(1, 33) AS d;
COMMIT;
END
	ok(heal($db, 'batch'), 'a DEFAULT of the ledger with rows of 33 days is healed');
	is(sql($db, 'SELECT status, count(*) FROM outbox.delivery GROUP BY 1'), 'SENT|1000', 'what was sent stays SENT');
	start_relay($db);
	enqueue($db, $topic, 100);
	is(sql($db, $drained), 't', 'the relay goes on');
	is_complete($topic, 'with the ledger kept');
}

# A transaction with an old snapshot would move what it sees and drop the rest.
{
	my $db    = 'snapshot';
	my $topic = database($db, 'outbox.enabled = off', "default_transaction_isolation = 'repeatable read'");
	my $old   = $node->background_psql($db, on_error_stop => 0);
	enqueue($db, $topic, 10);
	$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outbox.message;');
	enqueue($db, $topic, 10);
	$old->query(q{SELECT outbox.heal_default('message'); COMMIT;});
	$old->quit;
	is(sql($db, 'SELECT count(*) FROM outbox.log'), '20', 'a heal by an old snapshot loses nothing');
	ok(poll_until(
			sub {
				sql($db, 'CALL outbox.maintain()');
				return sql($db, 'SELECT count(*) FROM outbox.message_default') eq '0';
			},
			120, 'a heal'),
		'maintain() heals where REPEATABLE READ is the default');
	start_relay($db);
	is($node->safe_psql($db, "SET default_transaction_isolation = 'read committed'; $drained"), 't', 'all are sent');
	is_complete($topic, 'with REPEATABLE READ as the default');
}

done_testing();
