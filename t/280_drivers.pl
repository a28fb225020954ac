# The calls of the README's table of drivers, each through its driver. A driver
# that scripts/drivers could not get is skipped; psycopg2 and JDBC are always
# there.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use IPC::Run qw(run);
use Test::More;

my $node  = outbox_node('main', extension => 1);
my $topic = unique_topic('drivers');
my $dir   = "$FindBin::RealBin/../examples/drivers";
my $url   = sprintf('jdbc:postgresql://127.0.0.1:%d/postgres?user=app', $node->port);
my %sent;

$node->safe_psql('postgres', q{CREATE ROLE app LOGIN; SELECT outbox.grant_producer('app')});
$node->append_conf('postgresql.conf', "listen_addresses = '127.0.0.1'");
$node->append_conf('pg_hba.conf', "host all app 127.0.0.1/32 trust");
$node->restart;

$ENV{PGHOST}     = $node->host;
$ENV{PGPORT}     = $node->port;
$ENV{PGDATABASE} = 'postgres';
$ENV{PGUSER}     = 'app';

# Can the command be run at all?
sub there { return run([@_], '<', \undef, '>&', \my $out); }

sub driver
{
	my ($name, $there, @command) = @_;
  SKIP:
	{
		skip "$name is not on this machine", 2 unless $there;
		my ($out, $error) = ('', '');
		ok(run([@command], '<', \undef, '>', \$out, '2>', \$error), "$name enqueues")
		  or diag $error;
		chomp $out;
		like($out, qr/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]+$/, "$name gets the message id");
		$sent{$out} = $name;
	}
	return;
}

driver('psql', 1, 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-v', "topic=$topic", '-f', "$dir/psql.sql");

my $python  = '/usr/bin/python3';
my $drivers = $ENV{OUTBOX_DRIVERS} || `$FindBin::RealBin/../scripts/drivers fetch`;
chomp $drivers;
$ENV{PYTHONPATH} = "$drivers/python";
driver('psycopg2', 1, $python, "$dir/psycopg2_enqueue.py", $topic);
driver('psycopg 3', there($python, '-c', 'import psycopg'), $python, "$dir/psycopg3_enqueue.py", $topic);
driver('SQLAlchemy', there($python, '-c', 'import sqlalchemy, psycopg2'),
	$python, "$dir/sqlalchemy_insert.py", $topic);

driver('JDBC', 1, 'java', '-cp', "$drivers/jdbc/classes:$drivers/jdbc/*", 'JdbcEnqueue', $url, $topic);
driver('pgx', -x "$drivers/pgx/example", "$drivers/pgx/example", $topic);

my @records = consume($topic, min => scalar(keys %sent));
is_deeply([ sort map { $_->{headers}{ce_id} } @records ], [ sort keys %sent ], 'Kafka has what the drivers sent');
for my $record (@records)
{
	my $name = $sent{ $record->{headers}{ce_id} } // next;
	is($record->{key}, '42', "the key of $name");
	is($record->{value}, '{"amount": "9.90"}', "the payload of $name");
}

done_testing();
