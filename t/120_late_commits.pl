# Transactions that began early and end late: they hold up nobody, and nothing
# of them is lost or comes twice.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use OutboxTest::Load;
use OutboxTest::Session;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = outbox_node('main', extension => 1, streaming => 1);
my $topic = create_topic(unique_topic('late'), 16);

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub enqueue
{
	my ($key, $value) = @_;
	return "SELECT outbox.enqueue('order', '$key', 'changed', '\"$value\"', topic => '$topic')";
}

sub arrives
{
	my ($id, $what) = @_;
	is(sql("SELECT outbox.wait_until_published('$id', '60 s')"), 't', $what);
	return;
}

sub values_now
{
	return join ' ', sort map { $_->{value} =~ tr/"//dr } consume($topic);
}

# Enough others for many snapshots. They are there when they are published.
sub others_flow_past
{
	my ($what) = @_;
	my $load = OutboxTest::Load->new($node, topics => [ create_topic(unique_topic('others'), 16) ],
		clients => 4, seconds => $ENV{OUTBOX_LONG} ? 120 : 3);
	is($load->wait->{faults}, 0, "$what: no client met an error");
	OutboxTest::Load::sound($load->verify, $what);
	sql('TRUNCATE load_sent');
	return;
}

# 1. A low seq commits after a high one.
my $a = OutboxTest::Session->new($node);
$a->sql('BEGIN');
my $id_a = $a->sql(enqueue('a', 'early'));
my $id_b = sql(enqueue('b', 'late'));
arrives($id_b, 'a message does not wait for one with a lower seq');
is(values_now(), 'late', 'and that one is not there yet');
$a->sql('COMMIT');
arrives($id_a, 'it comes when its transaction commits');
is(values_now(), 'early late', 'both came once');
my %seq = map { $_->{value} => $_->{headers}{ce_sequence} } consume($topic);
cmp_ok($seq{'"early"'}, '<', $seq{'"late"'}, 'though the first had the lower seq');

# 2. The same on one key, where the second waits for the first one's lock and
# has the older xid.
sql('CREATE TABLE aggregate (id text PRIMARY KEY)');
sql("INSERT INTO aggregate VALUES ('c')");
my $b = OutboxTest::Session->new($node);
$b->sql('BEGIN; SELECT pg_current_xact_id()');
$a->sql("BEGIN; SELECT FROM aggregate WHERE id = 'c' FOR UPDATE");
$a->sql(enqueue('c', 1));
$b->send("SELECT FROM aggregate WHERE id = 'c' FOR UPDATE");
$a->sql(enqueue('c', 2));
$a->sql('COMMIT');
$b->receive;
$b->sql(enqueue('c', 3));
$b->sql('COMMIT');
arrives(sql("SELECT outbox.message_id(created_at, xid, seq) FROM outbox.message WHERE payload::text = '\"3\"'"),
	'the last message of the key arrives');
is(join(' ', map { $_->{value} } grep { $_->{key} eq 'c' } consume($topic)), '"1" "2" "3"',
	'in the order of their seq, not of their xid');

# 3. A transaction that stays open, with more subtransactions than a snapshot
# holds, some of them rolled back; one that is prepared and will commit; one
# that is prepared and will not.
$a->sql('BEGIN');
$a->sql(enqueue('d', 'open'));
foreach my $n (1 .. 150)
{
	my $end = $n % 3 == 0 ? 'ROLLBACK TO SAVEPOINT s' : 'RELEASE SAVEPOINT s';
	$a->sql("SAVEPOINT s; " . enqueue('d', "open $n") . "; $end");
}
my $prepared = $b->sql('BEGIN;' . enqueue('e', 'prepared'));
$b->sql("PREPARE TRANSACTION 'commits'");
$b->sql('BEGIN;' . enqueue('f', 'never') . "; PREPARE TRANSACTION 'rolls back'");
others_flow_past('past an open transaction and two prepared ones');
unlike(values_now(), qr/open|prepared|never/, 'none of theirs is there');

# The worker that has seen them in progress goes; the next one knows of them.
my $worker = sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'outbox worker'");
is($worker, 't', 'the worker is terminated');
others_flow_past('with a new worker');

$a->sql(enqueue('d', 'last'));
$a->sql('COMMIT');
$b->sql("COMMIT PREPARED 'commits'");
$b->sql("ROLLBACK PREPARED 'rolls back'");
arrives($prepared, 'the prepared message arrives after its commit');
is(sql("SELECT outbox.wait_until_drained('60 s')"), 't', 'the relay drains');
my @d = map { $_->{value} =~ tr/"//dr } grep { $_->{key} eq 'd' } consume($topic);
is(join(', ', @d), join(', ', 'open', (map { "open $_" } grep { $_ % 3 != 0 } 1 .. 150), 'last'),
	'the long transaction arrives whole, once, in order, without what was rolled back');
is((grep { $_->{key} eq 'e' } consume($topic)), 1, 'the prepared message came once');
is((grep { $_->{key} eq 'f' } consume($topic)), 0, 'what was rolled back never came');

# 4. A prepared transaction outlives a crash.
$prepared = $b->sql('BEGIN;' . enqueue('g', 'prepared before a crash'));
$b->sql("PREPARE TRANSACTION 'survives'");
my $before = sql(enqueue('h', 'before the crash'));
arrives($before, 'another message flows past');
$_->quit foreach $a, $b;
$node->stop('immediate');
$node->start;
my $after = sql(enqueue('h', 'after the crash'));
arrives($after, 'also after the crash');
unlike(values_now(), qr/prepared before/, 'the prepared message is not there');
sql("COMMIT PREPARED 'survives'");
arrives($prepared, 'it arrives after its commit');
is((grep { $_->{key} eq 'g' } consume($topic)), 1, 'once');
is((grep { $_->{key} eq 'd' } consume($topic)), scalar @d, 'and nothing of the long transaction came again');

# 5. While a transaction is being prepared it runs twice: as its session, and as
# what is prepared. A standby that does not answer keeps it there.
my $c = OutboxTest::Session->new($node);
my $pid = $c->sql('SELECT pg_backend_pid()');
$prepared = $c->sql('BEGIN;' . enqueue('i', 'twice'));
sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
sql("ALTER SYSTEM SET synchronous_commit = 'local'");
$node->reload;
$node->poll_query_until('postgres',
	"SELECT current_setting('synchronous_standby_names') = 'nobody' AND current_setting('synchronous_commit') = 'local'")
  or die 'no new settings';
$c->sql("SET synchronous_commit = 'on'");
$c->send("PREPARE TRANSACTION 'twice'");
$node->poll_query_until('postgres',
	"SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = $pid")
  or die 'PREPARE does not wait';
arrives(sql(enqueue('i', 'meanwhile')), 'others flow past one that is being prepared');
sql("SELECT pg_cancel_backend($pid)");
$c->receive;
sql("COMMIT PREPARED 'twice'");
arrives($prepared, 'it arrives after its commit');
is((grep { $_->{value} eq '"twice"' } consume($topic)), 1, 'once');
$c->quit;

is(scalar OutboxTest::Load::faults($node), 0, 'no process failed');
$node->stop;
done_testing();
