=pod

=head1 NAME

OutboxTest::Mock - a cluster of librdkafka's mock brokers

=head1 SYNOPSIS

  my $mock = OutboxTest::Mock->new(brokers => 1);
  my $node = outbox_node('main', brokers => $mock->address);
  $mock->tell('errors 45 1');

What it can be told stands in F<t/lib/mock.c>.

=cut

package OutboxTest::Mock;

use strict;
use warnings;

use IO::Handle;
use IPC::Open2;
use OutboxTest;

sub new
{
	my ($class, %options) = @_;
	my $self = bless { owner => $$ }, $class;
	$self->{pid} = open2($self->{out}, $self->{in}, OutboxTest::compiled('mock'), $options{brokers} // 1);
	$self->{in}->autoflush(1);
	$self->{address} = readline($self->{out}) // die 'no mock cluster';
	chomp $self->{address};
	return $self;
}

sub address { return $_[0]{address}; }

sub tell
{
	my ($self, $command) = @_;
	print { $self->{in} } "$command\n";
	my $answer = readline($self->{out}) // die 'the mock cluster is gone';
	die "$command: $answer" if $answer ne "ok\n";
	return;
}

sub DESTROY
{
	my ($self) = @_;
	return if !$self->{pid} || $self->{owner} != $$;
	local ($?, $!);
	kill 'TERM', $self->{pid};
	waitpid(delete $self->{pid}, 0);
	return;
}

1;
