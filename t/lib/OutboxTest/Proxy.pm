# A TCP proxy that can be told to misbehave. See OutboxTest.
#
# It runs in a process of its own, which ends with the test. Every command is
# answered when it is in force.
package OutboxTest::Proxy;

use strict;
use warnings;

use IO::Handle;
use IO::Select;
use IO::Socket::INET;
use POSIX ();
use Socket qw(pack_sockaddr_in SOL_SOCKET SO_LINGER IPPROTO_TCP TCP_NODELAY);
use Time::HiRes qw(time);

# Below the range from which the kernel takes ports for outgoing connections.
sub _listener
{
	my ($port) = @_;
	for (1 .. 1000)
	{
		my $listener = IO::Socket::INET->new(
			LocalAddr => '127.0.0.1',
			LocalPort => $port // 20000 + int rand 12000,
			Listen    => 100);
		return $listener if $listener;
		last if $port;
	}
	die "could not listen: $@";
}

sub free_port
{
	return _listener()->sockport;
}

# Options: target => 'host:port' (none: every connection is a black hole)
sub new
{
	my ($class, %options) = @_;
	my $listener = _listener($options{port});
	my $self = bless { port => $listener->sockport }, $class;

	pipe(my $command_out, my $command_in) or die "pipe: $!";
	pipe(my $answer_out,  my $answer_in)  or die "pipe: $!";
	my $pid = fork() // die "fork: $!";
	if ($pid == 0)
	{
		close $command_in;
		close $answer_out;
		$answer_in->autoflush(1);
		eval { _serve($listener, $options{target}, $command_out, $answer_in); };
		print STDERR "proxy: $@" if $@;
		POSIX::_exit(0);
	}
	$command_in->autoflush(1);
	@$self{qw(pid owner commands answers)} = ($pid, $$, $command_in, $answer_out);
	$self->blackhole if !$options{target};
	return $self;
}

sub port    { return $_[0]{port}; }
sub address { return "127.0.0.1:$_[0]{port}"; }

sub _command
{
	my ($self, $command) = @_;
	print { $self->{commands} } "$command\n";
	my $answer = readline($self->{answers}) // die 'the proxy is gone';
	chomp $answer;
	return $answer;
}

# Pass everything on (also what a black hole held back).
sub pass      { return $_[0]->_command('pass'); }

# Accept, keep connections open, pass nothing on.
sub blackhole { return $_[0]->_command('blackhole'); }

# Reset open connections and every new one.
sub reset     { return $_[0]->_command('reset'); }

# Pass everything on, in each direction this many milliseconds later.
sub delay     { return $_[0]->_command("delay $_[1]"); }

# How many connections were accepted so far.
sub accepted  { return $_[0]->_command('accepted'); }

sub stop
{
	my ($self) = @_;
	return if !$self->{pid} || $self->{owner} != $$;
	local ($?, $SIG{PIPE}) = (0, 'IGNORE');
	print { $self->{commands} } "quit\n";
	close $self->{commands};
	waitpid($self->{pid}, 0);
	delete $self->{pid};
	return;
}

sub DESTROY
{
	my ($self) = @_;
	local $!;
	$self->stop;
	return;
}

# What follows runs in the proxy's process. A connection is two ends; an end
# is {socket, peer, queue of [due, bytes], closing}. "queue" holds what is to
# be written to this end.
my ($mode, $delay, %end, $accepted);

sub _serve
{
	my ($listener, $target, $commands, $answers) = @_;
	local $SIG{PIPE} = 'IGNORE';
	local $SIG{TERM} = 'DEFAULT';
	local $SIG{INT}  = 'DEFAULT';
	($mode, $delay, $accepted) = ('pass', 0, 0);

	while (1)
	{
		# A black hole reads what comes and remembers it, up to a limit.
		my @readable = grep { $_->{held} < 16 * 1024 * 1024 && !$_->{eof} } values %end;
		my $now  = time;
		my @due  = grep { _due($_, $now) } values %end;
		my $read = IO::Select->new($listener, $commands, map { $_->{socket} } @readable);
		my $write = IO::Select->new(map { $_->{socket} } @due);
		my ($r, $w) = IO::Select->select($read, $write, undef, _pause($now));

		foreach my $handle (@{ $r // [] })
		{
			if ($handle == $commands)
			{
				return if !_obey($commands, $answers);
			}
			elsif ($handle == $listener) { _accept($listener, $target); }
			elsif ($end{$handle})        { _read($end{$handle}); }
		}
		foreach my $handle (@{ $w // [] })
		{
			_write($end{$handle}) if $end{$handle};
		}
	}
	return;
}

sub _due
{
	my ($end, $now) = @_;
	return $mode ne 'blackhole' && @{ $end->{queue} } && $end->{queue}[0][0] <= $now;
}

# Until the next bytes are due
sub _pause
{
	my ($now) = @_;
	my $pause = 1;
	foreach my $end (values %end)
	{
		next if $mode eq 'blackhole' || !@{ $end->{queue} };
		my $wait = $end->{queue}[0][0] - $now;
		$pause = $wait if $wait < $pause;
	}
	return $pause < 0 ? 0 : $pause;
}

sub _obey
{
	my ($commands, $answers) = @_;
	sysread($commands, my $line, 100) or return 0;
	chomp $line;
	return 0 if $line eq 'quit';
	if ($line eq 'accepted')
	{
		print $answers "$accepted\n";
		return 1;
	}
	$delay = $line =~ /^delay (\d+)/ ? $1 / 1000 : 0;
	$mode  = $line =~ /^(blackhole|reset)$/ ? $line : 'pass';
	# What came into a black hole while the target was down has no other end.
	my @doomed = grep { $mode eq 'reset' || !$_->{peer} } values %end;
	@doomed = () if $mode eq 'blackhole';
	_drop($_, 1) foreach @doomed;
	print $answers "$mode\n";
	return 1;
}

sub _accept
{
	my ($listener, $target) = @_;
	my $near = $listener->accept or return;
	$accepted++;
	if ($mode eq 'reset')
	{
		_reset($near);
		return;
	}
	my $far = $target && IO::Socket::INET->new(PeerAddr => $target);
	if ($target && !$far && $mode ne 'blackhole')
	{
		_reset($near);
		return;
	}
	my @ends = map { +{ socket => $_, queue => [], held => 0 } }
	  grep { $_ } $near, $far;
	$ends[0]{peer} = $ends[1];
	$ends[1]{peer} = $ends[0] if $ends[1];
	foreach my $end (@ends)
	{
		$end->{socket}->blocking(0);
		setsockopt($end->{socket}, IPPROTO_TCP, TCP_NODELAY, 1);
		$end{ $end->{socket} } = $end;
	}
	return;
}

sub _read
{
	my ($end) = @_;
	my $peer = $end->{peer};
	my $got = sysread($end->{socket}, my $bytes, 256 * 1024);
	if (!defined $got)
	{
		_drop($end, 1) if !$!{EAGAIN} && !$!{EINTR};
	}
	elsif (!$peer)
	{
		_drop($end, 0) if $got == 0;
	}
	else
	{
		# An empty string in the queue is the end of the stream.
		$end->{eof} = 1 if $got == 0;
		$end->{held} += $got;
		push @{ $peer->{queue} }, [ time + $delay, $bytes ];
	}
	return;
}

sub _write
{
	my ($end) = @_;
	my $now = time;
	while (_due($end, $now))
	{
		my $first = $end->{queue}[0];
		if ($first->[1] eq '')
		{
			_drop($end, 0);
			return;
		}
		my $sent = syswrite($end->{socket}, $first->[1]);
		if (!defined $sent)
		{
			_drop($end, 1) if !$!{EAGAIN} && !$!{EINTR};
			return;
		}
		$end->{peer}{held} -= $sent;
		substr($first->[1], 0, $sent) = '';
		return if $first->[1] ne '';
		shift @{ $end->{queue} };
	}
	return;
}

sub _reset
{
	my ($socket) = @_;
	setsockopt($socket, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0));
	close $socket;
	return;
}

# Close both ends of a connection.
sub _drop
{
	my ($end, $reset) = @_;
	my @ends = grep { $_ } $end, $end->{peer};
	foreach my $one (@ends)
	{
		delete $end{ $one->{socket} } or next;
		$reset ? _reset($one->{socket}) : close $one->{socket};
		delete $one->{peer};
	}
	return;
}

1;
