# Waiting for messages to be published.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node  = outbox_node('main', extension => 1);
my $topic = create_topic(unique_topic('waiting'), 4);

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub set_enabled
{
	my ($on) = @_;
	sql("ALTER SYSTEM SET outbox.enabled = $on");
	$node->reload;
	$node->poll_query_until('postgres',
		'SELECT lanes_owned = ' . ($on eq 'on' ? 16 : 0) . ' FROM outbox.stat') or die 'the relay does not obey';
	return;
}

sub fails_like
{
	my ($query, $code, $words, $what) = @_;
	my ($status, undef, $error) = $node->psql('postgres', "\\set VERBOSITY verbose\n$query");
	ok($status != 0 && $error =~ /ERROR:  $code: .*$words/s, $what) or diag($error);
	return;
}

my $enqueue = "outbox.enqueue('order', '1', 'created', '{}', topic => '$topic')";

is(sql('SELECT outbox.wait_until_drained()'), 't', 'a database without messages is drained');
my $id = sql("SELECT $enqueue");
is(sql("SELECT outbox.wait_until_published('$id', '60 s')"), 't', 'a message is waited for');
is(scalar consume($topic, min => 1), 1, 'it is in Kafka then');
is(sql("SELECT outbox.wait_until_published('$id')"), 't', 'and later still');
is(sql("SELECT outbox.wait_until_published('$id', '0 s')"), 't', 'with no time at all');
is(sql("SELECT outbox.wait_until_drained('60 s')"), 't', 'the database is drained');

# What is waited for is really there.
foreach my $round (1 .. 20)
{
	my $new = sql("SELECT $enqueue");
	sql("SELECT outbox.wait_until_published('$new', '60 s')") eq 't' or fail('a message is published');
	my %seen = map { $_->{headers}{ce_id} => 1 } consume($topic);
	$seen{$new} or fail('a message that is said to be published is in Kafka');
}
sql("SELECT $enqueue FROM generate_series(1, 500)");
is(sql("SELECT outbox.wait_until_drained('60 s')"), 't', 'many messages are waited for');
is(scalar consume($topic), 521, 'all are in Kafka then');

# Nothing comes: false, at its time
set_enabled('off');
$id = sql("SELECT $enqueue");
foreach my $wait ("outbox.wait_until_published('$id', '1 s')", "outbox.wait_until_drained('1 s')")
{
	my $started = time;
	is(sql("SELECT $wait"), 'f', "$wait is false where nothing is published");
	my $took = time - $started;
	cmp_ok($took, '>=', 1,  'not before its time');
	cmp_ok($took, '<',  30, 'nor long after');
}
is(sql("SELECT outbox.wait_until_published('$id', '-1 s')"), 'f', 'a time that is over is over');
fails_like("SET statement_timeout = '500ms'; SELECT outbox.wait_until_published('$id', '100 s');",
	'57014', 'statement timeout', 'a wait can be canceled');

# A wait that began before the relay did
my $waiter = $node->background_psql('postgres');
$waiter->query_until(qr/waits/, "\\echo waits\nSELECT outbox.wait_until_published('$id', '120 s') AS done;\n");
$node->poll_query_until('postgres',
	q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query ~ 'AS done' AND pid <> pg_backend_pid() AND wait_event = 'PgSleep'})
  or die 'nobody waits';
set_enabled('on');
like($waiter->query('SELECT 1;'), qr/^t$/m, 'a wait ends when the message is published');
$waiter->quit;

# The caller's own transaction
fails_like("BEGIN; SELECT outbox.wait_until_published($enqueue, '1 s');",
	'(?:25000|P0002)', '(?:current transaction|not in the log)', 'one cannot wait for a message of the same statement');
fails_like("BEGIN; SELECT $enqueue AS mine \\gset\nSELECT outbox.wait_until_published(:'mine', '1 s');",
	'25000', 'belongs to the current transaction', 'nor of the same transaction');
fails_like("BEGIN; SELECT $enqueue; SELECT outbox.wait_until_drained('1 s');",
	'25000', 'has enqueued messages itself', 'nor until all are, in a transaction that has one');
fails_like("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT outbox.wait_until_drained('1 s');",
	'25000', 'repeatable read', 'nor with a snapshot that stands still');
fails_like("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT outbox.wait_until_published('$id', '1 s');",
	'25000', 'serializable', 'nor with another that does');

# Rollbacks
fails_like("BEGIN; SELECT $enqueue AS gone \\gset\nROLLBACK; SELECT outbox.wait_until_published(:'gone', '1 s');",
	'P0002', 'is not in the log', 'a message that was rolled back will never come');
is(sql("SELECT outbox.wait_until_drained('60 s')"), 't', 'and nobody waits for it');
is(sql("BEGIN; SELECT $enqueue AS gone \\gset\nROLLBACK; SELECT outbox.wait_until_drained('60 s')"), 't',
	'not even its own session');
fails_like("SELECT outbox.wait_until_published(gen_random_uuid(), '1 s');",
	'P0002', 'is not in the log', 'nor is any other id');

# An open transaction of others is not waited for: what had committed counts.
my $open = $node->background_psql('postgres');
$open->query_safe('BEGIN');
my $later = $open->query_safe("SELECT $enqueue");
is(sql("SELECT outbox.wait_until_drained('60 s')"), 't', 'drained while another transaction is open');
fails_like("SELECT outbox.wait_until_published('$later', '1 s');", 'P0002', 'has not committed yet',
	'whose message is not there yet');
$open->query_safe('COMMIT');
is(sql("SELECT outbox.wait_until_published('$later', '60 s')"), 't', 'but is after its commit');
$open->query_safe('BEGIN');
$later = $open->query_safe("SELECT $enqueue");
$open->query_safe("PREPARE TRANSACTION 'waits'");
is(sql("SELECT outbox.wait_until_drained('60 s')"), 't', 'drained while another is prepared');
sql(q{COMMIT PREPARED 'waits'});
is(sql("SELECT outbox.wait_until_published('$later', '60 s')"), 't', 'whose message comes, too');
$open->quit;

# Roles
sql("CREATE ROLE producer; SELECT outbox.grant_producer('producer'); CREATE ROLE other");
is(sql("SET ROLE producer; SELECT outbox.wait_until_published('$later', '60 s') AND outbox.wait_until_drained('60 s')"),
	't', 'a producer may wait');
fails_like('SET ROLE other; SELECT outbox.wait_until_drained();', '42501', 'permission denied', 'others may not');

is(sql("SELECT outbox.wait_until_published(NULL) IS NULL"), 't', 'null is waited for by nobody');

done_testing();
