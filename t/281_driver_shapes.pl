# What drivers send, by the programs of t/drivers: ids as integers, texts and
# UUIDs, JSON, bytes, tombstones, headers, ORMs' INSERT ... RETURNING. Each
# enqueues in one transaction, and rolls another one back. psql, psycopg2 and JDBC must be there; the others are
# skipped, with a word, where scripts/drivers could not get them.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $programs = "$FindBin::RealBin/drivers";
my $drivers  = $ENV{OUTBOX_DRIVERS};
if (!$drivers)
{
	$drivers = `$FindBin::RealBin/../scripts/drivers fetch`;
	die 'could not get the drivers' if $? != 0;
	chomp $drivers;
}

# The socket is not what every driver can use.
my $node = outbox_node('main', extension => 1, conf => <<'END');
listen_addresses = '127.0.0.1'
END
my $user = $node->safe_psql('postgres', 'SELECT current_user');
my $jdbc = sprintf 'jdbc:postgresql://127.0.0.1:%d/postgres', $node->port;
my %environment = (
	PGHOST     => '127.0.0.1',
	PGPORT     => $node->port,
	PGUSER     => $user,
	PGDATABASE => 'postgres');

# Name, what it needs, command, messages
my @cases = (
	[ 'psql', undef, 4, sub { ('psql', '-XAtq', '-v', "topic=$_[0]", '-f', "$programs/psql.sql") } ],
	[ 'psycopg2', undef, 4, sub { ('/usr/bin/python3', "$programs/with_psycopg2.py", $_[0]) } ],
	[ 'JDBC', undef, 5, sub { ('java', '-cp', "$drivers/jdbc/classes:$drivers/jdbc/*", 'Jdbc', $jdbc, $user, $_[0]) } ],
	[ 'psycopg 3', 'python', 4, sub { ('/usr/bin/python3', "$programs/with_psycopg3.py", $_[0]) } ],
	[ 'SQLAlchemy', 'python', 4, sub { ('/usr/bin/python3', "$programs/with_sqlalchemy.py", $_[0]) } ],
	[ 'Django', 'python', 2, sub { ('/usr/bin/python3', "$programs/with_django.py", $_[0]) } ],
	[ 'pgx', 'pgx', 4, sub { ("$drivers/pgx/shapes", $_[0]) } ],
	[ 'node-postgres', 'node', 4, sub { ('node', "$programs/node_pg.js", $_[0]) } ]);

foreach my $case (@cases)
{
	my ($name, $needs, $count, $command) = @$case;
	SKIP:
	{
		skip "$name: " . slurp_file("$drivers/$needs.missing") =~ s/\s+$//r, 4
		  if $needs && -e "$drivers/$needs.missing";
		local %ENV = (%ENV, %environment);
		local $ENV{PYTHONPATH} = $needs && $needs eq 'python' ? "$drivers/python" : '';
		local $ENV{NODE_PATH}  = "$drivers/node/node_modules";
		local $ENV{PYTHONDONTWRITEBYTECODE} = 1;
		my $topic = create_topic(unique_topic($name =~ tr/A-Za-z0-9//cdr), 4);
		my ($out, $err) = ('', '');
		ok(IPC::Run::run([ $command->($topic) ], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(300)),
			"$name: runs")
		  or diag($err);
		my @ids = split /\n/, $out;
		is(scalar @ids, $count, "$name: enqueues");
		my %records = map { $_->{headers}{ce_id} => $_ } consume($topic, min => scalar @ids);
		is(join(' ', sort keys %records), join(' ', sort @ids), "$name: exactly what committed is published");
		my @wrong = grep {
			my ($type, $value) = ($_->{headers}{ce_type}, $_->{value});
			$type eq 'created'
			  ? ($value // '') !~ /^\{"total" ?: ?10\}$/
			  : $type eq 'scanned' ? ($value // '') ne "\x00\xff"
			  : $type ne 'deleted' || defined $value;
		} values %records;
		is(scalar @wrong, 0, "$name: with its payloads") or diag(explain(\@wrong));
	}
}

done_testing();
