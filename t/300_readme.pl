# What README.md and docs/operations.md say is so: their SQL runs, their tables
# and names are those of the server.
use strict;
use warnings;

use File::Basename qw(dirname);
use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $root = "$FindBin::RealBin/..";
my $node = outbox_node('main');

$node->safe_psql('postgres', 'CREATE DATABASE shop');

sub sql { return $node->safe_psql('shop', $_[0]); }

# The SQL examples of a page in their order: [ heading, text ]
sub examples
{
	my ($page) = @_;
	my ($heading, @found) = ('');
	my $text = slurp_file("$root/$page");
	while ($text =~ /^#+ ([^\n]+)|^([ ]*)```sql\n(.*?)^[ ]*```$/msg)
	{
		if   (defined $1) { $heading = $1; }
		else              { push @found, [ $heading, $3 ]; }
	}
	return @found;
}

sub run_examples
{
	my ($page, $least) = @_;
	my @examples = examples($page);
	cmp_ok(scalar @examples, '>=', $least, "$page has its examples");
	foreach my $example (@examples)
	{
		my ($heading, $text) = @$example;
		my ($rc, $out, $err) = $node->psql('shop', $text, on_error_stop => 1);
		is($rc, 0, "$page, $heading: " . ($text =~ /(\S[^\n]*)/)[0]) or diag($err);
	}
	return;
}

run_examples('README.md', 11);

# What the application of the examples has enqueued is in Kafka, as described.
poll_until(sub { sql('SELECT NOT EXISTS (SELECT FROM outbox.pending)') eq 't' },
	180, 'the messages of the examples to be published');
my @messages = split /\n/, sql(<<'END');
SELECT id FROM outbox.delivery WHERE topic = 'outbox.event.order' AND status = 'SENT' ORDER BY id
END
my $source  = sql('SELECT source FROM outbox.instance');
my @records = grep { ($_->{headers}{ce_source} // '') eq $source } consume('outbox.event.order');
my %arrived = map { $_->{headers}{ce_id} => $_ } @records;
cmp_ok(scalar @messages, '>=', 9, 'the examples enqueue messages');
is_deeply([ sort keys %arrived ], [ sort @messages ], 'every message of the examples arrived');

my ($first) = grep { $_->{headers}{ce_type} eq 'order_created' } @records;
is($first->{key},   '42',                            'the key of the first example');
is($first->{value}, '{"id": 42, "total": "9.90"}', 'its value');
my %documented_headers = map { $_ => 1 }
  slurp_file("$root/README.md") =~ /^\| `(ce_\w+|content-type)` \|/mg;
is_deeply($first->{headers} && { map { $_ => 1 } keys %{ $first->{headers} } },
	\%documented_headers, 'its headers are those of the table');

my ($deleted) = grep { $_->{headers}{ce_type} eq 'order_deleted' } @records;
ok($deleted->{tombstone} && !exists $deleted->{headers}{'content-type'},
	'a tombstone has no value and no content type');

run_examples('docs/operations.md', 5);

# Settings
my ($out, $err) = ('', '');
my $same = IPC::Run::run(
	[ "$root/scripts/check-settings", '-d', $node->connstr('shop') ],
	'>', \$out, '2>', \$err);
ok($same, 'the table of settings is that of the server') or diag($out . $err);

# Functions. What roles are granted without being told about it:
my @internal = qw(close_leaf create_leaf current_xid heal_default is_preloaded is_sent leaf_bound leaf_day
  leaf_exists maintenance_steps next_created_at next_seq stat_get);
my @public = split /\n/, sql(<<'END');
CREATE ROLE reader_of_readme;
SELECT outbox.grant_producer('reader_of_readme'), outbox.grant_monitor('reader_of_readme'),
	outbox.grant_operator('reader_of_readme') \g /dev/null
SELECT DISTINCT p.proname FROM pg_proc AS p
WHERE p.pronamespace = 'outbox'::regnamespace
	AND (has_function_privilege('reader_of_readme', p.oid, 'EXECUTE')
		OR p.proname IN ('grant_producer', 'grant_monitor', 'grant_operator'))
END
my $readme = slurp_file("$root/README.md");
my %skip   = map { $_ => 1 } @internal;
cmp_ok(scalar @public, '>', scalar @internal, 'there are functions for users');
is_deeply([ grep { !$skip{$_} && $readme !~ /`(?:CALL )?outbox\.$_\(/ } sort @public ],
	[], 'README.md has every function for users');

my %exists = map { $_ => 1 } split /\n/,
  sql(q{SELECT proname FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace});
foreach my $page ('README.md', map { s{^\Q$root\E/}{}r } glob("$root/docs/*.md"))
{
	my @named = slurp_file("$root/$page") =~ /\boutbox\.(\w+)\(/g;
	is_deeply([ grep { !$exists{$_} } @named ], [], "$page names functions that exist");
}

# Files that the pages name or link to
foreach my $page ('README.md', 'CHANGELOG.md', map { s{^\Q$root\E/}{}r } glob("$root/docs/*.md"))
{
	my $text = slurp_file("$root/$page");
	my $from = dirname("$root/$page");
	my @missing =
	  grep { !-e "$root/$_" } $text =~ m{`((?:t|sql|scripts|bench|docs|examples)/[\w./-]*\w)`}g;
	push @missing, grep { !-e "$from/$_" } $text =~ /\]\(([\w.\/-]+)(?:#[\w-]*)?\)/g;
	is_deeply(\@missing, [], "$page leads to files that exist");
}

# Comments: objects of the schema, columns of partitions aside.
is(sql(<<'END'), '', 'everything in the schema has a comment');
SELECT pg_describe_object(o.classid, o.objid, o.objsubid)
FROM (
	SELECT 'pg_namespace'::regclass, n.oid, 0, obj_description(n.oid, 'pg_namespace')
	FROM pg_namespace AS n WHERE n.nspname = 'outbox'
	UNION ALL
	SELECT 'pg_class'::regclass, c.oid, 0, obj_description(c.oid, 'pg_class')
	FROM pg_class AS c
	JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
	UNION ALL
	SELECT 'pg_class'::regclass, a.attrelid, a.attnum, col_description(a.attrelid, a.attnum)
	FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
	WHERE c.relnamespace = 'outbox'::regnamespace AND c.relkind IN ('r', 'p', 'v')
		AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped
	UNION ALL
	SELECT 'pg_proc'::regclass, p.oid, 0, obj_description(p.oid, 'pg_proc')
	FROM pg_proc AS p WHERE p.pronamespace = 'outbox'::regnamespace
	UNION ALL
	SELECT 'pg_trigger'::regclass, t.oid, 0, obj_description(t.oid, 'pg_trigger')
	FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
	JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
	WHERE NOT t.tgisinternal AND t.tgparentid = 0
) AS o (classid, objid, objsubid, comment)
WHERE o.comment IS NULL
ORDER BY 1
END

done_testing();
