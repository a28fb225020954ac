# Leaves whose day is over are closed; a clock that went back does not reach
# them, and what they hold still goes out.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use Test::More;

my $node  = outbox_node('main', extension => 1, conf => "max_prepared_transactions = 5\n");
my $topic = unique_topic('closed');

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Rows as an owner restores them: with times of their own.
sub backdate
{
	my ($days, $count) = @_;
	return "INSERT INTO outbox.message (seq, created_at, aggregate_type, aggregate_id, event_type, topic)
		SELECT nextval('outbox.message_seq'), clock_timestamp() - interval '$days days', 'a', g::text, 'e', '$topic'
		FROM generate_series(1, $count) AS g";
}

sub leaf
{
	my ($days) = @_;
	return sql("SELECT relation, state, close_at IS NOT NULL FROM outbox.leaf
		WHERE parent = 'outbox.message'::regclass AND attached
			AND upper_bound > now() - interval '$days days' AND lower_bound <= now() - interval '$days days'");
}

sql("SELECT outbox.enqueue('a', '0', 'e', '{}', topic => '$topic')");
is(sql(q{SELECT outbox.wait_until_drained('60 s')}), 't', 'the database has started');

# While the relay stands still, so that the rows are pending.
sql('ALTER DATABASE postgres SET outbox.enabled = off');
poll_until(sub { sql("SELECT count(*) = 16 FROM outbox.lane WHERE state = 'free'") eq 't' }, 60, 'an idle relay');
sql(backdate(3, 100));
sql('CALL outbox.maintain()') for 1 .. 2;
like(leaf(3), qr/\|closed\|t$/, 'a day that is over is closed');
like(leaf(0), qr/\|open\|f$/, 'today is not');
is(sql("SELECT count(*) FROM outbox.pending"), '100', 'its messages are pending');

my ($code, $out, $error) = $node->psql('postgres', backdate(3, 1));
isnt($code, 0, 'a closed leaf refuses rows');
like($error, qr/which has been closed/, 'and says why');

sql('ALTER DATABASE postgres RESET outbox.enabled');
is(sql(q{SELECT outbox.wait_until_drained('60 s')}), 't', 'what was pending in a closed leaf goes out');
is(scalar(consume($topic, min => 101)), 101, 'once');

# A writer that is still there, also as a prepared transaction.
sql('BEGIN; ' . backdate(5, 1) . q{; PREPARE TRANSACTION 'writer'});
sql('CALL outbox.maintain()');
sql(q{COMMIT PREPARED 'writer'});
sql('CALL outbox.maintain()');
like(leaf(5), qr/\|(open|closing|closed)\|/, 'a leaf for the row that fell into DEFAULT');
sql('CALL outbox.maintain()');
my $day = (split /\|/, leaf(5))[0];
sql("UPDATE outbox.leaf SET state = 'open', close_at = NULL WHERE relation = '$day'::regclass;
	DROP TRIGGER leaf_is_closed ON $day");
sql("BEGIN; " . backdate(5, 1) . q{; PREPARE TRANSACTION 'writer'});
is(sql("SELECT outbox.close_leaf('$day')"), 'open', 'a prepared writer keeps a leaf open');
sql(q{COMMIT PREPARED 'writer'});
is(sql("SELECT outbox.close_leaf('$day')"), 'closing', 'after it the leaf refuses rows');
is(sql("SELECT outbox.close_leaf('$day')"), 'closed', 'and in the next transaction it is closed');
is(sql(q{SELECT outbox.wait_until_drained('60 s')}), 't', 'its messages go out');
is(scalar(consume($topic, min => 103)), 103, 'once');

# A clock that was a day ahead closed today.
sql("UPDATE outbox.leaf SET state = 'closed', close_at = pg_snapshot_xmax(outbox.stored_snapshot())
	WHERE relation = (SELECT relation FROM outbox.leaf WHERE parent = 'outbox.message'::regclass AND attached
		AND lower_bound <= now() AND upper_bound > now())");
my $id = sql("SELECT outbox.enqueue('a', 'late', 'e', '{}', topic => '$topic')");
is(sql("SELECT outbox.message_created_at('$id') >= max(upper_bound) FROM outbox.leaf WHERE state = 'closed'"),
	't', 'enqueue() takes a time after the last closed bound');
is(sql("INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, topic)
	VALUES ('a', 'late', 'e', '$topic')
	RETURNING created_at >= (SELECT max(upper_bound) FROM outbox.leaf WHERE state = 'closed')"),
	't', 'so does INSERT');
is(sql(q{SELECT outbox.wait_until_drained('60 s')}), 't', 'both go out');
my @late = grep { $_->{key} eq 'late' } consume($topic, min => 105);
is(scalar(@late), 2, 'once');
cmp_ok($late[0]{timestamp}, '<=', 1000 * (time + 1), 'with a Kafka timestamp that brokers take');

done_testing();
