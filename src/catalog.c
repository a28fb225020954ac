/*
 * catalog.c
 *		The OIDs of the extension's relations, cached until one of them is
 *		invalidated.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "catalog.h"
#include "outbox.h"

static bool load(OutboxCatalog *catalog);
static void on_relcache(Datum arg, Oid relid);

static bool registered = false;
static bool valid = false;
static uint64 generation = 1;
static OutboxCatalog cache;

void
CatalogInit(void)
{
	if (registered)
		return;
	CacheRegisterRelcacheCallback(on_relcache, (Datum) 0);
	registered = true;
}

const OutboxCatalog *
CatalogGet(bool missing_ok)
{
	OutboxCatalog fresh;

	CatalogInit();
	if (valid)
		return &cache;

	/* An invalidation during the look-up must not be overwritten. */
	valid = true;
	if (!load(&fresh))
	{
		valid = false;
		if (missing_ok)
			return NULL;
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("extension \"%s\" is not installed in this database",
						OUTBOX_EXTENSION),
				 errhint("Run CREATE EXTENSION outbox.")));
	}
	cache = fresh;
	return &cache;
}

uint64
CatalogGeneration(void)
{
	return generation;
}

static bool
load(OutboxCatalog *catalog)
{
	struct
	{
		const char *name;
		Oid *oid;
	} wanted[] = {
		{"message", &catalog->message},
		{"message_default", &catalog->message_default},
		{"message_seq", &catalog->message_seq},
		{"leaf", &catalog->leaf},
		{"route", &catalog->route},
		{"instance", &catalog->instance},
		{"start_request", &catalog->start_request},
	};
	HeapTuple tuple;

	catalog->schema = get_namespace_oid(OUTBOX_SCHEMA, true);
	if (!OidIsValid(catalog->schema))
		return false;
	for (int i = 0; i < lengthof(wanted); i++)
	{
		*wanted[i].oid = get_relname_relid(wanted[i].name, catalog->schema);
		if (!OidIsValid(*wanted[i].oid))
			return false;
	}

	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(catalog->message));
	if (!HeapTupleIsValid(tuple))
		return false;
	catalog->owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return true;
}

static void
on_relcache(Datum arg, Oid relid)
{
	if (!OidIsValid(relid) || relid == cache.message ||
		relid == cache.message_default || relid == cache.leaf)
		generation++;
	if (!OidIsValid(relid) || relid == cache.message ||
		relid == cache.message_default || relid == cache.message_seq ||
		relid == cache.leaf || relid == cache.route ||
		relid == cache.instance || relid == cache.start_request)
		valid = false;
}
