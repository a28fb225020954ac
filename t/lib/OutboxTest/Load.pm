=pod

=head1 NAME

OutboxTest::Load - concurrent clients, and whether Kafka has what they committed

=head1 SYNOPSIS

  my $load = OutboxTest::Load->new($node, topics => [ $a, $b ]);
  …
  my $counters = $load->stop;
  my $verdict  = $load->verify;
  is($verdict->{missing}, 0, 'nothing is lost');

=head1 METHODS

=over

=cut

package OutboxTest::Load;

use strict;
use warnings;

use IPC::Run;
use OutboxTest;
use PostgreSQL::Test::Utils;
use Test::More;

=item new($node, topics => [ … ], %options)

Starts F<t/lib/load.c> in the background: what it does and its other options
(C<clients>, C<rate>, …) stand there. C<dbname> is the database (postgres),
C<brokers> the address for the consumer.

=cut

sub new
{
	my ($class, $node, %options) = @_;
	my $topics  = delete $options{topics};
	my $dbname  = delete $options{dbname} // 'postgres';
	my $brokers = delete $options{brokers} // shared_brokers();
	my $keys    = $options{keys} // 1000;
	my $self    = bless {
		node    => $node,
		topics  => $topics,
		dbname  => $dbname,
		brokers => $brokers,
		in      => '',
		out     => '',
		err     => ''
	}, $class;

	$node->safe_psql($dbname, <<"END");
CREATE TABLE IF NOT EXISTS load_key (k integer PRIMARY KEY, n bigint NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS load_sent (tag text PRIMARY KEY, id uuid);
INSERT INTO load_key (k) SELECT generate_series(0, $keys - 1) ON CONFLICT DO NOTHING;
END
	$self->{harness} = IPC::Run::start(
		[
			OutboxTest::compiled('load', OutboxTest::libpq_flags()),
			$node->connstr($dbname), join(',', @$topics),
			map { "$_=$options{$_}" } sort keys %options
		],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err},
		IPC::Run::timer(600));
	return $self;
}

=item wait, stop

Wait until the load has ended by itself, or end it. Both return its counters,
after a complaint about each fault that it met.

=cut

sub wait
{
	my ($self) = @_;
	return $self->{counters} if $self->{counters};
	return $self->_finish;
}

sub stop
{
	my ($self) = @_;
	return $self->{counters} if $self->{counters};
	$self->{in} .= "stop\n";
	$self->{harness}->pump_nb;
	return $self->_finish;
}

sub _finish
{
	my ($self) = @_;
	$self->{harness}->pump while $self->{harness}->pumpable && $self->{out} !~ /^faults/m;
	$self->{harness}->finish;
	diag($self->{err}) if $self->{err} ne '';
	$self->{counters} = { $self->{out} =~ /^(\w+) (\d+)$/mg };
	note("load: $_ $self->{counters}{$_}") foreach sort keys %{ $self->{counters} };
	return $self->{counters};
}

# What it had to say, where the test has not come so far as to stop it
sub DESTROY
{
	my ($self) = @_;
	return if $self->{counters};
	eval { $self->{harness}->pump_nb; };
	diag("load: $self->{err}") if $self->{err} ne '';
	return;
}

=item committed

The messages that committed, as { id => { topic, key, lane, seq } }: what stands
in outbox.message and what the clients noted must agree, or it dies.

=cut

sub committed
{
	my ($self) = @_;
	my $topics = join ',', map { "'$_'" } @{ $self->{topics} };
	my %message;
	my $rows = $self->{node}->safe_psql($self->{dbname}, <<"END");
SELECT outbox.message_id(m.created_at, m.xid, m.seq), m.seq, m.topic, coalesce(m.key, m.aggregate_id),
	m.lane, m.payload ->> 'tag', s.tag, s.id IS NULL OR s.id = outbox.message_id(m.created_at, m.xid, m.seq)
FROM (SELECT * FROM outbox.log WHERE topic IN ($topics)) AS m
FULL JOIN load_sent AS s ON s.tag = m.payload ->> 'tag'
END
	foreach my $row (split /\n/, $rows)
	{
		my ($id, $seq, $topic, $key, $lane, $tag, $noted, $same) = split /\|/, $row;
		die "the log and the clients' notes differ: $row"
		  if $id eq '' || $noted eq '' || $same ne 't';
		die "message $id is in the log twice" if exists $message{$id};
		$message{$id} = { topic => $topic, key => $key, lane => $lane, seq => $seq };
	}
	return \%message;
}

=item verify(drain => $seconds)

Waits until the relay has nothing left (default 120 s) and compares what
committed with what the topics hold. Returns

  drained     whether the relay came to an end
  committed   how many messages committed
  records     how many records the topics hold
  missing     committed, not in Kafka: a number, and so are the rest
  phantoms    in Kafka, never committed
  duplicates  records beyond the first of a message
  disorder    messages of a key whose first record stands behind a later one's
  misplaced   records in another partition than Java's clients would choose, in
              a wrong topic, or with another key or sequence than in the log
  again       the duplicates: [ [ first record, later record ], … ]
  first       the first record of each message, by its id
  list        all records
  truth       what "committed" returns

and tells in diagnostics what is wrong with the first few.

=cut

sub verify
{
	my ($self, %options) = @_;
	my $drained = wait_until_drained($self->{node}, $self->{dbname}, $options{drain} // 120);
	my $truth   = $self->committed;
	my @records = consume($self->{topics}, brokers => $self->{brokers}, min => scalar keys %$truth);
	my %verdict = compare($truth, @records);
	$verdict{drained} = $drained;
	$verdict{list}    = \@records;
	$verdict{truth}   = $truth;
	return \%verdict;
}

=item sound($verdict, $what, %allowed)

The assertions that belong to a verdict; C<duplicates =E<gt> undef> leaves out
the one about duplicates.

=cut

sub sound
{
	my ($verdict, $what, %allowed) = @_;
	my $duplicates = exists $allowed{duplicates} ? $allowed{duplicates} : 0;
	my %expected   = map { $_ => 0 } qw(missing phantoms disorder misplaced);
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	note("$what: $verdict->{committed} committed, $verdict->{records} records");
	ok($verdict->{drained}, "$what: the relay drains");
	cmp_ok($verdict->{committed}, '>', 0, "$what: messages committed");
	is($verdict->{$_}, $expected{$_}, "$what: no $_") foreach sort keys %expected;
	is($verdict->{duplicates}, $duplicates, "$what: $duplicates duplicates")
	  if defined $duplicates;
	return;
}

=item compare(\%committed, @records)

The comparison of C<verify>.

=cut

sub compare
{
	my ($truth, @records) = @_;
	my (%first, %last_seq, @again);
	my %verdict = (
		committed => scalar keys %$truth,
		records   => scalar @records,
		map { $_ => 0 } qw(missing phantoms duplicates disorder misplaced));
	my $partitions = _partitions(\@records);
	my $fault      = sub {
		my ($kind, $record, $why) = @_;
		diag("$kind: $record->{topic}/$record->{partition}\@$record->{offset} $why")
		  if $verdict{$kind}++ < 5;
	};

	foreach my $record (@records)
	{
		my $id      = $record->{headers}{ce_id};
		my $message = $truth->{$id};
		my $place   = "$record->{topic}/$record->{key}";

		if (!$message)
		{
			$fault->('phantoms', $record, "$id never committed");
			next;
		}
		if ($first{$id})
		{
			push @again, [ $first{$id}, $record ];
			$verdict{duplicates}++;
			next;
		}
		$first{$id} = $record;
		$fault->('misplaced', $record, "is not as in the log")
		  if $record->{topic} ne $message->{topic}
		  || $record->{key} ne $message->{key}
		  || $record->{headers}{ce_sequence} ne $message->{seq}
		  || $record->{partition} != _partition_of($record, $partitions);
		$fault->('disorder', $record, "seq $message->{seq} of $place behind $last_seq{$place}")
		  if ($last_seq{$place} // 0) >= $message->{seq};
		$last_seq{$place} = $message->{seq};
	}
	my @missing = grep { !$first{$_} } keys %$truth;
	$verdict{missing} = @missing;
	diag("missing: $_ seq $truth->{$_}{seq} of $truth->{$_}{key}")
	  foreach grep { defined } @missing[ 0 .. 4 ];
	$verdict{again} = \@again;
	$verdict{first} = \%first;
	return %verdict;
}

# Topics have 16 partitions unless a record stands in a later one.
sub _partitions
{
	my ($records) = @_;
	my %partitions;
	foreach my $record (@$records)
	{
		my $n = \$partitions{ $record->{topic} };
		$$n //= 16;
		$$n = $record->{partition} + 1 if $$n <= $record->{partition};
	}
	return \%partitions;
}

my %hash_of;

sub _partition_of
{
	my ($record, $partitions) = @_;
	my $hash = $hash_of{ $record->{key} } //= murmur2($record->{key});
	return ($hash & 0x7fffffff) % $partitions->{ $record->{topic} };
}

=item murmur2($bytes)

The hash by which Java's clients choose the partition, from Kafka's
C<org.apache.kafka.common.utils.Utils>: 32 bits, unsigned.

=cut

sub murmur2
{
	use integer;
	my ($bytes) = @_;
	my $length = length $bytes;
	my $h      = 0x9747b28c ^ $length;
	my $mix    = sub { ($_[0] & 0xffffffff) * 0x5bd1e995 & 0xffffffff };
	my $whole  = $length & ~3;

	foreach my $k (unpack 'V*', substr($bytes, 0, $whole))
	{
		$k = $mix->($k);
		$k ^= $k >> 24;
		$h = $mix->($h) ^ $mix->($k);
	}
	my @rest = unpack 'C*', substr($bytes, $whole);
	$h ^= $rest[2] << 16 if @rest > 2;
	$h ^= $rest[1] << 8  if @rest > 1;
	$h = $mix->($h ^ $rest[0]) if @rest > 0;
	$h ^= $h >> 13;
	$h = $mix->($h);
	return $h ^ $h >> 15;
}

=item wait_until_drained($node, $dbname, $seconds)

C<outbox.wait_until_drained()>, also while the server comes and goes.

=cut

sub wait_until_drained
{
	my ($node, $dbname, $seconds) = @_;
	my $drained = $node->safe_psql($dbname, "SELECT outbox.wait_until_drained('$seconds s')");
	return $drained eq 't';
}

=item faults($node)

The lines of the server's log that tell of a process that failed; the number of
them in scalar context. To end with exit code 1 is no failure of the launcher,
and none of a worker that was terminated before it had begun.

=cut

sub faults
{
	my ($node) = @_;
	my $log = slurp_file($node->logfile);
	my %asked = map { $_ => 1 }
	  $log =~ /\[(\d+)\] FATAL:  terminating background worker "outbox worker" due to administrator command/g;
	my @lines;

	foreach my $line (split /\n/, $log)
	{
		push @lines, $line if $line =~ /PANIC:|TRAP:|was terminated by signal/;
		push @lines, $line
		  if $line =~ /background worker "outbox worker" \(PID (\d+)\) exited with exit code (?!0$)/
		  && !$asked{$1};
	}
	diag($_) foreach @lines;
	return @lines;
}

=back

=cut

1;
