# The programs of bench/ run and print their figures. How good those are is
# not asked here.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use Test::More;

my $bench = "$FindBin::RealBin/../bench";
my $number = qr/\d+(?:\.\d+)?/;

# A program's standard output, with its diagnostics in the log.
sub run_bench
{
	my ($name) = @_;
	my ($out, $err);
	local $ENV{BENCH_BROKERS} = shared_brokers();

	my $done = IPC::Run::run([ "$bench/$name", '--quick' ], '<', \undef, '>', \$out, '2>', \$err);
	diag("bench/$name: $err") if !$done;
	ok($done, "bench/$name runs");
	return $out;
}

# Each label stands in a line with a figure and its range; those that end in
# "+" have a figure above zero.
sub has_figures
{
	my ($name, $out, @labels) = @_;
	foreach my $label (@labels)
	{
		my $positive = $label =~ s/\+$//;
		my ($figure, $low, $high) =
		  $out =~ /^\Q$label\E +($number)   \(($number) to ($number)\)$/m;
		ok(defined $figure && $low <= $figure && $figure <= $high && ($figure > 0 || !$positive),
			"bench/$name: $label")
		  or diag($out);
	}
	return;
}

has_figures(
	'drain',
	my $drain = run_bench('drain'),
	'relay, messages/s+',
	'raw producer, messages/s+',
	'relay / raw',
	'relay / raw with linger.ms=5',
	'worker, CPU us/message+',
	'raw producer, CPU us/message+',
	'worker, private memory at its peak, MB+',
	'relay, WAL bytes/message+');
like($drain, qr/^all sides sent the same records$/m, 'bench/drain compares the records');

has_figures(
	'latency',
	run_bench('latency'),
	'commit to consumer, p50, ms',
	'commit to consumer, p99, ms+',
	'produce to consumer, p50, ms+',
	'produce to consumer, p99, ms+',
	'worker, CPU us/message+',
	'relay, WAL bytes/message+',
	'worker at rest, % of a processor');

has_figures(
	'enqueue',
	run_bench('enqueue'),
	'SELECT outbox.enqueue(), us+',
	'INSERT into a plain table, us+',
	'INSERT into outbox.message, us+',
	'outbox.enqueue_batch(), us/message+',
	'enqueue() / plain INSERT+',
	'enqueue() / enqueue_batch() a message+');

done_testing();
