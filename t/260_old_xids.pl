# Messages that wait for so long that the status of their transactions has been
# cut off still go out: asking for it would raise an error.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node  = outbox_node('main', extension => 1);
my $topic = unique_topic('old');

sub sql { return $node->safe_psql('postgres', $_[0]); }

# The file of pg_xact that tells of a transaction
sub segment { return sprintf('%s/pg_xact/%04X', $node->data_dir, $_[0] / (8192 * 4 * 32)); }

sql("SELECT outbox.enqueue('a', 'first', 'e', '{}', topic => '$topic')");
is(sql(q{SELECT outbox.wait_until_drained('60 s')}), 't', 'the database has started');
sql('ALTER DATABASE postgres SET outbox.enabled = off');
poll_until(sub { sql("SELECT count(*) = 16 FROM outbox.lane WHERE state = 'free'") eq 't' }, 60, 'an idle relay');
sql("SELECT outbox.enqueue('a', g::text, 'e', '{}', topic => '$topic') FROM generate_series(1, 5) AS g");
is(sql('SELECT count(*) FROM outbox.pending'), '5', 'messages are pending');
my $old = sql('SELECT xid::text::numeric % 4294967296 FROM outbox.pending ORDER BY seq LIMIT 1');

# Five million transactions later
$node->stop;
my $next = $old + 5_000_000;
$next -= $next % (8192 * 4 * 32);
command_ok([ 'pg_resetwal', '-x', $next, $node->data_dir ], 'transactions pass');
open(my $file, '>', segment($next)) or die "cannot write pg_xact: $!";
binmode $file;
print $file "\0" x (8192 * 32);
close $file or die "cannot write pg_xact: $!";
$node->start;

ok(-e segment($old), 'the status of the old transactions is there');
$node->safe_psql('postgres', 'ALTER DATABASE template0 ALLOW_CONNECTIONS true');
$node->command_ok([ 'vacuumdb', '--all', '--freeze', '--quiet' ], 'everything is frozen');
sql('CHECKPOINT');
ok(!-e segment($old), 'and the status of the old transactions is cut off');

sql("SELECT outbox.enqueue('a', 'last', 'e', '{}', topic => '$topic')");
sql('ALTER DATABASE postgres RESET outbox.enabled');
is(sql(q{SELECT outbox.wait_until_drained('60 s')}), 't', 'what was pending goes out');
is_deeply([ sort map { $_->{key} } consume($topic, min => 7) ], [ 1 .. 5, 'first', 'last' ], 'once');
ok(!$node->log_contains('could not access status of transaction'), 'without asking for the old status');

done_testing();
