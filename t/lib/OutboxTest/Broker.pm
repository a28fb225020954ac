# A Kafka broker of a test's own, run by scripts/kafka. See OutboxTest.
package OutboxTest::Broker;

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IPC::Run;
use PostgreSQL::Test::Utils;

use OutboxTest::Proxy;

my $script = $ENV{OUTBOX_KAFKA}
  || abs_path(dirname(__FILE__) . '/../../..') . '/scripts/kafka';
my @all;
my $owner = $$;

sub _run
{
	my ($command, @arguments) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ $script, $command, @arguments ],
		'<', \undef, '>', \$out, '2>', \$err)
	  or die "scripts/kafka $command failed: $out$err";
	chomp $out;
	return $out;
}

# Options: properties => {}, jvm => '-Xmx256m', proxy => 1
sub new
{
	my ($class, %options) = @_;
	my $self = bless {
		dir => PostgreSQL::Test::Utils::tempdir('kafka'),
		jvm => $options{jvm} // '-Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC'
	}, $class;
	my %properties = %{ $options{properties} // {} };
	my @arguments = map { "$_=$properties{$_}" } sort keys %properties;

	if ($options{proxy})
	{
		my $behind = OutboxTest::Proxy::free_port();
		$self->{proxy} = OutboxTest::Proxy->new(target => "127.0.0.1:$behind");
		push @arguments, "proxied=$behind:" . $self->{proxy}->port;
	}
	push @all, $self;
	$self->_start(@arguments);
	return $self;
}

sub _start
{
	my ($self, @arguments) = @_;
	local $ENV{OUTBOX_KAFKA_JVM} = $self->{jvm};
	$self->{brokers} = _run('start', $self->{dir}, @arguments);
	return;
}

# What producers are to use: through the proxy, if there is one.
sub brokers
{
	my ($self) = @_;
	return $self->{proxy} ? $self->{proxy}->address : $self->{brokers};
}

# The broker itself, also when there is a proxy.
sub direct { return $_[0]{brokers}; }
sub proxy  { return $_[0]{proxy}; }
sub dir    { return $_[0]{dir}; }

sub log_text
{
	my ($self) = @_;
	return slurp_file("$self->{dir}/log");
}

sub start   { my ($self) = @_; $self->_start;                  return; }
sub stop    { my ($self) = @_; _run('stop', $self->{dir});     return; }
sub kill9   { my ($self) = @_; _run('kill', $self->{dir});     return; }
sub freeze  { my ($self) = @_; _run('freeze', $self->{dir});   return; }
sub thaw    { my ($self) = @_; _run('thaw', $self->{dir});     return; }
sub restart { my ($self) = @_; $self->stop; $self->start;      return; }

# One of Kafka's tools: $broker->tool('org.apache.kafka.tools.TopicCommand',
# '--bootstrap-server', '@BROKERS', …); returns what it prints.
sub tool
{
	my ($self, @arguments) = @_;
	return _run('tool', $self->{dir}, @arguments);
}

# Nothing in the data directories is worth an orderly stop.
END
{
	local $?;
	@all = () if $owner != $$;
	eval { _run('kill', $_->{dir}); } foreach @all;
}

1;
