/*
 * route.c
 *		The cached rows of outbox.route.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "commands/trigger.h"
#include "executor/tuptable.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "catalog.h"
#include "outbox.h"
#include "route.h"
#include "topic.h"

/* Columns of outbox.route. */
enum
{
	ROUTE_ID = 1,
	ROUTE_AGGREGATE_TYPE,
	ROUTE_EVENT_TYPE,
	ROUTE_TOPIC,
	ROUTE_DEAD_LETTER_POLICY,
	ROUTE_DEAD_LETTER_TOPIC,
	ROUTE_MAX_ATTEMPTS
};

static void fill(void);
static Route *load(MemoryContext context, int *n);
static void on_relcache(Datum arg, Oid relid);
static void check_row(TriggerData *trigger);

static bool registered = false;
static bool valid = false;
static Oid cached_relid = InvalidOid;
static MemoryContext cache_context = NULL;
static Route *routes = NULL;
static int nroutes = 0;

static const Route no_route = {.topic = OUTBOX_DEFAULT_TOPIC};

PG_FUNCTION_INFO_V1(outbox_route_changed);

const Route *
RouteFind(const char *aggregate_type, const char *event_type)
{
	const Route *best = &no_route;
	int best_rank = -1;

	if (!valid)
		fill();
	for (int i = 0; i < nroutes; i++)
	{
		Route *r = &routes[i];
		int rank = 2 * (r->aggregate_type != NULL) + (r->event_type != NULL);

		if (rank > best_rank &&
			(r->aggregate_type == NULL ||
			 strcmp(r->aggregate_type, aggregate_type) == 0) &&
			(r->event_type == NULL || strcmp(r->event_type, event_type) == 0))
		{
			best = r;
			best_rank = rank;
		}
	}
	return best;
}

char *
RouteTopic(const char *aggregate_type, const char *event_type,
		   const char *given)
{
	const char *problem = NULL;
	char *topic;

	if (given != NULL)
		topic = pstrdup(given);
	else
	{
		topic = TopicExpand(RouteFind(aggregate_type, event_type)->topic,
							aggregate_type, event_type, &problem);
		if (topic == NULL)
			ereport(
				ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg(
					 "the route of aggregate type \"%s\" has an invalid topic",
					 aggregate_type),
				 errdetail_internal("%s", problem),
				 errhint("Correct the row in outbox.route.")));
	}

	problem = TopicNameProblem(topic);
	if (problem != NULL)
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid topic name \"%s\"", topic),
			 errdetail_internal("%s", problem),
			 given != NULL
				 ? errhint("Give another topic.")
				 : errhint(
					   "Add a row to outbox.route for aggregate type \"%s\".",
					   aggregate_type)));
	return topic;
}

static void
fill(void)
{
	MemoryContext context;
	Route *fresh;
	int n;

	if (!registered)
	{
		CacheRegisterRelcacheCallback(on_relcache, (Datum) 0);
		registered = true;
	}
	context = AllocSetContextCreate(CurrentMemoryContext, "outbox routes",
									ALLOCSET_SMALL_SIZES);
	cached_relid = CatalogGet(false)->route;
	valid = true;
	PG_TRY();
	{
		fresh = load(context, &n);
	}
	PG_CATCH();
	{
		valid = false;
		PG_RE_THROW();
	}
	PG_END_TRY();

	MemoryContextSetParent(context, TopMemoryContext);
	if (cache_context != NULL)
		MemoryContextDelete(cache_context);
	cache_context = context;
	routes = fresh;
	nroutes = n;
}

static char *
slot_text(TupleTableSlot *slot, int attno)
{
	bool isnull;
	Datum value = slot_getattr(slot, attno, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

/* The latest snapshot: a cache filled by an old one would stay stale. */
static Route *
load(MemoryContext context, int *n)
{
	MemoryContext caller = MemoryContextSwitchTo(context);
	Relation rel = table_open(cached_relid, AccessShareLock);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan(rel, snapshot, 0, NULL);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	int capacity = 8;
	Route *fresh = palloc(sizeof(Route) * capacity);

	*n = 0;
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		Route *r;
		bool isnull;
		Datum value;

		if (*n == capacity)
			fresh = repalloc(fresh, sizeof(Route) * (capacity *= 2));
		r = &fresh[(*n)++];
		r->route_id = DatumGetInt32(slot_getattr(slot, ROUTE_ID, &isnull));
		r->aggregate_type = slot_text(slot, ROUTE_AGGREGATE_TYPE);
		r->event_type = slot_text(slot, ROUTE_EVENT_TYPE);
		r->topic = slot_text(slot, ROUTE_TOPIC);
		r->dead_letter_policy = slot_text(slot, ROUTE_DEAD_LETTER_POLICY);
		r->dead_letter_topic = slot_text(slot, ROUTE_DEAD_LETTER_TOPIC);
		value = slot_getattr(slot, ROUTE_MAX_ATTEMPTS, &isnull);
		r->max_attempts = isnull ? 0 : DatumGetInt32(value);
	}
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
	MemoryContextSwitchTo(caller);
	return fresh;
}

static void
on_relcache(Datum arg, Oid relid)
{
	if (!OidIsValid(relid) || relid == cached_relid)
		valid = false;
}

/* Row trigger: checks the row.  Statement trigger: backends read again. */
Datum
outbox_route_changed(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("function \"%s\" was not called by a trigger",
							   "route_changed")));
	if (TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
	{
		check_row(trigger);
		return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(trigger->tg_event)
								   ? trigger->tg_newtuple
								   : trigger->tg_trigtuple);
	}
	CacheInvalidateRelcache(trigger->tg_relation);
	return PointerGetDatum(NULL);
}

/* The placeholders count as one letter each here; values are checked later. */
static void
check_row(TriggerData *trigger)
{
	HeapTuple tuple = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event)
						  ? trigger->tg_newtuple
						  : trigger->tg_trigtuple;
	static const int attrs[] = {ROUTE_TOPIC, ROUTE_DEAD_LETTER_TOPIC};

	for (int i = 0; i < lengthof(attrs); i++)
	{
		bool isnull;
		const char *problem = NULL;
		char *template;
		char *topic;
		Datum value = heap_getattr(
			tuple, attrs[i], RelationGetDescr(trigger->tg_relation), &isnull);

		if (isnull)
			continue;
		template = TextDatumGetCString(value);
		topic = TopicExpand(template, "a", "e", &problem);
		if (topic != NULL)
			problem = TopicNameProblem(topic);
		if (problem != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("invalid topic \"%s\" of a route", template),
					 errdetail_internal("%s", problem)));
	}
}
