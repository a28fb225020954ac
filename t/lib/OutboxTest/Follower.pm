# A consumer in the background. See OutboxTest.
package OutboxTest::Follower;

use strict;
use warnings;

use IO::Select;
use IPC::Open2;
use Time::HiRes qw(time);

sub new
{
	my ($class, $command) = @_;
	my $self = bless { records => [], bytes => '', owner => $$ }, $class;
	$self->{pid} = open2($self->{out}, $self->{in}, @$command);
	binmode $self->{out};
	# Its first, empty record says that it has read what was there.
	$self->_read_until(sub { $self->{in_place} }, 60) or die 'follow: no answer';
	return $self;
}

# Returns whether the condition came true in time.
sub _read_until
{
	my ($self, $condition, $timeout) = @_;
	my $deadline = time + $timeout;
	my $select   = IO::Select->new($self->{out});
	while (!$condition->())
	{
		my $left = $deadline - time;
		return 0 if $left < 0;
		next if !$select->can_read($left);
		sysread($self->{out}, $self->{bytes}, 1 << 20, length $self->{bytes})
		  or return 0;
		$self->_decode;
	}
	return 1;
}

sub _decode
{
	my ($self) = @_;
	my $done = 0;
	while (length($self->{bytes}) - $done >= 4)
	{
		my $length = unpack('N', substr($self->{bytes}, $done, 4));
		last if length($self->{bytes}) - $done - 4 < $length;
		if ($length == 0) { $self->{in_place} = 1; }
		else
		{
			push @{ $self->{records} },
			  OutboxTest::decode_record(substr($self->{bytes}, $done + 4, $length));
		}
		$done += 4 + $length;
	}
	substr($self->{bytes}, 0, $done) = '';
	return;
}

sub records
{
	my ($self) = @_;
	$self->_read_until(sub { !IO::Select->new($self->{out})->can_read(0.05) }, 60);
	return @{ $self->{records} };
}

sub wait_for
{
	my ($self, $count, $timeout) = @_;
	return $self->_read_until(sub { @{ $self->{records} } >= $count }, $timeout // 60);
}

sub stop
{
	my ($self) = @_;
	return if !$self->{pid} || $self->{owner} != $$;
	local $?;
	kill 'TERM', $self->{pid};
	waitpid(delete $self->{pid}, 0);
	return;
}

sub DESTROY
{
	my ($self) = @_;
	$self->stop;
	return;
}

1;
