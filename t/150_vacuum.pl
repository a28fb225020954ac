# VACUUM cuts off the end of a leaf, with rows that were never committed, while
# the relay has their places in hand.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use Test::More;

my $broker = own_broker();
my $topic  = create_topic(unique_topic('order'), 16, brokers => $broker->brokers);
my $node   = outbox_node('main', brokers => $broker->brokers, extension => 1,
	conf => <<'END');
autovacuum = off
outbox.batch_size = 10
outbox.poll_interval = '1h'
END

sub sql { return $node->safe_psql('postgres', $_[0]); }

my $enqueue = "SELECT count(outbox.enqueue('order', n::text, 'changed', to_json(n), topic => '$topic'))";
sql("$enqueue FROM generate_series(1, 16) AS n");
is(sql("SELECT outbox.wait_until_drained('90 s')"), 't', 'the relay knows the topic');

# One difference that holds both: what committed, and behind it what did not.
sql('ALTER SYSTEM SET outbox.enabled = off');
sql('SELECT pg_reload_conf()');
poll_until(sub { sql('SELECT count(*) FROM outbox.lane WHERE worker_pid IS NOT NULL') == 0 }, 60, 'the relay to stop');
sql("$enqueue FROM generate_series(17, 2000) AS n");
sql("BEGIN; $enqueue FROM generate_series(2001, 20000) AS n; ROLLBACK");

# The relay sends a batch of each lane, and waits for the broker.
$broker->freeze;
sql('ALTER SYSTEM SET outbox.enabled = on');
sql('SELECT pg_reload_conf()');
poll_until(
	sub {
		sql(<<'END') eq '16';
SELECT count(*) FROM outbox.lane AS l JOIN pg_stat_activity AS a ON a.pid = l.worker_pid
WHERE a.state = 'idle'
END
	},
	60,
	'the relay to read');

my $leaf = sql('SELECT DISTINCT tableoid::regclass FROM outbox.message');
my $size = sql("SELECT pg_relation_size('$leaf')");
sql("VACUUM $leaf");
cmp_ok(sql("SELECT pg_relation_size('$leaf')"), '<', $size / 2, 'VACUUM has cut off the end');
is(sql('SELECT count(*) FROM outbox.pending'), 1984, 'most messages are still to be read');

$broker->thaw;
is(sql("SELECT outbox.wait_until_drained('90 s')"), 't', 'everything is sent');
my @values = sort { $a <=> $b } map { $_->{value} } consume($topic, brokers => $broker->brokers, min => 2000);
is_deeply(\@values, [ 1 .. 2000 ], 'once, and nothing that was not committed');

done_testing();
