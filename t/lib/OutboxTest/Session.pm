=pod

=head1 NAME

OutboxTest::Session - a session of psql that stays open

=head1 SYNOPSIS

  my $session = OutboxTest::Session->new($node);
  $session->sql('BEGIN');
  my $id = $session->sql("SELECT outbox.enqueue(…)");

=cut

package OutboxTest::Session;

use strict;
use warnings;

use IPC::Run;

# Options: dbname => 'postgres'
sub new
{
	my ($class, $node, %options) = @_;
	my $self = bless { in => '', out => '', err => '', count => 0 }, $class;

	$self->{harness} = IPC::Run::start(
		[ 'psql', '-XAtq', '-d', $node->connstr($options{dbname} // 'postgres') ],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err},
		$self->{timer} = IPC::Run::timeout(180));
	return $self;
}

# What the statements print; dies where one of them fails.
sub sql
{
	my ($self, $sql) = @_;
	my $out = $self->send($sql)->receive;
	die "$sql: $self->{err}" if $self->{err} =~ /ERROR|FATAL|connection/;
	return $out;
}

# The same in two steps, for statements that wait.
sub send
{
	my ($self, $sql) = @_;
	my $mark = 'done ' . ++$self->{count};

	@$self{qw(out err)} = ('', '');
	$self->{timer}->start(180);
	$self->{in} .= "$sql;\n\\echo $mark\n";
	$self->{harness}->pump_nb;
	return $self;
}

sub receive
{
	my ($self) = @_;
	my $mark = "done $self->{count}\n";

	while ($self->{out} !~ /^\Q$mark\E/m)
	{
		die "psql ended: $self->{err}" if !$self->{harness}->pumpable;
		$self->{harness}->pump;
	}
	my ($out) = $self->{out} =~ /^(.*?)\n?\Q$mark\E/s;
	return $out;
}

sub quit
{
	my ($self) = @_;
	my $harness = delete $self->{harness} or return;
	$self->{timer}->reset;
	$self->{in} .= "\\q\n";
	eval { $harness->finish; };
	return;
}

1;
