=pod

=head1 NAME

OutboxTest - servers, brokers and consumers for the tests of outbox

=head1 SYNOPSIS

  use FindBin;
  use lib "$FindBin::RealBin/lib";
  use OutboxTest;
  use Test::More;

  my $node = outbox_node('main', extension => 1);
  my $topic = unique_topic('orders');
  $node->safe_psql('postgres',
      "SELECT outbox.enqueue('order', '1', 'created', '{}', topic => '$topic')");
  my @records = consume($topic, min => 1);
  is($records[0]{value}, '{}', 'the payload arrived');
  done_testing();

=head1 DESCRIPTION

Tests run two at a time against one broker, so each uses topics of its own.
The environment that F<scripts/check> sets:

  OUTBOX_TEST_BROKERS   the shared broker; one is started where it is unset
  OUTBOX_DESTDIR        where outbox is installed; unset: in the server itself
  OUTBOX_KAFKA          the script that runs brokers; unset: scripts/kafka
  OUTBOX_TEST_BIN       where compiled helpers are kept between test files

=head1 FUNCTIONS

=over

=cut

package OutboxTest;

use strict;
use warnings;

use Cwd qw(abs_path);
use Exporter 'import';
use File::Basename qw(basename dirname);
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

use OutboxTest::Broker;
use OutboxTest::Follower;
use OutboxTest::Proxy;

our @EXPORT = qw(
  outbox_node
  outbox_conf
  shared_brokers
  own_broker
  tcp_proxy
  blackhole
  unique_topic
  create_topic
  consume
  follow
  poll_until
);

my $here = abs_path(dirname(__FILE__));
my $shared_broker;
my %compiled;

=item outbox_node($name, %options)

A started server with outbox in C<shared_preload_libraries>, publishing to the
shared broker. It is a C<PostgreSQL::Test::Cluster>. Options:

  conf       => "more settings\n"
  brokers    => 'host:port'    instead of the shared broker; '' for none
  preload    => 0              leave out shared_preload_libraries
  extension  => 1              CREATE EXTENSION outbox in database postgres
  start      => 0              don't start it yet
  init       => [...]          arguments of initdb: [ '--encoding=LATIN1', … ]
  streaming  => 1 | 'logical'  allow replication

=cut

sub outbox_node
{
	my ($name, %options) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(
		extra            => $options{init} // [],
		allows_streaming => $options{streaming} // 0);
	$node->append_conf('postgresql.conf', outbox_conf(%options));
	$node->start if $options{start} // 1;
	$node->safe_psql('postgres', 'CREATE EXTENSION outbox')
	  if $options{extension};
	return $node;
}

=item outbox_conf(%options)

The settings that C<outbox_node> adds, for servers made in another way.

=cut

sub outbox_conf
{
	my (%options) = @_;
	my $brokers = $options{brokers} // shared_brokers();
	my $conf = <<'END';
max_prepared_transactions = 20
max_worker_processes = 20
max_connections = 60
shared_buffers = 32MB
log_statement = none
timezone = 'UTC'
END
	$conf .= "wal_level = replica\n" if !$options{streaming};
	$conf .= "shared_preload_libraries = 'outbox'\n" if $options{preload} // 1;
	$conf .= "outbox.kafka_bootstrap_servers = '$brokers'\n" if $brokers ne '';
	if (my $destdir = $ENV{OUTBOX_DESTDIR})
	{
		chomp(my $libdir = `pg_config --pkglibdir`);
		$conf .= "extension_destdir = '$destdir'\n";
		$conf .= "dynamic_library_path = '$destdir$libdir:\$libdir'\n";
	}
	return $conf . ($options{conf} // '') . "\n";
}

=item shared_brokers()

The address of the broker that all tests share.

=cut

sub shared_brokers
{
	return $ENV{OUTBOX_TEST_BROKERS} if $ENV{OUTBOX_TEST_BROKERS};
	$shared_broker //= own_broker();
	return $shared_broker->brokers;
}

=item own_broker(%options)

A broker that the test may ill-treat: C<brokers> (its address), C<stop>,
C<start>, C<restart>, C<kill9>, C<freeze> (it accepts connections and never
answers), C<thaw>, C<log_text>, C<tool(CLASS, ARGUMENTS)>. A broker that was
killed needs about 4 s to come back, one that was stopped 2 s. Options:

  properties => { 'auto.create.topics.enable' => 'false', … }
  jvm        => '-Xmx1g'
  proxy      => 1     clients reach it through $broker->proxy; C<direct> is
                      the address beside the proxy, for consumers

=cut

sub own_broker
{
	return OutboxTest::Broker->new(@_);
}

=item tcp_proxy($target)

A TCP proxy before C<host:port>: C<address>, C<port>, C<pass>, C<blackhole>
(accept, keep open, pass nothing on; C<pass> delivers what was held back),
C<reset> (reset open and new connections), C<delay($ms)> (in each direction),
C<accepted> (number of connections so far), C<stop>.

A broker sends its clients on to its own address, past a proxy: use
C<own_broker(proxy =E<gt> 1)> for Kafka.

=cut

sub tcp_proxy
{
	my ($target) = @_;
	return OutboxTest::Proxy->new(target => $target);
}

=item blackhole()

A TCP server that accepts and never answers: C<address>, C<accepted>, C<stop>.

=cut

sub blackhole
{
	return OutboxTest::Proxy->new;
}

=item unique_topic($prefix)

The name of a topic that no other test uses. The brokers create topics with 16
partitions when they are first used.

=cut

my $topics = 0;

sub unique_topic
{
	my ($prefix) = @_;
	return sprintf('%s.%s.%d.%d', $prefix // 'topic', basename($0, '.pl'), $$, ++$topics);
}

=item create_topic($name, $partitions, %config)

Creates a topic; C<brokers> in %config names another broker than the shared
one, the rest are the topic's settings. Returns the name.

=cut

sub create_topic
{
	my ($name, $partitions, %config) = @_;
	my $brokers = delete $config{brokers} // shared_brokers();
	my ($out, $err);

	IPC::Run::run(
		[
			compiled('create_topic'), $brokers, $name, $partitions,
			map { "$_=$config{$_}" } sort keys %config
		],
		'>', \$out, '2>', \$err) or die "create_topic $name: $err";
	return $name;
}

=item consume($topic, %options)

All records of a topic, or of several (C<[ $a, $b ]>), from the beginning to the
end. Returns a list of hashes in the order in which they were read, which is
the order of the offsets within a partition:

  topic, partition, offset
  key, value    bytes; undef for null
  tombstone     true if the value is null
  headers       { name => value }
  header_list   [ [ name, value ], … ] in their order
  timestamp     ms; the record's own
  seen          s; when it arrived here

Options: C<brokers>; C<min>: wait until there are so many records (and for the
topic); C<timeout> in seconds (60). When the time is over it complains and
returns what there is.

=cut

sub consume
{
	my ($topics, %options) = @_;
	my @topics = ref $topics ? @$topics : ($topics);
	my $min = $options{min} // 0;
	my ($out, $err) = ('', '');
	my $complete = IPC::Run::run(
		[
			compiled('consume'),
			'-b', $options{brokers} // shared_brokers(),
			'-n', $min,
			'-t', 1000 * ($options{timeout} // 60), @topics
		],
		'<', \undef, '>', \$out, '2>', \$err);
	my @records = map { decode_record($_) } unpack('(N/a)*', $out);
	if (!$complete)
	{
		diag("consume @topics: $err") if $err ne '';
		diag('consume ' . join(' ', @topics) . ': ' . @records . " of $min records came");
	}
	return @records;
}

# One record as consume.c prints it, without its length
sub decode_record
{
	my ($bytes) = @_;
	my %record;
	my ($key_null, $key, $value_null, $value, @headers);
	(   @record{qw(topic partition offset timestamp seen)},
		$key_null, $key, $value_null, $value, @headers
	) = unpack('n/a N q> q> q> C N/a C N/a n/(n/a C N/a)', $bytes);
	$record{seen} /= 1e6;
	$record{key}       = $key_null   ? undef : $key;
	$record{value}     = $value_null ? undef : $value;
	$record{tombstone} = $value_null;
	$record{headers}   = {};
	while (my ($name, $null, $header) = splice @headers, 0, 3)
	{
		$header = undef if $null;
		$record{headers}{$name} = $header;
		push @{ $record{header_list} }, [ $name, $header ];
	}
	return \%record;
}

=item follow($topic, %options)

A consumer in the background that notes when each record arrives (C<seen>), for
latencies. The topic must exist; the consumer is in place when C<follow>
returns. C<records> returns what has come so far, C<wait_for($count, $timeout)>
waits and returns whether so many came, C<stop> ends it. Option: C<brokers>.

=cut

sub follow
{
	my ($topics, %options) = @_;
	return OutboxTest::Follower->new(
		[
			compiled('consume'), '-f',
			'-b', $options{brokers} // shared_brokers(),
			ref $topics ? @$topics : ($topics)
		]);
}

=item poll_until($condition, $timeout, $what)

Calls $condition->() until it returns a true value, and returns that. Dies,
naming $what, after $timeout seconds (default 60).

=cut

sub poll_until
{
	my ($condition, $timeout, $what) = @_;
	my $deadline = time + ($timeout // 60);
	my $pause    = 2_000;
	while (1)
	{
		my $result = $condition->();
		return $result if $result;
		die 'timed out waiting for ' . ($what // 'a condition') if time > $deadline;
		usleep($pause);
		$pause = 100_000 if ($pause *= 2) > 100_000;
	}
}

=back

=cut

# The program made of t/lib/NAME.c, by default one that uses librdkafka. Other
# tests may be compiling it as well.
sub compiled
{
	my ($name, @flags) = @_;
	return $compiled{$name} if $compiled{$name};
	my $source  = "$here/$name.c";
	my $bin     = $ENV{OUTBOX_TEST_BIN} // $PostgreSQL::Test::Utils::tmp_check;
	my $program = "$bin/$name";
	if (!-x $program || -M $program > -M $source)
	{
		my @cc = ($ENV{CC} // 'cc', '-O1', '-o', "$program.$$", $source);
		push @cc, @flags ? @flags : '-lrdkafka';
		system(@cc) == 0 or die "could not compile $source";
		rename("$program.$$", $program) or die "rename $program: $!";
	}
	return $compiled{$name} = $program;
}

# What a program that connects to the server is compiled with
sub libpq_flags
{
	chomp(my ($include, $lib) = `pg_config --includedir --libdir`);
	return ("-I$include", "-L$lib", '-lpq', '-lpthread');
}

1;
